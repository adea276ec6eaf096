// The graph of jobs: boxes over lines, to be dragged and zoomed. What is selected, and what it makes run, is marked.
import {html, nothing, svg} from 'lit'
import {repeat} from 'lit/directives/repeat.js'
import {css} from '../parts/css.js'
import {bar, icons, sorted} from '../parts/basics.js'
import {glyph, rank, stateOf} from '../states.js'
import {INDEX, bare, count, idParts, plural} from '../format.js'
import {link} from '../router.js'
import {boxes} from './boxes.js'
import {ZoomElement} from './zoom.js'
import {folded, paths, place} from './layout.js'

const UPRIGHT = 0.8
const FEW = 60

export class GraphElement extends ZoomElement {
  static properties = {
    graph: {attribute: false},
    rows: {attribute: false},
    selected: {attribute: false},
    focused: {attribute: false},
    overlay: {attribute: false},
    url: {attribute: false},
    at: {attribute: false},
    placed: {state: true},
    closed: {state: true},
    failed: {state: true},
  }

  createRenderRoot() {
    return this
  }

  constructor() {
    super()
    this.closed = new Set()
  }

  connectedCallback() {
    super.connectedCallback()
    this.resizing = new ResizeObserver(() => {
      const direction = this.direction
      if (direction !== this.usedDirection) this.arrange()
      else if (!this.moved) this.fit()
      else this.apply()
    })
    this.resizing.observe(this)
  }

  disconnectedCallback() {
    super.disconnectedCallback()
    this.resizing.disconnect()
  }

  get direction() {
    return this.clientWidth && this.clientWidth < 560 ? 'TB' : 'LR'
  }

  willUpdate(changed) {
    if (changed.has('graph') && this.graph && !changed.get('graph') && this.graph.nodes.length > 150) {
      this.closed = new Set(this.graph.groups?.map((group) => group.import) ?? [])
    }
    if (['graph', 'rows', 'closed', 'overlay'].some((name) => changed.has(name)) && this.graph) this.arrange()
  }

  updated(changed) {
    if (changed.has('placed') && this.placed) {
      if (!this.moved) this.fit()
      else this.apply()
    }
    if (changed.has('selected') || changed.has('placed')) this.reveal()
  }

  async arrange() {
    if (!this.graph || !this.clientWidth) return
    const model = boxes(this.graph, {rows: this.rows, closed: this.closed, overlay: this.overlay, widthOf})
    let direction = (this.usedDirection = this.direction)
    const parents = new Set(model.groups)
    const nodes = [
      ...model.groups.map((id) => ({id: `in:${id}`, width: 0, height: 0, parent: parentOf(id, parents)})),
      ...model.boxes.map(({id, width, height, parent}) => ({
        id,
        width,
        height,
        parent: parents.has(parent) ? `in:${parent}` : null,
      })),
    ]
    const ask = (this.asked = Symbol('layout'))
    try {
      const lines = model.edges.map(({from, to}) => [from, to])
      const [wide, high] = [this.clientWidth, this.clientHeight]
      const large = ({width, height}) => Math.min(wide / width, high / height)
      let placed = await place(nodes, lines, direction)
      let result = direction === 'LR' && !model.groups.length ? folded(placed, wide, high) : placed
      // A short chain with long names is easier to read from top to bottom.
      if (direction === 'LR' && large(result) < UPRIGHT && nodes.length < FEW) {
        placed = await place(nodes, lines, 'TB')
        // The lines of a folded graph are harder to follow.
        if (large(placed) > large(result) * (result.folds ? 0.8 : 1.2)) [result, direction] = [placed, 'TB']
      }
      if (ask !== this.asked) return
      this.placed = {
        model,
        result,
        direction,
        spots: new Map(result.nodes.map((node) => [node.id, node])),
        paths: paths(model.edges, result, direction),
      }
      this.failed = null
    } catch (error) {
      this.failed = error
    }
  }

