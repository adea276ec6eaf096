// Every instance of a looped job on one canvas: a cell each, from one pixel to a shape with its index.
// 100,000 cells are one small image that is scaled; only large cells are drawn one by one.
import {LitElement, html} from 'lit'
import {shapePath, stateOf} from '../states.js'
import {textsOf} from '../report_requests.js'
import {link} from '../router.js'
import {count, idOf} from '../format.js'

const LARGEST = 30
const GLYPHS_FROM = 11
const TEXT_FROM = 26

export class InstanceGrid extends LitElement {
  static properties = {
    cells: {attribute: false},
    selected: {attribute: false},
    only: {attribute: false},
    hovered: {state: true},
  }

  createRenderRoot() {
    return this
  }

  connectedCallback() {
    super.connectedCallback()
    this.resizing = new ResizeObserver(() => {
      this.fit()
      this.draw()
    })
    this.resizing.observe(this)
    this.scheme = matchMedia('(prefers-color-scheme: dark)')
    this.recolour = () => {
      this.paint()
      this.draw()
    }
    this.scheme.addEventListener('change', this.recolour)
    addEventListener('whyrun-theme', this.recolour)
  }

  disconnectedCallback() {
    super.disconnectedCallback()
    this.resizing.disconnect()
    this.scheme.removeEventListener('change', this.recolour)
    removeEventListener('whyrun-theme', this.recolour)
  }

  render() {
    const {cells} = this
    return html`<canvas
        tabindex="0"
        role="img"
        aria-label="${count(cells?.count)} instances of ${cells?.job}, a cell each. The list below has the same."
        @pointerdown=${this.down}
        @pointermove=${this.move}
        @pointerup=${this.up}
        @pointerleave=${() => {
          this.hovered = null
        }}
        @wheel=${this.wheel}
        @keydown=${this.key}
      ></canvas>
      <p class="grid-says" aria-live="polite">${this.says()}</p>`
  }

  says() {
    const {cells, hovered} = this
    if (!cells) return ''
    const axes = cells.axes?.map((axis) => `${axis.loop} ${count(axis.size)}`).join(' × ') ?? ''
    if (hovered === null || hovered === undefined)
      return `${axes}${cells.count > 500 ? ' · scroll zooms, drag moves' : ''}`
    const code = this.code(hovered)
    return `${idOf(cells.job, this.texts[hovered]).slice(4)}: ${stateOf(this.state(hovered)).word}${code ? `, ${code}` : ''}`
  }

  willUpdate(changed) {
    if (changed.has('cells') && this.cells) {
      this.texts = textsOf(this.cells)
      this.reading = null
    }
  }

  updated(changed) {
    if (!this.cells) return
    if (changed.has('cells') || changed.has('only')) this.paint()
    if (changed.has('cells')) this.fit()
    this.draw()
  }

  state(at) {
    const {legend, states, outcomes} = this.cells
    const outcome = legend.outcomes?.[outcomes[at]]
    return outcome === 'failed' || outcome === 'running' ? outcome : (legend.states?.[states[at]] ?? states[at])
  }

  code(at) {
    const {headline, headlines} = this.cells
    return headline?.[at] && headline[at] !== '.' ? headlines[parseInt(headline[at], 36)] : null
  }

  // One pixel a cell. Kept until the cells or the colours change.
  paint() {
    const {cells} = this
    if (!cells) return
    const last = cells.axes?.length > 1 ? cells.axes.at(-1).size : 0
    const whole = last > 1 && cells.axes.reduce((product, axis) => product * axis.size, 1) === cells.count
    this.columns = whole && last <= 400 && cells.count / last <= last * 12 ? last : 0
    this.tones = new Map()
    const probe = document.createElement('span')
    this.append(probe)
    const read = (name) => {
      probe.style.color = `var(--${name})`
      return getComputedStyle(probe).color
    }
    this.ink = {text: read('text'), accent: read('accent'), ground: read('raised')}
    for (const tone of ['run', 'ok', 'off', 'bad', 'wait', 'reuse', 'live'])
      this.tones.set(tone, {strong: read(tone), cell: read(`${tone}-cell`)})
    probe.remove()
    this.layOut()
  }

