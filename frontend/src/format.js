// Numbers, times and IDs as people read them.

const group = new Intl.NumberFormat('en-US')
export const count = (n) => group.format(n ?? 0)
const short = new Intl.NumberFormat('en-US', {notation: 'compact', maximumFractionDigits: 1})
export const compact = (n) => short.format(n)
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`

export function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return '–'
  if (seconds < 0.001) return seconds <= 0 ? '0 s' : '<1 ms'
  if (seconds < 0.1) return `${Math.round(seconds * 1000)} ms`
  if (seconds < 10) return `${seconds.toFixed(seconds < 1 ? 2 : 1)} s`
  if (seconds < 60) return `${Math.round(seconds)} s`
  const m = Math.round(seconds / 60)
  if (seconds < 3600) {
    const s = Math.round(seconds % 60)
    return s && s < 60 && seconds < 600 ? `${Math.floor(seconds / 60)} min ${s} s` : `${m} min`
  }
  if (seconds < 86400) {
    const h = Math.floor(m / 60)
    return m % 60 ? `${h} h ${m % 60} min` : `${h} h`
  }
  return `${(seconds / 86400).toFixed(1)} days`
}

export function bytes(n) {
  if (n === null || n === undefined) return '–'
  for (const [unit, size] of [
    ['GB', 1e9],
    ['MB', 1e6],
    ['KB', 1e3],
  ]) {
    if (n >= size) return `${(n / size).toFixed(n / size < 10 ? 1 : 0)} ${unit}`
  }
  return `${n} B`
}

export function ago(ts, now = Date.now()) {
  const seconds = (now - Date.parse(ts)) / 1000
  if (Number.isNaN(seconds)) return ''
  if (seconds < 10) return 'just now'
  if (seconds < 60) return `${Math.round(seconds)} s ago`
  if (seconds < 3600) return `${Math.round(seconds / 60)} min ago`
  if (seconds < 86400) return `${Math.round(seconds / 3600)} h ago`
  if (seconds < 86400 * 14) return `${Math.round(seconds / 86400)} days ago`
  return ts.slice(0, 10)
}

export const when = (ts) => (ts ? ts.replace('T', ' ').replace(/\.\d+/, '').replace('Z', ' UTC') : '')
// An error without the traceback that a command printed after it: one is shown where there is room for its lines.
export const withoutTrace = (error) => String(error ?? '').replace(/\s+Traceback \(most recent call last\):[^]*$/, '')
export const shortHash = (sha) => (sha ? `${sha.replace(/^sha256:/, '').slice(0, 8)}` : '')

// 'Job:ThenImage[1]' → {kind: 'Job', name: 'ThenImage', index: '[1]'}; an import's jobs are named 'Prep/Clean', also
// with indices of the import: 'Job:Prep[ada]/Clean[0]' → index '[ada][0]'.
export function idParts(id) {
  const colon = id.indexOf(':')
  const kind = colon > 0 ? id.slice(0, colon) : ''
  const rest = id.slice(colon + 1)
  if (kind !== 'Job') return {kind, name: rest, index: ''}
  return {kind, name: rest.replace(INDEX, ''), index: (rest.match(INDEX) ?? []).join('')}
}
export const INDEX = /\[(?:"(?:[^"\\]|\\.)*"|[^[\]"]+)\]/g
// The ID of an instance. The text of one in an import that runs for loops is its whole path: its indices lie apart.
export const idOf = (job, text) => `Job:${text === '' || text.startsWith('[') ? job + text : text}`
export const bare = (id) => id.replace(/^(Job|Artifact|Input):/, '')

export function inline(value, limit = 160) {
  const text = typeof value === 'string' ? `“${value}”` : JSON.stringify(value)
  if (text === undefined) return ''
  return text.length > limit ? `${text.slice(0, limit)}…` : text
}
