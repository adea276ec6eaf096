// The timeline of a run: one row a lane, attempts apart, idle time compressed. Many steps are drawn on a canvas.
import {LitElement, html, nothing} from 'lit'
import {css} from './css.js'
import {bare, duration} from '../format.js'
import {link} from '../router.js'
import {lanesOf, scaleOf, toneOf} from './timeline.js'

const ONE_BY_ONE = 240

export function timeline({timeline: data, live}, now) {
  const scale = scaleOf(data, now)
  const steps = lanesOf(data, scale.end)
  const lanes = steps.length ? Math.max(...steps.map((step) => step.lane)) + 1 : 1
  return html`<div class="timeline" tabindex="0" role="group" aria-label="Timeline">
      ${
        steps.length > ONE_BY_ONE
          ? html`<wr-timeline .steps=${steps} .names=${data.steps} .scale=${scale} .lanes=${lanes}></wr-timeline>`
          : html`<div class="rows" style=${css({'--lanes': lanes})}>
              ${scale.gaps.map(
                (gap) =>
                  html`<span
                    class="gap"
                    title="idle for ${duration(gap.seconds)}"
                    style=${css({left: `${gap.from * 100}%`, width: `${(gap.to - gap.from) * 100}%`})}
                  ></span>`,
              )}
              ${steps.map((step) => bit(step, data, scale))}
            </div>`
      }
      <div class="axis" aria-hidden="true">
        ${ticks(scale).map(({x, text}) => html`<span style=${css({left: `${x * 100}%`})}>${text}</span>`)}
      </div>
    </div>
    ${data.marks?.length ? html`<p class="soft marks">${summary(data)}</p>` : nothing}${
      data.more ? html`<p class="soft">${data.more} more attempts are not drawn.</p>` : nothing
    }${live ? html`<p class="soft marks">The run goes on.</p>` : nothing}`
}

function bit(step, data, scale) {
  const id = data.steps[step.step]
  const [x, to] = [scale.at(step.start), scale.at(step.end)]
  const words = `${id}${step.attempt > 1 ? ` attempt ${step.attempt}` : ''}: ${String(
    step.status ?? 'running',
  ).toLowerCase()}, ${duration(step.end - step.start)}`
  return html`<a
    class="bit tone-${toneOf(step.status ?? 'RUNNING')} ${step.retry ? 'retried' : ''} ${to - x < 0.025 ? 'tiny' : ''}"
    href=${link('why', id)}
    data-id=${id}
    data-code=${step.status ?? 'RUNNING'}
    title=${words}
    aria-label=${words}
    style=${css({left: `${x * 100}%`, width: `${Math.max((to - x) * 100, 0.25)}%`, '--lane': step.lane})}
    >${to - x < 0.025 ? nothing : html`${bare(id)}${step.attempt > 1 ? ` #${step.attempt}` : ''}`}</a
  >`
}

function summary({marks, steps}) {
  const by = new Map()
  for (const mark of marks) {
    if (!by.has(mark.status)) by.set(mark.status, [])
    by.get(mark.status).push(steps[mark.step])
  }
  return [...by].map(
    ([status, ids], at) =>
      html`${at ? ' · ' : ''}<b>${String(status).toLowerCase()}</b>:
      ${ids.slice(0, 6).map((id, i) => html`${i ? ', ' : ''}<a href=${link('why', id)}>${bare(id)}</a>`)}${
        ids.length > 6 ? ` and ${ids.length - 6} more` : ''
      }`,
  )
}

function ticks(scale) {
  const wanted = 6
  const step = nice(scale.end / wanted)
  const found = []
  let last = -1
  for (let seconds = 0; seconds <= scale.end * 1.0001 && found.length < 40; seconds += step) {
    const x = scale.at(seconds)
    if (x - last > 0.08 && x < 0.94) {
      found.push({x, text: duration(seconds)})
      last = x
    }
  }
  return found
}

function nice(x) {
  const power = 10 ** Math.floor(Math.log10(x))
  return [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= x)
}

class Timeline extends LitElement {
  static properties = {
    steps: {attribute: false},
    names: {attribute: false},
    scale: {attribute: false},
    lanes: {attribute: false},
    hovered: {state: true},
  }

  createRenderRoot() {
    return this
  }

  connectedCallback() {
    super.connectedCallback()
    this.resizing = new ResizeObserver(() => this.draw())
    this.resizing.observe(this)
  }

  disconnectedCallback() {
    super.disconnectedCallback()
    this.resizing.disconnect()
  }

  render() {
    const step = this.hovered
    return html`<canvas
        role="img"
        aria-label="${this.steps.length} attempts in time"
        @pointermove=${(event) => {
          this.hovered = this.under(event)
        }}
        @pointerleave=${() => {
          this.hovered = null
        }}
        @click=${(event) => {
          const hit = this.under(event)
          if (hit) location.hash = link('why', this.names[hit.step])
        }}
        style=${css({height: `${Math.min(Math.max(this.lanes * 5, 60), 420)}px`})}
      ></canvas>
      <p class="grid-says">
        ${step ? `${this.names[step.step]}: ${duration(step.end - step.start)}` : `${this.lanes} at a time`}
      </p>`
  }

  updated() {
    this.draw()
  }

  under(event) {
    const box = event.currentTarget.getBoundingClientRect()
    const x = (event.clientX - box.left) / box.width
    const lane = Math.floor(((event.clientY - box.top) / box.height) * this.lanes)
    return (
      this.steps.find((step) => step.lane === lane && this.scale.at(step.start) <= x && this.scale.at(step.end) >= x) ??
      null
    )
  }

  draw() {
    const canvas = this.querySelector('canvas')
    if (!canvas) return
    const ratio = devicePixelRatio || 1
    canvas.width = canvas.clientWidth * ratio
    canvas.height = canvas.clientHeight * ratio
    const context = canvas.getContext('2d')
    const height = canvas.height / this.lanes
    const probe = document.createElement('span')
    this.append(probe)
    const colours = new Map()
    for (const step of this.steps) {
      const tone = toneOf(step.status ?? 'RUNNING')
      if (!colours.has(tone)) {
        probe.style.color = `var(--${tone}-cell)`
        colours.set(tone, getComputedStyle(probe).color)
      }
      context.fillStyle = colours.get(tone)
      const x = this.scale.at(step.start) * canvas.width
      context.fillRect(
        x,
        step.lane * height,
        Math.max(this.scale.at(step.end) * canvas.width - x, 1),
        Math.max(height - (height > 3 ? 1 : 0), 1),
      )
    }
    probe.remove()
  }
}
customElements.define('wr-timeline', Timeline)
