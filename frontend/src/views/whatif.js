// What would run if …: an input changed, a job forced, only a target, only some layers. It touches nothing.
import {html, nothing} from 'lit'
import {answer, command, empty, facts, idText, counts, bar} from '../parts/basics.js'
import '../graph/element.js'
import {count, duration, plural} from '../format.js'
import {link} from '../router.js'
import {glyph, lettersOf} from '../states.js'
import {codeWords} from '../parts/reasons.js'

const LISTED = 40

export function whatIfView(ctx) {
  if (!ctx.live)
    return html`<h1>What if</h1>
      ${empty('A report answers no new questions.', 'whyrun view does.')}`
  const asked = read(ctx.params)
  const any = asked.assume.length || asked.force.length || asked.target.length || asked.up
  const graph = ctx.read('graph').value
  const found = any ? ctx.read('whatif', asked) : null
  const overlay = found?.value?.states && graph ? overlayOf(found.value.states, graph) : null
  return html`<h1>What if</h1>
    <p class="soft">See what would run before you change anything. Nothing is executed, and nothing is written.</p>
    <div class="whatif wide">
      <div class="questions">${inputs(ctx, graph, asked)}${jobs(ctx, graph, asked, any)}</div>
      <div class="answers">
        ${
          found
            ? answer(found, (value) => outcome(ctx, value))
            : empty(
                'Choose what to try.',
                'Mark an input as changed, or give it another value. Or force a job: then it runs although it is up to date.',
              )
        }
        ${
          graph && overlay
            ? html`<div class="canvas inset">
                <wr-graph .graph=${graph} .overlay=${overlay} .url=${ctx.url}></wr-graph>
              </div>`
            : nothing
        }
        ${found?.value ? list(found.value) : nothing}${command(
          ctx.command(found ? found.value?.command : ctx.state.explain),
        )}
      </div>
    </div>`
}

// In the address: ?assume=Input:X=changed&force=Job:Y, lists as JSON, so that a shared link shows the same.
function read(params) {
  const list = (name) => {
    try {
      const found = JSON.parse(params[name] ?? '[]')
      return Array.isArray(found) ? found.map(String) : []
    } catch {
      return params[name] ? [params[name]] : []
    }
  }
  return {assume: list('assume'), force: list('force'), target: list('target'), up: params.up}
}

function go(asked) {
  const params = {up: asked.up}
  for (const name of ['assume', 'force', 'target']) if (asked[name].length) params[name] = JSON.stringify(asked[name])
  location.hash = link('whatif', params)
}

function inputs(ctx, graph, asked) {
  if (!graph?.inputs?.length) return nothing
  const set = (id, value) => {
    const rest = asked.assume.filter((one) => !one.startsWith(`${id}=`))
    go({...asked, assume: value === null ? rest : [...rest, `${id}=${value}`]})
  }
  return html`<fieldset>
    <legend>Inputs</legend>
    ${graph.inputs.slice(0, 60).map((input) => {
      const now = asked.assume.find((one) => one.startsWith(`${input.id}=`))?.slice(input.id.length + 1)
      const value = 'value' in input && input.value !== undefined
      return html`<div class="question" data-id=${input.id}>
        <label
          ><input
            type="checkbox"
            .checked=${now !== undefined}
            @change=${(event) => set(input.id, event.target.checked ? 'changed' : null)}
          /><span class="id">${idText(input.id, {kind: false})}</span></label
        >
        ${
          value
            ? html`<input
                type="text"
                class="literal"
                aria-label="Value of ${input.id}"
                placeholder=${JSON.stringify(input.value).slice(0, 40)}
                .value=${now !== undefined && now !== 'changed' ? now : ''}
                @change=${(event) => set(input.id, event.target.value === '' ? null : event.target.value)}
              />`
            : html`<span class="soft"
                >${input.elements !== undefined ? plural(input.elements, elementOf(input.type)) : input.type}</span
              >`
        }
      </div>`
    })}
  </fieldset>`
}

const elementOf = (type) =>
  /^(file|image)\b/.test(type) ? 'file' : type.startsWith('directory') ? 'folder' : 'element'

