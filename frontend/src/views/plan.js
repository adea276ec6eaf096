// A plan of the past, as it was: its digest, its stages, its jobs, and what the workflow has lost or gained since.
import {html, nothing} from 'lit'
import {answer, bar, command, empty, facts, icons, idText, section, counts} from '../parts/basics.js'
import {codeWords} from '../parts/reasons.js'
import {timeMachine} from '../parts/time_machine.js'
import {count, duration, plural, when} from '../format.js'
import {glyph, stateOf} from '../states.js'
import {link} from '../router.js'
import {frame} from './graph.js'
import {lettersOf} from '../states.js'

export function planView(ctx) {
  const run = ctx.route.args[0] ?? ctx.state.runs?.filter((one) => one.mode === 'run').at(-1)?.run
  if (!run) return empty('There is no past plan yet.', 'Each run keeps the plan that it executed.')
  const plan = ctx.read('plan', {run})
  const graph = ctx.read('graph').value
  return frame(ctx, {
    overlay: plan.value && !plan.value.pruned && graph ? overlayOf(plan.value, graph) : null,
    panel: html`<p class="way"><a href=${link('graph')}>${icons.back}The plan now</a></p>
      ${answer(plan, (value) => (value.pruned ? pruned(value.pruned) : panel(ctx, value, run)))}`,
    label: `The plan of ${run}`,
    foot: html`<p class="hint">The graph as <b>${run}</b> planned it.</p>`,
    strip: timeMachine(ctx),
  })
}

// How the instances of each job stood in that plan. A job that it does not list was up to date.
function overlayOf({states = {}}, {nodes}) {
  const found = {}
  for (const node of nodes) found[node.job] = states[node.job] ? lettersOf(states[node.job]) : {clean: node.count}
  return found
}

function panel(ctx, value, run) {
  const {totals, digest, checked, problem, layers = [], removed = [], added = [], jobs = []} = value
  const asked = Object.entries(value.options ?? {}).filter(
    ([, it]) => it !== null && it !== false && !(Array.isArray(it) && !it.length),
  )
  return html`<article class="past" data-run=${run}>
    <h1>The plan of ${run}</h1>
    <p class="soft">
      ${count(totals.planned)} of ${plural(totals.jobs, 'job')} planned, after ${value.log_position?.run ?? 'nothing'} ·
      <a href=${link('run', run)}>what the run did</a>
    </p>
    ${bar(totalsOf(totals))} ${counts(totalsOf(totals))}
    ${layers
      .map((layer) => ({...layer, jobs: layer.jobs.filter((job) => job.state === 'planned' || job.state === 'reused')}))
      .filter((layer) => layer.jobs.length)
      .map((layer, at) =>
        section(
          `Stage ${at + 1}`,
          html`<ul class="jobs">
            ${layer.jobs.slice(0, 30).map(
              (job) =>
                html`<li data-id=${job.first} data-state=${job.state}>
                  <a class="id" href=${link('why', job.first, {at: run})}
                    >${glyph(job.state)}${job.count > 1 ? idText(job.job) : idText(job.first, {kind: false})}</a
                  >
                  <span class="soft"
                    >${job.count > 1 ? `${count(job.count)} · ` : nothing}${Object.keys(job.codes)
                      .map(codeWords)
                      .join(', ')}</span
                  >
                </li>`,
            )}
          </ul>`,
          {aside: html`<span class="number">layer ${layer.layer}</span>`},
        ),
      )}
    ${
      jobs.filter((job) => job.state !== 'planned' && job.state !== 'reused').length
        ? section(
            'Not in a stage',
            html`<ul class="jobs">
              ${jobs
                .filter((job) => job.state !== 'planned' && job.state !== 'reused')
                .slice(0, 30)
                .map(
                  (job) =>
                    html`<li data-id=${job.id} data-state=${job.state}>
                      ${glyph(job.state)}<a class="id" href=${link('why', job.id, {at: run})}
                        >${idText(job.id, {kind: false})}</a
                      >
                      <span class="soft">${stateOf(job.state).word}</span>
                    </li>`,
                )}
            </ul>`,
          )
        : nothing
    }
    ${
      removed.length
        ? section(
            'No longer in the workflow',
            html`<ul class="jobs">
              ${removed.map((job) => html`<li>${job.replace(/^Job:/, '')}</li>`)}
            </ul>`,
          )
        : nothing
    }
    ${
      added.length
        ? section(
            'Added to the workflow since',
            html`<ul class="jobs">
              ${added.map((job) => html`<li>${job.replace(/^Job:/, '')}</li>`)}
            </ul>`,
          )
        : nothing
    }
    ${section(
      'Evidence',
      facts([
        ['digest', html`<code data-digest=${digest}>${digest}</code>`],
        ['checked', checked ? 'plan.json has this digest, and the log says the same' : (problem ?? 'not checked')],
        ...asked.map(([name, it]) => [name, html`<code>${Array.isArray(it) ? it.join(' ') : String(it)}</code>`]),
        ['estimate', value.estimate ? duration(value.estimate) : null],
      ]),
    )}
    ${command(ctx.command(value.command))}
  </article>`
}

const totalsOf = ({planned = 0, reused = 0, deferred = 0, inactive = 0, clean = 0}) => ({
  planned,
  reused,
  deferred,
  inactive,
  clean,
})

const pruned = (tombstone) =>
  html`<h1>${tombstone.run} was pruned</h1>
    <p>Its plan and its evidence were removed. What remains is this record.</p>
    ${facts([
      ['mode', tombstone.mode],
      ['state', tombstone.state],
      ['started', when(tombstone.started)],
      ['ended', when(tombstone.ended)],
      ['events', count(tombstone.events)],
      ['pruned', when(tombstone.pruned)],
    ])}`
