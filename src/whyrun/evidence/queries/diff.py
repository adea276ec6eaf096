"""What differs between two runs: jobs and reasons of their plans, inputs, artifacts and actions. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import UNSET

from whyrun.ids import by_number
from whyrun.planning.plan import Plan
from whyrun.snapshot.records import Attempt, Output, Records, run_name
from whyrun.snapshot.snapshot import ActionFacts

_ALWAYS_WRITTEN = ("inputs", "parameters", "actions", "reasons", "jobs", "artifacts")
INACTIVE: dict[str, Any] = {"inactive": True}  # an artifact whose job is inactive in this run


@dataclass(frozen=True, slots=True)
class RunSide:
    """One side of the comparison: the plan of a run (None for adopt and compare) and the log folded up to this run."""

    run: str
    plan: Plan | None
    actions: Mapping[str, ActionFacts]
    records: Records
    inactive: frozenset[str] = frozenset()  # inactive jobs
    last_pruned: int = 0  # the latest pruned run before it
    parameters: Mapping[str, Any] = field(default_factory=dict)  # by ID, of the jobs that `changed_jobs` names

    def knows(self, job: str) -> bool:
        """Whether the log still has the latest attempt of a job. A pruned run may have had it."""
        record = self.records.steps.get(job)
        return not self.last_pruned or (record is not None and record.latest.run > self.last_pruned)


@dataclass(frozen=True, slots=True)
class Difference:
    """A named value that differs between the runs. None: absent."""

    id: str
    old: Any
    new: Any

    def to_json(self) -> dict[str, Any]:
        return {"id": self.id, "old": self.old, "new": self.new}


@dataclass(frozen=True, slots=True)
class RunDiff:
    old: str
    new: str
    # Causes first: inputs, parameters and actions, then reasons and jobs, then artifacts.
    inputs: tuple[Difference, ...]
    parameters: tuple[Difference, ...]  # of jobs that succeeded in both
    actions: tuple[Difference, ...]
    observed: tuple[Difference, ...]  # by path, of jobs that succeeded in both: what they read undeclared
    packages: tuple[Difference, ...]  # versions that they imported
    reasons: tuple[Difference, ...]  # the headline, of jobs with reasons in both
    jobs: tuple[Difference, ...]  # state: planned reused deferred inactive; None is clean, or not there
    artifacts: tuple[Difference, ...]  # hash, and the value where it is small; or that it is inactive
    kept: Mapping[str, str] = field(default_factory=dict)  # job → the run that kept its result, after the older run
    not_known: tuple[str, ...] = ()  # jobs whose artifacts are not compared: a pruned run may have made them

    @property
    def same(self) -> bool:
        named = (getattr(self, name) for name in (*_ALWAYS_WRITTEN, "observed", "packages", "kept"))
        return not any(named)

    def to_json(self) -> dict[str, Any]:
        record: dict[str, Any] = {"old": self.old, "new": self.new, "same": self.same}
        for name in _ALWAYS_WRITTEN:
            record[name] = [difference.to_json() for difference in getattr(self, name)]
        for name in ("observed", "packages"):
            if differences := getattr(self, name):
                record[name] = [difference.to_json() for difference in differences]
        if self.kept:
            record["kept"] = dict(self.kept)
        return {**record, "not_known": list(self.not_known)} if self.not_known else record


def diff_runs(old: RunSide, new: RunSide) -> RunDiff:
    old_heads, new_heads = _headlines(old.plan), _headlines(new.plan)
    both = old_heads.keys() & new_heads.keys()
    return RunDiff(
        old.run,
        new.run,
        _differences(_inputs(old.records), _inputs(new.records)),
        _differences(old.parameters, new.parameters),
        # Runs without a plan have no actions to compare.
        _differences(_actions(old.actions), _actions(new.actions)) if old.plan and new.plan else (),
        _differences(*_both(old, new, _reads)),
        _differences(*_both(old, new, _packages)),
        _differences({id_: old_heads[id_] for id_ in both}, {id_: new_heads[id_] for id_ in both}),
        _differences(_states(old.plan), _states(new.plan)),
        tuple(d for d in _differences(_artifacts(old, new), _artifacts(new, old)) if not _is_nothing(d)),
        _kept(old, new),
        _not_known(old, new),
    )


def _both(
    old: RunSide, new: RunSide, values: Callable[[Records, Attempt], Mapping[str, str]]
) -> tuple[dict[str, str], dict[str, str]]:
    """The values of jobs that succeeded in both, where they differ between the two."""
    found: tuple[dict[str, str], dict[str, str]] = {}, {}
    for job, record in new.records.steps.items():
        before = old.records.steps.get(job)
        if before is None or not (before.latest.ok and record.latest.ok):
            continue
        then, now = before.latest, record.latest
        if (then.reads, then.packages) == (now.reads, now.packages):
            continue
        was, is_ = values(old.records, then), values(new.records, now)
        for name in {*was, *is_}:
            if was.get(name) != is_.get(name):
                for side, of_side in zip(found, (was, is_), strict=True):
                    if name in of_side:
                        side[name] = of_side[name]
    return found


def _reads(records: Records, attempt: Attempt) -> dict[str, str]:
    return {read.shown: read.content or "not known" for read in records.observations.reads_of(attempt.reads)}


def _packages(records: Records, attempt: Attempt) -> Mapping[str, str]:
    return records.observations.packages_of(attempt.packages)


def _kept(*sides: RunSide) -> dict[str, str]:
    """The jobs whose result the newer run has because it was kept after the older one."""
    old, new = sorted(sides, key=lambda side: side.records.run)
    found = ((job, record.latest) for job, record in new.records.steps.items())
    kept = {job: run_name(latest.run) for job, latest in found if latest.kept and latest.run > old.records.run}
    return dict(sorted(kept.items(), key=lambda each: by_number(each[0])))


def changed_jobs(old: RunSide, new: RunSide) -> list[str]:
    """Jobs that succeeded in both, and consumed something else."""
    return [
        job
        for job, record in new.records.steps.items()
        if (before := old.records.steps.get(job)) is not None
        and before.latest.ok
        and record.latest.ok
        and before.latest.fingerprint != record.latest.fingerprint
    ]


def _not_known(*sides: RunSide) -> tuple[str, ...]:
    if not any(side.last_pruned for side in sides):
        return ()
    jobs = {job for side in sides for job in side.records.steps}
    return tuple(sorted((job for job in jobs if not all(side.knows(job) for side in sides)), key=by_number))


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Difference, ...]:
    names = sorted((name for name in {*old, *new} if old.get(name) != new.get(name)), key=by_number)
    return tuple(Difference(name, old.get(name), new.get(name)) for name in names)


def _states(plan: Plan | None) -> dict[str, str]:
    if plan is None:
        return {}
    return {j.id: "reused" if j.state == "planned" and j.reuse is not None else j.state for j in plan.jobs}


def _headlines(plan: Plan | None) -> dict[str, str]:
    return {} if plan is None else {job.id: job.headline for job in plan.jobs if job.headline is not None}


def _inputs(records: Records) -> dict[str, dict[str, Any]]:
    """The recorded inputs. An empty hash records a removal."""
    inputs = {}
    for id_, record in records.inputs.items():
        if record.sha256:
            small = {} if record.value is UNSET else {"value": record.value}
            inputs[id_] = {"sha256": record.sha256, **small}
    return inputs


def _artifacts(side: RunSide, other: RunSide) -> dict[str, dict[str, Any]]:
    """Available artifacts by the log alone: the outputs of successful latest attempts. Artifacts of inactive jobs are
    `INACTIVE`, even if an earlier run made them; their IDs are taken from both sides."""
    artifacts: dict[str, dict[str, Any]] = {}
    for job, output in _outputs(other):
        if job in side.inactive and side.knows(job):
            artifacts[output.id] = INACTIVE
    for job, output in _outputs(side):
        if not (side.knows(job) and other.knows(job)):
            continue
        small = {} if output.value is UNSET else {"value": output.value}
        artifacts[output.id] = INACTIVE if job in side.inactive else {"sha256": output.sha256, **small}
    return artifacts


def _outputs(side: RunSide) -> Iterator[tuple[str, Output]]:
    for job, record in side.records.steps.items():
        if record.latest.ok:
            yield from ((job, output) for output in record.latest.outputs)


def _is_nothing(difference: Difference) -> bool:
    """Absent in one run and inactive in the other: neither run has it."""
    return all(side is None or side is INACTIVE for side in (difference.old, difference.new))


def _actions(actions: Mapping[str, ActionFacts]) -> dict[str, dict[str, str]]:
    return {f"Job:{name}": {"name": facts.name, "sha256": facts.sha256} for name, facts in actions.items()}
