"""What an action would be given, as far as it is known before a run: from the graph alone, and with what is there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from project_lab import Lab
from whyrun.graph.tables import JobTable
from whyrun.snapshot.actions.known_inputs import (
    InputReader,
    KnownInputs,
    has_secret,
    put,
    reader_of_graph,
    reader_of_snapshot,
)

FLOW = """
    workflow: w
    inputs:
      Two: {type: "integer[]", default: [1, 2]}
      Files: {type: "file[]", default: "in/*.txt"}
      Doc: {type: json, default: {of: [1, null]}}
      Topic: {type: string, default: cats}
    loops: {i: {each: inputs.Two}}
    jobs:
      Make:
        for: [i]
        uses: python
        with: {call: "acts:make", i: "${{ i }}"}
        outputs:
          Shown: {type: file, path: "out/${{ i }}.txt"}
          Kept: {type: file}
          Number: {type: integer}
          Deep: {type: json, path: "out/${{ i }}.json", leaves: {On: boolean, Sub: json}}
          Held: {type: json}
          Part: {type: json, path: all.json, append: true}
      Maybe:
        if: "${{ inputs.Topic == 'dogs' }}"
        uses: python
        with: {call: "acts:text"}
        outputs: {Text: {type: text}}
      Show:
        for: [i]
        uses: python
        secrets: [TOKEN]
        env: {NAME: "${{ inputs.Topic }}"}
        with:
          call: acts:show
          token: "${{ secrets.TOKEN }}"
          nested: {list: [1, {deep: "${{ secrets.TOKEN }}"}]}
          topic: "${{ inputs.Topic }}"
          files: "${{ inputs.Files }}"
          doc: "${{ inputs.Doc }}"
          numbers: "${{ inputs.Two }}"
          shown: "${{ jobs.Make.outputs.Shown[i] }}"
          kept: "${{ jobs.Make.outputs.Kept[i] }}"
          number: "${{ jobs.Make.outputs.Number[i] }}"
          deep: "${{ jobs.Make.outputs.Deep[i] }}"
          sub: "${{ jobs.Make.outputs.Deep[i].Sub }}"
          on: "${{ jobs.Make.outputs.Deep[i].On }}"
          held: "${{ jobs.Make.outputs.Held[i] }}"
          part: "${{ jobs.Make.outputs.Part[i] }}"
          all: "${{ jobs.Make.outputs.Shown[:] }}"
          one: "${{ first(jobs.Make.outputs.Shown[i]) }}"
          either: "${{ first(jobs.Maybe.outputs.Text, jobs.Make.outputs.Shown[i]) }}"
          computed: "${{ jobs.Make.outputs.Number[i] + 1 }}"
          mixed: ["${{ inputs.Topic }}", {of: "${{ jobs.Make.outputs.Number[i] }}"}]
        outputs: {Said: {type: text}}
"""
CODE = """
def make(i, context):
    context.output("Shown").write_text(f"shown {i}")
    context.output("Kept").write_text(f"kept {i}")
    return {"Number": i + 40, "Deep": {"On": True, "Sub": [i]}, "Held": {"held": i}, "Part": {"part": i}}
def text():
    return {"Text": "text"}
def show(**given):
    return {"Said": "shown"}
