// Places the nodes of the graph with dagre. A tight tree puts a job beside what it reads; with many nodes it may take
// seconds, and longest paths have to do.
import {Graph, layout} from '@dagrejs/dagre'

const TIGHT = 300

onmessage = ({data: {key, nodes, edges, direction}}) => {
  const graph = new Graph({compound: nodes.some((node) => node.parent), multigraph: false})
  graph.setGraph({
    rankdir: direction,
    ranker: nodes.length > TIGHT ? 'longest-path' : 'tight-tree',
    nodesep: 28,
    ranksep: 76,
    edgesep: 14,
    marginx: 24,
    marginy: 24,
  })
  graph.setDefaultEdgeLabel(() => ({}))
  for (const {id, width, height} of nodes) graph.setNode(id, {width, height})
  for (const {id, parent} of nodes) if (parent) graph.setParent(id, parent)
  for (const [from, to] of edges) if (from !== to) graph.setEdge(from, to)
  layout(graph)
  const {width, height} = graph.graph()
  postMessage({
    key,
    width,
    height,
    nodes: nodes.map(({id}) => {
      const {x, y, width: w, height: h} = graph.node(id)
      return {id, x, y, width: w, height: h}
    }),
    edges: edges.map(([from, to]) => graph.edge(from, to)?.points ?? []),
  })
}
