// A reason as a sentence, with what was and what is: pictures, values, or lines of text.
import {html, nothing} from 'lit'
import {idLink, icons} from './basics.js'
import {bytes, inline, shortHash, withoutTrace} from '../format.js'
import {link} from '../router.js'

const CHANGES = {
  deleted: 'was deleted',
  changed: 'was changed by hand',
  unpublished: 'is not published there yet',
  unreadable: 'is no valid JSON object any more',
  lost: 'has lost its stored bytes',
  retyped: 'was made with another type or suffix',
  disowned: 'is not recognised by its action',
  running: 'is being made now',
}

// What a code says in a few words, for lists and headings. Codes that are not here are shown as they are.
export const CODES = {
  RETRY_PREVIOUS_FAILURE: 'failed last time',
  MISSING_OUTPUT: 'output is missing',
  INPUT_CHANGED: 'input changed',
  UPSTREAM_FAILED: 'waits for a job that failed',
  UPSTREAM_DIRTY: 'follows a job that will run',
  FORCED: 'forced',
}
export const codeWords = (code) => CODES[code] ?? code

export const isConsequence = (code) => code === 'UPSTREAM_DIRTY' || code === 'UPSTREAM_FAILED'

export function sentence(reason) {
  if (reason.more) return html`… and ${reason.more} more of the same.`
  switch (reason.code) {
    case 'RETRY_PREVIOUS_FAILURE':
      return html`It failed in
        <a href=${link('run', reason.run)}>${reason.run}</a
        >${reason.attempt > 1 ? html`, attempt ${reason.attempt}` : nothing}: <b>${reason.error_type}</b>.
        <span class="quote">${withoutTrace(reason.error)}</span>`
    case 'MISSING_OUTPUT':
      if (!reason.artifact) return html`It has not succeeded yet.`
      return reason.change
        ? html`${idLink(reason.artifact)}
          ${CHANGES[reason.change] ?? reason.change}${reason.path ? html`: <code>${reason.path}</code>` : nothing}.`
        : html`${idLink(reason.artifact)} was not made yet.`
    case 'INPUT_CHANGED':
      return inputSentence(reason)
    case 'UPSTREAM_FAILED':
      return html`It needs ${idLink(reason.artifact)}, and the job that makes it failed.`
    case 'UPSTREAM_DIRTY':
      return html`It reads what ${idLink(reason.job)} makes, and that job will run.`
    case 'FORCED':
      return html`You asked for it with <code>--force ${reason.by}</code>.`
    default:
      return html`${reason.text ?? ''}`
  }
}

function inputSentence({
  binding,
  source,
  old_source: was,
  old,
  new: now,
  problem,
  files,
  versions,
  old_as: oldAs,
  new_as: newAs,
  read,
  text,
}) {
  if (read) return observedSentence(read, source, text)
  if (problem) return html`<b>${binding}</b> cannot be computed: ${problem}`
  if (binding === 'action')
    return html`The code of its action
    changed${
      files?.length ? html`: ${files.map((file, at) => html`${at ? ', ' : ''}<code>${file}</code>`)}` : nothing
    }${versions?.length ? html` (${versions.join(', ')})` : nothing}.`
  if (!source && !was) return html`<b>${binding}</b>: ${old ? 'another list' : 'an empty list was added or removed'}.`
  if (!source) return html`It no longer reads ${idLink(was)} as <b>${binding}</b>.`
  const own = /\.(with|env)\./.exec(source) || source.endsWith('.action')
  const from = own
    ? nothing
    : html`It reads ${idLink(source)} as
        <b>${binding}</b>${was && was !== source ? html` instead of ${idLink(was)}` : nothing}`
  if (!old)
    return from === nothing ? html`The parameter <b>${binding}</b> was added.` : html`${from}, which it did not before.`
  if (old === now)
    return html`${from === nothing ? html`<b>${binding}</b>` : from}, in another form: ${oldAs ?? ''} →
    ${newAs ?? text}.`
  return own
    ? html`The parameter <b>${binding}</b> changed.`
    : html`${from}, and the content changed since its last success.`
}

// `observed ← helper.py  3fa1… → 9c02…`: a file that nothing declares, or a package.
function observedSentence(read, source, text) {
  const what = html`<code>${source}</code>`
  const how = html`(${text.slice(text.lastIndexOf('  ') + 2)})`
  return read === 'package'
    ? html`It imported another version of ${what} ${how}.`
    : read === 'folder'
      ? html`It lists the folder ${what} without declaring it, and other files are in it now ${how}.`
      : html`It reads ${what} without declaring it, and that file changed ${how}.`
}

// The same as what changed, in a heading.
export const observedName = ({read, source}, job) =>
  read === 'package'
    ? `the version of ${source}`
    : read === 'folder'
      ? `a folder that ${job} lists without declaring it, ${source},`
      : `a file that ${job} reads without declaring it, ${source},`