"""
SITES = {"in/a.txt", "in/b.txt", "out/0.txt", "out/1.txt"}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """`Job:Make[1]` has run, `Job:Make[0]` has not."""
    files = {"workflow.yaml": FLOW, "acts.py": CODE, "in/a.txt": "a", "in/b.txt": "b"}
    lab = Lab(tmp_path_factory.mktemp("known")).write(files)
    lab.succeed(targets=["Job:Make[1]"])
    return lab


def shown(lab: Lab, known: KnownInputs) -> tuple[dict[str, Any], list[str]]:
    """Paths in the project as such; those in the store by what they hold."""

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(member) for member in value]
        if not isinstance(value, Path):
            return value
        name = str(value.relative_to(lab.root))
        return f"<{name}>" if name in SITES else f"<bytes: {value.read_text()}>"

    return {name: plain(value) for name, value in known.given.items()}, list(known.missing)


def reader_of(lab: Lab) -> tuple[InputReader, JobTable]:
    opened = lab.opened()
    snapshot = opened.snapshot()
    (table,) = (table for table in snapshot.dependency_graph.tables if table.name == "Show")
    return reader_of_snapshot(snapshot, lab.root, opened.store.path), table


def inputs_of(lab: Lab, position: int) -> tuple[dict[str, Any], list[str]]:
    reader, table = reader_of(lab)
    return shown(lab, reader.inputs(table, position))


GIVEN = {
    "call": "acts:show",
    "topic": "cats",
    "files": ["<in/a.txt>", "<in/b.txt>"],
    "doc": {"of": [1, None]},
    "numbers": [1, 2],
}


def test_what_is_there_is_known(lab: Lab) -> None:
    assert inputs_of(lab, 1) == (
        {
            **GIVEN,
            "shown": "<out/1.txt>",
            "kept": "<bytes: kept 1>",
            "number": 41,
            "deep": {"On": True, "Sub": [1]},
            "on": True,
            "sub": [1],
            "held": {"held": 1},
            "part": {"part": 1},
            "one": "<out/1.txt>",
            "mixed": ["cats", {"of": 41}],
        },
        ["all", "computed", "either", "nested", "token"],
    )


LATER = [
    "all", "computed", "deep", "either", "held", "kept", "mixed", "nested", "number", "on", "one", "part", "shown",
    "sub", "token",
]  # fmt: skip


def test_what_a_run_makes_is_not_known_before(lab: Lab) -> None:
    assert inputs_of(lab, 0) == (GIVEN, LATER)


def test_of_the_graph_alone_it_is_known_where_files_will_be(lab: Lab) -> None:
    graph = lab.opened().graph
    (table,) = (table for table in graph.tables if table.name == "Show")
    reader = reader_of_graph(graph, lab.root)
    for position in (0, 1):
        site = f"<out/{position}.txt>"
        given = {**GIVEN, "shown": site, "one": site, "all": ["<out/0.txt>", "<out/1.txt>"]}
        later = [name for name in LATER if name not in given]
        assert shown(lab, reader.inputs(table, position)) == (given, later)


@contextmanager
def rewritten(paths: Iterable[Path], content: bytes | None) -> Iterator[None]:
    """These files with another content, or gone, for a while."""
    before = {path: path.read_bytes() for path in paths}
    for path in before:
        path.chmod(0o644)
        path.unlink() if content is None else path.write_bytes(content)
    try:
        yield
    finally:
        for path, data in before.items():
            path.write_bytes(data)


def documents(lab: Lab) -> list[Path]:
    return [path for path in lab.store.glob("??/*") if path.read_bytes().startswith(b"{")]


def test_a_document_whose_bytes_are_lost_is_read_where_it_is_published(lab: Lab) -> None:
    with rewritten(documents(lab), None):
        given, missing = inputs_of(lab, 1)
    assert (given["deep"], given["part"], "held" in missing) == ({"On": True, "Sub": [1]}, {"part": 1}, True)


@pytest.mark.parametrize(
    ("stored", "published"),
    [(b"no document", b"{}"), (None, None), (None, b"no document"), (None, b"{}"), (None, b"[]")],
)
def test_a_document_that_is_no_longer_there_is_not_known(
    lab: Lab, stored: bytes | None, published: bytes | None
) -> None:
    """It went away since it was looked at: bytes that are no document, a shared file without the section."""
    reader, table = reader_of(lab)
    with rewritten(documents(lab), stored), rewritten([lab.root / "all.json"], published):
        known = reader.inputs(table, 1)
    assert {"held", "part"} <= set(known.missing)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"$secret": "X"}, True), ({"$connection": "db"}, True), ({"a": [{"b": {"$secret": "X"}}]}, True),
        ([[], [{"$connection": "db"}]], True), ({"a": 1}, False), ([], False), ([1, "x"], False), ("$secret", False),
        (7, False), ({"a": 1, "b": {"$secret": "X"}}, True),
    ],
)  # fmt: skip
def test_secrets_are_found_however_deep(value: Any, expected: bool) -> None:
    assert has_secret(value) is expected


def test_values_are_put_deep_into_a_block() -> None:
    block: dict[str, Any] = {}
    entries: list[tuple[tuple[str | int, ...], Any]] = [
        (("a",), 1), (("b", 0), "x"), (("b", 1, "c"), "y"), (("b", 1, "d"), "z"), (("e", "f", 2), 3),
        (("e", "f", 0), 1), (("g", 1, 0), 5), (("g", 1, 1), 6), (("g", 0, "h"), 7),
    ]  # fmt: skip
    for path, value in entries:
        put(block, path, value)
    assert block == {
        "a": 1,
        "b": ["x", {"c": "y", "d": "z"}],
        "e": {"f": [1, None, 3]},
        "g": [{"h": 7}, [5, 6]],
    }
