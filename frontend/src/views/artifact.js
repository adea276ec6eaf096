// One artifact: its content, where it comes from, and its versions side by side.
import {html, nothing} from 'lit'
import {answer, command, facts, icons, idLink, idText, section, state as stateChip} from '../parts/basics.js'
import {preview} from '../parts/preview.js'
import {beside} from '../parts/beside.js'
import {bytes, shortHash, when} from '../format.js'
import {link, setParams} from '../router.js'

export function artifactView(ctx) {
  const id = ctx.route.args[0]
  return html`<p class="way"><a href=${link('artifacts')}>${icons.back}All artifacts</a></p>
    <h1 class="id-title">${idText(id)}</h1>
    ${answer(ctx.read('artifact', {id}), (value) => {
      const own = value.facts ?? {}
      return html`<article data-id=${id} data-state=${own.state}>
        <p class="chips">
          ${own.job_state ? stateChip(own.job_state) : nothing}<span class="soft"
            >${own.type}${own.size === undefined ? '' : ` · ${bytes(own.size)}`}</span
          >
        </p>
        ${
          value.preview
            ? preview(ctx, {...value.preview, id})
            : html`<p class="soft">
                ${own.state === 'available' ? 'Its content cannot be shown.' : 'It is not there yet.'}
              </p>`
        }
        <div class="columns">
          ${section(
            'Facts',
            facts([
              ['state', own.state],
              ['made by', own.job ? idLink(own.job) : null],
              ['in', own.run ? html`<a href=${link('run', own.run)}>${own.run}</a>` : null],
              ['path', own.path ? html`<code>${own.path}</code>` : null],
              ['sha256', own.sha256 ? html`<code>${own.sha256}</code>` : null],
              [
                'read by',
                own.read_by?.length
                  ? html`${own.read_by.slice(0, 12).map((one, at) => html`${at ? ', ' : ''}${idLink(one)}`)}${
                      own.read_by.length > 12 ? ` and ${own.read_by.length - 12} more` : ''
                    }`
                  : null,
              ],
              ['where from', html`<a href=${link('lineage', id)}>back to inputs and code</a>`],
            ]),
          )}
          ${versions(ctx, id, value)}
        </div>
        ${comparison(ctx, id, value)}${command(ctx.command(value.command))}
      </article>`
    })}`
}

const HOW = {EXECUTES: 'executed', executes: 'executed'}

function versions(ctx, id, {versions: list}) {
  if (!list?.length) return nothing
  return section(
    'Versions',
    html`<ul class="versions">
      ${list.map((one, at, {length}) => {
        const last = length - 1
        const src = (one.kind === 'image' || one.kind === 'svg') && one.href ? ctx.url(one.href, one.sha256) : null
        return html`<li class=${one.current ? 'current' : ''}>
          ${src ? html`<img src=${src} alt="" loading="lazy" />` : nothing}<span
            ><a href=${link('run', one.run)}>${one.run}</a> ${
              one.current ? html`<b>${at === last ? 'current' : 'the same as now'}</b>` : nothing
            }
            <span class="row-text"
              >${HOW[one.status] ?? String(one.status ?? '').toLowerCase()} · ${when(one.ts)} ·
              <code>${shortHash(one.sha256)}</code>${one.kept === false ? ' · not kept' : ''}</span
            ></span
          >
          ${
            !one.current && one.kept !== false && list.some((other) => other.current && other.sha256 !== one.sha256)
              ? html`<button
                  type="button"
                  class="button"
                  @click=${() => setParams({old: one.sha256, new: list.find((other) => other.current)?.sha256})}
                >
                  Compare
                </button>`
              : nothing
          }
        </li>`
      })}
    </ul>`,
  )
}

function comparison(ctx, id, {versions: list}) {
  const {old} = ctx.params
  const now = ctx.params.new
  if (!old || !now) return nothing
  const run = (sha) => list?.find((one) => one.sha256 === sha)?.run ?? shortHash(sha)
  return section(
    `${run(old)} and ${run(now)} side by side`,
    ctx.live
      ? answer(ctx.read('content', {id, old, new: now}), (value) => beside(ctx, value, run(old), run(now)))
      : beside(
          ctx,
          {old: list?.find((one) => one.sha256 === old), new: list?.find((one) => one.sha256 === now)},
          run(old),
          run(now),
        ),
  )
}
