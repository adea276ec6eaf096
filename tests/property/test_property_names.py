"""Names that a workflow gives to its inputs: IDs round-trip, and keys and positions give the same artifacts."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from whyrun.artifacts.hashing import value_sha256
from whyrun.graph.expand import expand
from whyrun.graph.inputs import lookup, part
from whyrun.graph.tables import Graph, Group, InputAt
from whyrun.ids import format_words, parse_id
from whyrun.workflow.inputs import InputValue
from whyrun.workflow.model import Type
from whyrun.workflow.parsing.parse import parse_workflow
from whyrun.workflow.values import Keys

WORDS = st.text(' aB1._-/"\\é[]e', min_size=1, max_size=4) | st.sampled_from(["inf", "nan", "01", "1e5", "x", "+1"])
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | WORDS,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(WORDS, inside, max_size=3),
    max_leaves=8,
)

TEXT = """\
workflow: w
inputs: {X: {type: "string[]"}}
loops: {x: {each: inputs.X}}
jobs:
  J: {for: [x], uses: shell, with: {x: "${{ inputs.X[x] }}", run: x}, outputs: {T: {type: text}}}
  All: {uses: shell, with: {all: "${{ jobs.J.outputs.T[:] }}", run: x}, outputs: {T: {type: text}}}
"""


def values_in(id_: str, value: InputValue) -> list[tuple[str, InputValue]]:
    """A JSON input and all parts of it, with their IDs."""
    found = [(id_, value)]
    inside = value.value
    keys: list[Any] = list(inside) if isinstance(inside, dict) else []
    keys += range(len(inside)) if isinstance(inside, list) else []
    for key in keys:
        found += values_in(*part(id_, value, key))
    return found


@given(JSON)
def test_the_id_of_every_part_of_a_json_value_leads_to_it(content: Any) -> None:
    whole = InputValue(Type("json"), content, value_sha256(content), None, None)
    seen: set[str] = set()
    for id_, value in values_in("Input:X", whole):
        assert str(parse_id(id_)) == id_
        assert lookup({"Input:X": whole}, id_) == value
        seen.add(id_)
    assert len(seen) == len(values_in("Input:X", whole)), "two parts have the same ID"


def graph_of(keys: list[str] | None, number: int) -> Graph:
    items = tuple(InputValue(Type("string"), f"v{i}", value_sha256(f"v{i}"), None, None) for i in range(number))
    values = [item.value for item in items]
    whole = InputValue(Type("string", 1), values, value_sha256(values), items, None, keys and Keys(keys))
    return expand(parse_workflow("w", {"w": TEXT}.__getitem__), {"Input:X": whole})


@settings(max_examples=50)
@given(st.lists(WORDS, min_size=1, max_size=4, unique=True))
def test_keys_and_positions_bind_the_same_contents(keys: list[str]) -> None:
    for graph, names in (
        (graph_of(keys, len(keys)), [*keys]),
        (graph_of(None, len(keys)), [*range(len(keys))]),
    ):
        every, table = graph.tables
        assert [row[0] for row in table.rows] == names
        assert [*table.texts] == [f"[{word}]" for word in format_words(names)]
        (bound,) = (slot.column for slot in table.slots if slot.name == "x")
        for position in range(len(keys)):
            term = bound.at(position)
            assert isinstance(term, InputAt)
            assert term.value.value == f"v{position}"
            assert lookup(graph.inputs, term.id) == term.value
            assert graph.node_of[str(parse_id(table.job_id(position)))] == table.base + position
        (members,) = (slot.column.at(0) for slot in every.slots if slot.name == "all")
        assert isinstance(members, Group)
        assert [graph.source_id(member) for member in members.members] == table.artifact_ids(0)