  render() {
    if (this.failed)
      return html`<div class="problem" role="alert">The graph cannot be drawn: ${this.failed.message}</div>`
    const {placed} = this
    this.marked = this.focus()
    return html`<div
        class="graph-view"
        @pointerdown=${this.down}
        @pointermove=${this.move}
        @pointerup=${this.up}
        @pointercancel=${this.up}
        @wheel=${this.wheel}
        @click=${{handleEvent: (event) => this.click(event), capture: true}}
      >
        ${
          placed
            ? html`<div
                class="stage"
                style=${css({width: `${placed.result.width}px`, height: `${placed.result.height}px`})}
              >
                ${this.groups(placed)}${this.lines(placed)}
                <ul class="boxes" aria-label="Jobs">
                  ${repeat(
                    placed.model.boxes,
                    (box) => box.id,
                    (box) => this.box(box, placed),
                  )}
                </ul>
              </div>`
            : html`<p class="laying-out" role="status">Drawing ${plural(this.graph?.nodes.length ?? 0, 'job')} …</p>`
        }
      </div>
      <div class="zoom" role="group" aria-label="Zoom">
        <button type="button" @click=${() => this.zoom(1.25)} aria-label="Zoom in" title="Zoom in (+)">
          ${icons.plus}
        </button>
        <button type="button" @click=${() => this.zoom(0.8)} aria-label="Zoom out" title="Zoom out (−)">
          ${icons.minus}
        </button>
        <button
          type="button"
          @click=${() => {
            this.moved = false
            this.fit({whole: true})
          }}
          aria-label="Show everything"
          title="Show everything (0)"
        >
          ${icons.fit}
        </button>
      </div>`
  }

  // A frame round the jobs of each import.
  groups({model, spots}) {
    return model.groups.map((name) => {
      const inside = model.boxes.filter((box) => box.parent === name || box.parent?.startsWith(`${name}/`))
      if (!inside.length) return nothing
      const edges = inside.map((box) => [spots.get(box.id), box.parent === name ? 0 : 1])
      const left = Math.min(...edges.map(([{x, width}, deep]) => x - width / 2 - 14 - deep * 8))
      const right = Math.max(...edges.map(([{x, width}, deep]) => x + width / 2 + 14 + deep * 8))
      const top = Math.min(...edges.map(([{y, height}, deep]) => y - height / 2 - 26 - deep * 20))
      const bottom = Math.max(...edges.map(([{y, height}, deep]) => y + height / 2 + 14 + deep * 8))
      const place = {
        transform: `translate(${left}px, ${top}px)`,
        width: `${right - left}px`,
        height: `${bottom - top}px`,
      }
      const close = () => {
        this.closed = new Set([...this.closed, name])
      }
      return html`<button type="button" class="import" title="Close ${name} (i)" @click=${close} style=${css(place)}>
        <span>${name}</span>
      </button>`
    })
  }

  lines({model, result, paths}) {
    const focus = this.marked
    const drawn = model.edges
      .map((edge, at) => ({edge, path: paths[at], kind: focus.edge(edge)}))
      .sort((a, b) => ['', 'dirty', 'focus'].indexOf(a.kind) - ['', 'dirty', 'focus'].indexOf(b.kind))
    return svg`<svg class="lines" width=${result.width} height=${result.height} aria-hidden="true">
      <defs>${['', 'dirty', 'focus'].map(
        (kind) => svg`<marker id=${`arrow${kind}`} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"
        orient="auto-start-reverse"><path class=${`arrow ${kind}`} d="M1 1 7 4 1 7"></path></marker>`,
      )}</defs>
      ${drawn.map(
        ({
          edge,
          path,
          kind,
        }) => svg`<path class=${`line ${edge.kind} ${kind}`} d=${path} marker-end=${`url(#arrow${kind})`}
        data-from=${edge.from} data-to=${edge.to}></path>`,
      )}</svg>`
  }

