// Where answers come from: `whyrun view` by fetch, or a report by the members in its own file.
import {requestOf} from './data.js'
import {requestFromParts} from './report_requests.js'

export class Problem extends Error {
  constructor({code, message, hint}) {
    super(message)
    this.code = code
    this.hint = hint
  }
}

export class ServerSource {
  live = true

  async get(request) {
    let response
    try {
      response = await fetch(`api/${request}`, {headers: {accept: 'application/json'}})
    } catch {
      throw new Problem({
        code: 'NO_SERVER',
        message: 'The server does not answer.',
        hint: 'Start whyrun view again and open the address that it prints.',
      })
    }
    const body = await response.json().catch(() => null)
    if (response.ok && body) return body
    throw new Problem(
      body?.diagnostics?.[0] ?? {
        code: `HTTP_${response.status}`,
        message: response.statusText || 'The server sent no answer.',
      },
    )
  }

  url(href) {
    return href ?? null
  }

  leftOut() {
    return []
  }
}

export class ReportSource {
  live = false
  #members = new Map()
  #urls = new Map()
  #answers
  #index

  async get(request) {
    this.#answers ??= requestFromParts((id) => this.member(id))
    this.#index ??= (await this.member('m0')).index ?? {}
    const value = await (await this.#answers)(request)
    if (value !== undefined) return value
    throw new Problem({
      code: 'NOT_IN_REPORT',
      message: 'This is not in the report.',
      hint: 'whyrun view answers it live.',
    })
  }

  // Base64 of gzip of JSON, decompressed when it is first asked for.
  member(id) {
    if (!this.#members.has(id)) this.#members.set(id, unpack(document.getElementById(id)?.textContent))
    return this.#members.get(id)
  }

  leftOut() {
    return this.#index?.left_out ?? []
  }

  // An object URL of bytes in the page, by their hash; null if the report does not have them.
  url(href, sha256) {
    const key = sha256 ?? /^blob\/([0-9a-f]+)/.exec(href ?? '')?.[1]
    const blob = key && this.#index?.blobs?.[key]
    if (!blob) return null
    if (!this.#urls.has(key)) {
      const bytes = decode(document.getElementById(blob.element)?.textContent ?? '')
      this.#urls.set(key, URL.createObjectURL(new Blob([bytes], {type: blob.media_type})))
    }
    return this.#urls.get(key)
  }
}

const decode = (text) => Uint8Array.from(atob(text.trim()), (c) => c.charCodeAt(0))

async function unpack(text) {
  if (!text) return {}
  const stream = new Blob([decode(text)]).stream().pipeThrough(new DecompressionStream('gzip'))
  return new Response(stream).json()
}

export function chooseSource() {
  const config = JSON.parse(document.getElementById('whyrun-config')?.textContent || '{"mode": "live"}')
  return {config, source: config.mode === 'report' ? new ReportSource() : new ServerSource()}
}

export {requestOf}
