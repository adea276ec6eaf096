// The page: chooses the source of its data, adopts the styles, and renders the view that the address names.
import {App} from './app.js'
import base from './style/base.css'
import graph from './style/graph.css'
import words from './style/words.css'
import pages from './style/pages.css'
import narrow from './style/narrow.css'
import plotStyle from 'uplot/dist/uPlot.min.css'

const sheet = new CSSStyleSheet()
sheet.replaceSync([plotStyle, base, graph, words, pages, narrow].join('\n'))
document.adoptedStyleSheets = [sheet]
customElements.define('whyrun-app', App)
document.body.append(document.createElement('whyrun-app'))