  // The lines of the exact lineage in focus, or of what will run.
  focus() {
    const {focused, selected} = this
    if (!selected) return {edge: (edge) => (edge.dirty ? 'dirty' : ''), near: null}
    const pairs = new Set()
    const near = new Set([jobOf(selected)])
    for (const [from, to] of focused?.edges ?? []) pairs.add(`${jobOf(from)}\n${jobOf(to)}`)
    for (const id of [...(focused?.upstream ?? []), ...(focused?.downstream ?? [])]) near.add(jobOf(id))
    return {near: focused ? near : null, edge: (edge) => (pairs.has(`${edge.from}\n${edge.to}`) ? 'focus' : '')}
  }

  box(box, {spots}) {
    const spot = spots.get(box.id)
    const group = box.kind === 'group'
    const current = this.selected && jobOf(this.selected) === box.id
    const {near} = this.marked
    const states = sorted(box.states)
    const top = box.outcomes?.failed ? 'failed' : box.outcomes?.running ? 'running' : (states[0]?.[0] ?? 'clean')
    const classes = [
      'box',
      `box-${box.content}`,
      group ? 'closed' : '',
      current ? 'current' : '',
      `edge-${stateOf(top).tone}`,
      near && !near.has(box.id) && !group ? 'far' : '',
    ].join(' ')
    const only = box.count === 1 && !group
    const href = group ? '' : link('why', only ? box.first : box.pattern)
    return html`<li
      class=${classes}
      data-id=${group ? box.name : only ? box.first : box.pattern}
      data-state=${top}
      style=${css({
        transform: `translate(${spot.x - box.width / 2}px, ${spot.y - box.height / 2}px)`,
        width: `${box.width}px`,
        height: `${box.height}px`,
      })}
    >
      ${
        group
          ? html`<button
              type="button"
              class="box-link"
              @click=${() => {
                const next = new Set(this.closed)
                next.delete(box.name)
                this.closed = next
              }}
            >
              <span class="box-title"
                ><b>${box.name}</b><span class="soft">import · ${plural(box.jobs, 'job')}</span></span
              >
            </button>`
          : html`<a class="box-link" href=${href} title=${box.job}
              ><span class="box-title"
                ><b>${box.name}</b>
                <span class="soft">${box.count > 1 ? `${count(box.count)} × ` : ''}${box.action}</span></span
              ></a
            >`
      }
      ${this.content(box)}
      <span class="box-foot">${this.words(box, states)}</span>
      ${bar(box.states, {label: false})}
    </li>`
  }

  words(box, states) {
    const failed = box.outcomes?.failed ? [['failed', box.outcomes.failed]] : []
    const running = box.outcomes?.running ? [['running', box.outcomes.running]] : []
    const all = [...running, ...failed, ...states]
    let room = box.width - 28
    const fits = ([name, n], at) => {
      room -= (stateOf(name).word.length + (box.count > 1 ? String(n).length + 1 : 0)) * 7 + 26
      return at === 0 || room > -10
    }
    return all
      .filter(fits)
      .map(
        ([name, n]) =>
          html`<span class="said tone-${stateOf(name).tone}"
            >${glyph(name)}${box.count > 1 ? `${count(n)} ` : ''}${stateOf(name).word}</span
          >`,
      )
  }

  content(box) {
    if (box.content === 'picture') return html`<span class="pictures one">${this.picture(box.images[0])}</span>`
    if (box.content === 'pictures')
      return html`<span class="pictures">${box.images.map((image) => this.picture(image))}</span>`
    if (box.content === 'text') return html`<span class="box-text">${box.text}</span>`
    if (box.content === 'instances') {
      const images = new Map(box.images.map((image) => [image.job, image]))
      return html`<span class="pictures"
        >${box.instances.map(
          (row) =>
            html`<a
              class="instance tone-${stateOf(now(row)).tone}
          ${this.selected === row.id ? 'current' : ''} state-${now(row)}"
              href=${link('why', row.id)}
              data-id=${row.id}
              data-code=${row.code ?? nothing}
              title="${row.id}: ${stateOf(now(row)).word}"
            >
              ${
                images.has(row.id) && row.state !== 'inactive'
                  ? this.picture(images.get(row.id))
                  : html`<span class="no-picture"
                      >${
                        row.state === 'inactive'
                          ? 'condition is false'
                          : row.outcome === 'failed'
                            ? 'failed'
                            : 'no picture yet'
                      }</span
                    >`
              }
              <span class="instance-index"
                >${now(row) === 'clean' ? nothing : glyph(now(row))}${idParts(row.id).index.slice(1, -1)}</span
              ></a
            >`,
        )}</span
      >`
    }
    if (box.content === 'cells')
      return html`<span class="cells" style=${css({'--columns': box.columns})}
        >${box.instances.map(
          (row) =>
            html`<a
              href=${link('why', row.id)}
              class=${this.selected === row.id ? 'current' : ''}
              data-id=${row.id}
              data-code=${row.code ?? nothing}
              aria-label="${row.id}: ${stateOf(now(row)).word}"
              title="${row.id}: ${stateOf(now(row)).word}"
              >${glyph(now(row))}</a
            >`,
        )}</span
      >`
    return nothing
  }

