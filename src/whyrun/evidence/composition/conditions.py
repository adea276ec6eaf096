"""The conditions of a run for its summary: each with what it read itself, its result, and the branches. Pure.

A condition of a dataset plan is no job: it stands as `if` on the steps of its branches, together with those that it is
nested in. So its own answer is told from its own predicate and the values on record, never from one of these steps.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from whyrun.artifacts.hashing import value_sha256
from whyrun.evidence.composed_events import Composed
from whyrun.workflow.composition.recorded_predicates import answer, read_ids
from whyrun.workflow.functions import ExpressionError

_SHA256 = re.compile(r"[0-9a-f]{64}")
_NOT_KNOWN = "not evaluated: what it reads is not known"
_NOT_RECORDED = "not evaluated: the Whyrun that started this run did not record what its conditions read"
_FAILED = "the condition cannot be computed: "  # how the failure of a step begins whose condition has no value


def condition_decisions(section: Mapping[str, Any], seen: Composed) -> list[dict[str, Any]]:
    """`section` is `composition` of the manifest."""
    return _Conditions(section, seen).told()


def inactive_because(step: Mapping[str, Any], seen: Composed) -> dict[str, Any]:
    """As the plan says it: the source that is absent, or the condition and its values."""
    if "because" in step:  # known before the run
        return dict(step["because"])
    if step["step_id"] in seen.absent:
        return {"source": seen.absent[step["step_id"]]}
    event = seen.conditions.get(step["step_id"])
    return {"condition": step["condition"], "inputs": {} if event is None else event.inputs}


class _Conditions:
    def __init__(self, section: Mapping[str, Any], seen: Composed) -> None:
        self.seen = seen
        self.steps = {step["step_id"]: step for step in section["steps"]}
        self.conditions = {condition["step_id"]: condition for condition in section["conditions"]}
        # Of what stands in a branch: the condition, and the answer that leads there.
        self.branch = {
            id_: (condition["step_id"], when)
            for condition in section["conditions"]
            for when in (True, False)
            for id_ in condition["true_steps" if when else "false_steps"]
        }
        self.products = {product["id"] for step in section["steps"] for product in step["products"]}
        self.values: dict[str, Any] = dict(seen.values)
        for id_, step in self.steps.items():
            event, known = seen.conditions.get(id_), step.get("decision")
            self.values |= event.inputs if event is not None else known["inputs"] if known is not None else {}
        self._results: dict[str, tuple[bool | None, str]] = {}

    def told(self) -> list[dict[str, Any]]:
        found = [self._branching(condition) for condition in self.conditions.values()]
        own = [step for id_, step in self.steps.items() if "condition" in step and id_ not in self.branch]
        return found + [self._own(step) for step in own]

    # -- condition steps of a dataset plan --

    def _branching(self, condition: Mapping[str, Any]) -> dict[str, Any]:
        result, why = self._result(condition["step_id"])
        inputs = {id_: self.values[id_] for id_ in read_ids(condition.get("asks", {})) if id_ in self.values}
        branches = (condition["true_steps"], condition["false_steps"])
        taken, left = ([], []) if result is None else branches if result else branches[::-1]
        return self._decision(condition["step_id"], condition["predicate"], inputs, result, taken, left, why)

    def _result(self, id_: str) -> tuple[bool | None, str]:
        """And why there is none."""
        if id_ not in self._results:
            self._results[id_] = None, _NOT_KNOWN  # a circle was refused before the run; here it ends
            self._results[id_] = self._answer(id_)
        return self._results[id_]

    def _answer(self, id_: str) -> tuple[bool | None, str]:
        if id_ in self.branch:
            outer, when = self.branch[id_]
            held, _ = self._result(outer)
            if held is None:
                return None, f"not evaluated: `{outer}`, in whose branch it is, has no result"
            if held is not when:
                return None, f"not evaluated: it is in the branch of `{outer}` that was left"
        asks = self.conditions[id_].get("asks")
        if asks is None:
            return None, _NOT_RECORDED
        there = {read: self.values[read] is not None for read in read_ids(asks) if read in self.values}
        try:
            return answer(asks, self.values, there), ""
        except KeyError:
            return None, _NOT_KNOWN
        except ExpressionError as problem:
            return None, f"not evaluated: {problem}"

    # -- `if:` of a workflow file --

    def _own(self, step: Mapping[str, Any]) -> dict[str, Any]:
        id_ = step["step_id"]
        event, known = self.seen.conditions.get(id_), step.get("decision")
        held: bool | None = None
        inputs: Mapping[str, Any] = {}
        if event is not None:
            held, inputs = event.result, event.inputs
        elif known is not None:  # before the run
            held, inputs = known["result"], known["inputs"]
        taken, left = ([], []) if held is None else ([id_], []) if held else ([], [id_])
        failure = self.seen.outcome.failures.get(id_)
        failed = failure is not None and failure.error.startswith(_FAILED)
        why = f"not evaluated: {failure.error.removeprefix(_FAILED)}" if failure is not None and failed else _NOT_KNOWN
        return self._decision(id_, step["condition"], inputs, held, taken, left, why)

    # -- both --

    def _decision(
        self,
        step_id: str,
        predicate: str,
        inputs: Mapping[str, Any],
        result: bool | None,
        taken: Sequence[str],
        left: Sequence[str],
        why: str,
    ) -> dict[str, Any]:
        """`why`: of one without a result."""
        values = ", ".join(self._shown(id_, value) for id_, value in sorted(inputs.items()))
        return {
            "kind": "condition",
            "step_id": step_id,
            "predicate": predicate,
            "inputs": {id_: self._recorded(id_, value) for id_, value in inputs.items()},
            "result": result,
            "taken": list(taken),
            "not_taken": list(left),
            "why": why if result is None else values,
        }

    def _is_content(self, id_: str, value: Any) -> bool:
        """A product as a whole is read by its hash: `exists` asks for nothing more."""
        return id_ in self.products and (value is None or (isinstance(value, str) and bool(_SHA256.fullmatch(value))))

    def _recorded(self, id_: str, value: Any) -> dict[str, Any]:
        if self._is_content(id_, value):
            return {"value": None, "sha256": value}
        return {"value": value, "sha256": value_sha256(value)}

    def _shown(self, id_: str, value: Any) -> str:
        if self._is_content(id_, value):
            return f"{id_} is {'absent' if value is None else 'there'}"
        return f"{id_} = {value!r}"
