"""`whyrun runs prune`: choose the runs that can be removed, and remove them. The plan stays the same, byte for byte.

Always kept: the latest run; every run with the latest attempt, success or adoption of a job; runs that made a result
which a later run reused; runs with a request that the next attempt resumes; runs whose result the current plan reuses.
Then the log is folded and the plan is computed without the other runs. If anything differs, the runs that cause the
difference are kept, too.

Removal: first all tombstones are written to one file and synced. Then each folder is renamed and removed. A kill in
between leaves pruned runs (they have a tombstone) and folders that the next run, `prune` or `gc` removes; never half a
run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from whyrun.evidence.queries.run_list import summarize_run
from whyrun.evidence.retention.prune_needs import (
    Needs,
    RunFacts,
    add_latest,
    add_lost,
    add_requests,
    facts_of,
    folder_size,
    published_sites,
)
from whyrun.ids import by_number
from whyrun.log.journal import Clock, parse_timestamp, timestamp
from whyrun.log.lock import RunLock, running_run
from whyrun.log.runs import RunRef
from whyrun.log.tombstones import Tombstone, add_tombstones, remove_pruned_folders
from whyrun.planning.plan import Plan, PlanOptions, compute_execution_plan
from whyrun.project import Project
from whyrun.snapshot.history.reader import History
from whyrun.snapshot.records import Records, run_name


@dataclass(frozen=True, slots=True)
class Selection:
    """The runs to prune: `names`; else all but the last `keep`, and of these the ones that ended before."""

    names: tuple[str, ...] = ()
    keep: int | None = None
    older_than: float | None = None  # seconds

    @property
    def is_empty(self) -> bool:
        return not self.names and self.keep is None and self.older_than is None


@dataclass(frozen=True, slots=True)
class PrunedRun:
    run: str
    mode: str
    state: str
    started: str
    events: int
    bytes: int  # of its folder
    outcome: str  # the state for people: a comparison that found differences has not failed


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A selected run that is kept."""

    run: str
    why: str


@dataclass(frozen=True, slots=True)
class PruneReport:
    workflow: str
    runs: int  # before pruning
    pruned: tuple[PrunedRun, ...]
    kept: tuple[KeptRun, ...]
    deleted: bool  # False: a preview
    jobs: tuple[str, ...] = ()  # whose removed results cannot be reused, restored or compared with

    @property
    def bytes(self) -> int:
        return sum(run.bytes for run in self.pruned)

    def to_json(self) -> dict[str, Any]:
        from dataclasses import asdict

        fields = asdict(self)
        lists = {name: list(fields[name]) for name in ("pruned", "kept", "jobs")}
        return {**fields, **lists, "bytes": self.bytes}


def prunable(project: Project, selection: Selection, clock: Clock) -> PruneReport:
    """What `prune` would remove. Nothing is written."""
    return _Choice(project, selection, clock(), running_run(project.state)).report(deleted=False)


def prune(project: Project, selection: Selection, clock: Clock) -> PruneReport:
    """Remove the selected runs that are not needed. LOCKED while a run is going on."""
    state = project.state
    project.graph, project.actions  # noqa: B018  # report an invalid workflow before the lock is taken
    with RunLock.of(state, clock, to_make_room=True):
        remove_pruned_folders(state)
        choice = _Choice(project, selection, clock(), running=None)
        done = choice.report(deleted=True)
        if choice.stones:
            add_tombstones(state.tombstones_path, choice.stones)
            remove_pruned_folders(state)
    return done


