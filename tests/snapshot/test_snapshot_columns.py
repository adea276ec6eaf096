"""What a log says of the rows of a graph, with an index and without one."""

from __future__ import annotations

import hashlib

import pytest
from asking_lab import expanded

from whyrun.graph.tables import Graph
from whyrun.snapshot.build import FEW, JoinedTable, foreign_steps, join_tables
from whyrun.snapshot.index import IndexedSteps, into_blocks
from whyrun.snapshot.records import Attempt, Output, StepRecord

WORKFLOW = """\
workflow: w
loops: {n: {values: [a, b, c]}}
jobs:
  Deep: {for: [n], uses: shell, with: {run: x}, outputs: {Doc: {type: json, leaves: {"Parts[n].T": string}}}}
  Empty: {for: [none], uses: shell, with: {run: x}, outputs: {Out: {type: text}}}
  Page: {for: [n], uses: shell, with: {run: x}, outputs: {Out: {type: text}, Data: {type: json, path: "${{ n }}.json"}}}
  Two: {uses: shell, with: {run: x}, outputs: {A: {type: text}, B: {type: text}}}
""".replace("loops: {", "loops: {none: {count: 0}, ")


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def output(name: str, n: str, content: str, type_: str = "", suffix: str | None = None) -> Output:
    form = {"Out": ("text", ".txt"), "Data": ("json", "")}[name]
    given = (type_ or form[0], form[1] if suffix is None else suffix)
    return Output(f"Artifact:Page.{name}[{n}]", sha(content), len(content), given[0], None, (), given[1])


def succeeded(n: str, *outputs: Output) -> StepRecord:
    return StepRecord(Attempt(1, 2, 1, sha(n), True, outputs))


def whole(n: str) -> StepRecord:
    return succeeded(n, output("Out", n, f"out {n}"), output("Data", n, f"some data {n}"))


@pytest.fixture
def graph() -> Graph:
    return expanded(WORKFLOW)


def indexed(steps: dict[str, StepRecord]) -> IndexedSteps:
    blocks, beside, parts = into_blocks(steps)
    data = b"".join(parts)
    return IndexedSteps(blocks, beside, lambda first, end: data[first:end], dict)


def join(graph: Graph, steps: dict[str, StepRecord], *, index: bool) -> dict[str, JoinedTable]:
    found = join_tables(graph, indexed(steps) if index else steps)
    return {table.name: joined for table, joined in zip(graph.tables, found, strict=True)}


def pages(graph: Graph, steps: dict[str, StepRecord], *, index: bool) -> JoinedTable:
    return join(graph, steps, index=index)["Page"]


def columns(joined: JoinedTable) -> dict[str, object]:
    return {
        "present": joined.present,
        "fingerprints": list(joined.fingerprints),
        "shas": [list(column) for column in joined.shas],
        "sizes": [list(column) for column in joined.sizes],
    }


BOTH = pytest.mark.parametrize("index", [True, False], ids=["index", "log"])
LOG = {f"Job:Page[{n}]": whole(n) for n in "abc"}


@BOTH
def test_rows_are_a_sequence_of_what_is_recorded(graph: Graph, index: bool) -> None:
    steps = {"Job:Page[a]": whole("a"), "Job:Page[c]": whole("c")}
    rows = pages(graph, steps, index=index).rows
    assert len(rows) == 3
    assert [rows[0], rows[1], rows[2]] == [whole("a"), None, whole("c")]
    assert list(rows) == [whole("a"), None, whole("c")]
    assert rows[1:] == [None, whole("c")]


@BOTH
def test_columns_hold_what_the_latest_success_recorded(graph: Graph, index: bool) -> None:
    assert columns(pages(graph, LOG, index=index)) == {
        "present": 3,
        "fingerprints": [sha("a"), sha("b"), sha("c")],
        "shas": [[sha(f"some data {n}") for n in "abc"], [sha(f"out {n}") for n in "abc"]],
        "sizes": [[11, 11, 11], [5, 5, 5]],
    }


@BOTH
@pytest.mark.parametrize("order", ["abc", "cba", "bca"])
def test_rows_that_the_log_does_not_have_are_empty(graph: Graph, index: bool, order: str) -> None:
    steps = {f"Job:Page[{n}]": whole(n) for n in ["old", *order] if n != "b"}
    assert columns(pages(graph, steps, index=index)) == {
        "present": 2,
        "fingerprints": [sha("a"), None, sha("c")],
        "shas": [[sha("some data a"), None, sha("some data c")], [sha("out a"), None, sha("out c")]],
        "sizes": [[11, -1, 11], [5, -1, 5]],
    }


