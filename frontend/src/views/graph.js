// The first screen: what will run and why, in words beside the graph, with the runs below it.
import {html, nothing} from 'lit'
import '../graph/element.js'
import {answer, command, icons, idLink, idText, problem, state as stateChip, waiting} from '../parts/basics.js'
import {link} from '../router.js'
import {codeWords, isConsequence, observedName, reasonCard} from '../parts/reasons.js'
import {bare, count, duration, plural} from '../format.js'
import {glyph, stateOf} from '../states.js'
import {failureCard} from '../parts/failure.js'
import {instanceList} from '../parts/instances.js'
import {timeMachine} from '../parts/time_machine.js'
import {jobPanel} from './job.js'
import {whyPanel} from './why.js'

const ONE_BY_ONE = 200

export function graphView(ctx) {
  const {route, state, params} = ctx
  const id = route.view === 'why' ? route.args[0] : null
  const pattern = id && /\[\*\]$/.test(id)
  const focused = id && !pattern && id.startsWith('Job:') ? ctx.read('focus', {id}).value : null
  return frame(ctx, {
    selected: id,
    focused,
    panel: id
      ? pattern
        ? jobPanel(ctx, id)
        : whyPanel(ctx, id)
      : params.list !== undefined
        ? listPanel(ctx)
        : story(ctx),
    label: id ? `Why ${id}` : 'What will run, and why',
    foot: focused
      ? html`<p class="hint soft">Blue lines: what this job reads, and what it makes run. <kbd>esc</kbd> clears.</p>`
      : nothing,
    strip: state.totals ? timeMachine(ctx) : nothing,
  })
}

// Graph, panel and time machine: also the frame of past plans.
export function frame(
  ctx,
  {selected = null, focused = null, overlay = null, panel, label, foot = nothing, strip = nothing},
) {
  const graph = ctx.read('graph')
  const small = (ctx.state.totals?.jobs ?? Infinity) <= ONE_BY_ONE
  const rows = small && !overlay ? (ctx.read('instances', {page: 0}).value?.rows ?? null) : null
  return html`<div class="workbench">
      <section class="canvas" aria-label="Graph">
        ${
          graph.error
            ? problem(graph.error)
            : graph.value
              ? graph.value.nodes.length
                ? html`<wr-graph
                    .graph=${graph.value}
                    .rows=${rows}
                    .selected=${selected}
                    .focused=${focused}
                    .overlay=${overlay}
                    .url=${ctx.url}
                  ></wr-graph>`
                : html`<p class="laying-out">The workflow has no jobs.</p>`
              : waiting()
        }${foot}
      </section>
      <aside class="panel" aria-label=${label} tabindex="0">${panel}</aside>
    </div>
    ${strip}`
}

// --- nothing selected: the plan in words ---

function story(ctx) {
  const {state} = ctx
  if (!state.totals)
    return html`<h1>There is no plan</h1>
      ${failures(ctx)}`
  const {jobs, inactive = 0} = state.totals
  const idle = isIdle(state)
  const listed = ctx.read('graph').value
  const causes = listed ? ownCodes(listed.nodes) : []
  return html`${heading(ctx)} ${causes.some(([code]) => code === RETRY) ? nothing : failures(ctx)}
  ${causes.map(([code, n, nodes]) => cause(ctx, code, n, nodes))}
  ${listed && !idle ? following(ctx, listed.nodes) : nothing}
  ${
    !idle
      ? nothing
      : html`<p class="verdict">
          Nothing that the ${plural(jobs, 'job')} read has changed since ${jobs === 1 ? 'its' : 'their'} last
          success${
            inactive
              ? html`; ${plural(inactive, 'job')} ${inactive === 1 ? 'is' : 'are'} inactive, because a condition is
                false`
              : nothing
          }.
          Choose a job to see what it was made from.
        </p>`
  }
  ${changes(ctx)}${idle && listed ? made(ctx, listed) : nothing}
  ${command(ctx.command(idle ? state.command : state.explain))}${command(ctx.command(listed?.command), {
    note: 'The graph in a terminal',
  })}`
}

const isIdle = ({totals: {planned = 0, reused = 0, deferred = 0}}) => !(planned || reused || deferred)

function heading({state}) {
  const {planned: run, reused = 0} = state.totals
  const about = state.description ? html`<p class="soft">${state.description}</p>` : nothing
  if (isIdle(state))
    return html`<h1 data-said>Everything is up to date</h1>
      ${about}`
  const known = state.estimate !== null && state.estimate !== undefined
  const said = [
    state.runs?.length ? null : 'There was no run yet.',
    run ? (known ? `It takes about ${duration(state.estimate)}.` : 'How long it takes is not known yet.') : null,
    reused ? `${plural(reused, 'result')} ${reused === 1 ? 'is' : 'are'} taken from earlier runs.` : null,
  ]
  return html`<h1 data-said>${willRun(state, run)}</h1>
    ${state.runs?.length ? nothing : about}
    <p class="soft">
      ${state.at ? `The plan that ${state.at} executed, and its results at the end.` : said.filter(Boolean).join(' ')}
    </p>
    ${
      state.unfinished?.state === 'running'
        ? html`<p><a href=${link('run', state.unfinished.run)}>See ${state.unfinished.run} as it goes</a></p>`
        : nothing
    }`
}