class _Choice:
    def __init__(self, project: Project, selection: Selection, now: datetime, running: str | None) -> None:
        self.project = project
        self.state = project.state
        self.now = timestamp(now)
        self.running = running
        self.state.check_last_run()
        self.runs = self.state.runs()
        selected = self._selected(selection, now)
        self.needs = Needs()
        self.facts = {run.number: facts_of(run) for run in selected if run is not self.runs[-1]}
        if self.runs:
            self.needs.add_reason(self.runs[-1].number, "the latest run")
        if self.facts:
            self._find_needs()
        self.gone = [facts for number, facts in sorted(self.facts.items()) if number not in self.needs]
        for facts in self.gone:
            facts.check_log()
        self.kept = [KeptRun(run.name, self.needs.why(run.number)) for run in selected if run.number in self.needs]
        self.stones = self._stones(self.gone)

    def report(self, *, deleted: bool) -> PruneReport:
        pruned = tuple(_pruned_run(facts) for facts in self.gone)
        results = [facts.outcome.steps for facts in self.gone if facts.has_results]
        jobs = {step for steps in results for step, how in steps.items() if how == "completed"}
        job_ids = tuple(sorted(jobs, key=by_number))
        return PruneReport(self.state.workflow, len(self.runs), pruned, tuple(self.kept), deleted, job_ids)

    def _selected(self, selection: Selection, now: datetime) -> list[RunRef]:
        if selection.names:
            named = {self.state.run(name).number for name in selection.names}
            return [run for run in self.runs if run.number in named]
        older = self.runs[: max(0, len(self.runs) - selection.keep)] if selection.keep is not None else self.runs
        if selection.older_than is None:
            return older
        ages = ((run, now - parse_timestamp(facts_of(run).outcome.last_ts)) for run in older)
        return [run for run, age in ages if age.total_seconds() > selection.older_than]

    # -- selected runs that are needed --

    def _find_needs(self) -> None:
        if self.running is not None:
            self.needs.add_reason(int(self.running[1:]), "it is running")
        history = self.project.history()
        snapshot = self.project.snapshot(history)
        plan = compute_execution_plan(snapshot, PlanOptions())
        records = history.records
        add_latest(self.needs, records)
        add_requests(self.needs, records, {number: facts.requests for number, facts in self.facts.items()})
        self._add_reused(plan, records)
        while stones := self._stones([facts for number, facts in self.facts.items() if number not in self.needs]):
            if not self._differs(records, plan, stones):
                return
            if all(stone.number not in self.needs for stone in stones):
                # The cause is no single run, so all of them are kept.
                for stone in stones:
                    self.needs.add_reason(stone.number, "the current plan would change without it")

    def _differs(self, records: Records, plan: Plan, stones: Sequence[Tombstone]) -> bool:
        after = History(self.state, self.project.store.read, without=stones)
        steps = {stone.number: self.facts[stone.number].steps for stone in stones}
        if add_lost(self.needs, records, after.records, steps):
            return True
        again = compute_execution_plan(self.project.snapshot(after), PlanOptions())
        return again.to_bytes() != plan.to_bytes()

    def _add_reused(self, plan: Plan, records: Records) -> None:
        for job in plan.planned:
            if job.reuse is None:
                continue
            record = records.steps.get(job.reuse.step)
            for attempt in (*record.attempts(), *record.for_others()) if record is not None else ():
                if run_name(attempt.made_in) == job.reuse.run:
                    for run in (attempt.run, attempt.made_in):
                        self.needs.add(run, "reuse", job.reuse.step)

    def _stones(self, gone: Sequence[RunFacts]) -> list[Tombstone]:
        if not gone:
            return []
        numbers = {facts.run.number for facts in gone}
        kept_sites = published_sites(run for run in self.runs if run.number not in numbers) if _publish(gone) else set()
        return [facts.tombstone(self.now, kept_sites) for facts in gone]


def _pruned_run(facts: RunFacts) -> PrunedRun:
    mode, state = facts.start.mode, facts.state
    outcome = summarize_run(facts.run, is_running=False).outcome if mode == "compare" else state
    size = folder_size(facts.run.path)
    return PrunedRun(facts.run.name, mode, state, facts.start.ts, facts.events, size, outcome)


def _publish(gone: Sequence[RunFacts]) -> bool:
    return any(facts.published for facts in gone)
