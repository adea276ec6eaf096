// What is drawn in `.stage` can be dragged, zoomed and shown as a whole, with mouse, fingers and keys.
import {LitElement} from 'lit'

const TOO_SMALL = 0.48 // below this scale nobody can read
const LEGIBLE = 0.62
const FOOT = 32 // pixels for the line and the buttons at the bottom

// `placed.result` has the width and height of the whole; `beginning()` and `chosen()` name a spot in it.
export class ZoomElement extends LitElement {
  constructor() {
    super()
    this.view = {x: 0, y: 0, scale: 1}
    this.moved = false // by the user
    this.pointers = new Map()
  }

  fit({whole = false} = {}) {
    if (!this.placed || !this.clientWidth) return
    const {width, height} = this.placed.result
    const high = this.clientHeight - FOOT
    const most = this.clientWidth > 1500 ? 1.7 : 1.3
    const scale = Math.min(most, Math.max(Math.min(this.clientWidth / width, high / height), 0.05))
    this.view = {scale, x: (this.clientWidth - width * scale) / 2, y: (high - height * scale) / 2}
    if (!whole && scale < TOO_SMALL) this.begin()
    this.apply()
  }

  // A graph too large to be read as a whole begins where something happens; `0` shows everything.
  begin() {
    const spot = this.beginning()
    const {width, height} = this.placed.result
    const hold = (value, space, length) =>
      length < space ? (space - length) / 2 : Math.min(0, Math.max(space - length, value))
    this.view = {
      scale: LEGIBLE,
      x: hold(this.clientWidth * 0.4 - spot.x * LEGIBLE, this.clientWidth, width * LEGIBLE),
      y: hold(this.clientHeight / 2 - spot.y * LEGIBLE, this.clientHeight, height * LEGIBLE),
    }
  }

  apply() {
    const stage = this.querySelector('.stage')
    if (stage) stage.style.transform = `translate(${this.view.x}px, ${this.view.y}px) scale(${this.view.scale})`
  }

  zoom(factor, x = this.clientWidth / 2, y = this.clientHeight / 2) {
    const scale = Math.min(Math.max(this.view.scale * factor, 0.05), 3)
    const by = scale / this.view.scale
    this.view = {scale, x: x - (x - this.view.x) * by, y: y - (y - this.view.y) * by}
    this.moved = true
    this.apply()
  }

  reveal() {
    const current = this.chosen()
    if (!current || !this.moved) return
    const {scale} = this.view
    const [x, y] = [current.x * scale + this.view.x, current.y * scale + this.view.y]
    const [dx, dy] = [(current.width * scale) / 2 + 12, (current.height * scale) / 2 + 12]
    if (x - dx < 0) this.view.x += dx - x
    if (x + dx > this.clientWidth) this.view.x -= x + dx - this.clientWidth
    if (y - dy < 0) this.view.y += dy - y
    if (y + dy > this.clientHeight) this.view.y -= y + dy - this.clientHeight
    this.apply()
  }

  wheel(event) {
    event.preventDefault()
    const box = this.getBoundingClientRect()
    this.zoom(
      Math.exp(-Math.max(-80, Math.min(80, event.deltaY)) / 240),
      event.clientX - box.left,
      event.clientY - box.top,
    )
  }

  down(event) {
    if (event.button) return
    this.pointers.set(event.pointerId, {x: event.clientX, y: event.clientY})
    this.dragged = 0
  }

  move(event) {
    const before = this.pointers.get(event.pointerId)
    if (!before) return
    const others = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, point]) => point)
    if (others.length) {
      const [other] = others
      const box = this.getBoundingClientRect()
      const far = (point) => Math.hypot(point.x - other.x, point.y - other.y) || 1
      this.zoom(
        far({x: event.clientX, y: event.clientY}) / far(before),
        (event.clientX + other.x) / 2 - box.left,
        (event.clientY + other.y) / 2 - box.top,
      )
    } else {
      this.dragged += Math.abs(event.clientX - before.x) + Math.abs(event.clientY - before.y)
      if (this.dragged > 4) {
        this.view.x += event.clientX - before.x
        this.view.y += event.clientY - before.y
        this.moved = true
        this.classList.add('dragging')
        this.apply()
      }
    }
    this.pointers.set(event.pointerId, {x: event.clientX, y: event.clientY})
  }

  up(event) {
    this.pointers.delete(event.pointerId)
    this.classList.remove('dragging')
  }

  // The end of a drag is no click on the job under it.
  click(event) {
    if (this.dragged > 4 && !event.target.closest('.zoom')) {
      event.preventDefault()
      event.stopPropagation()
    }
    this.dragged = 0
  }
}
