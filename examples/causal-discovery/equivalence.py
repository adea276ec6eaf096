"""The equivalence class of a network: what of its directions data can tell."""

from collections.abc import Iterable

import pyagrum as gum
from graphs import Edge


def essential_edges(nodes: Iterable[str], arcs: Iterable[tuple[str, str]]) -> list[Edge]:
    """The edges of the essential graph (CPDAG) of a directed acyclic graph."""
    net = gum.BayesNet()
    for node in nodes:
        net.add(gum.LabelizedVariable(node, node, ["no", "yes"]))
    for parent, child in arcs:
        net.addArc(parent, child)
    return mixed_edges(gum.EssentialGraph(net), [net.variable(i).name() for i in range(net.size())])


def mixed_edges(graph: gum.EssentialGraph | gum.PDAG, names: list[str]) -> list[Edge]:
    """The edges of a mixed graph of pyAgrum; `names` by its node numbers."""
    directed = [Edge(names[a], names[b]) for a, b in graph.arcs()]
    return directed + [Edge(*sorted((names[a], names[b])), directed=False) for a, b in graph.edges()]
