// Why: the reasons of one job, the way back to the cause, what follows, and what stayed the same.
import {html, nothing} from 'lit'
import {answer, command, empty, facts, icons, idLink, idText, section, state as stateChip} from '../parts/basics.js'
import {failureCard} from '../parts/failure.js'
import {changed, codeWords, reasonCard} from '../parts/reasons.js'
import {count, duration, idOf, idParts, inline, plural, shortHash} from '../format.js'
import {glyph, stateOf} from '../states.js'
import {textsOf} from '../report_requests.js'
import {link} from '../router.js'

export function whyPanel(ctx, id) {
  const why = ctx.read('why', {id, at: ctx.params.at})
  return html`${way(ctx, id)}${answer(why, (value) =>
    value.answer?.readers ? inputPanel(ctx, value) : jobPanel(ctx, value),
  )}`
}

// Back to the plan or the job, and to the instances beside this one.
function way(ctx, id) {
  const {name, index, kind} = idParts(id)
  const node = ctx.read('graph').value?.nodes.find((one) => one.job === name)
  const looped = kind === 'Job' && index && node?.count > 1
  const cells = looped ? ctx.read('cells', {job: name}).value : null
  const texts = cells && textsOf(cells)
  const at = texts?.findIndex((text) => idOf(name, text) === id) ?? -1
  const to = (step) => (texts?.[at + step] !== undefined && at >= 0 ? link('why', idOf(name, texts[at + step])) : null)
  return html`<p class="way">
    ${
      ctx.params.at
        ? html`<a href=${link('plan', ctx.params.at)}>${icons.back}The plan of ${ctx.params.at}</a>`
        : html`<a href=${looped ? link('why', node.pattern) : link('graph')}
            >${icons.back}${looped ? `All ${name}` : 'The plan in words'}</a
          >`
    }
    ${
      looped
        ? html`<span class="steps">${stepTo(to(-1), 'before', icons.back)}${stepTo(to(1), 'after', icons.on)}</span>`
        : nothing
    }
  </p>`
}
const stepTo = (href, name, icon) =>
  html`<a
    class="step"
    data-step=${name}
    aria-label="The instance ${name}"
    aria-disabled=${href ? nothing : 'true'}
    href=${href ?? nothing}
    >${icon}</a
  >`

function jobPanel(ctx, value) {
  const own =
    value.answer?.jobs?.find((one) => one.id === (value.answer.job ?? value.id)) ?? value.answer?.jobs?.[0] ?? {}
  const job = value.job ?? {}
  const reasons = own.reasons ?? value.explain?.reasons ?? []
  const state = own.state ?? value.explain?.state ?? 'clean'
  const outcome = job.latest_attempt?.status
  const took = job.latest_attempt?.duration
  return html`<article class="why" data-id=${own.id ?? value.id} data-state=${state}>
    <p class="chips">
      ${stateChip(state)}${
        outcome && outcome.toLowerCase() !== 'succeeded'
          ? stateChip(outcome, {words: `last time: ${stateOf(outcome).word}`})
          : nothing
      }
    </p>
    <h1 class="id-title">${idText(own.id ?? value.id)}</h1>
    <p class="soft">
      ${job.action}${job.layer !== undefined ? ` · layer ${job.layer}` : ''}${
        took ? ` · took ${duration(took)} last time` : ''
      }
    </p>
    ${value.failure ? failureCard(value.failure, {id: own.id, open: true}) : nothing}
    ${
      reasons.length
        ? html`<div class="reasons" role="list" aria-label="Reasons">
            ${reasons.map(
              (reason, at) =>
                html`<div role="listitem">
                  ${reasonCard(reason, {
                    change: value.changes?.find((one) => one.reason === at),
                    url: ctx.url,
                    job: own.id,
                  })}
                </div>`,
            )}
          </div>`
        : nothing
    }
    ${state === 'clean' ? clean(own, job) : nothing} ${own.because ? because(own.because) : nothing}
    ${
      own.reuse || value.explain?.reuse
        ? html`<p>
            An earlier result with the same content is taken from
            <a href=${link('run', own.reuse ?? value.explain.reuse)}>${own.reuse ?? value.explain.reuse}</a>, so it does
            not run.
          </p>`
        : nothing
    }
    ${
      value.explain?.conditional || own.conditional
        ? html`<p class="note">Its condition is decided during the run, so it may turn out inactive.</p>`
        : nothing
    }
    ${chain(value, own)} ${state === 'clean' ? nothing : same(job, reasons)} ${outputs(ctx, job)}
    ${command(ctx.command(value.command))}
  </article>`
}

