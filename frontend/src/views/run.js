// One run: what failed first, then time, jobs, output and environment. It moves while the run goes on.
import {html, nothing} from 'lit'
import {answer, command, facts, idLink, icons, problem, section, state as stateChip} from '../parts/basics.js'
import {failureCard} from '../parts/failure.js'
import {said} from '../parts/time_machine.js'
import {timeline} from '../parts/run_timeline.js'
import {ago, bare, bytes, count, duration, plural, when, withoutTrace} from '../format.js'
import {link, linkTo} from '../router.js'
import {glyph} from '../states.js'

const SHOWN = 50
const CARDS = 3
const EVENTS = 12

export function runView(ctx) {
  const id = ctx.route.args[0]
  const found = ctx.read('run', {id})
  if (found.error)
    return html`<p class="way"><a href=${link('runs')}>${icons.back}All runs</a></p>
      <h1>${id}</h1>
      ${problem(found.error)}`
  return answer(found, (run) => {
    const own = run.facts ?? {}
    const brief = ctx.state.runs?.find((one) => one.run === id) ?? own
    const state = run.live ? 'running' : (own.state ?? brief.state)
    // The log knows the time until its last line; a page that is live goes on counting.
    const elapsed = run.live && ctx.live && own.started ? (Date.now() - Date.parse(own.started)) / 1000 : undefined
    return html`<p class="way">
        <a href=${link('runs')}>${icons.back}All runs</a
        ><span class="links"
          >${
            own.mode === 'run' || own.mode === undefined ? html`<a href=${link('plan', id)}>Its plan</a>` : nothing
          }</span
        >
      </p>
      <h1>${id} ${stateChip(state)}</h1>
      <p class="soft">
        ${said(brief)} ·
        ${own.duration !== undefined && own.duration !== null ? `took ${duration(own.duration)} · ` : nothing}<span
          title=${when(own.started)}
          >${ago(own.started)}</span
        >${own.backend ? ` · ${own.backend}` : nothing}
      </p>
      ${run.live && run.progress ? progress(run.progress, elapsed) : nothing} ${failures(run)}
      ${
        run.timeline?.steps?.length
          ? section('When', timeline(run, elapsed), {
              aside: html`<span class="number">${plural(run.timeline.step.length, 'attempt')}</span>`,
            })
          : nothing
      }
      ${comparisons(run)}
      <div class="columns">${byJob(run)}${slowest(run)}</div>
      ${section(
        'Where and with what',
        facts([
          ['started', when(own.started)],
          ['ended', when(own.ended)],
          ['backend', own.backend],
          ['host', run.host],
          ['whyrun', run.engine_version],
          ['processor', duration(run.usage?.cpu_seconds)],
          ['peak memory', bytes(run.usage?.max_rss_bytes)],
          ['cost', run.usage?.cost ?? null],
          ...Object.entries(run.environment ?? {}).map(([name, value]) => [
            name,
            typeof value === 'string' ? value : JSON.stringify(value),
          ]),
        ]),
      )}
      ${now(ctx, run)}${log(run)}
      ${
        run.sources?.length
          ? section(
              'The workflow as it was',
              run.sources.map(
                (source) =>
                  html`<details>
                    <summary>
                      <code>${source.path}</code>
                      <span class="soft"
                        >${plural(
                          (source.text ?? '').split('\n').length,
                          'line',
                        )}${source.truncated ? ', cut' : ''}</span
                      >
                    </summary>
                    <div class="output"><pre tabindex="0" aria-label=${source.path}>${source.text}</pre></div>
                  </details>`,
              ),
            )
          : nothing
      }
      ${command(ctx.command(run.command))}`
  })
}

// The first ones in full, more of them in a line each.
function failures({failures: list = []}) {
  const cards = list.slice(0, CARDS)
  const rows = list.slice(CARDS, SHOWN)
  const open = list.length === 1
  return html`${cards.map((failure) => failureCard(failure, {id: failure.id, brief: true, open}))}
  ${
    rows.length
      ? html`<ul class="instances more-failures">
          ${rows.map(failureRow)}
        </ul>`
      : nothing
  }
  ${list.length > SHOWN ? html`<p class="soft">and ${plural(list.length - SHOWN, 'more failure')}</p>` : nothing}`
}

const failureRow = (failure) =>
  html`<li data-id=${failure.id} data-code=${failure.status}>
    <span class="mark">${glyph('failed')}</span>
    <span class="row-main"
      >${idLink(failure.id, {kind: false})}<span class="row-text bad">${withoutTrace(failure.error)}</span></span
    >
  </li>`

