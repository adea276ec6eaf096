// Leaves over loops as a table: sorted by a click, drawn as a plot, copied as CSV.
import {html, nothing} from 'lit'
import {answer, command, copy, empty} from '../parts/basics.js'
import '../parts/plot.js'
import {count, plural} from '../format.js'
import {link, linkTo, setParams} from '../router.js'
import {stateOf} from '../states.js'

const ROWS = 500
const COLUMNS = 12

export function resultsView(ctx) {
  const known = ctx.read('results')
  return html`<h1>Results</h1>
    ${answer(known, ({patterns = []}) => {
      const groups = grouped(patterns)
      if (!groups.size)
        return empty(
          'This workflow has no results over loops.',
          'Declare leaves of a JSON output in a job with a loop; each becomes a column here.',
        )
      const chosen = groups.has(ctx.params.of) ? ctx.params.of : [...groups.keys()][0]
      return html`${
        groups.size > 1
          ? html`<div class="filters">
              <label class="field"
                ><span class="sr">Results of</span
                ><select @change=${(event) => setParams({of: event.target.value, sort: null, x: null, y: null})}>
                  ${[...groups.keys()].map(
                    (name) => html`<option value=${name} ?selected=${name === chosen}>${short(name)}</option>`,
                  )}
                </select></label
              >
            </div>`
          : nothing
      }
      ${answer(ctx.read('results', {pattern: groups.get(chosen).slice(0, COLUMNS)}), (value) =>
        results(ctx, value, short(chosen)),
      )}`
    })}`
}

// Leaves of one output stand in one table: 'Artifact:Fit.Result[*][*]' → its patterns.
function grouped(patterns) {
  const groups = new Map()
  for (const pattern of patterns) {
    const name = /^Artifact:[^.]+\.[^.[]+(\[\*\])*/.exec(pattern)?.[0] ?? pattern
    if (!groups.has(name)) groups.set(name, [])
    groups.get(name).push(pattern)
  }
  return groups
}

function results(ctx, value, name) {
  const {loops = [], columns = [], rows: all = []} = value.answer ?? {}
  if (!all.length) return empty('Nothing has this result yet.', 'Run the workflow first.')
  const {sort} = ctx.params
  const rows = sortedRows(all, sort)
  const numeric = columns.map((_, c) => rows.some((row) => typeof row.values[c] === 'number'))
  const y = Math.max(columns.indexOf(ctx.params.y), 0)
  const head = (title, key, number) =>
    html`<th
      class=${number ? 'num' : ''}
      aria-sort=${sort === key ? 'ascending' : sort === `-${key}` ? 'descending' : 'none'}
    >
      <button type="button" @click=${() => setParams({sort: sort === key ? `-${key}` : key})}>${title}</button>
    </th>`
  return html`${
      numeric[y] && loops.length && rows.length > 1
        ? html`${
              columns.filter((_, c) => numeric[c]).length > 1
                ? html`<div class="tags" role="group" aria-label="Vertical axis">
                    ${columns.map((column, c) =>
                      numeric[c]
                        ? html`<button
                            type="button"
                            class="tag"
                            aria-pressed=${c === y ? 'true' : 'false'}
                            @click=${() => setParams({y: column})}
                          >
                            ${column}
                          </button>`
                        : nothing,
                    )}
                  </div>`
                : nothing
            }
            <wr-plot
              .rows=${points(all, y)}
              .columns=${loops}
              .x=${ctx.params.x ?? loops.at(-1)}
              .name=${columns[y]}
              @axis=${(event) => setParams({x: event.detail})}
            ></wr-plot>`
        : nothing
    }
    <p class="table-head soft">
      <span>${plural(rows.length, 'row')} of ${name}</span>${copy(() => csv(loops, columns, rows), 'Copy as CSV')}
    </p>
    <div class="scroll" tabindex="0" role="region" aria-label="Results">
      <table class="table narrow">
        <thead>
          <tr>
            ${loops.map((loop, at) =>
              head(
                loop,
                `i${at}`,
                rows.every((row) => typeof row.index[at] === 'number'),
              ),
            )}${columns.map((column, c) =>
              head(column.startsWith(`${name}.`) ? column.slice(name.length + 1) : column, `v${c}`, numeric[c]),
            )}
            <th>Run</th>
          </tr>
        </thead>
        <tbody>
          ${rows.slice(0, ROWS).map(
            (row) =>
              html`<tr data-id=${row.artifacts[0]}>
                ${row.index.map((one) => html`<td class=${typeof one === 'number' ? 'num' : ''}>${String(one)}</td>`)}
                ${row.values.map(
                  (one, c) =>
                    html`<td class=${numeric[c] ? 'num' : ''} data-id=${row.artifacts[c]} data-state=${row.states[c]}>
                      <a class="id" href=${linkTo(row.artifacts[c])} title=${row.artifacts[c]}
                        >${
                          row.states[c] === 'available'
                            ? shown(one)
                            : html`<span class="soft">${stateOf(row.states[c]).word}</span>`
                        }</a
                      >
                    </td>`,
                )}
                <td>
                  ${[...new Set(row.runs.filter(Boolean))].map(
                    (run, at) => html`${at ? ', ' : ''}<a href=${link('run', run)}>${run}</a>`,
                  )}
                </td>
              </tr>`,
          )}
        </tbody>
      </table>
    </div>
    ${
      rows.length > ROWS
        ? html`<p class="soft">and ${count(rows.length - ROWS)} more; the copy has them all</p>`
        : nothing
    }${command(ctx.command(value.command))}`
}

// The same list for the same answer, so that the plot is drawn anew only when it changes.
const plotted = new WeakMap()
function points(rows, column) {
  if (!plotted.has(rows)) plotted.set(rows, new Map())
  const known = plotted.get(rows)
  if (!known.has(column))
    known.set(
      column,
      rows.map((row) => ({index: row.index, value: row.values[column]})),
    )
  return known.get(column)
}

const short = (pattern) => pattern.replace(/^Artifact:/, '').replace(/\[\*\]/g, '')
const shown = (value) =>
  typeof value === 'number'
    ? Number.isInteger(value)
      ? String(value)
      : Number(value.toPrecision(6)).toString()
    : value === null || value === undefined
      ? '–'
      : typeof value === 'string'
        ? value
        : JSON.stringify(value)

function sortedRows(rows, sort) {
  if (!sort) return rows
  const key = sort.replace(/^-/, '')
  const at = Number(key.slice(1))
  const of = (row) => (key.startsWith('v') ? row.values[at] : row.index[at])
  const by = (a, b) => {
    const [x, y] = [of(a), of(b)]
    const difference = Number(x) - Number(y) // also of numbers that are written as text
    return Number.isFinite(difference) ? difference : String(x).localeCompare(String(y), 'en', {numeric: true})
  }
  return [...rows].sort((a, b) => (sort.startsWith('-') ? by(b, a) : by(a, b)))
}

// A cell that a spreadsheet would take for a formula gets a quote before it.
function csv(loops, columns, rows) {
  const cell = (value) => {
    let text =
      typeof value === 'string'
        ? value
        : value === undefined || value === null
          ? ''
          : typeof value === 'object'
            ? JSON.stringify(value)
            : String(value)
    if (typeof value === 'string' && /^[=+\-@\t\r]/.test(text)) text = `'${text}`
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
  }
  return [[...loops, ...columns], ...rows.map((row) => [...row.index, ...row.values])]
    .map((line) => line.map(cell).join(','))
    .join('\r\n')
}
