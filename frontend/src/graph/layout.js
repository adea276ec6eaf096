// Asks the worker for a layout. The newest request wins; what was placed before is remembered.
import source from './layout.worker.js'

const remembered = new Map()
const waiting = new Map()
let worker

export function place(nodes, edges, direction) {
  const key = JSON.stringify([
    direction,
    nodes.map(({id, width, height, parent}) => [id, width, height, parent ?? 0]),
    edges,
  ])
  if (!remembered.has(key)) {
    remembered.set(
      key,
      new Promise((resolve, reject) => {
        waiting.set(key, {resolve, reject})
        worker ??= start()
        worker.postMessage({key, nodes, edges, direction})
      }),
    )
    if (remembered.size > 12) remembered.delete(remembered.keys().next().value)
  }
  return remembered.get(key)
}

function start() {
  const made = new Worker(URL.createObjectURL(new Blob([source], {type: 'text/javascript'})))
  made.onmessage = ({data}) => {
    waiting.get(data.key)?.resolve(data)
    waiting.delete(data.key)
  }
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
    const [before, after] = [
      (ys[i] - ys[i - 1]) / (xs[i] - xs[i - 1] || 1),
      (ys[i + 1] - ys[i]) / (xs[i + 1] - xs[i] || 1),
    ]
    return before * after <= 0 ? 0 : (2 * before * after) / (before + after)
  })
  const at = (x, y) => (flip ? `${r(y)} ${r(x)}` : `${r(x)} ${r(y)}`)
  let path = `M${at(xs[0], ys[0])}`
  for (let i = 1; i <= last; i++) {
    const third = (xs[i] - xs[i - 1]) * (last === 1 ? 0.5 : 0.4)
    path += `C${at(
      xs[i - 1] + third,
      ys[i - 1] + slope[i - 1] * third,
    )} ${at(xs[i] - third, ys[i] - slope[i] * third)} ${at(xs[i], ys[i])}`
  }
  return path
}
const r = (x) => Math.round(x * 10) / 10

// Edges meet a box in the middle of its side; several share the side in the order of where they come from.
export function ends(edges, nodes, points, direction) {
  const spot = new Map(nodes.map((node) => [node.id, node]))
  const across = direction === 'LR'
  const order = (id) => {
    const node = spot.get(id)
    return across ? node.y : node.x
  }
  const offsets = (mine, other) => {
    const by = new Map()
    edges.forEach((edge, at) => {
      if (!by.has(edge[mine])) by.set(edge[mine], [])
      by.get(edge[mine]).push(at)
    })
    const found = new Map()
    for (const [id, list] of by) {
      const {width, height} = spot.get(id)
      const room = (across ? height : width) - 36
      const step = Math.min(26, room / Math.max(list.length, 1))
      list
        .sort((a, b) => order(edges[a][other]) - order(edges[b][other]))
        .forEach((at, i) => found.set(at, (i - (list.length - 1) / 2) * step))
    }
    return found
  }
  const [leaving, arriving] = [offsets('from', 'to'), offsets('to', 'from')]
  return edges.map((edge, at) => {
    if (edge.from === edge.to) return []
    const [a, b] = [spot.get(edge.from), spot.get(edge.to)]
    const first = across
      ? {x: a.x + a.width / 2, y: a.y + leaving.get(at)}
      : {x: a.x + leaving.get(at), y: a.y + a.height / 2}
    const last = across
      ? {x: b.x - b.width / 2 - 3, y: b.y + arriving.get(at)}
      : {x: b.x + arriving.get(at), y: b.y - b.height / 2 - 3}
    const between = points[at]
      .slice(1, -1)
      .filter((p) => (across ? p.x > first.x + 56 && p.x < last.x - 56 : p.y > first.y + 40 && p.y < last.y - 40))
    return [first, ...(points[at].length < 5 ? [] : between), last]
  })
}

const BAND = 56 // pixels between two bands

// A long chain is folded into bands, like lines of text, when that makes it larger on the screen.
export function folded(placed, width, height) {
  const fit = (count) => Math.min(width / (placed.width / count + 60), height / (count * (placed.height + BAND)))
  const count = [1, 2, 3, 4, 5, 6, 7, 8].reduce((best, one) => (fit(one) > fit(best) * 1.15 ? one : best), 1)
  if (count === 1 || fit(1) > 0.6) return placed
  const columns = [...new Set(placed.nodes.map((node) => Math.round(node.x)))].sort((a, b) => a - b)
  const size = placed.width / count
  const bands = [] // {from, to}: where each band begins and ends in the unfolded graph
  for (const x of columns) {
    const here = placed.nodes.filter((node) => Math.round(node.x) === x)
    const [left, right] = [
      Math.min(...here.map((node) => node.x - node.width / 2)),
      Math.max(...here.map((node) => node.x + node.width / 2)),
    ]
    const last = bands.at(-1)
    if (!last || right - last.from > size + 40) bands.push({from: left, to: right})
    else last.to = right
  }
  const bandOf = (x) =>
    Math.max(
      bands.findLastIndex((band) => x >= band.from),
      0,
    )
  const step = placed.height + BAND
  const move = (band, point) => ({...point, x: point.x - bands[band].from + 40, y: point.y + band * step})
  return {
    ...placed,
    folds: true,
    width: Math.max(...bands.map((band) => band.to - band.from)) + 80,
    height: bands.length * step,
    nodes: placed.nodes.map((node) => ({...move(bandOf(node.x), node), band: bandOf(node.x)})),
    edges: placed.edges.map((points) => points.map((point) => move(bandOf(points[0].x), point))),
  }
}

const at2 = (x, y) => `${r(x)} ${r(y)}`

// The lines of all edges. One that leads into another band goes through the space between the bands.
export function paths(edges, result, direction) {
  const spot = new Map(result.nodes.map((node) => [node.id, node]))
  const met = ends(edges, result.nodes, result.edges, direction)
  return edges.map(({from, to}, at) => {
    const [a, b] = [spot.get(from), spot.get(to)]
    if (!result.folds || a.band === b.band || !met[at].length) return curve(met[at], direction)
    const [first, last] = [met[at][0], met[at].at(-1)]
    const between =
      result.height * (b.band / (Math.max(...result.nodes.map((node) => node.band)) + 1)) - BAND / 2 + (at % 5) * 3
    const bend = Math.min(26, Math.abs(between - first.y) / 2)
    const [a1, a2, b1, b2] = [first.x, first.x + bend, last.x, last.x - bend]
    const down = `M${at2(a1, first.y)}C${at2(a2, first.y)} ${at2(a2, between)} ${at2(a1, between)}`
    return `${down}L${at2(b1, between)}C${at2(b2, between)} ${at2(b2, last.y)} ${at2(b1, last.y)}`
  })
}
