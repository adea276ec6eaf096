// What each box of the graph shows, and how large it is. Pure: from the answer `graph` to boxes and edges.
import {idParts} from '../format.js'

const THUMB = 68
const GAP = 8
const PAD = 14
const SMALL = 6 // instances that are shown one by one
const DETAILED = 80 // nodes up to which boxes have pictures

export function boxes({nodes, edges, groups = []}, {rows = null, closed = new Set(), overlay = null, widthOf}) {
  const detailed = nodes.length <= DETAILED
  const byJob = new Map()
  for (const row of rows ?? []) {
    const job = idParts(row.id).name
    if (!byJob.has(job)) byJob.set(job, [])
    byJob.get(job).push(row)
  }
  const within = (job) =>
    [...closed].filter((name) => job.startsWith(`${name}/`)).sort((a, b) => a.length - b.length)[0]
  const made = new Map()
  for (const node of nodes) {
    const group = within(node.job)
    if (group) {
      const box = made.get(`group:${group}`) ?? {
        id: `group:${group}`,
        kind: 'group',
        name: group,
        jobs: 0,
        count: 0,
        states: {},
        headlines: {},
        outcomes: {},
        href: node.first,
      }
      box.jobs += 1
      box.count += node.count
      for (const field of ['states', 'headlines', 'outcomes'])
        for (const [name, n] of Object.entries(node[field] ?? {})) box[field][name] = (box[field][name] ?? 0) + n
      made.set(box.id, box)
    } else {
      const states = overlay?.[node.job] ?? node.states
      made.set(node.job, {
        ...node,
        states,
        id: node.job,
        kind: 'job',
        parent: node.import || null,
        instances: byJob.get(node.job) ?? [],
      })
    }
  }
  const all = [...made.values()].map((box) => ({...box, ...measure(box, detailed, widthOf)}))
  const lines = new Map()
  for (const edge of edges) {
    const from = within(edge.from) ? `group:${within(edge.from)}` : edge.from
    const to = within(edge.to) ? `group:${within(edge.to)}` : edge.to
    if (from === to || !made.has(from) || !made.has(to)) continue
    const dirty = overlay ? runs(made.get(from)) && runs(made.get(to)) : edge.dirty
    const key = `${from}\n${to}`
    const known = lines.get(key)
    if (!known) lines.set(key, {...edge, from, to, dirty})
    else {
      known.dirty ||= dirty
      if (edge.kind === 'data') known.kind = 'data'
    }
  }
  const open = groups
    .map((group) => group.import)
    .filter((name) => !closed.has(name) && ![...closed].some((c) => name.startsWith(`${c}/`)))
  return {boxes: all, edges: [...lines.values()], groups: open}
}

const runs = (box) => (box.states?.planned ?? 0) > 0

// How many letters the line of states takes.
const said = (box) => Math.min(Object.values(box.states ?? {}).filter(Boolean).length, 2) * (box.count > 1 ? 14 : 10)

// The pictures of a job: one an instance where these are few, else the first ones.
function measure(box, detailed, widthOf) {
  const images = (box.shown ?? []).filter(
    (artifact) => artifact.sha256 && (artifact.kind === 'image' || artifact.kind === 'svg'),
  )
  const meta =
    box.kind === 'group'
      ? `import · ${box.jobs} jobs`
      : `${box.count > 1 ? `${box.count.toLocaleString('en-US')} × ` : ''}${box.action}`
  const words = Math.max(
    Math.min(widthOf(box.name, 14, 620), 190) + Math.min(widthOf(meta, 12), 150) + 24 + 2 * PAD,
    said(box) * 8 + 2 * PAD,
    172,
  )
  const width = (inner) => Math.round(Math.min(Math.max(inner + 2 * PAD, words), 320))
  const base = 36 + 30 // title, and the line that counts the states
  if (box.kind === 'group' || !detailed)
    return {content: 'none', width: width(0), height: base + (box.kind === 'group' ? 20 : 0)}
  if (images.length && box.count === 1)
    return {content: 'picture', images: images.slice(0, 1), width: width(170), height: base + 132}
  if (images.length && box.count <= SMALL && box.instances.length === box.count && box.count <= 4) {
    return {content: 'instances', images, width: width(box.count * (THUMB + GAP) - GAP), height: base + THUMB + 26}
  }
  if (images.length) {
    const shown = images.slice(0, 4)
    return {
      content: 'pictures',
      images: shown,
      width: width(shown.length * (THUMB + GAP) - GAP),
      height: base + THUMB + 8,
    }
  }
  if (box.count > 1 && box.count <= 48 && box.instances.length === box.count) {
    const columns = Math.ceil(box.count / Math.ceil(box.count / 12)) // rows of the same length
    return {
      content: 'cells',
      columns,
      width: width(columns * 18),
      height: base + Math.ceil(box.count / columns) * 18 + 6,
    }
  }
  const line = box.shown?.find((artifact) => artifact.text)
  if (box.count === 1 && line) return {content: 'text', text: line.text, width: width(150), height: base + 22}
  return {content: 'none', width: width(0), height: base}
}
