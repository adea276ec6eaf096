// The runs as dots on a line: any past plan is one click away. Above the line, what the chosen run did when.
import {html, nothing} from 'lit'
import {css} from './css.js'
import {link} from '../router.js'
import {ago, bare, bytes, count, duration, plural} from '../format.js'
import {glyph, stateOf} from '../states.js'
import {lanesOf, scaleOf, toneOf} from './timeline.js'

const SHOWN = 14
const LANES = 2
const BARS = 200
const PLAIN = new Set(['when', 'steps']) // facts that need no name
// What changed the state without a plan: such a run shows itself.
export const DECISIONS = {decide: 'kept', adopt: 'adopted'}
const WORDS = 0.22 // the share of the width from which a bar has room for its name

export function timeMachine(ctx) {
  const {state, route} = ctx
  const runs = (state.runs ?? []).filter((run) => run.mode === 'run' || DECISIONS[run.mode])
  if (!runs.length)
    return html`<section class="time none" aria-label="Time machine">
      <div class="time-title">
        <h2>Time machine</h2>
        <p class="soft">After the first run, every plan stays here as it was.</p>
      </div>
    </section>`
  const chosen = route.view === 'plan' ? route.args[0] : null
  const at = chosen ? runs.findIndex((run) => run.run === chosen) : -1
  const from = Math.max(0, Math.min(runs.length - SHOWN, at < 0 ? Infinity : at - SHOWN + 3))
  const shown = runs.slice(from, from + SHOWN)
  const run = runs[at] ?? runs.at(-1)
  // The server does not count what is planned in a long log: that log is read where its run is looked at.
  const detail = run.planned === null ? null : ctx.read('run', {id: run.run}).value
  return html`<section class="time" aria-label="Time machine">
    <div class="time-line">
      <div class="time-title">
        <h2>Time machine</h2>
        <p class="soft">Choose a run to see its plan as it was.</p>
      </div>
      <ol class="stops">
        ${from ? html`<li class="earlier"><a href=${link('runs')}>${count(from)} earlier</a></li>` : nothing}
        ${shown.map(
          (one) =>
            html`<li>
              <a
                href=${link(DECISIONS[one.mode] ? 'run' : 'plan', one.run)}
                aria-current=${chosen === one.run ? 'step' : nothing}
                data-id=${one.run}
                title="${one.run} ${one.state}: ${said(one)}"
              >
                <span class="stop-mark">${glyph(mark(one))}</span
                ><span class="stop-name"
                  >${one.run}${
                    one.state === 'succeeded'
                      ? DECISIONS[one.mode]
                        ? ` ${DECISIONS[one.mode]}`
                        : nothing
                      : html` <span class="tone-${stateOf(mark(one)).tone}">${one.state}</span>`
                  }</span
                ></a
              >
            </li>`,
        )}
        <li class="now">
          <a href=${link('graph')} aria-current=${chosen ? nothing : 'step'}
            ><span class="stop-mark"></span><span class="stop-name">${state.at ? 'end' : 'now'}</span></a
          >
        </li>
      </ol>
    </div>
    <div class="time-facts">
      <h3>
        <a href=${link('run', run.run)}
          >${run.run}
          ${run.state}${run.duration !== null && run.duration !== undefined ? ` in ${duration(run.duration)}` : ''}</a
        >
      </h3>
      ${detail ? small(detail) : html`<div class="small-timeline"></div>`}
      <dl>
        ${[
          ['when', ago(run.started)],
          ['steps', said(run)],
          ['cost', detail?.usage?.cost ?? null],
          ['processor', detail?.usage?.cpu_seconds ? duration(detail.usage.cpu_seconds) : null],
          ['peak memory', detail?.usage?.max_rss_bytes ? bytes(detail.usage.max_rss_bytes) : null],
        ]
          .filter(([, value]) => value)
          .map(
            ([name, value]) =>
              html`<div>
                <dt class=${PLAIN.has(name) ? 'sr' : ''}>${name}</dt>
                <dd>${value}</dd>
              </div>`,
          )}
      </dl>
    </div>
  </section>`
}

const mark = (run) =>
  run.state === 'succeeded'
    ? 'succeeded'
    : run.state === 'running'
      ? 'running'
      : run.state === 'interrupted'
        ? 'interrupted'
        : 'failed'

export function said(run) {
  const words = [
    [run.completed, DECISIONS[run.mode] ?? 'executed'],
    [run.reused, 'reused'],
    [run.failed, 'failed'],
    [run.interrupted, 'interrupted'],
    [run.blocked, 'blocked'],
    [run.skipped, 'inactive'],
  ]
  return (
    words
      .filter(([n]) => n > 0)
      .map(([n, word]) => `${count(n)} ${word}`)
      .join(', ') || plural(run.planned ?? 0, 'step')
  )
}

function small({timeline, id}) {
  if (!timeline?.step?.length) return nothing
  const scale = scaleOf(timeline)
  const steps = lanesOf(timeline, scale.end).filter((step) => step.lane < LANES)
  const lanes = Math.max(...steps.map((step) => step.lane)) + 1
  return html`<div
    class="small-timeline"
    style=${css({'--lanes': lanes})}
    role="img"
    aria-label="Steps of ${id} in time"
  >
    ${steps.slice(0, BARS).map((step) => {
      const [x, to] = [scale.at(step.start), scale.at(step.end)]
      return html`<span
        class="bit tone-${toneOf(step.status)} ${to - x < WORDS ? 'tiny' : ''}"
        title="${timeline.steps[step.step]}: ${duration(step.end - step.start)}"
        style=${css({left: `${x * 100}%`, width: `${Math.max((to - x) * 100, 0.4)}%`, '--lane': step.lane})}
        >${to - x < WORDS ? nothing : bare(timeline.steps[step.step])}</span
      >`
    })}
  </div>`
}
