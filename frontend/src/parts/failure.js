// A failure: what went wrong, where, and one click further the traceback and what the step printed last.
import {html, nothing} from 'lit'
import {copy, idLink} from './basics.js'
import {withoutTrace} from '../format.js'
import {link} from '../router.js'
import {glyph} from '../states.js'

export function failureCard(failure, {id, brief = false, open = false} = {}) {
  const {traceback, stderr} = failure
  const error = traceback || stderr?.length ? withoutTrace(failure.error) : (failure.error ?? '')
  // That of a command is its error once more: what the command printed says it whole.
  const repeats = error && stderr?.length && traceback?.split('\n')[0].endsWith(error.split('\n')[0])
  const named = failure.error_type && !error.startsWith(failure.error_type) ? failure.error_type : ''
  return html`<article class="failure" data-id=${id ?? nothing} data-code=${failure.status ?? 'FAILED'}>
    <p class="failure-head">
      ${glyph('failed')}<b>${brief && id ? idLink(id) : 'It failed'}</b>
      ${failure.run ? html`in <a href=${link('run', failure.run)}>${failure.run}</a>` : nothing}${
        failure.attempt > 1 ? html`, attempt ${failure.attempt}` : nothing
      }
    </p>
    <p class="failure-error">${named ? html`<b>${named}</b>: ` : nothing}${error}</p>
    ${failure.place ? html`<p class="soft"><code>${failure.place}</code></p>` : nothing}
    ${
      failure.because?.length
        ? html`<p>Blocked by ${failure.because.slice(0, 5).map((one, at) => html`${at ? ', ' : ''}${idLink(one)}`)}</p>`
        : nothing
    }
    ${
      traceback && !repeats
        ? html`<details ?open=${open}>
            <summary>Traceback</summary>
            <div class="output">
              ${copy(traceback, 'Copy the traceback')}
              <pre class="trace" tabindex="0" aria-label="Traceback">${traceback}</pre>
            </div>
          </details>`
        : nothing
    }
    ${printed('Last lines of stderr', stderr, open)}${printed('Last lines of stdout', failure.stdout, false)}
    ${
      brief && id && !open
        ? html`<p class="failure-more">
            <a href=${link('why', id)}>${traceback ? 'Its reasons, and what follows' : 'Traceback and output'}</a>
          </p>`
        : nothing
    }
  </article>`
}

const printed = (title, lines, open) =>
  lines?.length
    ? html`<details ?open=${open}>
        <summary>${title}</summary>
        <div class="output">
          ${copy(lines.join('\n'), `Copy: ${title}`)}
          <pre tabindex="0" aria-label=${title}>${lines.join('\n')}</pre>
        </div>
      </details>`
    : nothing