function clean(own, job) {
  const {last_success: last} = own
  return html`<p class="verdict">
      ${
        last
          ? html`Nothing that it reads has changed since
              <a href=${link('run', last.run)}>${last.run}</a>${last.how === 'executed' ? '' : ` (${last.how})`}, and
              its outputs are there.`
          : 'Nothing that it reads has changed.'
      }
    </p>
    ${
      own.compared?.length
        ? section('What is the same', compared(own.compared))
        : job.bindings
          ? same(job, [])
          : nothing
    }`
}

const compared = (entries) =>
  html`<dl class="facts same">
    ${entries.slice(0, 40).map(
      (entry) =>
        html`<div>
          <dt>${entry.name}</dt>
          <dd>
            ${'value' in entry ? inline(entry.value) : nothing}
            ${entry.id && !/\.(with|env|action)/.test(entry.id) ? idLink(entry.id) : nothing}
            <code class="soft" title=${entry.sha256 ?? ''}>${shortHash(entry.sha256)}</code>
          </dd>
        </div>`,
    )}
    ${
      entries.length > 40
        ? html`<div>
            <dt></dt>
            <dd class="soft">and ${entries.length - 40} more</dd>
          </div>`
        : nothing
    }
  </dl>`

function because({condition, inputs, source}) {
  return html`<article class="reason code-own" data-code="condition_false">
    <p class="code">${condition ? 'condition_false' : 'source_inactive'}</p>
    ${
      condition
        ? html`<p class="sentence">It does not run, because its condition is false:</p>
            <p class="condition"><code>${condition}</code></p>`
        : html`<p class="sentence">It does not run, because what it reads is inactive.</p>`
    }
    ${Object.entries(inputs ?? {}).map(([id, it]) => html`<p>${idLink(id)} is <code>${inline(it)}</code>.</p>`)}
    ${source ? html`<p>${idLink(source)}</p>` : nothing}
  </article>`
}

// From the root cause down to this job, and on to what it makes run.
function chain(value, own) {
  const links = [...(value.chain ?? [])].reverse()
  const later = own.state === 'clean' ? null : value.consequences // nothing runs because of a job that does not
  const more = value.answer?.more ?? 0
  const roots = (value.roots ?? value.answer?.roots ?? []).filter((id) => id !== own.id)
  if (links.length < 2 && !later?.count) return nothing
  const first = links[0]
  const change = links.length === 1 ? value.changes?.find((one) => one.reason === 0) : null
  const source = change?.path ?? change?.new?.path ?? change?.old?.path
  const rootChange = first?.path ?? source
  return section(
    !later?.count
      ? 'Back to the cause'
      : links.length > 1 || rootChange
        ? 'From the cause to what follows'
        : 'What follows',
    html`<ol class="chain">
        ${
          rootChange
            ? html`<li class="root">
                <span><b>${rootChange}</b> changed</span>
              </li>`
            : nothing
        }
        ${links.map(
          (one, at) =>
            html`<li
              class=${one.id === own.id ? 'here' : at === 0 ? 'root' : ''}
              data-id=${one.id}
              data-code=${one.code ?? nothing}
            >
              <span
                >${at || rootChange ? 'so ' : nothing}${
                  one.id === own.id ? html`<b>${idText(one.id)}</b>` : idLink(one.id)
                }
                ${verb(one.state)}${
                  one.code && !at && !rootChange ? html`<span class="soft">: ${codeWords(one.code)}</span>` : nothing
                }</span
              >
            </li>`,
        )}
        ${later?.count ? followers(later) : nothing}
        ${
          later?.count
            ? html`<li class="stop">
                <span class="soft"
                  >If what it makes comes out the same, ${later.count === 1 ? 'that job is' : 'those jobs are'}
                  skipped.</span
                >
              </li>`
            : nothing
        }
      </ol>
      ${
        roots.length > 1
          ? html`<p class="soft">
              ${plural(roots.length, 'cause')}:
              ${roots
                .slice(0, 6)
                .map((id, at) => html`${at ? ', ' : ''}${idLink(id, {kind: false})}`)}${roots.length > 6 ? ' …' : ''}
            </p>`
          : nothing
      }
      ${more ? html`<p class="soft">and ${plural(more, 'more job')} on the way</p>` : nothing}`,
  )
}
// One job, or the first of many in one line: they follow from this job, not from each other.
function followers({count: n, first = []}) {
  const shown = first.slice(0, 6)
  if (n === 1 && shown.length)
    return html`<li data-id=${shown[0].id ?? shown[0]}>
      <span>so ${idLink(shown[0].id ?? shown[0])} ${verb(shown[0].state)}</span>
    </li>`
  return html`<li>
    <span
      >so ${plural(n, 'more job')}
      ${n === 1 ? 'follows' : 'follow'}${shown.length ? ': ' : nothing}${shown.map(
        (one, at) => html`${at ? ', ' : ''}${idLink(one.id ?? one, {kind: false})}`,
      )}${n > shown.length && shown.length ? ` and ${count(n - shown.length)} more` : ''}</span
    >
  </li>`
}