@BOTH
def test_a_failure_is_there_and_has_neither_fingerprint_nor_outputs(graph: Graph, index: bool) -> None:
    outputs = (output("Out", "b", "x"), output("Data", "b", "y"))
    failed = StepRecord(Attempt(2, 2, 1, sha("b"), False, outputs, 0.0, "FAILED", "NotPublished", "no"))
    found = columns(pages(graph, {**LOG, "Job:Page[b]": failed}, index=index))
    assert found == {
        "present": 3,
        "fingerprints": [sha("a"), None, sha("c")],
        "shas": [[sha("some data a"), None, sha("some data c")], [sha("out a"), None, sha("out c")]],
        "sizes": [[11, -1, 11], [5, -1, 5]],
    }


@BOTH
def test_outputs_of_another_type_or_suffix_do_not_fit(graph: Graph, index: bool) -> None:
    other_type = succeeded("a", output("Out", "a", "x", type_="json"), output("Data", "a", "y"))
    other_suffix = succeeded("b", output("Out", "b", "x"), output("Data", "b", "y", suffix=".json"))
    steps = {"Job:Page[a]": other_type, "Job:Page[b]": other_suffix, "Job:Page[c]": whole("c")}
    found = pages(graph, steps, index=index)
    assert [list(column) for column in found.shas] == [
        [sha("y"), None, sha("some data c")],
        [None, sha("x"), sha("out c")],
    ]
    assert [list(column) for column in found.sizes] == [[1, -1, 11], [-1, 1, 5]]
    everywhere = {f"Job:Page[{n}]": succeeded(n, output("Out", n, "x", type_="json")) for n in "abc"}
    none = pages(graph, everywhere, index=index)
    assert [list(column) for column in none.shas] == [[None] * 3, [None] * 3]
    assert [list(column) for column in none.sizes] == [[-1] * 3, [-1] * 3]


class Counted(str):
    """An ID that says how often it was compared."""

    __slots__ = ()
    looks = 0

    def __eq__(self, other: object) -> bool:
        Counted.looks += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


@pytest.mark.parametrize("count", [FEW - 1, FEW, 50 * FEW])
def test_of_a_step_with_very_many_leaves_each_is_looked_at_a_few_times(count: int) -> None:
    names = [f"L{i}" for i in range(count)]
    leaves = ", ".join(f"{name}: integer" for name in names)
    job = f"{{uses: shell, with: {{run: x}}, outputs: {{D: {{type: json, leaves: {{{leaves}}}}}}}}}"
    graph = expanded(f"workflow: w\njobs:\n  A: {job}\n")
    made = [Output(Counted("Artifact:A.D"), sha("D"), 1, "json")]
    made += [Output(Counted(f"Artifact:A.D.{name}"), sha(name), 2, "integer") for name in names]
    made += [
        Output(Counted("Artifact:A.D.L1"), sha("last"), 3, "integer"),
        Output(Counted("Artifact:A.D.L1"), sha("a text"), 4, "string"),
    ]
    steps = {"Job:A": StepRecord(Attempt(1, 2, 1, sha("a"), True, tuple(made)))}
    Counted.looks = 0
    (joined,) = join_tables(graph, steps)
    assert Counted.looks <= (FEW + 4) * (count + 3)
    order = [spec.leaf for spec in graph.tables[0].artifacts]
    expected = {"": "D", **{f".{name}": name for name in names}, ".L1": "last"}
    assert sorted(order) == sorted(expected)
    assert [list(column) for column in joined.shas] == [[sha(expected[leaf])] for leaf in order]
    again = join_tables(graph, {})[0]
    again.take_record(graph.tables[0], 0, steps["Job:A"])
    assert ([list(c) for c in again.shas], [list(c) for c in again.sizes]) == (
        [list(c) for c in joined.shas],
        [list(c) for c in joined.sizes],
    )
    assert Counted.looks <= 2 * (FEW + 4) * (count + 3)


