"""Adds the step and the JSON pointer to problems of a dataset plan and its manifest, for programs that mend a plan.

The place of a problem is a line and a column. A node begins at each of them, and its pointer is what a program needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from whyrun.errors import Diagnostic
from whyrun.workflow.composition.plan_file.json_source import read_json
from whyrun.workflow.nodes import ListNode, MapNode, Node, Problems, Scalar
from whyrun.workflow.yaml_source import read_source

_Place = tuple[int, int]


def with_pointers(problems: Iterable[Diagnostic], files: Iterable[Path | None]) -> Iterator[Diagnostic]:
    """`files`: the plan and its manifest. A file with a syntax error has no pointers."""
    texts = {}
    for file in files:
        with suppress(OSError, UnicodeDecodeError):  # reported already
            texts[str(file)] = read_source(file) if file is not None else ""
    known: dict[str, dict[_Place, tuple[str, str | None]]] = {}
    for problem in problems:
        text = texts.get(problem.file or "")
        if text is None or problem.line is None or problem.column is None or problem.code == "JSON_SYNTAX":
            yield problem
            continue
        assert problem.file is not None
        if problem.file not in known:
            root = read_json(text, problem.file, Problems())
            known[problem.file] = {} if root is None else dict(_places(root, "", None))
        found = _nearest(known[problem.file], problem.line, problem.column)
        yield problem if found is None else replace(problem, pointer=found[0], step_id=found[1])


def _nearest(places: Mapping[_Place, tuple[str, str | None]], line: int, column: int) -> tuple[str, str | None] | None:
    """Of the node that begins there; or of the last one before it in the line, for a place inside a string."""
    before = [place for place in places if place[0] == line and place[1] <= column]
    return places[max(before)] if before else None


def _places(node: Node, pointer: str, step: str | None) -> Iterator[tuple[_Place, tuple[str, str | None]]]:
    if isinstance(node, MapNode):
        if pointer.startswith("/steps/") and pointer.count("/") == 2:
            id_ = node.get("step_id")
            step = id_.value if isinstance(id_, Scalar) and isinstance(id_.value, str) else None
        yield _place(node), (pointer, step)
        for key, value in node.entries:
            inside = f"{pointer}/{key.value.replace('~', '~0').replace('/', '~1')}"
            yield _place(key), (inside, step)
            yield from _places(value, inside, step)
        return
    yield _place(node), (pointer, step)
    for index, item in enumerate(node.items) if isinstance(node, ListNode) else ():
        yield from _places(item, f"{pointer}/{index}", step)


def _place(node: Node) -> _Place:
    place = node.place
    return place.line, place.column
