// Two contents side by side: pictures with a slider and their difference, texts and values by line.
import {LitElement, html, nothing} from 'lit'
import {css} from './css.js'
import {ticked} from './basics.js'
import {preview} from './preview.js'
import {textDiff} from './reasons.js'

export function beside(ctx, {status, summary, details, more, old, new: now, diff}, before, after) {
  const [left, right] = [old, now].map((one) =>
    one?.kind === 'image' && one.href ? ctx.url(one.href, one.sha256) : null,
  )
  return html`<p data-code=${status ?? nothing}>${status ? html`<b>${status}</b> ` : nothing}${summary ?? nothing}</p>
    ${
      details?.length
        ? html`<ul class="details">
            ${details.slice(0, 20).map((line) => html`<li>${ticked(line)}</li>`)}
          </ul>`
        : nothing
    }${more ? html`<p class="soft">and ${more} more</p>` : nothing}
    ${
      diff?.length
        ? textDiff(diff)
        : left && right
          ? html`<wr-compare .left=${left} .right=${right} .before=${before} .after=${after}></wr-compare>`
          : html`<div class="columns">
              ${[
                [old, before],
                [now, after],
              ].map(
                ([one, name]) =>
                  html`<div>
                    <h3>${name}</h3>
                    ${one ? preview(ctx, one) : html`<p class="soft">not there</p>`}
                  </div>`,
              )}
            </div>`
    }`
}

// Old under new with a handle between them, and where their pixels differ.
class Compare extends LitElement {
  static properties = {
    left: {attribute: false},
    right: {attribute: false},
    before: {attribute: false},
    after: {attribute: false},
    at: {state: true},
    said: {state: true},
  }

  createRenderRoot() {
    return this
  }

  constructor() {
    super()
    this.at = 50
    this.said = ''
  }

  render() {
    return html`<div class="compare">
      <figure>
        <div class="slider" style=${css({'--at': `${this.at}%`})}>
          <img src=${this.right} alt=${this.after} /><img class="over" src=${this.left} alt=${this.before} /><span
            class="handle"
            aria-hidden="true"
          ></span>
          <input
            type="range"
            min="0"
            max="100"
            .value=${String(this.at)}
            aria-label="How much of ${this.before}"
            @input=${(event) => {
              this.at = Number(event.target.value)
            }}
          />
        </div>
        <figcaption><span>${this.before}</span><span>${this.after}</span></figcaption>
      </figure>
      <figure>
        <canvas class="difference" role="img" aria-label="Where the pixels differ"></canvas>
        <figcaption>${this.said}</figcaption>
      </figure>
    </div>`
  }

  async updated(changed) {
    if (!changed.has('left') && !changed.has('right')) return
    try {
      const [a, b] = await Promise.all([this.left, this.right].map(load))
      this.difference(a, b)
    } catch (error) {
      this.said = `The difference cannot be drawn: ${error.message}`
    }
  }

  difference(a, b) {
    const canvas = this.querySelector('.difference')
    const [width, height] = [Math.max(a.naturalWidth, b.naturalWidth), Math.max(a.naturalHeight, b.naturalHeight)]
    const scale = Math.min(1, 1600 / Math.max(width, height))
    canvas.width = Math.max(Math.round(width * scale), 1)
    canvas.height = Math.max(Math.round(height * scale), 1)
    const [old, now] = [a, b].map((image) => {
      const context = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d')
      context.drawImage(image, 0, 0, image.naturalWidth * scale, image.naturalHeight * scale)
      return context.getImageData(0, 0, canvas.width, canvas.height)
    })
    const out = new ImageData(canvas.width, canvas.height)
    let differ = 0
    for (let i = 0; i < out.data.length; i += 4) {
      const d = Math.max(...[0, 1, 2, 3].map((c) => Math.abs(old.data[i + c] - now.data[i + c])))
      if (d) differ += 1
      const grey = 225 - ((now.data[i] + now.data[i + 1] + now.data[i + 2]) / 3) * 0.12
      out.data[i] = d ? 220 : grey
      out.data[i + 1] = d ? Math.max(20, 150 - d) : grey
      out.data[i + 2] = d ? 20 : grey
      out.data[i + 3] = 255
    }
    canvas.getContext('2d').putImageData(out, 0, 0)
    this.said = differ
      ? `${differ.toLocaleString('en-US')} pixels differ${scale < 1 ? ' (of a smaller picture)' : ''}`
      : 'No pixel differs'
  }
}
customElements.define('wr-compare', Compare)

function load(src) {
  return new Promise((resolve, reject) => {
    const image = new Image()
    image.onload = () => resolve(image)
    image.onerror = () => reject(new Error('a picture cannot be read'))
    image.src = src
  })
}