  picture(image) {
    const src = this.url(image.href ?? `blob/${image.sha256}`, image.sha256)
    return src
      ? html`<img src=${src} alt="" loading="lazy" decoding="async" draggable="false" />`
      : html`<span class="no-picture">not in this file</span>`
  }

  // Where a large graph begins: at what is selected, else where something failed, runs or will run.
  beginning() {
    const {model, spots} = this.placed
    const urgency = (box) => (QUIET.has(loud(box)) ? 99 : rank(loud(box)))
    const along = ({id}) =>
      this.placed.direction === 'TB' ? spots.get(id).y : (spots.get(id).band ?? 0) * 1e6 + spots.get(id).x
    const order = (a, b) => urgency(a) - urgency(b) || along(a) - along(b)
    return this.chosen() ?? spots.get([...model.boxes].sort(order)[0].id)
  }

  chosen() {
    return this.selected ? this.placed?.spots.get(jobOf(this.selected)) : undefined
  }

  toggleGroups() {
    const names = this.graph?.groups?.map((group) => group.import) ?? []
    this.closed = this.closed.size ? new Set() : new Set(names)
    this.moved = false
  }

  // The job before or after the selected one along the lines; without a selection, the first one.
  neighbour(step) {
    const {placed} = this
    if (!placed) return null
    const here = this.selected && jobOf(this.selected)
    if (!here)
      return target(
        [...placed.model.boxes].filter((box) => box.kind === 'job').sort((a, b) => rank(top(a)) - rank(top(b)))[0],
      )
    const near = placed.model.edges
      .filter((edge) => (step > 0 ? edge.from : edge.to) === here)
      .map((edge) => (step > 0 ? edge.to : edge.from))
    const next = placed.model.boxes
      .filter((box) => near.includes(box.id) && box.kind === 'job')
      .sort((a, b) => rank(top(a)) - rank(top(b)))[0]
    return target(next)
  }
}

const ruler = new OffscreenCanvas(1, 1).getContext('2d')
function widthOf(text, size, weight = 400) {
  ruler.font = `${weight} ${size}px ${getComputedStyle(document.body).fontFamily}`
  return ruler.measureText(text).width
}

// A failure or a running step says more than the plan.
const now = (row) => (row.outcome === 'failed' || row.outcome === 'running' ? row.outcome : row.state)
const QUIET = new Set(['clean', 'inactive', 'pinned'])
const loud = (box) => (box.outcomes?.failed ? 'failed' : box.outcomes?.running ? 'running' : top(box))
const top = (box) => sorted(box.states)[0]?.[0] ?? 'clean'
const target = (box) => box && link('why', box.count === 1 ? box.first : box.pattern)
const jobOf = (id) => (id.includes(']/') ? bare(id).replace(INDEX, '') : bare(id).replace(/\[.*$/, ''))
const parentOf = (name, all) => {
  const cut = name.lastIndexOf('/')
  return cut > 0 && all.has(name.slice(0, cut)) ? `in:${name.slice(0, cut)}` : null
}

customElements.define('wr-graph', GraphElement)
