// Places the nodes of the graph with dagre. Longest-path ranking: the other rankings take seconds at 1,000 nodes.
import {Graph, layout} from '@dagrejs/dagre'

onmessage = ({data: {key, nodes, edges, direction}}) => {
  const graph = new Graph({compound: nodes.some((node) => node.parent), multigraph: false})
  graph.setGraph({
    rankdir: direction,
    ranker: 'longest-path',
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
