// Addresses: `#/why/Job%3AThenImage%5B1%5D?filter=…`. IDs are percent-encoded once and decoded once.

export const VIEWS = [
  'graph',
  'why',
  'artifacts',
  'artifact',
  'results',
  'runs',
  'run',
  'plan',
  'whatif',
  'diff',
  'lineage',
  'datasets',
]

// encodeURIComponent leaves !'()* alone; `quote(id, safe="")` of Python does not.
const quote = (text) =>
  encodeURIComponent(text).replace(/[!'()*]/g, (c) => '%' + c.charCodeAt(0).toString(16).toUpperCase())

function unquote(text) {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

export function parse(hash) {
  const [path, query = ''] = hash.replace(/^#\/?/, '').split('?', 2)
  const [view, ...args] = path.split('/')
  return {
    view: VIEWS.includes(view) ? view : view ? 'unknown' : 'graph',
    args: args.filter(Boolean).map(unquote),
    params: Object.fromEntries(new URLSearchParams(query)),
  }
}

export function link(view, ...args) {
  const last = args.at(-1)
  const params = last && typeof last === 'object' ? args.pop() : {}
  const query = new URLSearchParams(
    Object.entries(params).filter(([, v]) => v !== undefined && v !== null && v !== ''),
  ).toString()
  return `#/${[view, ...args.map(quote)].join('/')}${query ? `?${query}` : ''}`
}

// The page that shows an ID best.
export function linkTo(id) {
  if (/^Artifact:/.test(id)) return link('artifact', id)
  if (/^r\d{4,}$/.test(id)) return link('run', id)
  return link('why', id)
}

// Replaces the parameters of the address without a new entry in the history.
export function setParams(params) {
  const {view, args, params: old} = parse(location.hash)
  history.replaceState(null, '', link(view, ...args, {...old, ...params}))
  dispatchEvent(new HashChangeEvent('hashchange'))
}
