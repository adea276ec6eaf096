"""Expressions over outputs that are available, pending or absent: the value, the wait, or the inactive job."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from project_lab import Lab
from whyrun.planning.artifact_states import ArtifactState, Available, Pending
from whyrun.planning.consume import Consumer, Consumption

Make = Callable[..., Lab]
A, B, MANY = "jobs.A.outputs.N", "jobs.B.outputs.N", "jobs.Each.outputs.N"
SEVEN, NINE, TO_COME, PERHAPS, ABSENT = Available("07", 7), Available("09", 9), Pending(False), Pending(True), None


def consumed(project: Make, expression: str, *, as_condition: bool = False, **looks: ArtifactState) -> Consumption:
    """What `Job:It[1]` would consume, whose parameter (or condition) is this expression."""
    made = {"uses": "python", "outputs": {"N": {"type": "integer"}}}
    maybe = {**made, "if": "${{ inputs.Five > 1 }}"}  # so that it may be absent
    it: dict[str, Any] = {**made, "for": ["i"], "with": {"call": "acts:it"}}
    if as_condition:
        it["if"] = f"${{{{ {expression} }}}}"
    else:
        it["with"]["x"] = f"${{{{ {expression} }}}}"
    flow = {
        "workflow": "w",
        "inputs": {"Two": {"type": "integer[]", "default": [1, 2]}, "Five": {"type": "integer", "default": 5}},
        "loops": {"i": {"each": "inputs.Two"}},
        "jobs": {
            "A": {**maybe, "with": {"call": "acts:it"}},
            "B": {**maybe, "with": {"call": "acts:it"}},
            "Each": {**maybe, "for": ["i"], "with": {"call": "acts:it", "i": "${{ i }}"}},
            "It": it,
        },
    }
    graph = project(json.dumps(flow), {"acts.py": "def it(**given):\n    return {'N': 1}\n"}).opened().graph
    ids = {"Each0": "Artifact:Each.N[0]", "Each1": "Artifact:Each.N[1]", "A": "Artifact:A.N", "B": "Artifact:B.N"}
    known = {graph.artifact_of[id_]: looks[name] for name, id_ in ids.items() if name in looks}
    return Consumer(graph, known.__getitem__).consume(*graph.table_at(graph.node_of["Job:It[1]"]))


def short(found: Consumption) -> dict[str, Any]:
    x = found.entries.get("x")
    told = {
        "x": getattr(x, "value", None),
        "unknown": found.unknown,
        "waits": [(at.table, at.position) for at in found.pending],
        "inactive_by": found.inactive_by,
        "maybe": found.maybe,
        "problems": found.problems,
    }
    return {
        name: value for name, value in told.items() if value not in (None, [], {}) and (name, value) != ("maybe", False)
    }


@pytest.mark.parametrize(
    ("expression", "looks", "expected"),
    [
        (f"sum({MANY}[:])", {"Each0": SEVEN, "Each1": NINE}, {"x": 16}),
        (f"sum({MANY}[:])", {"Each0": SEVEN, "Each1": ABSENT}, {"x": 7}),
        (f"sum({MANY}[:])", {"Each0": ABSENT, "Each1": NINE}, {"x": 9}),
        (f"sum({MANY}[:])", {"Each0": SEVEN, "Each1": TO_COME}, {"unknown": ["x"], "waits": [(2, 1)]}),
        (f"first({A}, {B}) + 1", {"A": SEVEN, "B": NINE}, {"x": 8}),
        (f"first({A}, {B}) + 1", {"A": ABSENT, "B": NINE}, {"x": 10}),
        (f"first({A}, {B}) + 1", {"A": ABSENT, "B": ABSENT}, {"unknown": ["x"], "inactive_by": "Artifact:B.N"}),
        (f"first({MANY}[i+1], {MANY}[i+2]) + 1", {}, {"unknown": ["x"], "inactive_by": "first()"}),
        (f"first({A}, {B}) + 1", {"A": TO_COME, "B": NINE}, {"unknown": ["x"], "waits": [(0, 0)]}),
        (f"first({A}, {B}) + 1", {"A": PERHAPS, "B": NINE}, {"unknown": ["x"], "waits": [(0, 0)]}),
        (
            f"first({A}, {B}) + 1", {"A": PERHAPS, "B": PERHAPS},
            {"unknown": ["x"], "waits": [(0, 0), (1, 0)], "maybe": True},
        ),
        (f"first({A}, inputs.Five) + 1", {"A": ABSENT}, {"x": 6}),
        (f"{B} + first({A}, {A})", {"A": ABSENT, "B": ABSENT}, {"unknown": ["x"], "inactive_by": "Artifact:B.N"}),
        (f"exists({A})", {"A": SEVEN}, {"x": True}),
        (f"exists({A}) or 2", {"A": ABSENT}, {"x": 2}),
        (f"exists({A})", {"A": TO_COME}, {"unknown": ["x"], "waits": [(0, 0)]}),
        (f"exists({MANY}[i-1])", {"Each0": ABSENT}, {"x": False}),
        (f"exists({MANY}[i+1]) or 3", {}, {"x": 3}),
        (f"first({MANY}[i+1], {A}) + 1", {"A": SEVEN}, {"x": 8}),
        (f"{A} / ({B} - 9)", {"A": SEVEN, "B": NINE}, {"problems": {"x": f"`{A} / ({B} - 9)`: division by zero"}}),
        (f"{A} + {B}", {"A": TO_COME, "B": NINE}, {"unknown": ["x"], "waits": [(0, 0)]}),
        (f"{A} + {B}", {"A": SEVEN, "B": PERHAPS}, {"unknown": ["x"], "waits": [(1, 0)], "maybe": True}),
        (f"{A} + {B}", {"A": ABSENT, "B": ABSENT}, {"unknown": ["x"], "inactive_by": "Artifact:A.N"}),
        (f"inputs.Two[i] + {A}", {"A": SEVEN}, {"x": 9}),
        (f"{A} if exists(inputs.Two[i]) else 0", {"A": SEVEN}, {"x": 7}),
    ],
)  # fmt: skip
def test_a_parameter(project: Make, expression: str, looks: dict[str, ArtifactState], expected: dict[str, Any]) -> None:
    assert short(consumed(project, expression, **looks)) == expected


@pytest.mark.parametrize(
    ("expression", "looks", "result", "inputs"),
    [
        (f"sum({MANY}[:]) > 8", {"Each0": SEVEN, "Each1": NINE}, True, {"Each.N[0]": 7, "Each.N[1]": 9}),
        (f"sum({MANY}[:]) > 8", {"Each0": SEVEN, "Each1": ABSENT}, False, {"Each.N[0]": 7}),
        (f"first({A}, {B}) == 9", {"A": ABSENT, "B": NINE}, True, {"B.N": 9}),
        (f"exists({A}) or {B} > 8", {"A": ABSENT, "B": NINE}, True, {"A.N": None, "B.N": 9}),
        (f"not exists({A})", {"A": SEVEN}, False, {"A.N": 7}),
    ],
)
def test_a_decided_condition_names_its_inputs(
    project: Make, expression: str, looks: dict[str, ArtifactState], result: bool, inputs: dict[str, Any]
) -> None:
    found = consumed(project, expression, as_condition=True, **looks)
    assert found.decision is not None
    assert (found.decision.result, found.undecided, found.maybe, found.inactive) == (result, False, False, not result)
    assert found.decision.inputs == {f"Artifact:{name}": value for name, value in inputs.items()}


@pytest.mark.parametrize(
    ("expression", "looks"),
    [
        (f"sum({MANY}[:]) > 8", {"Each0": SEVEN, "Each1": TO_COME}),
        (f"first({A}, {B}) == 9", {"A": PERHAPS, "B": NINE}),
        (f"exists({A})", {"A": TO_COME}),
        (f"{A} / ({B} - 9) > 1", {"A": SEVEN, "B": NINE}),
    ],
)
def test_a_condition_that_is_not_decided_yet(project: Make, expression: str, looks: dict[str, ArtifactState]) -> None:
    found = consumed(project, expression, as_condition=True, **looks)
    assert (found.decision, found.undecided, found.maybe, found.inactive) == (None, True, True, False)


def test_a_condition_over_something_absent(project: Make) -> None:
    found = consumed(project, f"{A} > 1", as_condition=True, A=ABSENT)
    assert (found.decision, found.undecided, found.inactive_by, found.inactive) == (None, False, "Artifact:A.N", True)


def test_a_condition_names_the_inputs_that_it_read(project: Make) -> None:
    found = consumed(project, f"first({A}, inputs.Five) + inputs.Two[i] > 6", as_condition=True, A=ABSENT)
    assert found.decision is not None
    assert (found.decision.result, found.decision.inputs) == (True, {"Input:Five": 5, "Input:Two[1]": 2})
    found = consumed(project, "sum(inputs.Two[:]) > 2", as_condition=True)
    assert found.decision is not None
    assert found.decision.inputs == {"Input:Two[0]": 1, "Input:Two[1]": 2}
