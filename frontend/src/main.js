// The page: chooses the source of its data, adopts the styles, and renders the view that the address names.
import {App} from './app.js'
import style from './style.css'
import plotStyle from 'uplot/dist/uPlot.min.css'

const sheet = new CSSStyleSheet()
sheet.replaceSync(plotStyle + style)
document.adoptedStyleSheets = [sheet]
customElements.define('whyrun-app', App)
document.body.append(document.createElement('whyrun-app'))
