import {html} from 'lit'
import {icons} from './basics.js'
import {KEYS} from '../keys.js'
import {ORDER, glyph, stateOf} from '../states.js'

// The keys, and what the shapes mean.
export const help = (close) =>
  html`<dialog
    class="help"
    aria-label="Keys and shapes"
    @close=${close}
    @click=${(event) => {
      if (event.target === event.currentTarget) close()
    }}
  >
    <button type="button" class="plain close" @click=${close} aria-label="Close">${icons.close}</button>
    <h2>Keys</h2>
    <dl>
      ${KEYS.map(
        ([keys, words]) =>
          html`<div>
            <dt>${keys.split(' ').map((key) => html`<kbd>${key}</kbd>`)}</dt>
            <dd>${words}</dd>
          </div>`,
      )}
    </dl>
    <h2>Shapes</h2>
    <dl>
      ${ORDER.map(
        (name) =>
          html`<div>
            <dt>${glyph(name)} ${stateOf(name).word}</dt>
            <dd>${stateOf(name).means}</dd>
          </div>`,
      )}
    </dl>
  </dialog>`