function willRun({at, totals, outcomes, unfinished}, run) {
  if (at) return html`${at} planned ${run === totals.jobs ? 'all' : `${count(run)} of`} ${plural(totals.jobs, 'job')}`
  if (!run) return 'Nothing needs to run'
  const now = unfinished?.state === 'running' ? outcomes.running : 0
  if (now) return html`${plural(now, 'job')} ${now === 1 ? 'is' : 'are'} running, ${count(run - now)} to follow`
  if (run === totals.jobs) return html`${run > 1 ? 'All ' : ''}${plural(run, 'job')} will run`
  return html`${count(run)} of ${plural(totals.jobs, 'job')} will run`
}

const RETRY = 'RETRY_PREVIOUS_FAILURE'

// What is a reason of its own: failures first, then the reason of most jobs. What only follows comes after.
function ownCodes(nodes) {
  const codes = new Map()
  for (const node of nodes) {
    for (const [code, n] of Object.entries(node.headlines ?? {})) {
      if (isConsequence(code) || code !== code.toUpperCase()) continue // `condition_false` explains a skip, not a run
      const known = codes.get(code) ?? [code, 0, []]
      known[1] += n
      known[2].push(node)
      codes.set(code, known)
    }
  }
  return [...codes.values()].sort((a, b) => (b[0] === RETRY) - (a[0] === RETRY) || b[1] - a[1])
}

const BECAUSE = {
  RETRY_PREVIOUS_FAILURE: (n) => `${plural(n, 'job')} failed last time`,
  MISSING_OUTPUT: (n, at) => `${plural(n, 'job')} ${at ? 'had' : n === 1 ? 'has' : 'have'} no output`,
  INPUT_CHANGED: (n) => (n === 1 ? 'something that a job reads changed' : `what ${count(n)} jobs read changed`),
  FORCED: (n) => `you forced ${plural(n, 'job')}`,
}

const OPENED = 2

function cause(ctx, code, n, nodes) {
  const page = ctx.read('instances', {code, page: 0})
  const rows = (page.value?.rows ?? []).filter((row) => row.code === code)
  const all = code === 'MISSING_OUTPUT' && rows.every((row) => row.outcome === 'never')
  const heading = all
    ? `${plural(n, 'job')} never ran`
    : code === 'INPUT_CHANGED' && n === 1 && rows[0]
      ? changedName(ctx.read('why', {id: rows[0].id}).value, bare(rows[0].id))
      : (BECAUSE[code]?.(n, ctx.state.at) ?? `${codeWords(code)}: ${plural(n, 'job')}`)
  const opened = all || n > 12 ? [] : rows.slice(0, OPENED)
  return html`<section class="cause" data-code=${code}>
    <h2><span class="lead">Because</span> ${heading}</h2>
    ${code === RETRY && ctx.state.failures?.length ? failures(ctx) : opened.map((row) => opening(ctx, row, code))}
    ${
      n > opened.length && !(code === RETRY && ctx.state.failures?.length)
        ? html`<ul class="jobs">
            ${
              all || nodes.length === 1 || n > 12
                ? nodes
                    .slice(0, 12)
                    .map(
                      (node) =>
                        html`<li>
                          <a
                            class="id"
                            data-id=${node.count === 1 ? node.first : node.pattern}
                            data-code=${code}
                            href=${link('why', node.count === 1 ? node.first : node.pattern)}
                            >${glyph(node.states.planned ? 'planned' : 'reused')}${idText(node.job)}</a
                          ><span class="soft"
                            >${
                              node.count > 1 ? `${count(node.headlines[code])} of ${count(node.count)}` : nothing
                            }</span
                          >
                        </li>`,
                    )
                : rows
                    .slice(opened.length, opened.length + 8)
                    .map((row) => html`<li>${glyph(row.state)}${idLink(row.id, {kind: false})}</li>`)
            }
            ${
              n > 20 || nodes.length > 12 || (n <= 12 && n > opened.length + 8)
                ? html`<li><a href=${link('graph', {list: '', code})}>all ${count(n)}</a></li>`
                : nothing
            }
          </ul>`
        : nothing
    }
  </section>`
}

// What changed for one job, by the name that people know: a file, else a parameter.
function changedName(why, job) {
  const change = why?.changes?.[0]
  const path = change?.path ?? change?.new?.path ?? change?.old?.path
  const reasons = (why?.explain?.reasons ?? []).filter((reason) => reason.code === 'INPUT_CHANGED')
  const others = reasons.length - 1
  const input = change?.id && !/\.(with|env|action)/.test(change.id) ? bare(change.id) : null
  const own = change?.name ?? reasons[0]?.binding
  const read = !change && reasons[0]?.read && observedName(reasons[0], job)
  const name = read || path || input || (own === 'action' ? `the code of ${job}` : own && `${own} of ${job}`)
  return name
    ? `${name} changed${others > 0 ? `, and ${count(others)} more` : ''}`
    : 'something that a job reads changed'
}