function jobs(ctx, graph, asked, any) {
  if (!graph?.nodes?.length) return nothing
  const toggle = (name, id) =>
    go({...asked, [name]: asked[name].includes(id) ? asked[name].filter((one) => one !== id) : [...asked[name], id]})
  return html`<fieldset>
      <legend>Jobs</legend>
      ${graph.nodes.slice(0, 80).map(
        (node) =>
          html`<div class="question" data-id=${node.pattern}>
            <span class="id">${idText(node.job)}</span
            ><span class="picks">
              <label
                ><input
                  type="checkbox"
                  .checked=${asked.force.includes(node.pattern)}
                  @change=${() => toggle('force', node.pattern)}
                />force</label
              >
              <label
                ><input
                  type="checkbox"
                  .checked=${asked.target.includes(node.pattern)}
                  @change=${() => toggle('target', node.pattern)}
                />only this</label
              ></span
            >
          </div>`,
      )}
    </fieldset>
    <fieldset>
      <legend>How far</legend>
      <div class="question last">
        <label for="up">Only the first layers</label
        ><input
          id="up"
          type="number"
          min="1"
          class="literal"
          placeholder="all"
          .value=${asked.up ?? ''}
          @change=${(event) => go({...asked, up: event.target.value || undefined})}
        />
      </div>
      ${
        any
          ? html`<button type="button" class="button" @click=${() => go({assume: [], force: [], target: []})}>
              Clear
            </button>`
          : nothing
      }
    </fieldset>`
}

// A character an instance, as counts; jobs that are not listed are as they are now.
function overlayOf(states, {nodes}) {
  const found = {}
  for (const node of nodes) {
    found[node.job] = states[node.job] ? lettersOf(states[node.job]) : node.states
  }
  return found
}

function outcome(ctx, value) {
  const {totals} = value
  const now = ctx.state.totals
  const states = {
    planned: totals.planned,
    reused: totals.reused,
    deferred: totals.deferred,
    inactive: totals.inactive,
    clean: totals.clean,
  }
  const more = totals.planned - (now?.planned ?? 0)
  return html`<section class="verdict-box" data-same=${value.same_as_now ? 'true' : 'false'}>
    <h2 class="plain-head">
      ${
        value.same_as_now
          ? 'Nothing else than now'
          : `${count(totals.planned)} of ${plural(totals.jobs, 'job')} would run`
      }
    </h2>
    <p class="soft">
      ${
        value.same_as_now
          ? nothing
          : more > 0
            ? `${count(more)} more than now`
            : more < 0
              ? `${count(-more)} fewer than now`
              : 'as many as now'
      }${value.estimate === null || value.estimate === undefined ? nothing : ` · about ${duration(value.estimate)}`}
    </p>
    ${bar(states)} ${counts(states)}
    ${
      value.assuming?.length
        ? facts([['assumed', html`${value.assuming.map((line) => html`<code class="line-block">${line}</code>`)}`]])
        : nothing
    }${(value.notes ?? []).map((note) => html`<p class="soft">${note}</p>`)}
  </section>`
}

function list({answer: {layers = []} = {}}) {
  const rows = layers.flatMap((layer) => layer.jobs)
  if (!rows.length) return nothing
  return html`<ul class="instances">
      ${rows.slice(0, LISTED).map(
        (job) =>
          html`<li data-id=${job.id} data-code=${job.reasons?.[0]?.code ?? nothing}>
            <span class="mark">${glyph(job.reuse ? 'reused' : 'planned')}</span
            ><span class="row-main"
              ><a class="id" href=${link('why', job.id)}>${idText(job.id, {kind: false})}</a>
              <span class="row-text"
                ><b>${codeWords(job.reasons?.[0]?.code ?? '')}</b> ${job.reasons?.[0]?.text ?? ''}</span
              ></span
            ><span></span>
          </li>`,
      )}
    </ul>
    ${rows.length > LISTED ? html`<p class="soft">and ${count(rows.length - LISTED)} more</p>` : nothing}`
}
