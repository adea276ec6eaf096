// All runs, the newest first; and parameters beside results, run by run.
import {html, nothing} from 'lit'
import {answer, command, empty, section, state as stateChip} from '../parts/basics.js'
import {ago, count, duration, inline, when, withoutTrace} from '../format.js'
import {link} from '../router.js'
import {DECISIONS, said} from '../parts/time_machine.js'

const SHOWN = 200

export function runsView(ctx) {
  const runs = ctx.read('runs')
  return html`<h1>Runs</h1>
    ${answer(runs, (value) => {
      const all = [...value.runs].reverse()
      if (!all.length) return empty('There was no run yet.', html`Start the first one with <code>whyrun run</code>.`)
      const longest = Math.max(...all.map((run) => run.duration ?? 0), 1e-9)
      return html`<div class="scroll">
          <table class="table stack">
            <thead>
              <tr>
                <th>Run</th>
                <th>State</th>
                <th>Started</th>
                <th>Steps</th>
                <th class="num">Took</th>
                <th><span class="sr">Compare</span></th>
              </tr>
            </thead>
            <tbody>
              ${all.slice(0, SHOWN).map(
                (run, at) =>
                  html`<tr data-id=${run.run} data-state=${run.state}>
                    <td>
                      <a href=${link('run', run.run)}><b>${run.run}</b></a
                      >${run.mode === 'run' ? nothing : html` <span class="soft">${DECISIONS[run.mode] ?? run.mode}</span>`}
                    </td>
                    <td>${stateChip(run.state)}</td>
                    <td title=${when(run.started)}>${ago(run.started)}</td>
                    <td class="whole">
                      ${said(run)}${run.error ? html`<span class="row-text bad">${withoutTrace(run.error)}</span>` : nothing}
                    </td>
                    <td class="num">
                      ${duration(run.duration)}<meter
                        aria-label="share of the longest run"
                        min="0"
                        max="1"
                        value=${(run.duration ?? 0) / longest}
                      ></meter>
                    </td>
                    <td>
                      ${
                        at < all.length - 1
                          ? html`<a href=${link('diff', all[at + 1].run, run.run)}>compare with ${all[at + 1].run}</a>`
                          : nothing
                      }
                    </td>
                  </tr>`,
              )}
            </tbody>
          </table>
        </div>
        ${all.length > SHOWN ? html`<p class="soft">and ${count(all.length - SHOWN)} earlier runs</p>` : nothing}
        ${
          value.pruned?.length
            ? section(
                'Pruned',
                html`<p class="soft">
                  ${value.pruned.map(
                    (one, at) => html`${at ? ', ' : ''}<a href=${link('plan', one.run ?? one)}>${one.run ?? one}</a>`,
                  )}
                </p>`,
              )
            : nothing
        }
        ${parameters(ctx)}${command(ctx.command(value.command))}`
    })}`
}

function parameters(ctx) {
  const table = ctx.read('parameters').value
  if (!table?.columns?.length || !table.rows.length) return nothing
  return section(
    'Parameters and results',
    html`<div class="scroll" tabindex="0" role="region" aria-label="Parameters and results">
      <table class="table small">
        <thead>
          <tr>
            <th>Run</th>
            ${table.columns.map(
              (column) =>
                html`<th class=${column.kind === 'input' ? '' : 'num'}>
                  ${column.name.replace(/^(Input|Artifact):/, '')}<span class="th-kind">${column.kind}</span>
                </th>`,
            )}
          </tr>
        </thead>
        <tbody>
          ${[...table.rows.entries()].reverse().map(
            ([at, row]) =>
              html`<tr>
                <td><a href=${link('run', row.run)}>${row.run}</a></td>
                ${row.values.map(
                  (value, c) =>
                    html`<td
                      class="${table.columns[c].kind === 'input' ? '' : 'num'} ${
                        at && table.columns[c].kind !== 'metric' && differs(value, table.rows[at - 1].values[c])
                          ? 'changed'
                          : ''
                      }"
                    >
                      ${
                        value === null || value === undefined
                          ? ''
                          : typeof value === 'string'
                            ? value
                            : table.columns[c].kind === 'metric' && table.columns[c].name === 'duration'
                              ? duration(value)
                              : typeof value === 'number' && !Number.isInteger(value)
                                ? Number(value.toPrecision(4))
                                : inline(value, 60)
                      }
                    </td>`,
                )}
              </tr>`,
          )}
        </tbody>
      </table>
    </div>`,
  )
}
const differs = (a, b) => JSON.stringify(a) !== JSON.stringify(b)
