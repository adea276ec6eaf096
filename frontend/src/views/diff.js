// Two runs: which jobs, reasons, inputs and outputs differ, how long they took, and contents side by side.
import {html, nothing} from 'lit'
import {answer, command, empty, idLink, idText, section} from '../parts/basics.js'
import {beside} from '../parts/beside.js'
import {changed, codeWords} from '../parts/reasons.js'
import {bytes, count, duration, inline, shortHash} from '../format.js'
import {link, setParams} from '../router.js'
import {glyph, stateOf} from '../states.js'
import {said} from '../parts/time_machine.js'

const SHOWN = 100

export function diffView(ctx) {
  const runs = (ctx.state.runs ?? []).map((run) => run.run)
  const [old = runs.at(-2), now = runs.at(-1)] = ctx.route.args
  if (!old || !now)
    return html`<h1>Compare</h1>
      ${empty('Two runs are needed to compare.', 'Run the workflow again after a change.')}`
  const choose = (chosen, label, change) =>
    html`<label class="field"
      ><span class="soft">${label}</span
      ><select @change=${(event) => change(event.target.value)}>
        ${[...new Set([...runs, chosen])].map((run) => html`<option ?selected=${run === chosen}>${run}</option>`)}
      </select></label
    >`
  return html`<h1>Compare ${old} with ${now}</h1>
    <div class="filters narrow">
      ${choose(old, 'from', (run) => {
        location.hash = link('diff', run, now)
      })}${choose(now, 'to', (run) => {
        location.hash = link('diff', old, run)
      })}
    </div>
    ${answer(ctx.read('diff', {old, new: now}), (value) => differences(ctx, value, old, now))}`
}

function differences(ctx, value, old, now) {
  const {jobs = [], reasons = [], inputs = [], actions = [], artifacts = [], same} = value.answer
  const changed = [
    ['jobs', jobs],
    ['reasons', reasons],
    ['inputs', inputs],
    ['actions', actions],
    ['artifacts', artifacts],
  ].filter(([, list]) => list.length)
  return html`<div class="columns runs-pair">
      ${(value.runs ?? []).map(
        (run) =>
          html`<div class="card">
            <p class="card-title">
              <a href=${link('run', run.run)}>${run.run}</a>
              <span class="tone-${stateOf(run.state).tone}">${glyph(run.state)} ${run.state}</span>
            </p>
            <p class="soft">${said(run)} · ${duration(run.duration)}</p>
          </div>`,
      )}
    </div>
    <p class="verdict">
      ${
        same
          ? 'They do not differ.'
          : html`They differ in
            ${changed.map(
              ([name, list], at) =>
                html`${at ? (at === changed.length - 1 ? ' and ' : ', ') : ''}<b
                    data-differs=${name}
                    data-count=${list.length}
                    >${count(list.length)} ${list.length === 1 ? name.slice(0, -1) : name}</b
                  >`,
            )}.`
      }
    </p>
    ${contents(ctx, value, old, now)}
    ${
      inputs.length
        ? section(
            'Inputs',
            rows(inputs, (one) => one),
          )
        : nothing
    }${actions.length ? section('Actions', rows(actions)) : nothing}
    ${
      reasons.length
        ? section(
            'Reasons',
            html`<ul class="instances">
                ${reasons.slice(0, SHOWN).map(
                  (one) =>
                    html`<li data-id=${one.id}>
                      <span></span
                      ><span class="row-main"
                        >${idLink(one.id, {kind: false})}<span class="row-text"
                          >${one.old ? codeWords(one.old) : 'not planned'} →
                          <b>${one.new ? codeWords(one.new) : 'not planned'}</b></span
                        ></span
                      ><span></span>
                    </li>`,
                )}
              </ul>
              ${rest(reasons)}`,
          )
        : nothing
    }
    ${
      jobs.length
        ? section(
            'Jobs',
            html`<ul class="instances">
                ${jobs.slice(0, SHOWN).map(
                  (one) =>
                    html`<li data-id=${one.id}>
                      <span></span
                      ><span class="row-main"
                        >${idLink(one.id, {kind: false})}<span class="row-text"
                          >${then(one.old)} → <b>${then(one.new)}</b></span
                        ></span
                      ><span></span>
                    </li>`,
                )}
              </ul>
              ${rest(jobs)}`,
          )
        : nothing
    }
    ${durations(value.durations)}${command(ctx.command(value.command))}`
}

