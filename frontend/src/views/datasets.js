// Datasets: rows through merges, what found no match, which branches were taken and why.
import {html, nothing} from 'lit'
import {answer, command, empty, icons, section} from '../parts/basics.js'
import {jsonTree} from '../parts/json_tree.js'
import {count, inline} from '../format.js'
import {link} from '../router.js'

export function datasetsView(ctx) {
  const found = ctx.read('datasets', {run: ctx.params.run})
  return html`<h1>Datasets</h1>
    ${answer(found, (value) => (value.answer ? summary(ctx, value) : html`${empty('This workflow composes no datasets.', 'A dataset plan does: its merges and branches are shown here.')}${command(ctx.command(value.command))}`))}`
}

function summary(ctx, {answer: it, run, runs, command: words}) {
  return html`<p class="soft">
      as composed in <a href=${link('run', run)}>${run}</a>${
        runs?.length > 1
          ? html` · also
            ${runs
              .filter((one) => one !== run)
              .slice(-8)
              .map((one, at) => html`${at ? ', ' : ''}<a href=${link('datasets', {run: one})}>${one}</a>`)}`
          : nothing
      }
    </p>
    ${Object.entries(it)
      .filter(([, value]) => Array.isArray(value) && value.length && typeof value[0] === 'object')
      .map(([name, list]) => section(name.replaceAll('_', ' '), steps(list)))}
    ${section(
      'The whole summary',
      html`<details>
        <summary>composition_summary.json</summary>
        ${jsonTree(it)}
      </details>`,
    )}${command(ctx.command(words))}`
}

// Every list of the summary as cards: the name first, then numbers, then the rest.
function steps(list) {
  return html`<ul class="cards">
    ${list.slice(0, 100).map((step) => {
      const title = step.name ?? step.id ?? step.job ?? step.step ?? step.dataset ?? ''
      const entries = Object.entries(step).filter(
        ([key, value]) => value !== title && value !== null && !['name'].includes(key),
      )
      const numbers = entries.filter(([, value]) => typeof value === 'number')
      const rest = entries.filter(([, value]) => typeof value !== 'number')
      return html`<li class="card" data-id=${step.job ?? step.id ?? title}>
        <h3>${title}</h3>
        ${numbers.length ? html`<p class="flow">${numbers.map(([key, value], at) => html`${at ? icons.on : nothing}<span><b>${count(value)}</b> ${key.replaceAll('_', ' ')}</span>`)}</p>` : nothing}
        <dl class="facts">
          ${rest.slice(0, 16).map(
            ([key, value]) =>
              html`<div>
                <dt>${key.replaceAll('_', ' ')}</dt>
                <dd>
                  ${value !== null && typeof value === 'object' ? (JSON.stringify(value).length < 90 ? html`<code>${JSON.stringify(value)}</code>` : jsonTree(value)) : inline(value)}
                </dd>
              </div>`,
          )}
        </dl>
      </li>`
    })}
  </ul>`
}