function opening(ctx, row, code) {
  const why = ctx.read('why', {id: row.id})
  return answer(
    why,
    (value) => {
      const reasons = value.explain?.reasons ?? []
      const at = reasons.findIndex((reason) => reason.code === code)
      if (at < 0) return nothing
      return html`<div class="opening">
        <p class="opening-job">${stateChip(row.state)}${idLink(row.id)}</p>
        ${reasonCard(reasons[at], {
          change: value.changes?.find((one) => one.reason === at),
          url: ctx.url,
          job: row.id,
          compact: true,
        })}
      </div>`
    },
    {loading: () => html`<p>${idLink(row.id)}</p>`},
  )
}

// What came out in the end: the outputs of the last jobs.
function made(ctx, {nodes, edges}) {
  const read = new Set(edges.filter((edge) => edge.from !== edge.to).map((edge) => edge.from))
  const list = nodes
    .filter((node) => !read.has(node.job))
    .flatMap((node) => (node.shown ?? []).filter((artifact) => artifact.sha256).slice(0, 3))
    .slice(0, 6)
  if (!list.length) return nothing
  return html`<section class="section">
    <h2><span>What it made</span></h2>
    <ul class="made">
      ${list.map((artifact) => {
        const src = artifact.kind === 'image' ? ctx.url(artifact.href, artifact.sha256) : null
        return html`<li>
          ${
            src
              ? html`<a href=${link('artifact', artifact.id)}
                  ><img src=${src} alt=${artifact.id} decoding="async"
                /></a>`
              : nothing
          }<span
            >${idLink(artifact.id, {kind: false})} <span class="soft">${artifact.type} · ${artifact.run}</span></span
          >
        </li>`
      })}
    </ul>
  </section>`
}

// Jobs that run only because others do.
function following(ctx, nodes) {
  const later = nodes
    .map((node) => [
      node,
      Object.entries(node.headlines ?? {})
        .filter(([code]) => isConsequence(code))
        .reduce((sum, [, n]) => sum + n, 0),
    ])
    .filter(([, n]) => n)
  if (!later.length) return nothing
  const total = later.reduce((sum, [, n]) => sum + n, 0)
  return html`<section class="cause follows">
    <h2><span class="lead">So</span> ${plural(total, 'more job')} ${total === 1 ? 'follows' : 'follow'}</h2>
    <ul class="jobs">
      ${later.slice(0, 12).map(
        ([node, n]) =>
          html`<li>
            <a
              class="id"
              data-id=${node.count === 1 ? node.first : node.pattern}
              href=${link('why', node.count === 1 ? node.first : node.pattern)}
              >${glyph(node.states.planned ? 'planned' : 'deferred')}${idText(node.job)}</a
            >
            <span class="soft">${node.count > 1 ? `${count(n)} of ${count(node.count)}` : node.action}</span>
          </li>`,
      )}
      ${later.length > 12 ? html`<li class="soft">and ${count(later.length - 12)} more</li>` : nothing}
    </ul>
    ${
      ctx.state.at
        ? nothing
        : html`<p class="soft note">A job is skipped after all if what it reads comes out the same.</p>`
    }
  </section>`
}

function failures(ctx) {
  const {state} = ctx
  const failed = state.failures ?? []
  if (!failed.length) return nothing
  const more = (state.failures_more ?? 0) + Math.max(failed.length - 3, 0)
  return html`<section class="failures" aria-label="Failures">
    ${failed.slice(0, 3).map((failure) => failureCard(failure, {id: failure.id, brief: true}))}
    ${more ? html`<p><a href=${link('graph', {list: 'failed'})}>and ${plural(more, 'other failure')}</a></p>` : nothing}
  </section>`
}

function changes({state}) {
  const changed = state.inputs_changed ?? []
  if (changed.length < 2) return nothing // one is shown with its job
  return html`<section class="section">
    <h2><span>Inputs that changed</span></h2>
    <ul class="jobs">
      ${changed.slice(0, 8).map((id) => html`<li>${idLink(id)}</li>`)}
      ${changed.length > 8 ? html`<li class="soft">and ${count(changed.length - 8)} more</li>` : nothing}
    </ul>
  </section>`
}

// --- a list of instances, filtered ---

function listPanel(ctx) {
  const {params} = ctx
  const name = params.list
  const failed = name === 'failed' || name === 'running'
  return html`<p class="way"><a href=${link('graph')}>${icons.back}The plan in words</a></p>
    <h1>
      ${name ? html`Jobs: ${stateOf(name).word}` : params.code ? html`Jobs: ${codeWords(params.code)}` : 'All jobs'}
    </h1>
    ${instanceList(ctx, {
      state: failed || !name ? undefined : name,
      outcome: failed ? name : undefined,
      code: params.code,
    })}`
}
