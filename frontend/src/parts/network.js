// A GraphML artifact, drawn as a circle of nodes or in layers if it is small and directed; and as a list of edges.
import {LitElement, html, nothing, svg} from 'lit'
import {paths, place} from '../graph/layout.js'
import {count, plural} from '../format.js'

const DRAWN = 120

class Network extends LitElement {
  static properties = {network: {attribute: false}, placed: {state: true}}

  createRenderRoot() {
    return this
  }

  async willUpdate(changed) {
    if (!changed.has('network') || !this.network) return
    const {nodes, edges} = this.network
    this.placed = null
    if (nodes.length > DRAWN) return
    const boxes = nodes.map((node) => ({
      id: name(node),
      width: Math.min(Math.max(name(node).length * 8 + 24, 44), 190),
      height: 30,
    }))
    const known = new Set(boxes.map((box) => box.id))
    const lines = edges.filter((edge) => known.has(edge.from) && known.has(edge.to))
    const result = await place(
      boxes,
      lines.map(({from, to}) => [from, to]),
      'LR',
    )
    this.placed = {result, lines, paths: paths(lines, result, 'LR')}
  }

  drawing({result, lines, paths: curves}) {
    const arrow = svg`<marker id="net" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"
      orient="auto"><path class="arrow" d="M1 1 7 4 1 7"></path></marker>`
    const line = (path, at) =>
      svg`<path class="line" d=${path} marker-end=${lines[at].directed === false ? nothing : 'url(#net)'}></path>`
    const box = ({id, x, y, width}) =>
      svg`<g><rect class="net-node" x=${x - width / 2} y=${y - 15} width=${width} height="30" rx="8"></rect>
        <text x=${x} y=${y + 4} text-anchor="middle">${id.length > 20 ? `${id.slice(0, 19)}…` : id}</text></g>`
    return html`<div class="scroll network" tabindex="0" role="region" aria-label="Graph">
      <svg width=${result.width} height=${result.height} role="img" aria-label="Graph of ${result.nodes.length} nodes">
        <defs>${arrow}</defs>
        ${curves.map(line)}${result.nodes.map(box)}
      </svg>
    </div>`
  }

  render() {
    const {nodes, edges} = this.network
    return html`${this.placed ? this.drawing(this.placed) : nothing}
      <details>
        <summary>${plural(nodes.length, 'node')}, ${plural(edges.length, 'edge')}</summary>
        <ul class="jobs">
          ${edges
            .slice(0, 200)
            .map((edge) => html`<li>${edge.from} ${edge.directed === false ? '—' : '→'} ${edge.to}</li>`)}${
            edges.length > 200 ? html`<li class="soft">and ${count(edges.length - 200)} more</li>` : nothing
          }
        </ul>
      </details>`
  }
}
const name = (node) => String(typeof node === 'object' ? (node.id ?? node.name) : node)
customElements.define('wr-network', Network)
