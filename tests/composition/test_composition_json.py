"""The JSON of plans: read as every other reader does, and with the place of each thing."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyrun.workflow.composition.plan_file.json_source import MAX_INTEGER, read_json
from whyrun.workflow.nodes import MapNode, Problems, plain_value

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=12,
)


def read(text: str) -> tuple[Any, list[tuple[int | None, int | None, str, str | None]]]:
    problems = Problems()
    node = read_json(text, "x.json", problems)
    reported = [(problem.line, problem.column, problem.message, problem.hint) for problem in problems]
    assert {problem.code for problem in problems} <= {"JSON_SYNTAX", "DUPLICATE_KEY"}
    return (None if node is None else plain_value(node)), reported


@given(VALUES, st.sampled_from([None, 0, 2, "\t"]), st.booleans())
def test_it_reads_what_json_writes(value: Any, indent: Any, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert read(text) == (value, [])


@given(st.text("{}[]:,\"\\ \n\t0123e.-+truefalsn/#'", max_size=24))
def test_it_accepts_nothing_else(text: str) -> None:
    try:
        expected = json.loads(text, parse_constant=lambda name: int(name))
    except ValueError:
        assert read(text)[1] != []
        return
    value, reported = read(text)
    refused = [message for _, _, message, _ in reported]
    if has_twice(text) or has_too_large(expected):
        assert refused != []
        assert all("twice" in message or "too large" in message for message in refused)
    else:
        assert (value, refused) == (expected, [])


def has_twice(text: str) -> bool:
    found = False

    def pairs(entries: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal found
        found = found or len(dict(entries)) < len(entries)
        return dict(entries)

    json.loads(text, object_pairs_hook=pairs)
    return found


def has_too_large(value: Any) -> bool:
    if isinstance(value, list | dict):
        return any(map(has_too_large, value.values() if isinstance(value, dict) else value))
    return isinstance(value, int | float) and (
        not math.isfinite(value) or (type(value) is int and abs(value) > MAX_INTEGER)
    )


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("", (1, 1, "the file is empty", "it holds one JSON object: `{…}`")),
        ("{} {}", (1, 4, "something follows the end of the document", "a file holds one JSON object: `{…}`")),
        ('{"a": 1,}', (1, 8, "there is a comma before `}`", "JSON has no comma after the last entry: remove it")),
        ('{"a": True}', (1, 7, "a value is expected here", "write `true`")),
        ('{"a": NaN}', (1, 7, "a value is expected here", "JSON has no `NaN`: write a number, `null` or a string")),
        ("```json\n{}\n```", (1, 1, "a value is expected here",
                              "remove the Markdown fence: the file holds the JSON alone")),
        ("{}\n```", (2, 1, "something follows the end of the document", "remove the Markdown fence")),
        ('{"a": x}', (1, 7, "a value is expected here", "put strings in double quotes")),
        ("{'a': 1}", (1, 2, "the name of an entry is expected here, in double quotes", "JSON has double quotes only")),
        ('{"a" 1}', (1, 6, "`:` is expected after `a`", "this is `1`; check the line before, too")),
        (
            '{"a": 1\n "b": 2}',
            (2, 2, "`,` or `}` is expected here (opened in line 1)", 'this is `"`; check the line before, too'),
        ),
        ('[1, 2', (1, 6, "the file ends too early: `,` or `]` is expected here (opened in line 1)",
                   "complete the file")),
        ('{"a": 1} // x', (1, 10, "JSON has no comments", "remove it, or write a `description`")),
        ('["a\nb"]', (1, 4, "the string is not valid: invalid control character at",
                      'close it with `"`; inside, a line break is `\\n` and a backslash `\\\\`')),
        ('["\\ud800"]', (1, 2, "the string has half of a surrogate pair", "write the character itself")),
        ("[1e999]", (1, 2, "the number is too large", "write a smaller number, or a string")),
        ("[" * 100, (1, 65, "nested deeper than 64 levels", "make the structure flatter")),
        ('{"a": 1, "a": 2}',
         (1, 10, "the key `a` appears twice", "the first is in line 1; remove one or rename it")),
    ],
)  # fmt: skip
def test_mistakes_have_a_place_and_a_hint(text: str, reported: tuple[int, int, str, str]) -> None:
    assert read(text)[1] == [reported]


def test_places() -> None:
    text = '\ufeff{\n  "ä": [true,\n   "é\\n"]}'
    node = read_json(text, "x.json", Problems())
    assert isinstance(node, MapNode)
    ((key, value),) = node.entries
    assert (key.place.line, key.place.column, key.place.width) == (2, 3, 3)
    assert (value.place.line, value.place.column, value.place.source_line) == (2, 8, '  "ä": [true,')
