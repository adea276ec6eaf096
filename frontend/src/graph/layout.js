// Asks the worker for a layout. The newest request wins; what was placed before is remembered.
import source from './layout.worker.js'

const remembered = new Map()
const waiting = new Map()
let worker

export function place(nodes, edges, direction) {
  const key = JSON.stringify([direction, nodes.map(({id, width, height, parent}) => [id, width, height, parent ?? 0]), edges])
  if (!remembered.has(key)) {
    remembered.set(key, new Promise((resolve, reject) => {
      waiting.set(key, {resolve, reject})
      worker ??= start()
      worker.postMessage({key, nodes, edges, direction})
    }))
    if (remembered.size > 12) remembered.delete(remembered.keys().next().value)
  }
  return remembered.get(key)
}

function start() {
  const made = new Worker(URL.createObjectURL(new Blob([source], {type: 'text/javascript'})))
  made.onmessage = ({data}) => { waiting.get(data.key)?.resolve(data); waiting.delete(data.key) }
  made.onerror = (event) => {
    for (const {reject} of waiting.values()) reject(new Error(event.message || 'the layout failed'))
    waiting.clear()
  }
  return made
}

// A smooth line from box to box through the points of an edge: it leaves and arrives straight, and never swings back.
export function curve(points, direction) {
  if (points.length < 2) return ''
  const flip = direction !== 'LR'
  const xs = points.map((point) => (flip ? point.y : point.x))
  const ys = points.map((point) => (flip ? point.x : point.y))
  const last = points.length - 1
  const slope = points.map((_, i) => {
    if (i === 0 || i === last) return 0
    const [before, after] = [(ys[i] - ys[i - 1]) / (xs[i] - xs[i - 1] || 1), (ys[i + 1] - ys[i]) / (xs[i + 1] - xs[i] || 1)]
    return before * after <= 0 ? 0 : 2 * before * after / (before + after)
  })
  const at = (x, y) => (flip ? `${r(y)} ${r(x)}` : `${r(x)} ${r(y)}`)
  let path = `M${at(xs[0], ys[0])}`
  for (let i = 1; i <= last; i++) {
    const third = (xs[i] - xs[i - 1]) * (last === 1 ? 0.5 : 0.4)
    path += `C${at(xs[i - 1] + third, ys[i - 1] + slope[i - 1] * third)} ${at(xs[i] - third, ys[i] - slope[i] * third)} ${at(xs[i], ys[i])}`
  }
  return path
}
const r = (x) => Math.round(x * 10) / 10

// Edges meet a box in the middle of its side; several share the side in the order of where they come from.
export function ends(edges, nodes, points, direction) {
  const spot = new Map(nodes.map((node) => [node.id, node]))
  const across = direction === 'LR'
  const order = (id) => { const node = spot.get(id); return across ? node.y : node.x }
  const offsets = (mine, other) => {
    const by = new Map()
    edges.forEach((edge, at) => { if (!by.has(edge[mine])) by.set(edge[mine], []); by.get(edge[mine]).push(at) })
    const found = new Map()
    for (const [id, list] of by) {
      const {width, height} = spot.get(id)
      const room = (across ? height : width) - 36
      const step = Math.min(26, room / Math.max(list.length, 1))
      list.sort((a, b) => order(edges[a][other]) - order(edges[b][other])).forEach((at, i) => found.set(at, (i - (list.length - 1) / 2) * step))
    }
    return found
  }
  const [leaving, arriving] = [offsets('from', 'to'), offsets('to', 'from')]
  return edges.map((edge, at) => {
    if (edge.from === edge.to) return []
    const [a, b] = [spot.get(edge.from), spot.get(edge.to)]
    const first = across ? {x: a.x + a.width / 2, y: a.y + leaving.get(at)} : {x: a.x + leaving.get(at), y: a.y + a.height / 2}
    const last = across ? {x: b.x - b.width / 2 - 3, y: b.y + arriving.get(at)} : {x: b.x + arriving.get(at), y: b.y - b.height / 2 - 3}
    const between = points[at].slice(1, -1).filter((p) => (across ? p.x > first.x + 56 && p.x < last.x - 56 : p.y > first.y + 40 && p.y < last.y - 40))
    return [first, ...(points[at].length < 5 ? [] : between), last]
  })
}
