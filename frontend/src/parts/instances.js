// A list of instances, in pages, with filters in the address.
import {html, nothing} from 'lit'
import {answer, command, empty, idLink} from './basics.js'
import {glyph, ORDER, stateOf} from '../states.js'
import {codeWords} from './reasons.js'
import {count, duration} from '../format.js'
import {setParams} from '../router.js'

export function instanceList(ctx, {job, state, outcome, code, filters = false}) {
  const page = Number(ctx.params.page ?? 0)
  const query = {job, state: state ?? ctx.params.state, outcome, code: code ?? ctx.params.code, q: ctx.params.q, page}
  const rows = ctx.read('instances', query)
  return html`<div class="filters">
      <label class="field"
        ><span class="sr">Filter by name</span
        ><input
          type="text"
          placeholder="Filter by name"
          autocomplete="off"
          .value=${ctx.params.q ?? ''}
          @change=${(event) => setParams({q: event.target.value, page: null})}
      /></label>
      ${
        filters
          ? html`<label class="field"
              ><span class="sr">State</span
              ><select @change=${(event) => setParams({state: event.target.value, page: null})}>
                <option value="" ?selected=${!ctx.params.state}>all states</option>
                ${ORDER.filter((name) => name !== 'failed' && name !== 'running').map(
                  (name) =>
                    html`<option value=${name} ?selected=${ctx.params.state === name}>${stateOf(name).word}</option>`,
                )}
              </select></label
            >`
          : nothing
      }
    </div>
    ${answer(
      rows,
      (value) =>
        html`<p class="soft total">${count(value.total)} ${value.total === 1 ? 'instance' : 'instances'}</p>
          ${
            value.rows.length
              ? html`<ul class="instances">
                  ${value.rows.map((row) => instanceRow(row))}
                </ul>`
              : empty('No instance fits.', 'Clear the filter to see all.')
          }
          ${pager(value)}${command(ctx.command(value.command))}`,
    )}`
}

function instanceRow(row) {
  const shown = row.outcome === 'failed' || row.outcome === 'running' ? row.outcome : row.state
  return html`<li data-id=${row.id} data-code=${row.code ?? nothing} data-state=${row.state}>
    <span class="mark" title=${stateOf(shown).word}>${glyph(shown)}<span class="sr">${stateOf(shown).word}</span></span>
    <span class="row-main"
      >${idLink(row.id, {kind: false})}${
        row.error && row.outcome === 'failed'
          ? html`<span class="row-text bad">${row.error}</span>`
          : row.code
            ? html`<span class="row-text"
                ><b>${codeWords(row.code)}</b> ${row.text}${row.more ? ` and ${row.more} more` : ''}</span
              >`
            : nothing
      }</span
    >
    <span class="row-end soft"
      >${row.duration !== null && row.duration !== undefined ? duration(row.duration) : nothing}</span
    >
  </li>`
}

export function pager({page = 0, pages = 1}) {
  if (pages <= 1) return nothing
  const to = (target) => () => setParams({page: target || null})
  return html`<div class="pager" role="group" aria-label="Pages">
    <button type="button" ?disabled=${page <= 0} @click=${to(page - 1)}>Before</button>
    <span>${count(page + 1)} of ${count(pages)}</span
    ><button type="button" ?disabled=${page >= pages - 1} @click=${to(page + 1)}>Next</button>
  </div>`
}