// What a plan of the past said of a job.
const then = (state) => (!state ? 'not planned' : state === 'planned' ? 'planned' : stateOf(state).word)

const rest = (list) =>
  list.length > SHOWN ? html`<p class="soft">and ${count(list.length - SHOWN)} more</p>` : nothing
const rows = (list) =>
  html`<ul class="instances">
      ${list.slice(0, SHOWN).map(
        (one) =>
          html`<li data-id=${one.id}>
            <span></span
            ><span class="row-main"
              >${idLink(one.id)}<span class="values">${sided(one.old, 'was')} → ${sided(one.new, 'is')}</span></span
            ><span></span>
          </li>`,
      )}
    </ul>
    ${rest(list)}`
const sided = (one, name) =>
  one === null || one === undefined
    ? html`<span class="soft">nothing</span>`
    : 'value' in one
      ? html`<span class=${name}>${inline(one.value)}</span>`
      : html`<code>${shortHash(one.sha256)}</code>`

// What came out differently: choose one to see both.
function contents(ctx, value, old, now) {
  const list = value.contents?.length ? value.contents : (value.answer.artifacts ?? [])
  if (!list.length) return nothing
  const chosen =
    list.find((one) => one.id === ctx.params.show) ??
    list.find((one) => one.old && one.new && (one.new.kind === 'image' || one.old.kind === 'image')) ??
    list[0]
  const given = (value.answer.inputs ?? []).find((one) => one.id === chosen.id && 'value' in (one.new ?? one.old ?? {}))
  const both =
    chosen?.old?.sha256 &&
    chosen?.new?.sha256 &&
    chosen.old.sha256 !== chosen.new.sha256 &&
    chosen.old.kept !== false &&
    chosen.new.kept !== false
  return section(
    'What came out differently',
    html`<div class="content-pair">
      <ul class="jobs choose">
        ${list.slice(0, SHOWN).map(
          (one) =>
            html`<li data-id=${one.id}>
              <button
                type="button"
                aria-pressed=${one === chosen ? 'true' : 'false'}
                @click=${() => setParams({show: one.id})}
              >
                ${idText(one.id, {kind: false})}
              </button>
              <span class="soft"
                >${
                  one.old?.size !== undefined && one.new?.size !== undefined
                    ? `${bytes(one.old.size)} → ${bytes(one.new.size)}`
                    : one.old
                      ? one.new
                        ? nothing
                        : 'gone'
                      : 'new'
                }</span
              >
            </li>`,
        )}${list.length > SHOWN ? html`<li class="soft">and ${count(list.length - SHOWN)} more</li>` : nothing}
      </ul>
      <div class="content-shown">
        ${
          given
            ? changed({old: given.old, new: given.new}, {url: ctx.url})
            : both && ctx.live
              ? answer(
                  ctx.read('content', {id: chosen.id, old: chosen.old.sha256, new: chosen.new.sha256}),
                  (content) => beside(ctx, content, old, now),
                )
              : both
                ? beside(ctx, {old: chosen.old, new: chosen.new}, old, now)
                : html`<p class="soft">
                    ${
                      chosen.old
                        ? chosen.new
                          ? 'The bytes of one of the two are not kept.'
                          : `${old} has it, ${now} has not.`
                        : `${now} has it, ${old} has not.`
                    }
                  </p>`
        }
      </div>
    </div>`,
  )
}

function durations(list) {
  const shown = (list ?? [])
    .filter((one) => one.old !== null && one.new !== null && one.old !== undefined && one.new !== undefined)
    .sort((a, b) => Math.abs(b.new - b.old) - Math.abs(a.new - a.old))
  if (!shown.length) return nothing
  return section(
    'How long it took',
    html`<div class="scroll">
        <table class="table small">
          <thead>
            <tr>
              <th>Job</th>
              <th class="num">before</th>
              <th class="num">after</th>
              <th class="num">change</th>
            </tr>
          </thead>
          <tbody>
            ${shown.slice(0, SHOWN).map(
              (one) =>
                html`<tr>
                  <td>${idLink(one.id, {kind: false})}</td>
                  <td class="num">${duration(one.old)}</td>
                  <td class="num">${duration(one.new)}</td>
                  <td class="num">${one.new >= one.old ? '+' : '−'}${duration(Math.abs(one.new - one.old))}</td>
                </tr>`,
            )}
          </tbody>
        </table>
      </div>
      ${rest(shown)}`,
  )
}
