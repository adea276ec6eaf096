"""What differs between two runs: jobs and reasons of their plans, inputs, artifacts and actions. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from whyrun.planning.plan import Plan
from whyrun.snapshot.fold import Records
from whyrun.snapshot.snapshot import ActionFacts


@dataclass(frozen=True, slots=True)
class RunSide:
    """One run as it is compared: its plan (None for adopt and compare) and the log folded through it."""

    run: str
    plan: Plan | None
    actions: Mapping[str, ActionFacts]
    records: Records


@dataclass(frozen=True, slots=True)
class Difference:
    """Something with a name that is one thing in one run and another (None: nothing) in the other."""

    id: str
    old: Any
    new: Any

    def to_json(self) -> dict[str, Any]:
        return {"id": self.id, "old": self.old, "new": self.new}


@dataclass(frozen=True, slots=True)
class RunDiff:
    old: str
    new: str
    jobs: tuple[Difference, ...]  # state: planned reused deferred inactive; None is clean, or not there
    reasons: tuple[Difference, ...]  # the headline, of jobs with reasons in both
    inputs: tuple[Difference, ...]
    artifacts: tuple[Difference, ...]
    actions: tuple[Difference, ...]

    @property
    def same(self) -> bool:
        return not (self.jobs or self.reasons or self.inputs or self.artifacts or self.actions)

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"old": self.old, "new": self.new, "same": self.same}
        for name in ("jobs", "reasons", "inputs", "artifacts", "actions"):
            found[name] = [difference.to_json() for difference in getattr(self, name)]
        return found


def diff_runs(old: RunSide, new: RunSide) -> RunDiff:
    old_heads, new_heads = _headlines(old.plan), _headlines(new.plan)
    both = old_heads.keys() & new_heads.keys()
    return RunDiff(
        old.run,
        new.run,
        _differences(_states(old.plan), _states(new.plan)),
        _differences({id_: old_heads[id_] for id_ in both}, {id_: new_heads[id_] for id_ in both}),
        _differences(_inputs(old.records), _inputs(new.records)),
        _differences(_artifacts(old.records), _artifacts(new.records)),
        # A run without a plan says nothing of actions, so there is nothing to compare.
        _differences(_actions(old.actions), _actions(new.actions)) if old.plan and new.plan else (),
    )


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Difference, ...]:
    names: Iterable[str] = sorted({*old, *new})
    return tuple(Difference(n, old.get(n), new.get(n)) for n in names if old.get(n) != new.get(n))


def _states(plan: Plan | None) -> dict[str, str]:
    if plan is None:
        return {}
    return {j.id: "reused" if j.state == "planned" and j.reuse is not None else j.state for j in plan.jobs}


def _headlines(plan: Plan | None) -> dict[str, str]:
    return {} if plan is None else {job.id: job.headline for job in plan.jobs if job.headline is not None}


def _inputs(records: Records) -> dict[str, dict[str, Any]]:
    """As recorded; an empty hash is the record of a removal."""
    found = {}
    for id_, record in records.inputs.items():
        if record.sha256:
            small = {} if record.value is UNSET else {"value": record.value}
            found[id_] = {"sha256": record.sha256, **small}
    return found


def _artifacts(records: Records) -> dict[str, str]:
    """What was available by the log alone: outputs of latest attempts that succeeded."""
    return {
        output.id: output.sha256
        for record in records.steps.values()
        if record.latest.ok
        for output in record.latest.outputs
    }


def _actions(actions: Mapping[str, ActionFacts]) -> dict[str, dict[str, str]]:
    return {f"Job:{name}": {"name": facts.name, "sha256": facts.sha256} for name, facts in actions.items()}