@BOTH
def test_of_an_output_that_was_recorded_twice_the_last_counts(graph: Graph, index: bool) -> None:
    twice = succeeded("a", output("Out", "a", "first"), output("Out", "a", "at last"))
    found = pages(graph, {"Job:Page[a]": twice}, index=index)
    assert list(found.shas[1]) == [sha("at last"), None, None]
    assert list(found.sizes[1]) == [7, -1, -1]


def test_a_record_beside_the_index_takes_the_place_of_its_row(graph: Graph) -> None:
    for known in ("abc", "ac", "cab"):
        steps = indexed({f"Job:Page[{n}]": whole(n) for n in known})
        steps["Job:Page[b]"] = succeeded("new", output("Out", "b", "new"))
        (joined,) = [t for g, t in zip(graph.tables, join_tables(graph, steps), strict=True) if g.name == "Page"]
        assert columns(joined) == {
            "present": 3,
            "fingerprints": [sha("a"), sha("new"), sha("c")],
            "shas": [[sha("some data a"), None, sha("some data c")], [sha("out a"), sha("new"), sha("out c")]],
            "sizes": [[11, -1, 11], [5, 3, 5]],
        }


@BOTH
def test_steps_that_the_graph_does_not_have_are_told_in_order(graph: Graph, index: bool) -> None:
    steps = {**LOG, "Job:Page[z]": whole("z"), "Job:Gone": whole("g"), "Job:Page[d]": whole("d")}
    found = indexed(steps) if index else steps
    assert foreign_steps(graph, found) == ["Job:Gone", "Job:Page[d]", "Job:Page[z]"]
    assert foreign_steps(graph, indexed(LOG) if index else LOG) == []


@BOTH
def test_instances_whose_leaves_differ_are_joined_row_by_row(graph: Graph, index: bool) -> None:
    def record(n: str) -> StepRecord:
        doc = Output(f"Artifact:Deep.Doc[{n}]", sha(n), 3, "json")
        leaf = Output(f"Artifact:Deep.Doc[{n}].Parts[{n}].T", sha(f"{n}.T"), 4, "string", None, ("t",))
        return succeeded(n, doc, leaf)

    steps = {f"Job:Deep[{n}]": record(n) for n in "ac"}
    tables = join(graph, steps, index=index)
    assert columns(tables["Deep"]) == {
        "present": 2,
        "fingerprints": [sha("a"), None, sha("c")],
        "shas": [[sha("a"), None, sha("c")], [sha("a.T"), None, sha("c.T")]],
        "sizes": [[3, -1, 3], [4, -1, 4]],
    }


@BOTH
def test_a_table_without_rows_has_empty_columns(graph: Graph, index: bool) -> None:
    """Also where the log has rows of it, from the time when there were some."""
    one = Output("Artifact:Empty.Out[0]", sha("x"), 1, "text", None, (), ".txt")
    alone = Output("Artifact:Empty.Out", sha("x"), 1, "text", None, (), ".txt")
    for steps in ({"Job:Empty[0]": succeeded("0", one)}, {"Job:Empty": succeeded("0", alone)}):
        tables = join(graph, steps, index=index)
        assert columns(tables["Empty"]) == {"present": 0, "fingerprints": [], "shas": [[]], "sizes": [[]]}
        assert len(tables["Empty"].rows) == 0


@BOTH
def test_outputs_of_one_form_are_told_apart_by_their_names(graph: Graph, index: bool) -> None:
    outputs = [Output(f"Artifact:Two.{name}", sha(name), 1, "text", None, (), ".txt") for name in "BA"]
    found = columns(join(graph, {"Job:Two": succeeded("", *outputs)}, index=index)["Two"])
    assert found["shas"] == [[sha("A")], [sha("B")]]


@pytest.mark.parametrize("changed", ["a", "b", "c"])
def test_a_row_of_the_index_that_was_changed_since_is_counted_once(graph: Graph, changed: str) -> None:
    for known in ("abc", "abcz", "Zabc"):
        steps = indexed({f"Job:Page[{n}]": whole(n) for n in known})
        record = steps[f"Job:Page[{changed}]"]
        record.latest = succeeded("new", output("Out", changed, "new")).latest
        joined = join_tables(graph, steps)[[table.name for table in graph.tables].index("Page")]
        assert joined.present == 3
        assert list(joined.fingerprints) == [sha("new" if n == changed else n) for n in "abc"]
