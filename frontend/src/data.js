// One data layer with two sources: the server, by fetch, and a report, which carries its answers in the page.
// A view reads what it shows on every rendering; what is not here yet arrives later and the page renders again.

export class Data extends EventTarget {
  #entries = new Map()
  pending = 0 // requests on their way

  constructor(source) {
    super()
    this.source = source
  }

  // {value, error, stale}: `value` is undefined until the answer is here.
  read(name, params = {}) {
    const request = requestOf(name, params)
    let entry = this.#entries.get(request)
    if (!entry) this.#entries.set(request, (entry = {value: undefined, error: undefined, stale: true, asked: false}))
    if (entry.stale && !entry.asked) this.#ask(request, entry)
    return entry
  }

  // The old answers stay on the page until the new ones are here.
  invalidate() {
    for (const [request, entry] of this.#entries) {
      if (performance.now() - entry.read > 60_000) this.#entries.delete(request)
      else entry.stale = true
    }
    this.dispatchEvent(new Event('change'))
  }

  async #ask(request, entry) {
    entry.asked = true
    this.pending += 1
    entry.read = performance.now()
    try {
      entry.value = await this.source.get(request)
      entry.error = undefined
    } catch (error) {
      entry.error = error
    }
    entry.stale = entry.asked = false
    this.pending -= 1
    this.dispatchEvent(new Event('change'))
  }
}

// The text of a request: parameters in alphabetic order. A list repeats its name.
export function requestOf(name, params = {}) {
  const pairs = Object.entries(params)
    .filter(([, value]) => value !== undefined && value !== null && value !== '')
    .flatMap(([key, value]) => (Array.isArray(value) ? value.map((one) => [key, one]) : [[key, value]]))
  const query = new URLSearchParams(pairs.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))).toString()
  return query ? `${name}?${query}` : name
}
