// Small pieces that every view uses: links of IDs, state chips, the command with its copy button, empty places.
import {html, nothing, svg} from 'lit'
import {linkTo} from '../router.js'
import {glyph, rank, stateOf} from '../states.js'
import {count, idParts} from '../format.js'

// Long IDs break at dots, brackets and slashes, and keep their kind in a lighter tone.
export function idText(id, {kind = true} = {}) {
  const parts = idParts(id)
  const pieces = id.slice(parts.kind ? parts.kind.length + 1 : 0).split(/(?<=[./\]])(?=.)/)
  return html`${kind && parts.kind ? html`<span class="kind">${parts.kind}:</span>` : nothing}${pieces.map(
    (piece, at) => html`${at ? html`<wbr />` : nothing}${piece}`,
  )}`
}

export const idLink = (id, {kind = true, href} = {}) =>
  html`<a class="id" href=${href ?? linkTo(id)} data-id=${id} title=${id}>${idText(id, {kind})}</a>`

export const state = (name, {words} = {}) =>
  html`<span class="chip tone-${stateOf(name).tone}" data-state=${name} title=${stateOf(name).means ?? nothing}
    >${glyph(name)}<span>${words ?? stateOf(name).word}</span></span
  >`

// [['planned', 2], …] as a bar. The numbers stand in its label.
export function bar(states, {label = true} = {}) {
  const entries = sorted(states)
  const total = entries.reduce((sum, [, n]) => sum + n, 0)
  if (!total) return nothing
  const text = entries.map(([name, n]) => `${count(n)} ${stateOf(name).word}`).join(', ')
  let x = 0
  return html`<svg
    class="bar"
    viewBox="0 0 100 4"
    preserveAspectRatio="none"
    role=${label ? 'img' : nothing}
    aria-label=${label ? text : nothing}
    aria-hidden=${label ? nothing : 'true'}
  >
    ${entries.map(([name, n]) => {
      const width = (n / total) * 100
      const from = x
      x += width
      return piece(from, width, stateOf(name).tone)
    })}
  </svg>`
}

const piece = (
  from,
  width,
  tone,
) => svg`<rect x=${from + (from ? 0.4 : 0)} y="0" width=${Math.max(width - (from ? 0.4 : 0), 0.6)}
  height="4" class="fill-${tone}"></rect>`

export const sorted = (states) =>
  Object.entries(states ?? {})
    .filter(([, n]) => n > 0)
    .sort(([a], [b]) => rank(a) - rank(b))

// {planned: 2, …} in words, with the shapes; programs read the counts.
export const counts = (states) =>
  html`<p class="said-line">
    ${sorted(states).map(
      ([name, n]) =>
        html`<span class="said tone-${stateOf(name).tone}" data-total=${name} data-count=${n}>
          ${glyph(name)}${count(n)} ${stateOf(name).word}
        </span>`,
    )}
  </p>`

const SAFE = /^[\w@%+=:,./~-]+$/
export const shellQuote = (word) => (SAFE.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)
export const commandText = (command) => (Array.isArray(command) ? command.map(shellQuote).join(' ') : command)

// The command that gives the same answer, with a copy button.
export function command(words, {note = 'The same in a terminal'} = {}) {
  if (!words || !words.length) return nothing
  const text = commandText(words)
  return html`<figure class="command">
    <figcaption>${note}</figcaption>
    <div class="command-line"><code>${whole(text)}</code>${copy(text, 'Copy the command')}</div>
  </figure>`
}

// A short word is not broken: the hyphens of `--json` are none.
const whole = (text) =>
  text.split(/( )/).map((word) => (word.length < 24 && word !== ' ' ? html`<span class="word">${word}</span>` : word))

export const copy = (text, label = 'Copy') =>
  html`<button
    class="copy"
    type="button"
    aria-label=${label}
    title=${label}
    @click=${(event) => toClipboard(event.currentTarget, text)}
  >
    ${icons.copy}<span class="copied" aria-live="polite"></span>
  </button>`

async function toClipboard(button, text) {
  const said = button.querySelector('.copied')
  try {
    await navigator.clipboard.writeText(typeof text === 'function' ? text() : text)
    said.textContent = 'Copied'
  } catch (error) {
    said.textContent = 'Select and copy by hand'
    console.warn(error)
  }
  setTimeout(() => {
    said.textContent = ''
  }, 1600)
}

export const empty = (title, body = '') =>
  html`<div class="empty">
    <p class="empty-title">${title}</p>
    ${body ? html`<p>${body}</p>` : nothing}
  </div>`
export const waiting = () =>
  html`<div class="waiting" role="status" aria-label="Loading"><span></span><span></span><span></span></div>`

// What a request answers: the template of its value, three grey lines while it loads, or what went wrong.
export function answer({value, error}, render, {loading = waiting} = {}) {
  if (error) return problem(error)
  return value === undefined ? loading() : render(value)
}

// `Names` in messages as code.
export const ticked = (text) =>
  String(text)
    .split('`')
    .map((part, at, all) => (at % 2 && all.length % 2 ? html`<code>${part}</code>` : part))

export const problem = (error) =>
  html`<div class="problem" role="alert" data-code=${error.code ?? 'ERROR'}>
    ${error.code ? html`<p class="code">${error.code}</p>` : nothing}
    <p>${ticked(error.message ?? String(error))}</p>
    ${error.hint ? html`<p class="soft">${ticked(error.hint)}</p>` : nothing}
  </div>`

export const facts = (pairs) =>
  html`<dl class="facts">
    ${pairs
      .filter(([, value]) => value !== undefined && value !== null && value !== '' && value !== nothing)
      .map(
        ([name, value]) =>
          html`<div>
            <dt>${name}</dt>
            <dd>${value}</dd>
          </div>`,
      )}
  </dl>`

export const section = (title, body, {aside = nothing, id = nothing} = {}) =>
  html`<section class="section" id=${id}>
    <h2><span>${title}</span>${aside}</h2>
    ${body}
  </section>`

const icon = (d) =>
  svg`<svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true"><path d=${d}></path></svg>`
export const icons = {
  copy: icon('M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8Z'),
  search: icon('M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9ZM10.3 10.3l3.4 3.4'),
  back: icon('M9.5 3 4.5 8l5 5'),
  on: icon('M6.5 3l5 5-5 5'),
  close: icon('M4 4l8 8M12 4l-8 8'),
  plus: icon('M8 3v10M3 8h10'),
  minus: icon('M3 8h10'),
  fit: icon('M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10'),
  theme: icon('M8 2a6 6 0 1 0 0 12ZM8 2a6 6 0 0 1 0 12'),
  arrow: icon('M2.5 8h11M9.5 4l4 4-4 4'),
  help: icon('M6 6a2 2 0 1 1 2.8 1.8c-.5.3-.8.7-.8 1.4M8 11.5v.6'),
}
