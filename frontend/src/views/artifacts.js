// All artifacts: pictures in a grid, the rest as a list.
import {html, nothing} from 'lit'
import {answer, command, empty, idLink, idText} from '../parts/basics.js'
import {pager} from '../parts/instances.js'
import {bytes, count, inline, shortHash} from '../format.js'
import {link, setParams} from '../router.js'
import {glyph, stateOf} from '../states.js'

export function artifactsView(ctx) {
  const {kind, job, q, page, state} = ctx.params
  const found = ctx.read('artifacts', {kind, job, q, state, page: page ?? 0})
  return html`<h1>Artifacts</h1>
    ${answer(
      found,
      (value) =>
        html` <div class="filters wide">
            <div class="tags" role="group" aria-label="Kinds">
              ${tag('all', !kind, {kind: null, page: null})}${Object.entries(value.kinds ?? {}).map(([name, n]) =>
                tag(html`${name} <span class="number">${count(n)}</span>`, kind === name, {kind: name, page: null}),
              )}
            </div>
            <label class="field"
              ><span class="sr">Filter by name</span
              ><input
                type="text"
                placeholder="Filter by name"
                .value=${q ?? ''}
                @change=${(event) => setParams({q: event.target.value, page: null})}
            /></label>
          </div>
          ${
            value.rows.length
              ? html`${pictures(ctx, value.rows)}${list(value.rows)}`
              : empty(
                  q || kind ? 'No artifact fits.' : 'There are no artifacts yet.',
                  q || kind ? 'Clear the filter to see all.' : 'The first run makes them.',
                )
          }
          ${pager(value)}${command(ctx.command(value.command))}`,
    )}`
}

const tag = (text, pressed, change) =>
  html`<button type="button" class="tag" aria-pressed=${pressed ? 'true' : 'false'} @click=${() => setParams(change)}>
    ${text}
  </button>`
const pictured = (row) => row.kind === 'image' || row.kind === 'svg'

function pictures(ctx, rows) {
  const images = rows.filter((row) => pictured(row) && row.href)
  if (!images.length) return nothing
  return html`<ul class="gallery wide">
    ${images.map((row) => {
      const src = ctx.url(row.href, row.sha256)
      return html`<li data-id=${row.id} data-state=${row.state}>
        <a href=${link('artifact', row.id)} title=${row.id}
          >${
            src
              ? html`<img src=${src} alt="" loading="lazy" decoding="async" />`
              : html`<span class="no-picture">not in this file</span>`
          }
          <span class="gallery-name"
            >${row.job_state && row.job_state !== 'clean' ? glyph(row.job_state) : nothing}<span class="id"
              >${idText(row.id, {kind: false})}</span
            ></span
          ><span class="soft">${row.run} · ${bytes(row.size)}</span></a
        >
      </li>`
    })}
  </ul>`
}

function list(rows) {
  const rest = rows.filter((row) => !(pictured(row) && row.href))
  if (!rest.length) return nothing
  return html`<div class="scroll">
    <table class="table stack">
      <thead>
        <tr>
          <th>Artifact</th>
          <th>Type</th>
          <th>State</th>
          <th>Run</th>
          <th class="num">Size</th>
          <th>Content</th>
        </tr>
      </thead>
      <tbody>
        ${rest.map(
          (row) =>
            html`<tr data-id=${row.id} data-state=${row.state}>
              <td class="whole">${idLink(row.id, {kind: false})}</td>
              <td class="soft">${row.type}</td>
              <td>
                ${
                  row.state === 'available'
                    ? html`<span class="soft">available</span>`
                    : html`<span class="said tone-${stateOf(row.state).tone}"
                        >${glyph(row.state)}${stateOf(row.state).word}</span
                      >`
                }
              </td>
              <td>${row.run ? html`<a href=${link('run', row.run)}>${row.run}</a>` : nothing}</td>
              <td class="num">${row.size === undefined ? '' : bytes(row.size)}</td>
              <td>
                ${
                  'value' in row
                    ? html`<code>${inline(row.value, 48)}</code>`
                    : html`<code class="soft">${shortHash(row.sha256)}</code>`
                }
              </td>
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`
}