  layOut() {
    const {cells} = this
    const ratio = (this.clientWidth || 360) / Math.max(this.canvasHeight(), 1)
    const ideal = Math.max(Math.min(Math.ceil(Math.sqrt(cells.count * ratio)), cells.count), 1)
    // Whole rows of the last loop, several beside each other where they are short.
    const columns = (this.shown = this.columns ? this.columns * Math.max(Math.round(ideal / this.columns), 1) : ideal)
    const rows = (this.rowCount = Math.ceil(cells.count / columns))
    const image = new ImageData(columns, rows)
    const data = new Uint32Array(image.data.buffer)
    const packed = new Map()
    for (let at = 0; at < cells.count; at++) {
      const key = cells.states[at] + cells.outcomes[at]
      let colour = packed.get(key)
      if (colour === undefined) packed.set(key, (colour = pack(this.tones.get(stateOf(this.state(at)).tone).cell)))
      data[at] = this.only && !this.only(this.state(at), this.code(at)) ? 0 : colour
    }
    this.image = new OffscreenCanvas(columns, rows)
    this.image.getContext('2d').putImageData(image, 0, 0)
  }

  canvasHeight() {
    return this.querySelector('canvas')?.clientHeight || 240
  }

  fit() {
    if (!this.cells || !this.clientWidth) return
    this.layOut()
    const size = Math.min(this.clientWidth / this.shown, this.canvasHeight() / this.rowCount, LARGEST)
    this.view = {size, x: 0, y: 0, least: size}
  }

  draw() {
    const canvas = this.querySelector('canvas')
    if (!canvas || !this.cells || !this.view || !this.image) return
    const scale = devicePixelRatio || 1
    const [width, height] = [canvas.clientWidth, canvas.clientHeight]
    if (canvas.width !== width * scale || canvas.height !== height * scale) {
      canvas.width = width * scale
      canvas.height = height * scale
    }
    const context = canvas.getContext('2d')
    context.setTransform(scale, 0, 0, scale, 0, 0)
    context.clearRect(0, 0, width, height)
    const {size, x, y} = this.view
    context.imageSmoothingEnabled = size < 1
    if (size < GLYPHS_FROM) context.drawImage(this.image, x, y, this.shown * size, this.rowCount * size)
    const [first, last] = [Math.max(Math.floor(-y / size), 0), Math.min(Math.ceil((height - y) / size), this.rowCount)]
    const [left, right] = [Math.max(Math.floor(-x / size), 0), Math.min(Math.ceil((width - x) / size), this.shown)]
    if (size >= 4 && size < GLYPHS_FROM) this.rule(context, {size, x, y, first, last, left, right})
    if (size >= GLYPHS_FROM) this.cellsOneByOne(context, {size, x, y, first, last, left, right})
    for (const [at, colour] of [
      [this.hovered, this.ink.text],
      [this.position(this.selected), this.ink.accent],
    ]) {
      if (at === null || at === undefined || at < 0) continue
      context.strokeStyle = colour
      context.lineWidth = 2
      const side = Math.max(size, 5)
      context.strokeRect(
        x + (at % this.shown) * size - (side - size) / 2,
        y + Math.floor(at / this.shown) * size - (side - size) / 2,
        side,
        side,
      )
    }
  }

  rule(context, {size, x, y, first, last, left, right}) {
    context.fillStyle = this.ink.ground
    for (let row = first; row <= last; row++)
      context.fillRect(x + left * size, y + row * size - 0.5, (right - left) * size, 1)
    for (let column = left; column <= right; column++)
      context.fillRect(x + column * size - 0.5, y + first * size, 1, (last - first) * size)
  }

