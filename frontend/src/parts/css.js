// Sets CSS properties from a template. lit's styleMap writes a `style` attribute first, which the CSP forbids.
import {noChange} from 'lit'
import {Directive, directive} from 'lit/directive.js'

class Css extends Directive {
  render() {
    return noChange
  }
  update(part, [properties]) {
    const {style} = part.element
    for (const name of this.names ?? []) if (!(name in properties)) style.removeProperty(name)
    for (const [name, value] of Object.entries(properties)) style.setProperty(name, value)
    this.names = Object.keys(properties)
    return noChange
  }
}

// html`<div style=${css({'--x': '3px', width: '20%'})}>`
export const css = directive(Css)
