"""Graphs against the truth and against each other."""

from collections import Counter
from typing import Any

from graphs import Graph, edge_of, read_graphml, score, write_graphml

from whyrun import Action, File, Parameters


class EvaluateGraph(Action):
    """How far a learned graph is from the true one."""

    name, version = "graph/evaluate", "1"
    outputs = {"metadata": "json"}

    class Params(Parameters):
        graph: File
        truth: File

    def run(self, inputs: dict[str, Any], mode: str = "dry-run", context: Any = None, logger: Any = None) -> dict:
        found, truth = read_graphml(inputs["graph"]), read_graphml(inputs["truth"])
        return {"metadata": {**_origin(found), **score(found, truth)}}


class MergeGraphs(Action):
    """One graph of many: for every pair, how often it is joined, and the way in which it mostly is."""

    name, version = "graph/merge", "1"
    outputs = {"graph": "file"}

    class Params(Parameters):
        graphs: list[File]

    def run(self, inputs: dict[str, Any], mode: str = "dry-run", context: Any = None, logger: Any = None) -> None:
        graphs = [read_graphml(graph) for graph in inputs["graphs"]]
        votes: dict[tuple[str, str], Counter[str]] = {}
        for graph in graphs:
            for pair, relation in graph.relations().items():
                votes.setdefault(pair, Counter())[relation] += 1
        edges = []
        for pair, counted in votes.items():
            # Where two ways are equally frequent, undirected: the graphs do not agree on a direction.
            (relation, most), *others = counted.most_common()
            if others and others[0][1] == most:
                relation, most = "–", counted["–"]
            edges.append(edge_of(pair, relation, counted.total() / len(graphs), most / len(graphs)))
        about = {name: graphs[0].about[name] for name in ("network", "algorithm", "size")}
        merged = Graph.of(graphs[0].nodes, edges, {**about, "seeds": len(graphs)})
        context.metric("edges", len(merged.edges))
        write_graphml(merged, context.output("graph"))


class ChooseGraph(Action):
    """Of several merged graphs the one whose majority is closest to the truth.

    Of equally close ones it is the one with the best F1, then the one on which the seeds agree most.
    """

    name, version = "graph/choose", "1"
    outputs = {"graph": "file", "choice": "json"}

    class Params(Parameters):
        graphs: list[File]
        truth: File

    def run(self, inputs: dict[str, Any], mode: str = "dry-run", context: Any = None, logger: Any = None) -> dict:
        truth = read_graphml(inputs["truth"])
        judged = []
        for path in inputs["graphs"]:
            graph = majority(read_graphml(path))
            scores = score(graph, truth)
            judged.append((graph, scores))
            if logger is not None:
                candidate = f"judge {graph.about['algorithm']} on {graph.about['size']} rows"
                logger.log_task(self.name, "EXECUTES", candidate, job_info=f"SHD {scores['shd']}, F1 {scores['f1']}")
        # `min` takes the first of equals, and the order of a fan-in is that of its loops: always the same choice.
        graph, scores = min(judged, key=lambda entry: (entry[1]["shd"], -entry[1]["f1"], -_agreement(entry[0])))
        write_graphml(graph, context.output("graph"))
        return {"choice": {**_origin(graph), **scores}}


def majority(merged: Graph) -> Graph:
    """The edges that more than half of the graphs have."""
    edges = [edge for edge in merged.edges if edge.frequency is not None and edge.frequency > 0.5]
    return Graph.of(merged.nodes, edges, merged.about)


def _agreement(graph: Graph) -> float:
    return sum(edge.agreement or 0.0 for edge in graph.edges) / max(len(graph.edges), 1)


def _origin(graph: Graph) -> dict[str, Any]:
    return {name: int(value) if value.isdigit() else value for name, value in graph.about.items()}
