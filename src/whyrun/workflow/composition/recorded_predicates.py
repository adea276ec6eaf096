"""A predicate as it stands in the manifest of a run, so that its answer can be told from what was recorded.

`{"op": "lt", "left": {"id": "Artifact:check.report.share", "ref": "prod:check:report.share"}, "right": {"value": 1}}`
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from whyrun.workflow.composition.predicates import Operand, Predicate, Test, tested
from whyrun.workflow.composition.refs import DatasetRef

Recorded = Mapping[str, Any]
_SIDES = ("left", "right")


def recorded(predicate: Predicate) -> dict[str, Any]:
    if isinstance(predicate, Test):
        sides = zip(_SIDES, predicate.operands, strict=False)  # `exists` has one
        return {"op": predicate.op, **{side: _operand(operand) for side, operand in sides}}
    return {"op": predicate.op, "of": [recorded(part) for part in predicate.of]}


def _operand(operand: Operand) -> dict[str, Any]:
    if isinstance(operand, DatasetRef):
        return {"id": operand.canonical, "ref": operand.written}
    return {"value": operand.value}


def read_ids(predicate: Recorded) -> Iterator[str]:
    """What it reads, each as often as it is named."""
    for part in predicate.get("of", ()):
        yield from read_ids(part)
    yield from (predicate[side]["id"] for side in _SIDES if "id" in predicate.get(side, ()))


def answer(predicate: Recorded, values: Mapping[str, Any], there: Mapping[str, bool]) -> bool:
    """Its result, given what it reads by ID. `there`: whether a product is there, which is all that `exists` asks.
    `ExpressionError` where the values cannot be compared so; KeyError where one is not known."""
    op = predicate["op"]
    if op == "not":
        return not answer(predicate["of"][0], values, there)
    if op in ("all", "any"):
        parts = (answer(part, values, there) for part in predicate["of"])
        return all(parts) if op == "all" else any(parts)
    if op == "exists":
        return there[predicate["left"]["id"]]
    sides = [predicate[side] for side in _SIDES]
    left, right = (values[side["id"]] if "id" in side else side["value"] for side in sides)
    return bool(tested(op, left, right, (sides[0].get("ref"), sides[1].get("ref"))))
