// Datasets: rows through the steps, what found no match in a merge, which branches were taken and why.
import {html, nothing} from 'lit'
import {answer, command, empty, icons, idLink, section, state as stateChip} from '../parts/basics.js'
import {jsonTree} from '../parts/json_tree.js'
import {css} from '../parts/css.js'
import {bare, count, duration, inline, plural} from '../format.js'
import {link} from '../router.js'

const CHIPS = {completed: 'succeeded'}

export function datasetsView(ctx) {
  const found = ctx.read('datasets', {run: ctx.params.run})
  const none = ({command: words}) =>
    html`${empty('This workflow composes no datasets.', 'A dataset plan does: its merges and branches are shown here.')}
    ${command(ctx.command(words))}`
  return html`<h1>Datasets</h1>
    ${answer(found, (value) => (value.answer ? summary(ctx, value) : none(value)))}`
}

function summary(ctx, {answer: it, run, runs = [], command: words}) {
  const others = runs.filter((one) => one !== run).slice(-8)
  const decisions = it.decisions ?? []
  const merges = new Map(decisions.filter((one) => one.kind === 'merge').map((one) => [one.step_id, one]))
  const conditions = decisions.filter((one) => one.kind === 'condition')
  const rest = decisions.filter((one) => one.kind !== 'merge' && one.kind !== 'condition')
  return html`<p class="soft">
      ${it.composition_mode} · as composed in <a href=${link('run', run)}>${run}</a>
      ${
        others.length
          ? html`· also ${others.map((one) => html`<a href=${link('datasets', {run: one})}>${one}</a> `)}`
          : nothing
      }
    </p>
    ${section('Given', given(it.inputs_manifest ?? []))}
    ${section(
      'Step by step',
      html`<ol class="cards">
        ${(it.steps ?? []).map((step) => stepCard(step, merges.get(step.step_id)))}
      </ol>`,
    )}
    ${
      conditions.length
        ? section(
            'Branches',
            html`<ul class="cards">
              ${conditions.map(branch)}
            </ul>`,
          )
        : nothing
    }
    ${
      rest.length
        ? section(
            'Other decisions',
            rest.map((one) => jsonTree(one)),
          )
        : nothing
    }
    ${section(
      'As it is written',
      html`<details>
        <summary>composition_summary.json</summary>
        ${jsonTree(it)}
      </details>`,
    )}
    ${command(ctx.command(words))}`
}

const size = ({rows, columns}) =>
  rows === null || rows === undefined ? nothing : html`<b>${count(rows)}</b> rows × ${count(columns)}`

const given = (files) =>
  html`<div class="scroll" tabindex="0" role="region" aria-label="Given datasets">
    <table class="table narrow">
      <thead>
        <tr>
          <th>Dataset</th>
          <th>Role</th>
          <th>File</th>
          <th class="num">Rows</th>
          <th class="num">Columns</th>
        </tr>
      </thead>
      <tbody>
        ${files.map(
          (file) =>
            html`<tr data-id=${`Input:${file.dataset_key}`}>
              <td>
                ${idLink(`Input:${file.dataset_key}`, {kind: false, href: link('why', `Input:${file.dataset_key}`)})}
              </td>
              <td class="soft">${file.role}${file.used === false ? ', not used' : nothing}</td>
              <td>${file.filename ?? file.rel_path ?? file.path}</td>
              <td class="num">${file.rows === null ? '–' : count(file.rows)}</td>
              <td class="num">${file.columns === null ? '–' : count(file.columns)}</td>
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`

// What a step read, how it met, and what came out.
function stepCard(step, merge) {
  return html`<li class="card step-card" data-id=${step.step_id} data-state=${step.status}>
    <p class="card-title">
      ${idLink(step.step_id, {kind: false})} <span class="soft">${step.action}</span>
      ${step.status === 'completed' ? nothing : stateChip(CHIPS[step.status] ?? step.status)}
      <span class="soft">${step.duration ? duration(step.duration) : nothing}</span>
    </p>
    <div class="flow">
      <ul>
        ${(step.bindings ?? []).map(
          (one) => html`<li><span class="soft">${one.name}</span> ${idLink(one.id, {kind: false})} ${size(one)}</li>`,
        )}
      </ul>
      ${icons.arrow}
      <ul>
        ${(step.products ?? []).map((one) => html`<li>${idLink(one.id, {kind: false})} ${size(one)}</li>`)}
      </ul>
    </div>
    ${merge ? matched(merge) : nothing}
    ${
      step.because
        ? html`<p class="soft">Not run: <code>${step.because.condition ?? inline(step.because)}</code> is false.</p>`
        : nothing
    }
  </li>`
}

function matched({rows, left, right, keys = [], how, cardinality, refused, renamed}) {
  const asked = cardinality?.asked && cardinality.asked !== cardinality.found ? `, asked for ${cardinality.asked}` : ''
  const changed = Object.entries(renamed ?? {})
  return html`<div class="match" data-refused=${refused ? 'true' : nothing}>
    <p>
      ${refused ? html`<b class="bad">Refused.</b> ` : nothing}${how} join on <b>${keys.join(', ')}</b>
      <span class="soft">${cardinality?.found}${asked}</span>
    </p>
    ${
      rows
        ? html`${share(left, rows.left, rows.matched_left, rows.unmatched_left)}${share(
            right,
            rows.right,
            rows.matched_right,
            rows.unmatched_right,
          )}`
        : nothing
    }
    ${
      changed.length
        ? html`<p class="soft">renamed: ${changed.map(([from, to]) => `${from} → ${inline(to)}`).join(', ')}</p>`
        : nothing
    }
  </div>`
}

const share = (name, all, met, not) =>
  html`<div class="share">
    <span class="soft">${name}</span>
    <span class="share-bar" aria-hidden="true">
      <span style=${css({width: `${all ? (met / all) * 100 : 0}%`})}></span>
    </span>
    <span
      ><b>${count(met)}</b> of ${plural(all, 'row')}
      matched${not ? html`, <b class="bad">${count(not)}</b> did not` : nothing}</span
    >
  </div>`

function branch({predicate, result, inputs = {}, taken = [], not_taken: others = [], step_id: id}) {
  const named = (list) => list.map((one, at) => html`${at ? ', ' : ''}${idLink(one, {kind: false})}`)
  return html`<li class="card" data-id=${id} data-code=${String(result)}>
    <p class="card-title">${bare(id)} <span class="soft">is ${String(result)}</span></p>
    <p class="condition"><code>${predicate}</code></p>
    ${Object.entries(inputs).map(
      ([name, it]) => html`<p>${idLink(name, {kind: false})} is <code>${inline(it?.value ?? it)}</code>.</p>`,
    )}
    <dl class="facts">
      <div>
        <dt>taken</dt>
        <dd>${taken.length ? named(taken) : 'none'}</dd>
      </div>
      <div>
        <dt>not taken</dt>
        <dd>${others.length ? named(others) : 'none'}</dd>
      </div>
    </dl>
  </li>`
}
