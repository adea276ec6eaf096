// The content of an artifact by its kind. Markup from outside runs nowhere: SVG is an image, HTML a sandboxed frame.
import {html, nothing} from 'lit'
import {copy, idText} from './basics.js'
import {bytes, count, inline, plural, shortHash} from '../format.js'
import {jsonTree} from './json_tree.js'
import './network.js'

const ROWS = 100

export function preview(ctx, it) {
  const url = it.href ? ctx.url(it.href, it.sha256) : null
  const show = KINDS[it.kind]
  const gone = it.href && !url ? html`<p class="soft">Its bytes are not in this file (${bytes(it.size)}).</p>` : nothing
  return html`<div class="preview preview-${it.kind}" data-sha256=${it.sha256 ?? nothing}>
    ${
      show && !(gone !== nothing && ONLY_BYTES.has(it.kind))
        ? show(it, url, ctx)
        : ONLY_BYTES.has(it.kind)
          ? gone
          : other(it)
    }
    ${
      url && ctx.live
        ? html`<p class="preview-foot">
            <a href=${`${url}${url.includes('?') ? '&' : '?'}download=1`} download>Download</a>
            <span class="soft">${bytes(it.size)}${it.media_type ? ` · ${it.media_type}` : ''}</span>
          </p>`
        : nothing
    }
  </div>`
}

const ONLY_BYTES = new Set(['image', 'svg', 'html', 'audio', 'video', 'pdf'])

const KINDS = {
  image: (it, url) => html`<img class="picture" src=${url} alt=${it.id ?? ''} decoding="async" />`,
  svg: (it, url) => html`<img class="picture" src=${url} alt=${it.id ?? ''} decoding="async" />`,
  html: (it, url) =>
    html`<iframe sandbox="" src=${url} title="${it.id ?? 'HTML'} in a sandbox" referrerpolicy="no-referrer"></iframe>
      <p class="soft">Shown in a sandbox: its scripts do not run.</p>`,
  pdf: (it) => html`<p class="soft">A PDF of ${bytes(it.size)}. Download it to read it.</p>`,
  audio: (it, url) => html`<audio controls preload="metadata" src=${url}></audio>`,
  video: (it, url) => html`<video controls preload="metadata" src=${url}></video>`,
  text: (it) =>
    html`<div class="output">
        ${copy(it.text ?? '', 'Copy the text')}
        <pre tabindex="0" aria-label="Text">${it.text}</pre>
      </div>
      ${cut(it)}`,
  json: (it) => html`${jsonTree(it.value)}${cut(it)}`,
  value: (it) =>
    html`<p class="value"><code>${typeof it.value === 'string' ? it.value : JSON.stringify(it.value)}</code></p>`,
  table: (it) => dataTable(it),
  graph: (it) => html`<wr-network .network=${it}></wr-network>${cut(it)}`,
  directory: (it, url, ctx) => directory(it, ctx),
}

const other = (it) =>
  html`<p class="soft">
    ${bytes(it.size)} of ${it.media_type ?? it.kind ?? 'data'}, which the page cannot show.
    <code>${shortHash(it.sha256)}</code>
  </p>`
const cut = (it) => (it.truncated ? html`<p class="soft">This is the beginning; the rest is not shown.</p>` : nothing)

export function dataTable({columns = [], rows = [], total_rows: total}) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Table">
      <table class="table small narrow">
        <thead>
          <tr>
            ${columns.map(
              (column) =>
                html`<th class=${numeric(column) ? 'num' : ''}>
                  ${column.name}<span class="th-kind">${column.type}</span>
                </th>`,
            )}
          </tr>
        </thead>
        <tbody>
          ${rows.slice(0, ROWS).map(
            (row) =>
              html`<tr>
                ${row.map(
                  (cell, at) =>
                    html`<td class=${numeric(columns[at] ?? {}) ? 'num' : String(cell).length > 40 ? 'long' : ''}>
                      ${
                        cell === null || cell === undefined
                          ? html`<span class="soft">null</span>`
                          : typeof cell === 'object'
                            ? inline(cell, 80)
                            : String(cell)
                      }
                    </td>`,
                )}
              </tr>`,
          )}
        </tbody>
      </table>
    </div>
    <p class="soft">
      ${
        rows.length < (total ?? rows.length) || rows.length > ROWS
          ? `the first ${count(Math.min(rows.length, ROWS))} of `
          : ''
      }${plural(total ?? rows.length, 'row')},
      ${plural(columns.length, 'column')}
    </p>`
}
const numeric = ({type = ''}) => /int|float|double|decimal|number|numeric/i.test(type)

function directory({files = []}, ctx) {
  return html`<ul class="instances">
      ${files.slice(0, 300).map((file) => {
        const src = file.kind === 'image' && file.href ? ctx.url(file.href, file.sha256) : null
        return html`<li>
          <span></span
          ><span class="row-main"
            ><code>${idText(file.path)}</code
            >${src ? html`<img class="thumb" src=${src} alt="" loading="lazy" />` : nothing}</span
          ><span class="row-end soft">${bytes(file.size)}</span>
        </li>`
      })}
    </ul>
    ${files.length > 300 ? html`<p class="soft">and ${count(files.length - 300)} more files</p>` : nothing}`
}
