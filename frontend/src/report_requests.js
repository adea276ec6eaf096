// Answers requests from the members of a report. Most answers are there as they are; `why` stands in pages by job, and
// `instances` and `search` are made here from `cells` and `why`.
import {requestOf} from './data.js'
import {idOf, idParts} from './format.js'
import {LETTERS} from './states.js'

const ROWS = 200
const HITS = 50
const ARTIFACTS = 100

export async function requestFromParts(member) {
  const first = await member('m0')
  const index = first.index ?? {}
  const places = canonical(index.members?.others ?? {})
  const ready = canonical(first)
  const pages = index.members?.why ?? {}
  const size = index.page ?? 1000

  async function exact(request) {
    if (ready.has(request)) return ready.get(request)
    const place = places.get(request)
    if (!place) return undefined
    return canonical(await member(place)).get(request)
  }

  const cells = (job) => exact(requestOf('cells', {job}))

  async function why(id) {
    const direct = await exact(requestOf('why', {id}))
    if (direct !== undefined) return direct
    const job = jobOf(id)
    const all = pages[job] && (await cells(job))
    if (!all) return undefined
    const position = textsOf(all).findIndex((text) => idOf(job, text) === id)
    if (position < 0) return undefined
    return row(job, position)
  }

  async function row(job, position) {
    const page = Math.floor(position / size)
    const place = pages[job]?.[page]
    if (!place) return undefined
    return (await member(place))[`why/${job}/${page}`]?.[position - page * size]
  }

  async function instances(params) {
    const nodes = ready.get('graph')?.nodes ?? []
    const jobs = params.job ? [params.job] : nodes.map((node) => node.job)
    const found = []
    for (const job of jobs) {
      const all = await cells(job)
      if (all) found.push(...matching(job, all, params))
    }
    const page = Number(params.page ?? 0)
    const rows = await Promise.all(
      found.slice(page * ROWS, (page + 1) * ROWS).map(async ({id, job, position, state, outcome, code}) => {
        const answer = await row(job, position)
        const reasons = answer?.explain?.reasons ?? []
        return {
          id,
          state,
          outcome,
          code,
          layer: answer?.explain?.layer ?? answer?.job?.layer,
          text: reasons[0]?.text ?? '',
          more: Math.max(reasons.length - 1, 0),
          run: answer?.job?.latest_attempt?.run ?? null,
          duration: answer?.job?.latest_attempt?.duration ?? null,
          error: answer?.failure?.error ?? null,
          outputs: (answer?.job?.outputs ?? []).map((output) => output.id),
        }
      }),
    )
    return {
      command: ready.get('graph')?.command ?? null,
      page,
      pages: Math.ceil(found.length / ROWS),
      total: found.length,
      rows,
    }
  }

  // The report has all rows in one page.
  async function artifacts({kind, q, job, state, page = 0}) {
    const all = await exact(requestOf('artifacts', {page: 0}))
    if (!all) return undefined
    const rows = all.rows.filter(
      (row) =>
        (!kind || row.kind === kind) &&
        (!job || jobOf(row.job ?? '') === job) &&
        (!state || row.state === state) &&
        (!q || row.id.toLowerCase().includes(q.toLowerCase())),
    )
    return {
      ...all,
      page: Number(page),
      pages: Math.max(Math.ceil(rows.length / ARTIFACTS), 1),
      total: rows.length,
      rows: rows.slice(page * ARTIFACTS, (Number(page) + 1) * ARTIFACTS),
    }
  }

  // The report has a table for each pattern; those that are asked for together become one.
  async function results(patterns) {
    const tables = (await Promise.all(patterns.map((pattern) => exact(requestOf('results', {pattern}))))).filter(
      Boolean,
    )
    if (!tables.length) return undefined
    const rows = new Map()
    tables.forEach(({answer}, t) =>
      answer.rows.forEach((row) => {
        const key = JSON.stringify(row.index)
        const whole = rows.get(key) ?? {index: row.index, values: [], states: [], artifacts: [], runs: []}
        for (const field of ['values', 'states', 'artifacts', 'runs']) whole[field][t] = row[field][0]
        rows.set(key, whole)
      }),
    )
    return {
      ...tables[0],
      answer: {...tables[0].answer, columns: tables.map(({answer}) => answer.columns[0]), rows: [...rows.values()]},
    }
  }

  async function search({q = ''}) {
    const words = q.toLowerCase().split(/\s+/).filter(Boolean)
    const hit = (text) => words.every((word) => text.toLowerCase().includes(word))
    const hits = []
    let more = 0
    const add = (kind, id, text) => {
      if (hits.length < HITS) hits.push({kind, id, text})
      else more += 1
    }
    for (const {run, state} of ready.get('state')?.runs ?? []) if (hit(run)) add('run', run, state)
    for (const input of ready.get('graph')?.inputs ?? []) if (hit(input.id)) add('input', input.id, input.type)
    for (const node of ready.get('graph')?.nodes ?? []) {
      const all = await cells(node.job)
      if (!all) continue
      const texts = textsOf(all)
      for (let at = 0; at < texts.length; at++) {
        const id = idOf(node.job, texts[at])
        if (hit(id))
          add('job', id, `${all.legend?.states?.[all.states[at]] ?? LETTERS[all.states[at]] ?? ''} · ${node.action}`)
      }
      for (const artifact of node.shown ?? []) if (hit(artifact.id)) add('artifact', artifact.id, artifact.type)
    }
    return {command: null, q, hits, more}
  }

  return async (request) => {
    const answer = await exact(request)
    if (answer !== undefined && !request.startsWith('artifacts')) return answer
    const [name, query = ''] = request.split('?', 2)
    const params = Object.fromEntries(new URLSearchParams(query))
    if (name === 'why' && !params.at) return why(params.id)
    if (name === 'focus') return (await why(params.id))?.focus
    if (name === 'artifacts') return artifacts(params)
    if (name === 'results') return results(new URLSearchParams(query).getAll('pattern'))
    if (name === 'instances') return instances(params)
    if (name === 'search') return search(params)
    return undefined
  }
}

// Python and JavaScript quote a few characters differently: keys are compared in our own form.
function canonical(members) {
  const map = new Map()
  for (const [key, value] of Object.entries(members)) {
    const [name, query] = key.split('?', 2)
    map.set(query === undefined ? key : requestOf(name, Object.fromEntries(new URLSearchParams(query))), value)
  }
  return map
}

const jobOf = (id) => idParts(id).name

export function textsOf(cells) {
  return cells.texts ?? Array.from({length: cells.count}, (_, at) => (cells.axes?.length ? `[${at}]` : ''))
}

function* matching(job, cells, {state, outcome, code, q}) {
  const texts = textsOf(cells)
  for (let at = 0; at < cells.count; at++) {
    const row = {
      id: idOf(job, texts[at]),
      job,
      position: at,
      state: cells.legend?.states?.[cells.states[at]] ?? cells.states[at],
      outcome: cells.legend?.outcomes?.[cells.outcomes[at]] ?? cells.outcomes[at],
      code:
        cells.headline?.[at] && cells.headline[at] !== '.' ? cells.headlines[parseInt(cells.headline[at], 36)] : null,
    }
    if (state && row.state !== state) continue
    if (outcome && row.outcome !== outcome) continue
    if (code && row.code !== code) continue
    if (q && !row.id.toLowerCase().includes(q.toLowerCase())) continue
    yield row
  }
}