// One reason with its change, if there is one.
export function reasonCard(reason, {change, url, job, compact = false} = {}) {
  return html`<article
    class="reason code-${isConsequence(reason.code) ? 'follows' : 'own'}"
    data-code=${reason.code}
    data-id=${job ?? nothing}
  >
    <p class="code">${reason.code}</p>
    <p class="sentence">${sentence(reason)}</p>
    ${
      reason.read
        ? nothing
        : change
          ? changed(change, {url, compact})
          : reason.old_value !== undefined || reason.new_value !== undefined
            ? changed(
                {
                  old: {value: reason.old_value, sha256: reason.old},
                  new: {value: reason.new_value, sha256: reason.new},
                },
                {url, compact},
              )
            : reason.old || reason.new
              ? html`<p class="hashes">${hash(reason.old)}${icons.arrow}${hash(reason.new)}</p>`
              : nothing
    }
  </article>`
}

const hash = (sha) => html`<code title=${sha ?? ''}>${sha ? shortHash(sha) : 'nothing'}</code>`

export function changed(change, {url, compact = false} = {}) {
  const {old, diff, diff_more: more} = change
  const now = change.new && {...change.new, kept: undefined} // only of the old content it matters whether it is kept
  const path = change.path ?? now?.path ?? old?.path
  if (diff?.length)
    return html`${path ? html`<p class="soft path">${path}</p>` : nothing}${textDiff(diff, more, compact ? 6 : 400)}`
  if (isPicture(old) || isPicture(now)) {
    return html`<div class="then-now">
      ${pictured(old, url, old?.run ?? 'before')}<span class="to">${icons.arrow}</span>${pictured(now, url, 'now')}
      <p class="soft path">
        ${path ?? nothing}${old?.size && now?.size ? html`<br />${bytes(old.size)} → ${bytes(now.size)}` : nothing}${
          change.summary ? html`<br />${change.summary}` : nothing
        }
      </p>
    </div>`
  }
  if (hasValue(old) || hasValue(now)) {
    return html`<div class="values">
      <span class="was">${hasValue(old) ? inline(old.value, compact ? 80 : 400) : side(old)}</span>
      <span class="to">${icons.arrow}</span
      ><span class="is">${hasValue(now) ? inline(now.value, compact ? 80 : 400) : side(now)}</span>
    </div>`
  }
  return html`<div class="values">
    <span class="was">${side(old)}</span><span class="to">${icons.arrow}</span
    ><span class="is">${side(now)}</span> ${path ? html`<span class="soft path">${path}</span>` : nothing}
  </div>`
}

const hasValue = (one) => one && 'value' in one && one.value !== undefined
const isPicture = (one) => one && (one.kind === 'image' || one.kind === 'svg') && one.href

function side(one) {
  if (!one) return html`<span class="soft">nothing</span>`
  return html`<code title=${one.sha256 ?? ''}>${shortHash(one.sha256)}</code
    >${one.size !== undefined ? html` <span class="soft">${bytes(one.size)}</span>` : nothing}
    ${one.kept === false ? html`<span class="soft">old content not kept</span>` : nothing}`
}

function pictured(one, url, label) {
  const src = isPicture(one) ? url(one.href, one.sha256) : null
  return html`<figure class="pictured">
    ${
      src
        ? html`<img src=${src} alt="${label}: ${one.sha256 ? shortHash(one.sha256) : ''}" decoding="async" />`
        : html`<span class="no-picture"
            >${
              one?.kept === false ? 'old content not kept' : one ? shortHash(one.sha256) || 'not here' : 'nothing'
            }</span
          >`
    }
    <figcaption>
      ${label}${one?.sha256 ? html` · <code>${shortHash(one.sha256).slice(0, 4)}…</code>` : nothing}
    </figcaption>
  </figure>`
}

const MARKS = {'+': 'added', '-': 'removed', '@': 'hunk'}

export function textDiff(lines, more = 0, most = 400) {
  return html`<div class="diff" role="table" aria-label="Changed lines">
    ${lines
      .slice(0, most)
      .map(
        ([mark, text]) =>
          html`<div role="row" class=${MARKS[mark] ?? 'same'}>
            <span role="cell" class="mark">${mark === '@' ? '' : mark}</span
            ><span role="cell">${mark === '@' ? text.replace(/^@@ .*\+(\d+).*@@/, 'line $1') : text}</span>
          </div>`,
      )}
    ${
      more || lines.length > most
        ? html`<div role="row">
            <span role="cell" class="soft">… ${more + Math.max(lines.length - most, 0)} more lines</span>
          </div>`
        : nothing
    }
  </div>`
}
