// Keys work where nobody types. `?` shows them.
import {link, setParams} from './router.js'

const GO = {g: 'graph', a: 'artifacts', r: 'runs', e: 'results', w: 'whatif', c: 'diff', l: 'lineage', d: 'datasets'}

export const KEYS = [
  ['/', 'search: a job, an artifact, an input, a run'],
  ['← →', 'in the graph: back to the cause, on to the consequence'],
  ['↑ ↓', 'in the graph: the instance before or after'],
  ['esc', 'clear the selection'],
  ['+ − 0', 'zoom in, zoom out, show everything'],
  ['i', 'open or close imports'],
  ['[ ]', 'the plan of the run before or after'],
  ['y', 'copy the command of this view'],
  ['t', 'light or dark'],
  ['g a e r', 'graph, artifacts, results, runs'],
  ['w c l d', 'what if, compare, lineage, datasets'],
  ['?', 'these keys'],
]

export function pressed(event, app) {
  if (event.ctrlKey || event.metaKey || event.altKey) return
  const typing = event.target.closest?.('input, textarea, select, [contenteditable]')
  if (event.key === 'Escape') {
    if (app.ui.help) app.ui = {...app.ui, help: false}
    else if (typing) typing.blur()
    else if (app.route.view === 'why') location.hash = link('graph')
    else if (app.route.params.list) setParams({list: null, q: null, page: null, code: null})
    return
  }
  if (typing || app.ui.help) return
  const act = action(event, app)
  if (act) {
    event.preventDefault()
    act()
  }
}

function action(event, app) {
  const graph = app.querySelector('wr-graph')
  const inGraph =
    ['graph', 'why'].includes(app.route.view) &&
    graph &&
    !event.target.closest?.('.panel, .time, .tabs, [role=slider], canvas')
  switch (event.key) {
    case '/':
      return () => app.querySelector('#search').focus()
    case '?':
      return () => {
        app.ui = {...app.ui, help: true}
      }
    case 't':
      return () => app.setTheme()
    case 'y':
      return () => app.querySelector('#main .command .copy')?.click()
    case '[':
    case ']':
      return () => step(app, event.key === ']' ? 1 : -1)
    case '+':
    case '=':
      return graph && (() => graph.zoom(1.25))
    case '-':
      return graph && (() => graph.zoom(0.8))
    case '0':
      return (
        graph &&
        (() => {
          graph.moved = false
          graph.fit({whole: true})
        })
      )
    case 'i':
      return graph && (() => graph.toggleGroups())
    case 'ArrowLeft':
    case 'ArrowRight':
      return (
        inGraph &&
        (() => {
          const next = graph.neighbour(event.key === 'ArrowRight' ? 1 : -1)
          if (next) location.hash = next
        })
      )
    case 'ArrowUp':
    case 'ArrowDown':
      return (
        inGraph &&
        app.route.view === 'why' &&
        (() => app.querySelector(event.key === 'ArrowUp' ? '[data-step=before]' : '[data-step=after]')?.click())
      )
    default:
      return (
        GO[event.key] &&
        (() => {
          location.hash = link(GO[event.key])
        })
      )
  }
}

// Through the plans of the runs, to the present.
function step(app, by) {
  const runs = (app.read('state').value?.runs ?? []).filter((run) => run.mode === 'run').map((run) => run.run)
  const at = app.route.view === 'plan' ? runs.indexOf(app.route.args[0]) : runs.length
  const next = at + by
  if (next >= 0 && next < runs.length) location.hash = link('plan', runs[next])
  else if (next === runs.length) location.hash = link('graph')
}