  cellsOneByOne(context, {size, x, y, first, last, left, right}) {
    for (let row = first; row < last; row++) {
      for (let column = left; column < right; column++) {
        const at = row * this.shown + column
        if (at >= this.cells.count) return
        const name = this.state(at)
        const {tone} = stateOf(name)
        context.globalAlpha = this.only && !this.only(name, this.code(at)) ? 0.2 : 1
        const side = Math.min(size * 0.62, 14)
        context.save()
        context.translate(x + (column + 0.5) * size - side / 2, y + (row + 0.5) * size - side / 2)
        context.scale(side / 12, side / 12)
        context.fillStyle = this.tones.get(tone).strong
        context.fill(path(name), 'evenodd')
        context.restore()
      }
    }
    context.globalAlpha = 1
  }

  position(id) {
    this.reading ??= new Map(this.texts.map((text, at) => [idOf(this.cells.job, text), at]))
    return this.reading.get(id) ?? null
  }

  under(event) {
    const box = this.querySelector('canvas').getBoundingClientRect()
    const column = Math.floor((event.clientX - box.left - this.view.x) / this.view.size)
    const row = Math.floor((event.clientY - box.top - this.view.y) / this.view.size)
    const at = row * this.shown + column
    return column >= 0 && column < this.shown && row >= 0 && at < this.cells.count ? at : null
  }

  down(event) {
    this.from = {x: event.clientX, y: event.clientY, dragged: 0}
    event.currentTarget.setPointerCapture(event.pointerId)
  }

  move(event) {
    if (this.from) {
      const [dx, dy] = [event.clientX - this.from.x, event.clientY - this.from.y]
      this.from = {x: event.clientX, y: event.clientY, dragged: this.from.dragged + Math.abs(dx) + Math.abs(dy)}
      if (this.from.dragged > 4) {
        this.shift(dx, dy)
        return
      }
    }
    const at = this.under(event)
    if (at !== this.hovered) this.hovered = at
  }

  up(event) {
    const dragged = this.from?.dragged ?? 0
    this.from = null
    const at = this.under(event)
    if (dragged <= 4 && at !== null) this.open(at)
  }

  open(at) {
    location.hash = link('why', idOf(this.cells.job, this.texts[at]))
  }

  shift(dx, dy) {
    const canvas = this.querySelector('canvas')
    const {size} = this.view
    const hold = (value, space, whole) => (whole <= space ? 0 : Math.min(0, Math.max(space - whole, value)))
    this.view.x = hold(this.view.x + dx, canvas.clientWidth, this.shown * size)
    this.view.y = hold(this.view.y + dy, canvas.clientHeight, this.rowCount * size)
    this.draw()
  }

  wheel(event) {
    event.preventDefault()
    const box = event.currentTarget.getBoundingClientRect()
    const {size, least} = this.view
    const next = Math.min(Math.max(size * Math.exp(-event.deltaY / 240), least), Math.max(LARGEST, least))
    const [px, py] = [event.clientX - box.left, event.clientY - box.top]
    this.view.x = px - ((px - this.view.x) * next) / size
    this.view.y = py - ((py - this.view.y) * next) / size
    this.view.size = next
    this.shift(0, 0)
  }

  key(event) {
    const step = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.shown, ArrowDown: this.shown}[event.key]
    if (event.key === 'Enter' && this.hovered !== null && this.hovered !== undefined) this.open(this.hovered)
    if (!step) return
    event.preventDefault()
    event.stopPropagation()
    const next = (this.hovered ?? this.position(this.selected) ?? -1) + step
    if (next >= 0 && next < this.cells.count) this.hovered = next
  }
}

const paths = new Map()
function path(name) {
  if (!paths.has(name)) paths.set(name, new Path2D(shapePath(name)))
  return paths.get(name)
}

// 'rgb(1, 2, 3)' or 'color(srgb …)' as the 32 bits of a pixel.
function pack(colour) {
  const canvas = (pack.canvas ??= new OffscreenCanvas(1, 1))
  const context = canvas.getContext('2d', {willReadFrequently: true})
  context.fillStyle = colour
  context.fillRect(0, 0, 1, 1)
  const [r, g, b] = context.getImageData(0, 0, 1, 1).data
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0
}

customElements.define('wr-grid', InstanceGrid)
