"""Mixed graphs, as structure learning finds them, and GraphML files of them.

What data can tell is an equivalence class of networks: an edge is directed where all of them agree, else undirected.
Two graphs are therefore compared pair by pair: `→`, `←`, `–` or nothing.
"""

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

NAMESPACE = "http://graphml.graphdrawing.org/xmlns"


@dataclass(frozen=True, order=True)
class Edge:
    source: str
    target: str
    directed: bool = True
    frequency: float | None = None  # of a merged graph: the share of graphs that join the two at all
    agreement: float | None = None  # … and that do it in this very way


@dataclass(frozen=True)
class Graph:
    nodes: tuple[str, ...]
    edges: tuple[Edge, ...]
    about: Mapping[str, str] = field(default_factory=dict)  # which network, algorithm, … it comes from

    @classmethod
    def of(cls, nodes: Iterable[str], edges: Iterable[Edge], about: Mapping[str, object]) -> "Graph":
        """In one order, whatever the order of the arguments: equal graphs are equal files."""
        return cls(tuple(sorted(nodes)), tuple(sorted(edges)), {name: str(about[name]) for name in sorted(about)})

    def relations(self) -> dict[tuple[str, str], str]:
        """For every pair that is joined, its names in order: how."""
        found = {}
        for edge in self.edges:
            pair = (edge.source, edge.target)
            if pair[0] < pair[1]:
                found[pair] = "→" if edge.directed else "–"
            else:
                found[pair[::-1]] = "←" if edge.directed else "–"
        return found


def edge_of(pair: tuple[str, str], relation: str, frequency: float, agreement: float) -> Edge:
    source, target = pair if relation != "←" else pair[::-1]
    return Edge(source, target, relation != "–", frequency, agreement)


# --- how far a graph is from the truth -------------------------------------------------------------------------------


def score(found: Graph, truth: Graph) -> dict[str, float]:
    """The structural Hamming distance (`shd`: pairs that differ) and what it consists of; precision, recall and F1."""
    learned, true = found.relations(), truth.relations()
    right = sum(true.get(pair) == relation for pair, relation in learned.items())
    joined = len(learned.keys() & true.keys())
    added, missing, turned = len(learned) - joined, len(true) - joined, joined - right
    precision = right / len(learned) if learned else 0.0
    recall = right / len(true) if true else 0.0
    f1 = 2 * precision * recall / (precision + recall) if right else 0.0
    return {
        "edges": len(learned), "right": right, "added": added, "missing": missing, "turned": turned,
        "shd": added + missing + turned,
        "precision": round(precision, 4), "recall": round(recall, 4), "f1": round(f1, 4),
    }  # fmt: skip


# --- GraphML ---------------------------------------------------------------------------------------------------------


def write_graphml(graph: Graph, path: Path) -> None:
    root = ET.Element("graphml", xmlns=NAMESPACE)
    for name in graph.about:
        ET.SubElement(root, "key", {"id": name, "for": "graph", "attr.name": name, "attr.type": "string"})
    numbers = [n for n in ("frequency", "agreement") if any(getattr(edge, n) is not None for edge in graph.edges)]
    for name in numbers:
        ET.SubElement(root, "key", {"id": name, "for": "edge", "attr.name": name, "attr.type": "double"})
    body = ET.SubElement(root, "graph", id="graph", edgedefault="directed")
    for name, value in graph.about.items():
        ET.SubElement(body, "data", key=name).text = value
    for node in graph.nodes:
        ET.SubElement(body, "node", id=node)
    for edge in graph.edges:
        element = ET.SubElement(body, "edge", source=edge.source, target=edge.target)
        if not edge.directed:
            element.set("directed", "false")
        for name in numbers:
            ET.SubElement(element, "data", key=name).text = repr(getattr(edge, name))
    ET.indent(root)
    path.write_text(ET.tostring(root, encoding="unicode", xml_declaration=False) + "\n", encoding="utf-8")


def read_graphml(path: Path) -> Graph:
    body = ET.parse(path).getroot().find(_tag("graph"))
    if body is None:
        raise ValueError(f"{path.name} holds no graph")
    edges = []
    for element in body.iter(_tag("edge")):
        data = {d.get("key"): float(d.text or "nan") for d in element.iter(_tag("data"))}
        directed = element.get("directed") != "false"
        ends = element.attrib["source"], element.attrib["target"]
        edges.append(Edge(*ends, directed, data.get("frequency"), data.get("agreement")))
    about = {d.attrib["key"]: d.text or "" for d in body.findall(_tag("data"))}
    return Graph.of([node.attrib["id"] for node in body.iter(_tag("node"))], edges, about)


def _tag(name: str) -> str:
    return f"{{{NAMESPACE}}}{name}"