const verb = (state) =>
  ({
    planned: 'runs',
    reused: 'takes an earlier result',
    deferred: 'is deferred',
    inactive: 'is inactive',
    clean: 'is up to date',
  })[state] ?? 'runs'

// What did not change: so people see how little did.
function same(job, reasons) {
  const named = new Set(reasons.map((reason) => reason.binding).filter(Boolean))
  const entries = [
    ...Object.entries(job.bindings ?? {}).map(([name, source]) => [name, [source].flat()]),
    ...Object.entries(job.parameters ?? {}),
    ...(job.observed ?? [])
      .filter((read) => !read.now)
      .map(({path, kind, sha256}) => [path, null, sha256 ? html`<code>${shortHash(sha256)}</code>` : kind]),
  ].filter(([name]) => !named.has(name))
  if (!entries.length) return nothing
  return section(
    'What else it reads',
    html`<dl class="facts same">
      ${entries.slice(0, 30).map(
        ([name, it, shown]) =>
          html`<div>
            <dt>${name}</dt>
            <dd>
              ${
                shown
                  ? shown
                  : Array.isArray(it) &&
                      it.every((one) => typeof one === 'string' && /^(Input|Artifact|Job):/.test(one))
                    ? html`${it.slice(0, 6).map((one, at) => html`${at ? ', ' : ''}${idLink(one)}`)}${
                        it.length > 6 ? ` and ${it.length - 6} more` : ''
                      }`
                    : it && typeof it === 'object' && 'count' in it
                      ? `${it.count} elements`
                      : inline(it)
              }
            </dd>
          </div>`,
      )}
    </dl>`,
  )
}

function outputs(ctx, job) {
  if (!job.outputs?.length) return nothing
  return section(
    'What it makes',
    html`<ul class="made">
        ${job.outputs.slice(0, 24).map((output) => {
          const picture = output.type === 'image' && output.sha256 ? ctx.url(`blob/${output.sha256}`) : null
          return html`<li>
            ${
              picture
                ? html`<a href=${link('artifact', output.id)}
                    ><img src=${picture} alt=${output.id} loading="lazy" decoding="async"
                  /></a>`
                : nothing
            }
            <span
              >${idLink(output.id)}
              <span class="soft"
                >${output.state === 'available' ? output.run : output.state}${
                  'value' in output ? html` · ${inline(output.value, 60)}` : nothing
                }</span
              ></span
            >
          </li>`
        })}
      </ul>
      ${job.outputs.length > 24 ? html`<p class="soft">and ${job.outputs.length - 24} more</p>` : nothing}`,
  )
}

function inputPanel(ctx, value) {
  const {changed: news = [], readers = []} = value.answer ?? {}
  const reader = news.length && readers.find((one) => one.reason === 'INPUT_CHANGED')
  const told = reader ? ctx.read('why', {id: reader.job}).value?.changes : null
  const changes = value.changes?.length ? value.changes : (told ?? []).filter((change) => change.id === value.id)
  return html`<article class="why" data-id=${value.id}>
    <h1 class="id-title">${idText(value.id)}</h1>
    <p class="verdict">
      ${news.length ? 'It has changed since it was last read.' : 'It has not changed since it was last read.'}
    </p>
    ${changes.map((change) => changed(change, {url: ctx.url}))}
    ${readers.length ? section('Who reads it', readerList(readers)) : empty('No job reads it.')}
    ${facts([['jobs that would run if it changed', value.answer?.would_run?.length || nothing]])}
    ${command(ctx.command(value.command))}
  </article>`
}

const readerList = (readers) =>
  html`<ul class="jobs">
    ${readers.slice(0, 100).map(
      (reader) =>
        html`<li data-id=${reader.job} data-code=${reader.reason ?? nothing}>
          ${glyph(reader.state)}${idLink(reader.job)}
          <span class="soft">${reader.reason ? codeWords(reader.reason) : nothing}</span>
        </li>`,
    )}
  </ul>`
