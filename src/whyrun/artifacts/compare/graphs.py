"""Compare graphs in GraphML: edges added, removed or reversed, nodes, and attributes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.parsers import expat

from whyrun.artifacts.compare.result import (
    CompareSettings,
    Comparison,
    Findings,
    Unreadable,
    counted,
    differs,
    number_of,
    shortened,
)

Pair = tuple[str, str]  # the ends of an edge, in the order of their names
Attributes = Mapping[str, str]


@dataclass(slots=True)
class GraphFile:
    """`edges`: for each pair of nodes the edges between them, as seen from the first: `→`, `←` or `—`."""

    nodes: dict[str, Attributes] = field(default_factory=dict)
    edges: dict[Pair, Counter[str]] = field(default_factory=dict)
    written: dict[tuple[Pair, str], list[Attributes]] = field(default_factory=dict)  # attributes of edges
    graph: dict[str, str] = field(default_factory=dict)  # attributes of the graph itself


def compare_graphs(old: Path, new: Path, settings: CompareSettings) -> Comparison:
    before, after = read_graphml(old, "before"), read_graphml(new, "now")
    findings = Findings()
    _compare_edges(before, after, findings)
    _compare_nodes(before, after, findings)
    near = _compare_attributes(before, after, settings, findings)
    if near:
        findings.notes.append(settings.near_note(near))
    elif not findings.total:
        findings.notes.append("the graphs are the same, but written differently")
    parts = [counted(findings.counts[f"{what} change"], f"{what} change") for what in ("edge", "node", "attribute")
             if f"{what} change" in findings.counts]  # fmt: skip
    return findings.result(", ".join(parts))


def is_graphml(head: bytes) -> bool:
    """Whether a file with these first bytes is GraphML."""
    return b"<graphml" in head and head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")


# --- comparing ---------------------------------------------------------------------------------------------------


def _compare_edges(old: GraphFile, new: GraphFile, findings: Findings) -> None:
    for pair in sorted({*old.edges, *new.edges}):
        was, now = old.edges.get(pair, Counter()), new.edges.get(pair, Counter())
        gone, come = was - now, now - was
        while gone and come:
            mark, other = min(gone), min(come)
            gone[mark] -= 1
            come[other] -= 1
            gone, come = +gone, +come
            word = "reversed" if {mark, other} == {"→", "←"} else "changed"
            findings.add("edge change", f"edge {word}: {_edge(pair, mark)} is now {_edge(pair, other)}")
        for word, left in (("removed", gone), ("added", come)):
            for mark in sorted(left.elements()):
                findings.add("edge change", f"edge {word}: {_edge(pair, mark)}")


def _edge(pair: Pair, mark: str) -> str:
    first, second = (shortened(name, 60) for name in pair)
    return f"{second} → {first}" if mark == "←" else f"{first} {mark} {second}"


def _compare_nodes(old: GraphFile, new: GraphFile, findings: Findings) -> None:
    for name in sorted(old.nodes.keys() - new.nodes.keys()):
        findings.add("node change", f"node removed: {name}")
    for name in sorted(new.nodes.keys() - old.nodes.keys()):
        findings.add("node change", f"node added: {name}")


def _compare_attributes(old: GraphFile, new: GraphFile, settings: CompareSettings, findings: Findings) -> int:
    """Compare the attributes that both graphs have; returns how many numbers differ within the tolerance."""
    near = _compare_written("graph", old.graph, new.graph, settings, findings)
    for name in sorted(old.nodes.keys() & new.nodes.keys()):
        near += _compare_written(f"node {name}", old.nodes[name], new.nodes[name], settings, findings)
    for key in sorted(old.written.keys() & new.written.keys()):
        pair, mark = key
        # Parallel edges have no names: they are paired by their attributes.
        for was, now in zip(_sorted(old.written[key]), _sorted(new.written[key]), strict=False):
            near += _compare_written(f"edge {_edge(pair, mark)}", was, now, settings, findings)
    return near


def _sorted(written: Iterable[Attributes]) -> list[Attributes]:
    return sorted(written, key=lambda attributes: sorted(attributes.items()))


def _compare_written(what: str, old: Attributes, new: Attributes, settings: CompareSettings, findings: Findings) -> int:
    near = 0
    for name in sorted({*old, *new}):
        was, now = old.get(name), new.get(name)
        if was == now:
            continue
        if was is not None and now is not None and _same_number(was, now, settings):
            near += differs(float(was), float(now))
            continue
        shown = [f"`{shortened(text, 60)}`" if text is not None else "nothing" for text in (was, now)]
        findings.add("attribute change", f"{what}, {name}: {shown[0]} → {shown[1]}")
    return near


def _same_number(old: str, new: str, settings: CompareSettings) -> bool:
    try:
        return settings.same_number(number_of(old), number_of(new))
    except ValueError:
        return False


# --- reading -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Key:
    name: str
    about: str  # node, edge, graph, all
    default: str | None


class _Reader:
    """Reads GraphML. A document type or entities are refused, so that nothing can expand."""

    def __init__(self, which: str) -> None:
        self.which = which
        self.graph = GraphFile()
        self.keys: dict[str, _Key] = {}
        self.directed = [True]
        self.owners: list[tuple[str, dict[str, str]]] = []  # (element, its attributes)
        self.edges: list[tuple[str, str, bool, dict[str, str]]] = []
        self.key: dict[str, Any] | None = None
        self.text: list[str] | None = None
        self.inside = 0  # open elements within data
        self.data_key = ""
        self.seen_root = False

    def read(self, path: Path) -> GraphFile:
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.CharacterDataHandler = self.characters
        parser.StartDoctypeDeclHandler = self.refuse
        parser.EntityDeclHandler = self.refuse
        try:
            with path.open("rb") as file:
                parser.ParseFile(file)
        except expat.ExpatError as problem:
            raise Unreadable(f"the version {self.which} is not valid XML: {problem}") from None
        self.finish()
        return self.graph

    def refuse(self, *particulars: Any) -> None:
        del particulars
        raise Unreadable(f"the version {self.which} has a document type of its own, which is not read")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        element = name.rpartition(" ")[2]
        if not self.seen_root:
            if element != "graphml":
                raise Unreadable(f"the version {self.which} is not GraphML: it begins with <{element}>")
            self.seen_root = True
        if self.text is not None:  # everything within data is text, tags included
            self.inside += 1
            self.text.append(f"<{' '.join([element, *(f'{key}={attributes[key]!r}' for key in sorted(attributes))])}>")
            return
        match element:
            case "key":
                self.key = {"id": self.of(attributes, "id", element), "for": attributes.get("for", "all")}
                self.key["name"] = attributes.get("attr.name") or self.key["id"]
            case "graph":
                if self.owners:
                    raise Unreadable(f"the version {self.which} has graphs within nodes or edges, which are not read")
                self.directed.append(attributes.get("edgedefault", "directed") != "undirected")
                self.owners.append(("graph", self.graph.graph))
            case "node":
                written: dict[str, str] = {}
                node = self.of(attributes, "id", element)
                if node in self.graph.nodes:
                    raise Unreadable(f"the version {self.which} has the node `{shortened(node, 60)}` twice")
                self.graph.nodes[node] = written
                self.owners.append(("node", written))
            case "edge":
                written = {}
                ends = self.of(attributes, "source", element), self.of(attributes, "target", element)
                directed = {"true": True, "false": False}.get(attributes.get("directed", ""), self.directed[-1])
                self.edges.append((*ends, directed, written))
                self.owners.append(("edge", written))
            case "hyperedge":
                raise Unreadable(f"the version {self.which} has hyperedges, which can have more than two ends")
            case "port":
                raise Unreadable(f"the version {self.which} has ports, which are not read")
            case "data":
                self.data_key, self.text = self.of(attributes, "key", element), []
            case "default":
                self.text = []

    def of(self, attributes: dict[str, str], name: str, element: str) -> str:
        if name not in attributes:
            raise Unreadable(f"the version {self.which} has <{element}> without `{name}`")
        return attributes[name]

    def characters(self, text: str) -> None:
        if self.text is not None:
            self.text.append(text)

    def end(self, name: str) -> None:
        element = name.rpartition(" ")[2]
        if self.text is not None and self.inside:
            self.inside -= 1
            self.text.append(f"</{element}>")
        elif element in ("data", "default") and self.text is not None:
            text, self.text = "".join(self.text).strip(), None
            if element == "default" and self.key is not None:
                self.key["default"] = text
            elif element == "data" and self.owners:
                self.owners[-1][1][self.data_key] = text
        elif element == "key" and self.key is not None:
            self.keys[self.key["id"]] = _Key(self.key["name"], self.key["for"], self.key.get("default"))
            self.key = None
        elif element in ("graph", "node", "edge"):
            self.owners.pop()
            if element == "graph":
                self.directed.pop()

    def finish(self) -> None:
        """Replace key IDs by names, fill in defaults, and group edges by pairs of nodes."""
        graph = self.graph
        graph.graph = self.named("graph", graph.graph)
        graph.nodes = {name: self.named("node", written) for name, written in graph.nodes.items()}
        for source, target, directed, written in self.edges:
            pair = (source, target) if source <= target else (target, source)
            mark = "—" if not directed else "→" if (source, target) == pair else "←"
            graph.edges.setdefault(pair, Counter())[mark] += 1
            graph.written.setdefault((pair, mark), []).append(self.named("edge", written))

    def named(self, about: str, written: Mapping[str, str]) -> dict[str, str]:
        named = {
            key.name: key.default
            for key in self.keys.values()
            if key.about in (about, "all") and key.default is not None
        }
        for id_, text in written.items():
            named[self.keys[id_].name if id_ in self.keys else id_] = text
        return named


def read_graphml(path: Path, which: str) -> GraphFile:
    return _Reader(which).read(path)
