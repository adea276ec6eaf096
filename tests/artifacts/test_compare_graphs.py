"""GraphML: edges added, removed or reversed, nodes, attributes, and malicious files."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from whyrun.artifacts.compare.files import compare_files
from whyrun.artifacts.compare.result import SHOWN, CompareSettings, Comparison

PLAIN = CompareSettings()
HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'


def graph(*edges: str, nodes: str = "abcde", default: str = "directed", keys: str = "") -> str:
    """`graph("a>b", "b-c")`: `-` is an edge without direction."""
    lines = [f'<node id="{node}"/>' for node in nodes]
    for edge in edges:
        mark = "" if ">" in edge else ' directed="false"'
        source, _, target = edge.partition(">" if ">" in edge else "-")
        lines.append(f'<edge source="{source}" target="{target}"{mark}/>')
    return f'{HEAD}{keys}<graph edgedefault="{default}">{"".join(lines)}</graph></graphml>'


@pytest.fixture
def compare(tmp_path: Path):
    def comparing(old: str, new: str, suffix: str = ".graphml", settings: CompareSettings = PLAIN) -> Comparison:
        (tmp_path / "old").write_text(old)
        (tmp_path / "new").write_text(new)
        return compare_files(tmp_path / "old", tmp_path / "new", "file", suffix, settings)

    return comparing


def test_edges_added_removed_and_reversed(compare) -> None:
    found = compare(graph("a>b", "b>c", "c>d", "d>e"), graph("a>b", "c>b", "c>e", "d>e", "e>a"))
    assert found == Comparison(
        False,
        "4 edge changes",
        (
            "edge added: e → a",
            "edge reversed: b → c is now c → b",
            "edge removed: c → d",
            "edge added: c → e",
        ),
    )


def test_one_edge(compare) -> None:
    assert compare(graph(), graph("a>b")) == Comparison(False, "1 edge change", ("edge added: a → b",))


def test_an_edge_that_gets_a_direction(compare) -> None:
    assert compare(graph("a-b"), graph("b>a")) == Comparison(
        False, "1 edge change", ("edge changed: a — b is now b → a",)
    )


def test_an_undirected_edge_has_no_first_end(compare) -> None:
    found = compare(graph("a-b", "b-c"), graph("c-b", "b-a"))
    assert found == Comparison(True, "unchanged", ("the graphs are the same, but written differently",))


def test_the_default_of_the_graph_counts_for_its_edges(compare) -> None:
    found = compare(graph("a>b", default="undirected"), graph("b>a", default="undirected"))
    assert found.identical
    assert compare(graph("a>b", default="undirected"), graph("a>b")).details == ("edge changed: a — b is now a → b",)


def test_parallel_edges_are_counted(compare) -> None:
    assert compare(graph("a>b", "a>b"), graph("a>b")) == Comparison(False, "1 edge change", ("edge removed: a → b",))
    assert compare(graph("a>b", "b>a"), graph("a>b", "a>b")).details == ("edge reversed: b → a is now a → b",)


def test_an_edge_from_a_node_to_itself(compare) -> None:
    assert compare(graph(), graph("a>a")).details == ("edge added: a → a",)


def test_nodes(compare) -> None:
    assert compare(graph("a>b", nodes="abc"), graph("a>b", "b>d", nodes="abd")) == Comparison(
        False, "1 edge change, 2 node changes", ("edge added: b → d", "node removed: c", "node added: d")
    )


def attributed(weight: str, *, id_: str = "d0", default: str = "") -> str:
    key = f'<key id="{id_}" for="edge" attr.name="weight" attr.type="double">{default}</key>'
    data = f'<data key="{id_}">{weight}</data>' if weight else ""
    return (
        f'{HEAD}{key}<graph edgedefault="directed"><node id="a"/><node id="b"/>'
        f'<edge source="a" target="b">{data}</edge></graph></graphml>'
    )


def test_what_is_written_on_an_edge(compare) -> None:
    assert compare(attributed("0.5"), attributed("0.6")) == Comparison(
        False, "1 attribute change", ("edge a → b, weight: `0.5` → `0.6`",)
    )
    near = CompareSettings(tolerance=1e-3)
    found = compare(attributed("0.5"), attributed("0.50001"), settings=near)
    assert found == Comparison(True, "unchanged", ("1 number differs within the tolerance of 0.001",))


def test_keys_are_known_by_their_names_and_defaults_are_filled_in(compare) -> None:
    assert compare(attributed("0.5"), attributed("0.5", id_="k7")).identical
    assert compare(attributed("0.5"), attributed("", default="<default>0.5</default>")).identical
    assert compare(attributed("0.5"), attributed("")).details == ("edge a → b, weight: `0.5` → nothing",)


def test_what_is_written_on_nodes_and_on_the_graph(compare) -> None:
    keys = '<key id="n" for="node" attr.name="label"/><key id="g" for="graph" attr.name="score"/>'

    def with_data(label: str, score: str) -> str:
        node = f'<node id="a"><data key="n">{label}</data></node>'
        return f'{HEAD}{keys}<graph edgedefault="directed"><data key="g">{score}</data>{node}</graph></graphml>'

    assert compare(with_data("x", "1"), with_data("y", "2")) == Comparison(
        False, "2 attribute changes", ("graph, score: `1` → `2`", "node a, label: `x` → `y`")
    )


def test_markup_within_data_counts(compare) -> None:
    """As yEd writes it: all that matters stands in attributes of elements within `<data>`."""

    def drawn(shape: str) -> str:
        key = '<key id="d" for="node" attr.name="drawn"/>'
        node = f'<node id="a"><data key="d"><Shape x="1" type="{shape}"><node id="z"/></Shape></data></node>'
        return f"{HEAD}{key}<graph>{node}</graph></graphml>"

    assert compare(drawn("box"), drawn("oval")) == Comparison(
        False,
        "1 attribute change",
        (
            "node a, drawn: `<Shape type='box' x='1'><node id='z'></node></Shape>` → "
            "`<Shape type='oval' x='1'><node id='z'></node></Shape>`",
        ),
    )
    assert compare(drawn("box"), drawn("box").replace('x="1" type="box"', 'type="box" x="1"')).identical


@pytest.mark.parametrize("suffix", [".xml", ".graphml", ""])
def test_graphml_is_known_by_its_content_too(compare, suffix: str) -> None:
    assert compare(graph("a>b"), graph("b>a"), suffix).summary == "1 edge change"


def test_other_xml_is_text(compare) -> None:
    found = compare("<a>\n<b/>\n</a>\n", "<a>\n<c/>\n</a>\n", ".xml")
    assert found == Comparison(False, "1 line changed", ("line 2: `<b/>` → `<c/>`",))


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("<graphml><graph>", "the version now is not valid XML: no element found: line 1, column 16"),
        ("<svg/>", "the version now is not GraphML: it begins with <svg>"),
        ("<graphml><graph><node/></graph></graphml>", "the version now has <node> without `id`"),
        (
            "<graphml><graph><hyperedge/></graph></graphml>",
            "the version now has hyperedges, which can have more than two ends",
        ),
        (
            '<graphml><graph><node id="a"><port name="n"/></node></graph></graphml>',
            "the version now has ports, which are not read",
        ),
        (
            '<graphml><graph><node id="a"><graph/></node></graph></graphml>',
            "the version now has graphs within nodes or edges, which are not read",
        ),
        ('<graphml><graph><node id="a"/><node id="a"/></graph></graphml>', "the version now has the node `a` twice"),
    ],
)
def test_a_graph_that_is_none_is_compared_as_text(compare, bad: str, why: str) -> None:
    found = compare(graph("a>b"), bad)
    assert not found.identical
    assert found.details[0] == f"not compared as a graph: {why}"


BOMB = (
    '<?xml version="1.0"?><!DOCTYPE graphml [<!ENTITY a "aaaaaaaaaa">'
    + "".join(
        f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(12)
    )
    + ']><graphml><graph><node id="&m;"/></graph></graphml>'
)  # fmt: skip


@pytest.mark.parametrize(
    "bad",
    [
        BOMB,
        '<!DOCTYPE graphml SYSTEM "file:///etc/passwd"><graphml><graph/></graphml>',
        '<!DOCTYPE graphml [<!ENTITY x SYSTEM "/etc/passwd">]><graphml><graph><node id="&x;"/></graph></graphml>',
    ],
    ids=["entities that grow", "a document type elsewhere", "an entity elsewhere"],
)
def test_document_types_and_entities_are_refused(compare, bad: str) -> None:
    found = compare(graph("a>b"), bad)
    assert found.details[0] == (
        "not compared as a graph: the version now has a document type of its own, which is not read"
    )
    assert not found.identical


def test_huge_graph_differences_are_bounded(compare) -> None:
    names = [f"n{i}" for i in range(2000)]
    found = compare(
        graph(*(f"{a}>{b}" for a, b in pairwise(names))),
        graph(*(f"{b}>{a}" for a, b in pairwise(names))),
    )
    assert (found.summary, len(found.details), found.more) == ("1,999 edge changes", SHOWN, 1999 - SHOWN)
    assert found.details[0] == "edge reversed: n0 → n1 is now n1 → n0"
