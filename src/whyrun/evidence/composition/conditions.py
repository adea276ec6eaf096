"""The events of a composition run, folded; and its conditions for the summary: inputs, result and branches. Pure.

A condition of a dataset plan is not a job. The steps in its branches have it as `if`, combined with the outer
conditions. So its result is computed from its own predicate and the recorded values, never taken from one of the steps.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from whyrun.artifacts.hashing import value_sha256
from whyrun.ids import output_of
from whyrun.log import events as ev
from whyrun.log.outcomes import RunOutcome
from whyrun.planning.reuse import SHARED
from whyrun.workflow.composition.plan_file.predicates import evaluate_recorded, read_ids
from whyrun.workflow.expressions.functions import ExpressionError

_SHA256 = re.compile(r"[0-9a-f]{64}")
_NOT_KNOWN = "not evaluated: its inputs are not known"
_NOT_RECORDED = "not evaluated: the Whyrun that started this run did not record what its conditions read"
_FAILED = (
    "the condition cannot be computed: "  # the error of a step whose condition cannot be computed starts like this
)


class ComposedEvents:
    """A fold of the events of a run, by step."""

    def __init__(self) -> None:
        self.outcome = RunOutcome()
        self.bindings: dict[str, Mapping[str, Any]] = {}
        self.attempts: dict[str, int] = {}
        self.reused: dict[str, tuple[str, str]] = {}  # step → the run and step that made the result
        self.durations: dict[str, float] = {}
        self.artifacts: dict[str, dict[str, ev.ArtifactAvailable]] = {}
        self.conditions: dict[str, ev.ConditionEvaluated] = {}
        self.tasks: dict[str, list[tuple[str, dict[str, Any]]]] = {}  # step → status and details
        self.because: dict[str, list[str]] = {}
        self.absent: dict[str, str | None] = {}  # inactive step → its absent source
        self.values: dict[str, Any] = {}  # artifact → value, if the log has it

    def add(self, event: ev.Event) -> None:
        self.outcome.add(event)
        if isinstance(event, ev.ArtifactAvailable) and event.value is not msgspec.UNSET:
            self.values[event.artifact] = event.value
        match event:
            case ev.StepStart():
                self.bindings[event.step_id] = event.bindings or {}
                self.attempts[event.step_id] = event.attempt
                self.tasks.pop(event.step_id, None)  # drop the messages of an earlier attempt
                self.artifacts.pop(event.step_id, None)
            case ev.StepSkipped() if event.why == "reused":
                self.bindings[event.step_id] = event.bindings or {}
                self.reused[event.step_id] = event.from_run or SHARED, event.from_step or event.step_id
            case ev.StepSkipped() if event.why == "source_inactive":
                self.absent[event.step_id] = event.reason
            case ev.ArtifactAvailable() if output_of(event.artifact) is not None:
                self.artifacts.setdefault(event.step_id, {})[event.artifact] = event
            case ev.StepComplete() | ev.StepFailed():
                self.durations[event.step_id] = event.duration
            case ev.StepBlocked():
                self.because[event.step_id] = event.because
            case ev.ConditionEvaluated():
                self.conditions[event.step_id] = event
            case ev.Task() if isinstance(event.details, dict):
                self.tasks.setdefault(event.step_id, []).append((event.status, event.details))
            case _:
                pass


def condition_decisions(section: Mapping[str, Any], seen: ComposedEvents) -> list[dict[str, Any]]:
    """One decision per condition. `section`: `composition` of the manifest."""
    return _Conditions(section, seen).decisions()


def inactive_because(step: Mapping[str, Any], seen: ComposedEvents) -> dict[str, Any]:
    """Why a step is inactive, as in the plan: its absent source, or its condition with the values that it read."""
    if "because" in step:  # known before the run
        return dict(step["because"])
    if step["step_id"] in seen.absent:
        return {"source": seen.absent[step["step_id"]]}
    event = seen.conditions.get(step["step_id"])
    return {"condition": step["condition"], "inputs": {} if event is None else event.inputs}


class _Conditions:
    def __init__(self, section: Mapping[str, Any], seen: ComposedEvents) -> None:
        self.seen = seen
        self.steps = {step["step_id"]: step for step in section["steps"]}
        self.conditions = {condition["step_id"]: condition for condition in section["conditions"]}
        # step or condition in a branch → the condition, and the result that selects this branch
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

    def decisions(self) -> list[dict[str, Any]]:
        branching = [self._branching(condition) for condition in self.conditions.values()]
        own = [step for id_, step in self.steps.items() if "condition" in step and id_ not in self.branch]
        return branching + [self._own(step) for step in own]

    # -- condition steps of a dataset plan --

    def _branching(self, condition: Mapping[str, Any]) -> dict[str, Any]:
        result, why = self._result(condition["step_id"])
        inputs = {id_: self.values[id_] for id_ in read_ids(condition.get("asks", {})) if id_ in self.values}
        branches = (condition["true_steps"], condition["false_steps"])
        taken, left = ([], []) if result is None else branches if result else branches[::-1]
        return self._decision(condition["step_id"], condition["predicate"], inputs, result, taken, left, why)

    def _result(self, id_: str) -> tuple[bool | None, str]:
        """(result, the reason if there is none)."""
        if id_ not in self._results:
            self._results[id_] = None, _NOT_KNOWN  # ends a cycle; valid plans have none
            self._results[id_] = self._answer(id_)
        return self._results[id_]

    def _answer(self, id_: str) -> tuple[bool | None, str]:
        if id_ in self.branch:
            outer, when = self.branch[id_]
            outer_result, _ = self._result(outer)
            if outer_result is None:
                return None, f"not evaluated: `{outer}`, in whose branch it is, has no result"
            if outer_result is not when:
                return None, f"not evaluated: it is in the branch of `{outer}` that was not taken"
        asks = self.conditions[id_].get("asks")
        if asks is None:
            return None, _NOT_RECORDED
        present = {read: self.values[read] is not None for read in read_ids(asks) if read in self.values}
        try:
            return evaluate_recorded(asks, self.values, present), ""
        except KeyError:
            return None, _NOT_KNOWN
        except ExpressionError as problem:
            return None, f"not evaluated: {problem}"

    # -- `if:` of a workflow file --

    def _own(self, step: Mapping[str, Any]) -> dict[str, Any]:
        id_ = step["step_id"]
        event, known = self.seen.conditions.get(id_), step.get("decision")
        result: bool | None = None
        inputs: Mapping[str, Any] = {}
        if event is not None:
            result, inputs = event.result, event.inputs
        elif known is not None:  # before the run
            result, inputs = known["result"], known["inputs"]
        taken, left = ([], []) if result is None else ([id_], []) if result else ([], [id_])
        failure = self.seen.outcome.failures.get(id_)
        failed = failure is not None and failure.error.startswith(_FAILED)
        why = f"not evaluated: {failure.error.removeprefix(_FAILED)}" if failure is not None and failed else _NOT_KNOWN
        return self._decision(id_, step["condition"], inputs, result, taken, left, why)

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
        """`why`: the reason if there is no result."""
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
        """Whether the value is the hash of a whole product, as `exists` reads it."""
        return id_ in self.products and (value is None or (isinstance(value, str) and bool(_SHA256.fullmatch(value))))

    def _recorded(self, id_: str, value: Any) -> dict[str, Any]:
        if self._is_content(id_, value):
            return {"value": None, "sha256": value}
        return {"value": value, "sha256": value_sha256(value)}

    def _shown(self, id_: str, value: Any) -> str:
        if self._is_content(id_, value):
            return f"{id_} is {'absent' if value is None else 'there'}"
        return f"{id_} = {value!r}"
