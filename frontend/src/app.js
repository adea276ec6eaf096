// The frame of the page: what will run, in one line; the views; search; keys; and the view that the address names.
import {LitElement, html, nothing} from 'lit'
import {Data} from './data.js'
import {chooseSource} from './sources.js'
import {listen} from './live.js'
import {link, parse} from './router.js'
import {icons, problem, state as stateChip, ticked, waiting} from './parts/basics.js'
import {search} from './parts/search.js'
import {help} from './parts/help.js'
import {compact, count, duration} from './format.js'
import {inThePast, shapePath, stateOf} from './states.js'
import {views} from './views/index.js'
import {pressed} from './keys.js'

const TABS = [
  ['graph', 'Graph', 'jobs'],
  ['artifacts', 'Artifacts', 'artifacts'],
  ['results', 'Results'],
  ['runs', 'Runs', 'runs'],
  ['whatif', 'What if'],
  ['diff', 'Compare'],
  ['lineage', 'Lineage'],
  ['datasets', 'Datasets', 'datasets'],
]
const UNDER = {why: 'graph', plan: 'graph', artifact: 'artifacts', run: 'runs', unknown: ''}
// Views that need a plan. An invalid workflow has a history, but no plan.
const PLANNED = new Set(['graph', 'why', 'artifacts', 'artifact', 'results', 'whatif', 'lineage', 'diff', 'plan'])
const LIVE_ONLY = new Set(['whatif'])

export class App extends LitElement {
  static properties = {route: {state: true}, ui: {state: true}, tick: {state: true}}

  createRenderRoot() {
    return this
  }

  constructor() {
    super()
    const {config, source} = chooseSource()
    this.config = config
    this.source = source
    this.data = new Data(source)
    this.data.addEventListener('change', () => this.requestUpdate())
    this.route = parse(location.hash)
    this.ui = {query: '', searching: false, active: 0, help: false, lost: false, lines: []}
    this.theme = remembered('theme')
    if (this.theme) document.documentElement.dataset.theme = this.theme
  }

  connectedCallback() {
    super.connectedCallback()
    addEventListener('hashchange', () => this.moved())
    addEventListener('keydown', (event) => pressed(event, this))
    if (this.config.live) listen(this.config.live, this.data, (message) => this.heard(message))
    setInterval(() => {
      this.tick = Date.now()
    }, 30_000)
    setInterval(() => {
      if (this.route.view === 'run' && this.read('state').value?.unfinished?.state === 'running') this.tick = Date.now()
    }, 1000)
  }

  moved() {
    const before = this.route
    this.route = parse(location.hash)
    this.ui = {...this.ui, searching: false}
    if (before.view === this.route.view && before.args.join() === this.route.args.join()) return
    this.updateComplete.then(() => {
      const main = this.querySelector('#main')
      if (!graphic(before.view) || !graphic(this.route.view)) main?.focus({preventScroll: true})
      main?.querySelector('.panel')?.scrollTo(0, 0)
      if (!graphic(this.route.view)) scrollTo(0, 0)
    })
  }

  heard(message) {
    if (message.type === 'lost' || message.type === 'open')
      this.ui = {...this.ui, lost: message.type === 'lost', connected: message.type === 'open'}
    if (message.type === 'log') this.ui = {...this.ui, lines: [...this.ui.lines.slice(-499), message]}
    if (message.type === 'reset') this.ui = {...this.ui, lines: []}
  }

  // On a narrow screen the tabs and the runs go off the side: the current one is brought into sight.
  updated() {
    const dialog = this.querySelector('dialog.help') // it can open only where it stands in the page
    if (dialog && !dialog.open) dialog.showModal()
    // The runs arrive after the tabs, and more of them while the page is open.
    const current = this.querySelectorAll('.tabs [aria-current], .stops [aria-current]')
    const sighted = [location.hash, current.length, this.querySelectorAll('.stops li').length].join(' ')
    if (this.sighted === sighted) return
    this.sighted = sighted
    for (const one of current) {
      const row = one.closest('.tabs, .stops')
      const [a, b] = [row.getBoundingClientRect(), one.getBoundingClientRect()]
      if (b.left < a.left || b.right > a.right - 24) row.scrollLeft += b.left - a.left - 48
    }
  }

