// Leaves over loops as a table: sorted by a click, drawn as a plot, copied as CSV.
import {html, nothing} from 'lit'
import {answer, command, copy, empty, idText} from '../parts/basics.js'
import '../parts/plot.js'
import {count, plural} from '../format.js'
import {link, linkTo, setParams} from '../router.js'
import {glyph, stateOf} from '../states.js'

const ROWS = 500

export function resultsView(ctx) {
  const chosen = ctx.params.pattern
  const patterns = ctx.read('results')
  return html`<h1>Results</h1>${answer(patterns, (list) => {
    const all = list.patterns ?? []
    if (!all.length) return html`${empty('This workflow has no results over loops.', 'Declare leaves of a JSON output in a job with a loop; each becomes a column here.')}`
    const pattern = chosen ?? all[0]
    const table = ctx.read('results', {pattern})
    return html`<div class="filters"><label class="field"><span class="sr">Result</span><select @change=${(event) => setParams({pattern: event.target.value, sort: null, x: null})}>${all.map((one) => html`<option ?selected=${one === pattern}>${one}</option>`)}</select></label></div>
      ${answer(table, (value) => results(ctx, value, pattern))}`
  })}`
}

function results(ctx, value, pattern) {
  const columns = value.columns ?? []
  const rows = sortedRows(value.rows, columns, ctx.params.sort)
  const number = rows.filter((row) => typeof row.value === 'number').length
  const head = (name, key, numeric) => html`<th class=${numeric ? 'num' : ''} aria-sort=${ctx.params.sort === key ? 'ascending' : ctx.params.sort === `-${key}` ? 'descending' : 'none'}>
    <button type="button" @click=${() => setParams({sort: ctx.params.sort === key ? `-${key}` : key})}>${name}</button></th>`
  return rows.length ? html`${number > 1 && columns.length ? html`<wr-plot .rows=${value.rows} .columns=${columns} .x=${ctx.params.x ?? columns.at(-1)} .name=${short(pattern)} @axis=${(event) => setParams({x: event.detail})}></wr-plot>` : nothing}
    <p class="table-head soft">${plural(value.total ?? rows.length, 'result')} ${copy(() => csv(columns, rows, short(pattern)), 'Copy as CSV')}</p>
    <div class="scroll"><table class="table"><thead><tr>${columns.map((name, at) => head(name, `i${at}`, rows.every((row) => typeof row.index[at] === 'number')))}${head(short(pattern), 'value', number > 0)}<th>Run</th><th>Artifact</th></tr></thead>
      <tbody>${rows.slice(0, ROWS).map((row) => html`<tr data-id=${row.id} data-state=${row.state ?? nothing}>${row.index.map((one) => html`<td class=${typeof one === 'number' ? 'num' : ''}>${String(one)}</td>`)}
        <td class=${number ? 'num' : ''}><b>${shown(row.value)}</b></td><td>${row.run ? html`<a href=${link('run', row.run)}>${row.run}</a>` : nothing}${row.state && !['available', 'clean'].includes(row.state) ? html` <span class="said tone-${stateOf(row.state).tone}">${glyph(row.state)}${stateOf(row.state).word}</span>` : nothing}</td>
        <td><a class="id soft" href=${linkTo(row.id)}>${idText(row.id, {kind: false})}</a></td></tr>`)}</tbody></table></div>
      ${rows.length > ROWS ? html`<p class="soft">and ${count(rows.length - ROWS)} more; the copy has them all</p>` : nothing}${command(ctx.command(value.command))}`
    : empty('Nothing has this result yet.', 'Run the workflow first.')
}

const short = (pattern) => pattern.replace(/^Artifact:/, '').replace(/\[\*\]/g, '')
const shown = (value) => (typeof value === 'number' ? (Number.isInteger(value) ? String(value) : Number(value.toPrecision(6)).toString()) : value === null || value === undefined ? '–' : typeof value === 'string' ? value : JSON.stringify(value))

function sortedRows(rows, columns, sort) {
  if (!sort) return rows
  const key = sort.replace(/^-/, '')
  const of = (row) => (key === 'value' ? row.value : row.index[Number(key.slice(1))])
  const by = (a, b) => { const [x, y] = [of(a), of(b)]; return typeof x === 'number' && typeof y === 'number' ? x - y : String(x).localeCompare(String(y), 'en', {numeric: true}) }
  return [...rows].sort((a, b) => (sort.startsWith('-') ? by(b, a) : by(a, b)))
}

// A cell that a spreadsheet would take for a formula gets a quote before it.
function csv(columns, rows, name) {
  const cell = (value) => {
    let text = typeof value === 'string' ? value : value === undefined || value === null ? '' : typeof value === 'object' ? JSON.stringify(value) : String(value)
    if (typeof value === 'string' && /^[=+\-@\t\r]/.test(text)) text = `'${text}`
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
  }
  return [[...columns, name, 'run', 'artifact'], ...rows.map((row) => [...row.index, row.value, row.run, row.id])].map((line) => line.map(cell).join(',')).join('\r\n')
}
