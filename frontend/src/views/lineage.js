// Where a value comes from: hop by hop back to inputs and code, each with its hash and its place in the log.
import {html, nothing} from 'lit'
import {answer, command, empty, idLink, idText, icons, section} from '../parts/basics.js'
import {css} from '../parts/css.js'
import {count, inline, shortHash, plural} from '../format.js'
import {link} from '../router.js'

const SHOWN = 300

export function lineageView(ctx) {
  const id = ctx.route.args[0]
  return id
    ? html`<p class="way"><a href=${link('lineage')}>${icons.back}Choose another</a></p>
        <h1>Where it comes from</h1>
        <p class="id-title">${idText(id)}</p>
        ${answer(ctx.read('lineage', {id}), (value) => hops(ctx, value))}`
    : choose(ctx)
}

// Without an ID: what one may ask about.
function choose(ctx) {
  const found = ctx.read('artifacts', {page: 0})
  const graph = ctx.read('graph').value
  return html`<h1>Lineage</h1>
    <p class="soft">Choose a result to follow it back to its inputs and its code.</p>
    <div class="columns">
      ${section(
        'Artifacts',
        answer(found, (value) =>
          value.rows.length
            ? html`<ul class="jobs">
                ${value.rows
                  .slice(0, 100)
                  .map(
                    (row) =>
                      html`<li data-id=${row.id}>
                        ${idLink(row.id, {kind: false, href: link('lineage', row.id)})}<span class="soft"
                          >${row.type}</span
                        >
                      </li>`,
                  )}
              </ul>`
            : empty('There are no artifacts yet.'),
        ),
      )}
      ${
        graph?.inputs?.length
          ? section(
              'Inputs',
              html`<ul class="jobs">
                ${graph.inputs.map(
                  (input) =>
                    html`<li data-id=${input.id}>
                      ${idLink(input.id, {kind: false, href: link('why', input.id)})}<span class="soft"
                        >${'value' in input ? inline(input.value, 40) : input.type}</span
                      >
                    </li>`,
                )}
              </ul>`,
            )
          : nothing
      }
    </div>`
}

// What is read under one name stands together.
function named(reads) {
  const by = new Map()
  for (const one of reads) {
    const it = typeof one === 'string' ? {id: one} : one
    if (!by.has(it.name)) by.set(it.name, [])
    by.get(it.name).push(it)
  }
  return [...by]
}

function hops(ctx, value) {
  const list = value.answer?.hops ?? []
  if (!list.length)
    return html`${empty(
      'The log knows nothing of it.',
      'It was never made or read.',
    )}${command(ctx.command(value.command))}`
  return html`<p class="soft">${plural(list.length, 'hop')}, each from the log</p>
    <ol class="hops">
      ${list.slice(0, SHOWN).map(
        (hop) =>
          html`<li
            class="hop hop-${hop.kind}"
            data-id=${hop.id}
            data-sha256=${hop.sha256 ?? nothing}
            style=${css({'--depth': Math.min(hop.depth ?? 0, 12)})}
          >
            <div class="hop-head">
              <span class="hop-kind">${hop.kind}</span>${idLink(hop.id, {
                kind: false,
                href: hop.kind === 'input' ? link('why', hop.id) : undefined,
              })}${'value' in hop ? html` <code>${inline(hop.value, 80)}</code>` : nothing}
            </div>
            <p class="row-text">
              ${hop.how ? html`${hop.how}${hop.by ? ` by ${hop.by}` : ''} ` : nothing}${
                hop.job ? html`by ${idLink(hop.job)} ` : nothing
              }${
                hop.run
                  ? html`in
                      <a href=${link('run', hop.run)}>${hop.run}</a
                      >${(hop.recorded?.seq ?? hop.seq) ? `, event ${hop.recorded?.seq ?? hop.seq}` : ''}`
                  : nothing
              }
              · <code title=${hop.sha256 ?? ''}>${shortHash(hop.sha256)}</code>
            </p>
            ${
              hop.action
                ? html`<p class="row-text">
                    code <b>${hop.action.name}</b>
                    <code title=${hop.action.sha256 ?? ''}>${shortHash(hop.action.sha256)}</code>${
                      hop.action.files
                        ? html` ${Object.entries(hop.action.files)
                            .slice(0, 6)
                            .map(([file, sha]) => html`<code class="file" title=${sha}>${file}</code> `)}`
                        : nothing
                    }
                  </p>`
                : nothing
            }
            ${
              hop.reads?.length
                ? html`<p class="row-text">
                    reads
                    ${named(hop.reads)
                      .slice(0, 8)
                      .map(
                        ([name, list], at) =>
                          html`${at ? ', ' : ''}${name ? html`${name} = ` : nothing}${list
                            .slice(0, 4)
                            .map(
                              (one, i) =>
                                html`${i ? ', ' : ''}${
                                  'value' in one && /\.(with|env)\./.test(one.id)
                                    ? html`<code>${inline(one.value, 60)}</code>`
                                    : idLink(one.id)
                                }`,
                            )}${list.length > 4 ? ` and ${list.length - 4} more` : ''}`,
                      )}
                  </p>`
                : nothing
            }
            ${
              hop.observed?.length
                ? html`<p class="row-text">
                    observed
                    ${hop.observed
                      .slice(0, 8)
                      .map(
                        (read, at) =>
                          html`${at ? ', ' : ''}<code title=${read.sha256 ?? read.kind}>${read.path}</code>${
                            read.sha256 ? nothing : ` (${read.kind})`
                          }`,
                      )}${hop.observed.length > 8 ? ` and ${hop.observed.length - 8} more` : ''}
                  </p>`
                : nothing
            }
          </li>`,
      )}
    </ol>
    ${
      value.answer?.not_known?.length
        ? html`<p class="soft">
            Not known:
            ${value.answer.not_known
              .slice(0, 8)
              .map(
                (one, at) => html`${at ? ', ' : ''}${typeof one === 'string' ? one : (one.id ?? JSON.stringify(one))}`,
              )}
          </p>`
        : nothing
    }
    ${
      list.length > SHOWN || value.answer.more
        ? html`<p class="soft">and ${count((value.answer.more ?? 0) + Math.max(list.length - SHOWN, 0))} more hops</p>`
        : nothing
    }${command(ctx.command(value.command))}`
}
