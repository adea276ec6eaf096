// One job with many instances: how they stand, all of them on one canvas, and as a list.
import {html, nothing} from 'lit'
import '../graph/grid.js'
import {bar, empty, icons, idText, sorted} from '../parts/basics.js'
import {instanceList} from '../parts/instances.js'
import {codeWords} from '../parts/reasons.js'
import {count, plural} from '../format.js'
import {glyph, stateOf} from '../states.js'
import {link, setParams} from '../router.js'

const LISTED = 12 // so many instances the list alone shows well

export function jobPanel(ctx, pattern) {
  const job = pattern.replace(/^Job:/, '').replace(/\[\*\]/g, '')
  const node = ctx.read('graph').value?.nodes.find((one) => one.job === job)
  const way = html`<p class="way"><a href=${link('graph')}>${icons.back}The plan in words</a></p>`
  if (!node) return ctx.read('graph').value ? html`${way}${empty('There is no such job.', pattern)}` : nothing
  const cells = node.count > LISTED ? ctx.read('cells', {job}).value : null
  const {state, code} = ctx.params
  return html`${way}
    <h1 class="id-title">${idText(pattern)}</h1>
    <p class="soft">${node.action}${node.condition ? html` · if <code>${node.condition}</code>` : nothing}</p>
    <p class="soft">
      ${plural(node.count, 'instance')}${node.loops?.length ? html` over ${node.loops.join(' × ')}` : nothing}
    </p>
    ${bar(node.states)}
    <p class="said-line">
      ${sorted(node.states).map(([name, n]) =>
        filter(name, count(n), state === name, {state: state === name ? null : name, page: null}),
      )}
    </p>
    ${
      Object.keys(node.headlines ?? {}).length
        ? html`<p class="said-line">
            ${Object.entries(node.headlines).map(
              ([name, n]) =>
                html`<button
                  type="button"
                  class="said said-filter"
                  data-code=${name}
                  aria-pressed=${code === name ? 'true' : 'false'}
                  @click=${() => setParams({code: code === name ? null : name, page: null})}
                >
                  ${codeWords(name)}: ${count(n)}
                </button>`,
            )}
          </p>`
        : nothing
    }
    ${
      cells
        ? html`<wr-grid
            class=${node.count > 2000 ? 'large' : node.count < 120 ? 'short' : ''}
            .cells=${cells}
            .only=${only(state, code)}
          ></wr-grid>`
        : nothing
    }
    ${instanceList(ctx, {job})}`
}

const filter = (name, text, pressed, change) =>
  html`<button
    type="button"
    class="said said-filter tone-${stateOf(name).tone}"
    aria-pressed=${pressed ? 'true' : 'false'}
    @click=${() => setParams(change)}
  >
    ${glyph(name)}${text} ${stateOf(name).word}
  </button>`

// The same function for the same filter, so that the canvas is painted anew only when it changes.
const filters = new Map()
function only(state, code) {
  if (!state && !code) return null
  const key = `${state ?? ''} ${code ?? ''}`
  if (!filters.has(key)) filters.set(key, (its, reason) => (!state || its === state) && (!code || reason === code))
  return filters.get(key)
}