  // Resolves once everything that the view shows has arrived and is drawn: for tests and for screenshots.
  async settled() {
    do {
      await new Promise((resolve) => requestAnimationFrame(resolve))
      await this.updateComplete
    } while (
      this.data.pending ||
      this.querySelector('.laying-out') ||
      [...this.querySelectorAll('img')].some((image) => !image.complete && image.loading !== 'lazy')
    )
  }

  read(name, params) {
    return this.data.read(name, params)
  }

  setTheme() {
    const dark = matchMedia('(prefers-color-scheme: dark)').matches
    const now = this.theme ?? (dark ? 'dark' : 'light')
    this.theme = now === 'dark' ? 'light' : 'dark'
    document.documentElement.dataset.theme = this.theme
    remember('theme', this.theme)
    dispatchEvent(new Event('whyrun-theme'))
    this.requestUpdate()
  }

  render() {
    const state = this.read('state')
    const {view} = this.route
    if (graphic(view)) this.read('graph') // with the first request, not after its answer
    const ctx = {
      app: this,
      route: this.route,
      params: this.route.params,
      state: state.value,
      live: this.source.live,
      ui: this.ui,
      read: (name, params) => this.read(name, params),
      url: (href, sha256) => this.source.url(href, sha256),
      command: (words) => known(words, state.value),
    }
    const show = views[view] ?? views.unknown
    if (state.value?.at) inThePast()
    icon(state.value)
    document.title = [title(this.route), state.value?.workflow ?? 'Whyrun'].filter(Boolean).join(' · ')
    return html`${this.header(state.value)}${this.tabs(state.value)}
      <main
        id="main"
        tabindex="-1"
        class="view-${view} ${graphic(view) && (!state.value || state.value.totals) ? 'graphic' : 'page'}"
      >
        ${this.notices(state.value)}
        ${
          state.error
            ? problem(state.error)
            : !state.value
              ? waiting()
              : !state.value.totals && PLANNED.has(view)
                ? withoutPlan(ctx)
                : show(ctx)
        }
      </main>
      ${
        this.ui.help
          ? help(() => {
              this.ui = {...this.ui, help: false}
            })
          : nothing
      }`
  }

  header(state) {
    return html`<header class="top">
      <a
        class="skip"
        href=${location.hash || '#/graph'}
        @click=${(event) => {
          event.preventDefault()
          this.querySelector('#main').focus()
        }}
        >To the content</a
      >
      <a class="brand" href="#/graph"
        ><b>${state?.title ?? state?.workflow ?? 'Whyrun'}</b
        >${state?.at ? html`<span class="soft">as of ${state.at}</span>` : nothing}</a
      >
      <div class="headline" data-headline>${state ? headline(state) : nothing}</div>
      ${search(this)}
      <button
        type="button"
        class="plain"
        @click=${() => this.setTheme()}
        aria-label="Light or dark"
        title="Light or dark (t)"
      >
        ${icons.theme}
      </button>
      <button
        type="button"
        class="plain"
        @click=${() => {
          this.ui = {...this.ui, help: true}
        }}
        aria-label="Keys"
        title="Keys (?)"
      >
        ${icons.help}
      </button>
    </header>`
  }

  tabs(state) {
    const here = UNDER[this.route.view] ?? this.route.view
    return html`<nav class="tabs" aria-label="Views">
      ${TABS.filter(
        ([view]) =>
          (this.source.live || !LIVE_ONLY.has(view)) &&
          (view !== 'datasets' || state?.counts?.datasets || here === 'datasets'),
      ).map(
        ([view, name, counted]) =>
          html`<a href=${link(view)} aria-current=${here === view ? 'page' : nothing}
            >${name}${
              counted && state?.counts?.[counted]
                ? html`<span class="number" title=${count(state.counts[counted])}
                    >${compact(state.counts[counted])}</span
                  >`
                : nothing
            }</a
          >`,
      )}
      ${
        state?.others?.length
          ? html`<details class="others">
              <summary>
                ${count(state.others.length)} other ${state.others.length === 1 ? 'workflow' : 'workflows'}
              </summary>
              ${state.others.map((other) => html`<p><b>${other.workflow}</b><code>${other.command}</code></p>`)}
            </details>`
          : nothing
      }
    </nav>`
  }

