// Jump to a job, an artifact, an input or a run from every view.
import {html, nothing} from 'lit'
import {icons, idText} from './basics.js'
import {linkTo} from '../router.js'
import {wordOf} from '../states.js'

export function search(app) {
  const {ui} = app
  const query = ui.query.trim()
  const answer = ui.searching && query ? app.read('search', {q: query}) : null
  const hits = answer?.value?.hits ?? []
  const set = (change) => {
    app.ui = {...app.ui, ...change}
  }
  const go = (hit) => {
    set({searching: false, query: ''})
    app.querySelector('#search').blur()
    location.hash = place(hit)
  }
  const key = (event) => {
    if (event.key === 'ArrowDown') {
      set({active: Math.min(ui.active + 1, hits.length - 1)})
      event.preventDefault()
    } else if (event.key === 'ArrowUp') {
      set({active: Math.max(ui.active - 1, 0)})
      event.preventDefault()
    } else if (event.key === 'Enter' && hits[ui.active]) go(hits[ui.active])
  }
  const open = ui.searching && query && answer
  return html`<div class="search" role="search">
    <label class="field"
      >${icons.search}<input
        id="search"
        type="text"
        autocomplete="off"
        spellcheck="false"
        placeholder="Jump to a job, artifact or run"
        role="combobox"
        aria-label="Jump to a job, artifact, input or run"
        aria-expanded=${open ? 'true' : 'false'}
        aria-controls=${open ? 'hits' : nothing}
        aria-autocomplete="list"
        aria-activedescendant=${open && hits.length ? `hit-${ui.active}` : nothing}
        .value=${ui.query}
        @input=${(event) => set({query: event.target.value, searching: true, active: 0})}
        @focus=${() => set({searching: true})}
        @blur=${() => setTimeout(() => set({searching: false}), 150)}
        @keydown=${key}
      /><kbd>/</kbd></label
    >
    ${
      open
        ? html`<div class="hits">
            <ul id="hits" role="listbox" aria-label="Hits">
              ${hits.map(
                (hit, at) =>
                  html`<li
                    role="option"
                    id=${`hit-${at}`}
                    aria-selected=${at === ui.active ? 'true' : 'false'}
                    data-id=${hit.id}
                    @pointerdown=${(event) => {
                      event.preventDefault()
                      go(hit)
                    }}
                  >
                    <span class="hit-kind">${hit.kind}</span><span class="id">${idText(hit.id, {kind: false})}</span>
                    <span class="soft">${(hit.text ?? '').split(' · ').map(wordOf).join(' · ')}</span>
                  </li>`,
              )}
            </ul>
            ${
              hits.length
                ? answer.value?.more
                  ? html`<p class="soft">and ${answer.value.more} more; type more letters</p>`
                  : nothing
                : html`<p class="soft">
                    ${answer.error ? answer.error.message : answer.value ? 'Nothing has this name.' : 'Looking …'}
                  </p>`
            }
          </div>`
        : nothing
    }
  </div>`
}

// An address that the server gives must lead into this page.
const place = (hit) => (/^#\//.test(hit.href ?? '') ? hit.href : linkTo(hit.id))
