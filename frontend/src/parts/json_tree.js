// JSON as a tree that opens by a click. What is closed is not built; long lists open in parts.
import {LitElement, html, nothing} from 'lit'

const PART = 100

export const jsonTree = (value) =>
  html`<div class="json" role="group" aria-label="JSON">
    ${
      value !== null && typeof value === 'object'
        ? html`<wr-json .value=${value} .depth=${0}></wr-json>`
        : scalar(value)
    }
  </div>`

const scalar = (value) =>
  html`<span class="json-${value === null ? 'null' : typeof value}"
    >${typeof value === 'string' ? JSON.stringify(value) : String(value)}</span
  >`

// A short list of numbers stands in one line.
const short = (value) => Array.isArray(value) && value.length <= 12 && value.every((one) => typeof one === 'number')

class JsonNode extends LitElement {
  static properties = {
    value: {attribute: false},
    depth: {attribute: false},
    name: {attribute: false},
    open: {state: true},
    shown: {state: true},
  }

  createRenderRoot() {
    return this
  }

  constructor() {
    super()
    this.shown = PART
  }

  render() {
    const list = Array.isArray(this.value)
    const keys = list ? this.value.length : Object.keys(this.value).length
    const open = this.open ?? (keys <= PART && (this.depth < 2 || (this.depth < 5 && keys <= 8)))
    const label = `${list ? 'list' : 'object'} of ${keys}`
    return html`<div class="json-node">
      <button
        type="button"
        aria-expanded=${open ? 'true' : 'false'}
        @click=${() => {
          this.open = !open
        }}
      >
        <span class="twist" aria-hidden="true"></span
        >${this.name !== undefined ? html`<span class="json-key">${this.name}</span>` : nothing}<span class="soft"
          >${label}</span
        >
      </button>
      ${
        open
          ? html`<ul>
                ${this.entries(list).map(
                  ([name, value]) =>
                    html`<li>
                      ${
                        value !== null && typeof value === 'object' && !short(value)
                          ? html`<wr-json .name=${String(name)} .value=${value} .depth=${this.depth + 1}></wr-json>`
                          : html`<span class="json-leaf"
                              ><span class="json-key">${name}</span>${
                                short(value)
                                  ? html`<span class="json-number"
                                      >${JSON.stringify(value).replaceAll(',', ', ')}</span
                                    >`
                                  : scalar(value)
                              }</span
                            >`
                      }
                    </li>`,
                )}
              </ul>
              ${
                keys > this.shown
                  ? html`<button
                      type="button"
                      class="button"
                      @click=${() => {
                        this.shown += PART * 5
                      }}
                    >
                      ${keys - this.shown} more
                    </button>`
                  : nothing
              }`
          : nothing
      }
    </div>`
  }

  entries(list) {
    return list
      ? this.value.slice(0, this.shown).map((value, at) => [at, value])
      : Object.entries(this.value).slice(0, this.shown)
  }
}
customElements.define('wr-json', JsonNode)
