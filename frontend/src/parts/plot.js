// Results over one loop as points and lines, a series for each value of the other loop.
import {LitElement, html, nothing} from 'lit'
import uPlot from 'uplot'

const SERIES = 12
const DASHES = [[], [6, 4], [2, 3], [10, 4, 2, 4]]

class Plot extends LitElement {
  static properties = {
    rows: {attribute: false},
    columns: {attribute: false},
    x: {attribute: false},
    name: {attribute: false},
  }

  createRenderRoot() {
    return this
  }

  connectedCallback() {
    super.connectedCallback()
    this.redraw = () => this.draw()
    this.resizing = new ResizeObserver(() => {
      if (this.plot && Math.abs(this.plot.width - this.clientWidth) > 2) this.draw()
    })
    this.resizing.observe(this)
    addEventListener('whyrun-theme', this.redraw)
  }

  disconnectedCallback() {
    super.disconnectedCallback()
    this.resizing.disconnect()
    removeEventListener('whyrun-theme', this.redraw)
    this.plot?.destroy()
    this.plot = null
  }

  render() {
    return html`${
        this.columns.length > 1
          ? html`<div class="tags" role="group" aria-label="Horizontal axis">
              ${this.columns.map(
                (name) =>
                  html`<button
                    type="button"
                    class="tag"
                    aria-pressed=${name === this.x ? 'true' : 'false'}
                    @click=${() => this.dispatchEvent(new CustomEvent('axis', {detail: name}))}
                  >
                    by ${name}
                  </button>`,
              )}
            </div>`
          : nothing
      }
      <div class="plot" role="img" aria-label="${this.name} by ${this.x}; the table below has the numbers"></div>
      <p class="soft plot-left"></p>`
  }

  updated() {
    this.draw()
  }

  series() {
    const column = Math.max(this.columns.indexOf(this.x), 0)
    const points = this.rows.filter((row) => typeof row.value === 'number')
    const numeric = points.every((row) => typeof row.index[column] === 'number')
    const places = [...new Set(points.map((row) => row.index[column]))] // in the order of the loop
    if (numeric) places.sort((a, b) => a - b)
    const at = new Map(places.map((place, i) => [place, i]))
    const groups = new Map()
    for (const row of points) {
      const key = row.index
        .filter((_, i) => i !== column)
        .map((one, i) => `${this.columns.filter((_, c) => c !== column)[i]} ${one}`)
        .join(', ')
      if (!groups.has(key)) groups.set(key, Array(places.length).fill(null))
      groups.get(key)[at.get(row.index[column])] = row.value
    }
    return {places, numeric, groups: [...groups].slice(0, SERIES), left: Math.max(groups.size - SERIES, 0)}
  }

  draw() {
    const box = this.querySelector('.plot')
    if (!box || !this.clientWidth) return
    this.plot?.destroy()
    const {places, numeric, groups, left} = this.series()
    this.querySelector('.plot-left').textContent = left
      ? `The first ${groups.length} of ${groups.length + left} lines are drawn.`
      : ''
    if (!groups.length) return
    const colour = (name) => {
      box.style.color = `var(--${name})`
      const found = getComputedStyle(box).color
      box.style.removeProperty('color')
      return found
    }
    const [soft, line] = [colour('soft'), colour('line')]
    const inks = ['accent', 'run', 'ok', 'reuse', 'bad', 'wait'].map(colour)
    const font = `12px ${getComputedStyle(document.body).fontFamily}`
    const axis = {stroke: soft, grid: {stroke: line, width: 1}, ticks: {stroke: line, width: 1}, font}
    this.plot = new uPlot(
      {
        width: this.clientWidth,
        height: 260,
        legend: {show: groups.length > 1, live: false},
        cursor: {drag: {x: false, y: false}},
        scales: {
          x: {
            time: false,
            range: (_, low, high) =>
              low === high ? [low - 1, high + 1] : [low - (high - low) * 0.02, high + (high - low) * 0.02],
          },
        },
        axes: [
          {
            ...axis,
            label: this.x,
            labelFont: font,
            labelSize: 20,
            ...(numeric
              ? places.every(Number.isInteger)
                ? {incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000, 10000]}
                : {}
              : {splits: () => places.map((_, i) => i), values: (_, splits) => splits.map((i) => places[i] ?? '')}),
          },
          {...axis, size: 64},
        ],
        series: [
          {label: this.x, value: (_, x) => (numeric ? x : (places[x] ?? ''))},
          ...groups.map(([name], i) => ({
            label: name || this.name,
            stroke: inks[i % inks.length],
            width: 1.6,
            dash: DASHES[Math.floor(i / inks.length) % DASHES.length],
            points: {show: true, size: 6},
            spanGaps: true,
          })),
        ],
      },
      [numeric ? places : places.map((_, i) => i), ...groups.map(([, values]) => values)],
      box,
    )
  }
}
customElements.define('wr-plot', Plot)