  notices(state) {
    const left = this.source.leftOut()
    return html`${
      left.length
        ? html`<details class="notice">
            <summary>Not everything fits in this file.</summary>
            ${left.map((line) => html`<p>${line}</p>`)}
          </details>`
        : nothing
    }
    ${
      this.ui.lost
        ? html`<p class="notice" role="status">
            The server does not answer. What you see is the last state. If it was started anew, open its new address.
          </p>`
        : nothing
    }
    ${
      state?.problems?.length
        ? html`<div class="notice bad" role="alert">
            <b>The workflow file is not valid, so there is no plan.</b> ${state.problems
              .slice(0, 8)
              .map(
                (one) =>
                  html`<p data-code=${one.code}>
                    ${
                      one.place || one.file
                        ? html`<code>${one.place ?? `${one.file}${one.line ? `:${one.line}` : ''}`}</code>: `
                        : nothing
                    }${ticked(one.message)} <span class="code">${one.code}</span>${
                      one.hint ? html`<br /><span class="soft">${ticked(one.hint)}</span>` : nothing
                    }
                  </p>`,
              )}
            ${state.problems.length > 8 ? html`<p>… and ${state.problems.length - 8} more</p>` : nothing}
          </div>`
        : nothing
    }`
  }
}

// The tab says it, too: a red square, an orange diamond or a green disc.
function icon(state) {
  const {outcomes, totals} = state ?? {}
  const [shape, colour] = outcomes?.failed
    ? ['failed', '#d6453b']
    : totals?.planned
      ? ['planned', '#e0873a']
      : totals
        ? ['clean', '#3f9d66']
        : ['never', '#8a9099']
  const path = `<path fill="${colour}" fill-rule="evenodd" d="${shapePath(shape)}"/>`
  const picture = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 12 12">${path}</svg>`
  const href = `data:image/svg+xml,${encodeURIComponent(picture)}`
  const link =
    document.querySelector('link[rel=icon]') ??
    document.head.appendChild(Object.assign(document.createElement('link'), {rel: 'icon'}))
  if (link.href !== href) link.href = href
}

// "2 will run · 1 inactive · 5 up to date · about 0.1 s"
function headline({totals, outcomes, estimate, unfinished, at}) {
  if (!totals) return nothing
  const chips = [
    ['running', outcomes?.running ?? 0],
    ['failed', outcomes?.failed ?? 0],
    ['planned', totals.planned],
    ['reused', totals.reused],
    ['deferred', totals.deferred],
    ['open', totals.open ?? 0],
    ['inactive', totals.inactive],
    ['clean', totals.clean],
  ].filter(([, n]) => n > 0)
  return html`${
    unfinished
      ? html`<a class="chip tone-live" href=${link('run', unfinished.run)}>${unfinished.run} ${unfinished.state}</a>`
      : nothing
  }
  ${chips.map(
    ([name, n]) =>
      html`<a class="chip-link" href=${link('graph', {list: name})} data-total=${name} data-count=${n}
        >${stateChip(name, {words: words(name, n)})}</a
      >`,
  )}
  ${
    totals.planned && !at
      ? html`<span class="soft about"
          >${estimate === null || estimate === undefined ? 'time not known yet' : `about ${duration(estimate)}`}</span
        >`
      : nothing
  }`
}

const words = (name, n) =>
  `${count(n)} ${name === 'planned' && stateOf(name).word === 'will run' ? 'to run' : stateOf(name).word}`

const withoutPlan = (ctx) =>
  html`<p class="verdict after">Put the file right, and the plan comes back by itself. What has been run stays here.</p>
    ${views.runs(ctx)}`

const graphic = (view) => ['graph', 'why', 'plan'].includes(view)
const title = ({view, args}) => (args.length ? args.join(' and ') : (TABS.find(([name]) => name === view)?.[1] ?? ''))

// A command that this whyrun does not have is not shown.
function known(words, state) {
  if (!words) return null
  const text = Array.isArray(words) ? words.join(' ') : words
  const name = /^whyrun (\S+)/.exec(text)?.[1]
  return !state?.commands || !name || state.commands.includes(name) ? words : null
}

function remembered(key) {
  try {
    return localStorage.getItem(`whyrun-${key}`)
  } catch {
    return null
  }
}
function remember(key, value) {
  try {
    localStorage.setItem(`whyrun-${key}`, value)
  } catch {
    /* a page without storage forgets it */
  }
}