const progress = ({ended, planned, done, left, elapsed}, now) =>
  html`<div class="progress">
    <progress max="1" value=${done ?? ended / Math.max(planned, 1)} aria-label="Progress"></progress>
    <span
      >${count(ended)} of ${count(planned)} · ${duration(now ?? elapsed)} so
      far${left === null || left === undefined ? '' : ` · about ${duration(left)} left`}</span
    >
  </div>`

function byJob({by_job: jobs}) {
  if (!jobs?.length) return nothing
  const most = Math.max(...jobs.map((job) => job.seconds ?? 0), 1e-9)
  const paid = jobs.some((job) => job.cost !== null && job.cost !== undefined)
  return section(
    'By job',
    html`<div class="scroll">
      <table class="table small fit">
        <thead>
          <tr>
            <th>Job</th>
            <th class="num">Steps</th>
            <th class="num">Time</th>
            <th class="num">Processor</th>
            <th class="num">Memory</th>
            ${paid ? html`<th class="num">Cost</th>` : nothing}
          </tr>
        </thead>
        <tbody>
          ${jobs.slice(0, SHOWN).map(
            (job) =>
              html`<tr>
                <td>
                  ${idLink(`Job:${job.job}`, {
                    kind: false,
                    href: link('why', job.steps > 1 ? `Job:${job.job}[*]` : `Job:${job.job}`),
                  })}${job.failed ? html` <span class="bad">${count(job.failed)} failed</span>` : nothing}
                </td>
                <td class="num">${count(job.steps)}</td>
                <td class="num">
                  ${duration(job.seconds)}<meter
                    aria-label="share of the slowest job"
                    min="0"
                    max="1"
                    value=${(job.seconds ?? 0) / most}
                  ></meter>
                </td>
                <td class="num">${duration(job.cpu_seconds)}</td>
                <td class="num">${bytes(job.max_rss_bytes)}</td>
                ${paid ? html`<td class="num">${job.cost ?? '–'}</td>` : nothing}
              </tr>`,
          )}
        </tbody>
      </table>
    </div>`,
  )
}

function slowest({slowest: steps, most_expensive: dear}) {
  if (!steps?.length) return nothing
  const list = (title, entries, text) =>
    section(
      title,
      html`<ol class="ranked">
        ${entries
          .slice(0, 8)
          .map((one) => html`<li>${idLink(one.id, {kind: false})}<span class="num soft">${text(one)}</span></li>`)}
      </ol>`,
    )
  return html`<div>
    ${list('Slowest', steps, (one) => duration(one.seconds))}${
      dear?.length ? list('Most expensive', dear, (one) => one.cost) : nothing
    }
  </div>`
}

function comparisons({comparisons: list}) {
  if (!list?.length) return nothing
  const counted = [...list.reduce((all, one) => all.set(one.status, (all.get(one.status) ?? 0) + 1), new Map())]
  return section(
    'Compared',
    html`<p class="verdict">
        ${counted.map(
          ([status, n], at) =>
            html`${at ? ', ' : ''}<b data-differs=${status} data-count=${n}
                >${count(n)} ${status.toLowerCase().replaceAll('_', ' ')}</b
              >`,
        )}
      </p>
      <ul class="instances">
        ${list.slice(0, 200).map(
          (one) =>
            html`<li data-id=${one.artifact} data-code=${one.status}>
              <span></span
              ><span class="row-main"
                ><a class="id" href=${linkTo(one.artifact)}>${bare(one.artifact)}</a>
                <span class="row-text"><b>${one.status}</b> with ${one.against} ${one.summary ?? ''}</span
                >${(one.details ?? []).slice(0, 5).map((line) => html`<span class="row-text">${line}</span>`)}</span
              ><span></span>
            </li>`,
        )}
      </ul>`,
  )
}

// The last events of a run that goes on, as they come.
function now(ctx, run) {
  const lines = ctx.ui.lines.filter((line) => line.id?.startsWith(`${run.id}:`)).slice(-EVENTS)
  if (!run.live || !lines.length) return nothing
  const text = ({ts, event, step_id: step, text: words}) =>
    [String(ts).slice(11, 19), event, step, words].filter(Boolean).join(' ')
  return section(
    'As it happens',
    html`<div class="output log">
      <pre tabindex="0" aria-label="Events">${lines.map((line) => text(line.data)).join('\n')}</pre>
    </div>`,
  )
}

function log(run) {
  const lines = run.log?.lines ?? []
  if (!lines.length) return nothing
  return section(
    'The last lines of the log',
    html`<div class="output log"><pre tabindex="0" aria-label="Log">${lines.join('\n')}</pre></div>
      ${run.log?.more ? html`<p class="soft">${count(run.log.more)} lines before these</p>` : nothing}`,
  )
}
