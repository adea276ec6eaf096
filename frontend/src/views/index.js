// Which function shows which view.
import {link} from '../router.js'
import {empty} from '../parts/basics.js'
import {html} from 'lit'
import {graphView} from './graph.js'
import {planView} from './plan.js'
import {artifactsView} from './artifacts.js'
import {artifactView} from './artifact.js'
import {runsView} from './runs.js'
import {runView} from './run.js'
import {resultsView} from './results.js'
import {whatIfView} from './whatif.js'
import {diffView} from './diff.js'
import {lineageView} from './lineage.js'
import {datasetsView} from './datasets.js'

export const views = {
  graph: graphView,
  why: graphView,
  plan: planView,
  artifacts: artifactsView,
  artifact: artifactView,
  runs: runsView,
  run: runView,
  results: resultsView,
  whatif: whatIfView,
  diff: diffView,
  lineage: lineageView,
  datasets: datasetsView,
  unknown: ({route}) =>
    html`${empty('There is no such view.', 'The address may be from a newer version.')}
      <p><a href=${link('graph')}>To the graph</a></p>
      <p class="soft">${route.view}</p>`,
}
