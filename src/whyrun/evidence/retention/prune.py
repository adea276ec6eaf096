"""Which runs can go, and removing them. What stays is what it was: the same plan, to the byte.

Kept are, whatever was asked for: the latest run; every run that holds some job's latest attempt, success or adoption,
or made what a later run reused; one that remembers a request still to be picked up; one whose result the plan of now
reuses. Then the log is folded and the plan computed as if the others were gone: where anything is different, the runs
that make the difference stay, too.

Order of removal: the tombstones, synced, all in one file; then each folder is moved out of the way in one step, and
removed. A kill in between leaves runs that are pruned (they have a tombstone) and folders that the next run, `prune` or
`gc` removes; never a run that is half there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from whyrun.evidence.prune_facts import RunFacts, facts_of, folder_size, published_sites
from whyrun.evidence.prune_needs import Needs, add_held, add_lost, add_remembered
from whyrun.evidence.run_list import running_run, summarize_run
from whyrun.ids import by_number
from whyrun.log.journal import Clock, parse_timestamp, timestamp
from whyrun.log.lock import RunLock
from whyrun.log.pruned_folders import remove_pruned_folders
from whyrun.log.runs import RunRef
from whyrun.log.tombstones import Tombstone, add_tombstones
from whyrun.planning.plan import Plan, PlanOptions, compute_execution_plan
from whyrun.snapshot.history import History
from whyrun.snapshot.records import Records, run_name
from whyrun.snapshot.world import World


@dataclass(frozen=True, slots=True)
class Selection:
    """Which runs are asked for: those named; else all but the last `keep`, and of these those that ended before."""

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
    outcome: str  # the state in a word: a comparison that found differences has not failed


@dataclass(frozen=True, slots=True)
class KeptRun:
    """One that was asked for, and stays."""

    run: str
    why: str


@dataclass(frozen=True, slots=True)
class Pruning:
    workflow: str
    runs: int  # that there were
    pruned: tuple[PrunedRun, ...]
    kept: tuple[KeptRun, ...]
    deleted: bool  # else it is what would go
    jobs: tuple[str, ...] = ()  # of which results can no longer be reused, restored or compared with

    @property
    def bytes(self) -> int:
        return sum(run.bytes for run in self.pruned)

    def to_json(self) -> dict[str, Any]:
        from dataclasses import asdict

        told = asdict(self)
        lists = {name: list(told[name]) for name in ("pruned", "kept", "jobs")}
        return {**told, **lists, "bytes": self.bytes}


def prunable(world: World, selection: Selection, clock: Clock) -> Pruning:
    """What would go. Nothing is written."""
    return _Choice(world, selection, clock(), running_run(world.state)).pruning(deleted=False)


def prune(world: World, selection: Selection, clock: Clock) -> Pruning:
    """Remove what can go of what was asked for. LOCKED while a run is going on."""
    state = world.state
    world.graph, world.actions  # noqa: B018  # all that is invalid is found before the lock is taken
    with RunLock.of(state, clock, to_make_room=True):
        remove_pruned_folders(state)
        choice = _Choice(world, selection, clock(), running=None)
        done = choice.pruning(deleted=True)
        if choice.stones:
            add_tombstones(state.tombstones_path, choice.stones)
            remove_pruned_folders(state)
    return done


class _Choice:
    def __init__(self, world: World, selection: Selection, now: datetime, running: str | None) -> None:
        self.world = world
        self.state = world.state
        self.now = timestamp(now)
        self.running = running
        self.state.check_last_run()
        self.runs = self.state.runs()
        asked = self._asked(selection, now)
        self.needs = Needs()
        self.facts = {run.number: facts_of(run) for run in asked if run is not self.runs[-1]}
        if self.runs:
            self.needs.say(self.runs[-1].number, "the latest run")
        if self.facts:
            self._find_needs()
        self.gone = [facts for number, facts in sorted(self.facts.items()) if number not in self.needs]
        for facts in self.gone:
            facts.check_log()
        self.kept = [KeptRun(run.name, self.needs.why(run.number)) for run in asked if run.number in self.needs]
        self.stones = self._stones(self.gone)

    def pruning(self, *, deleted: bool) -> Pruning:
        pruned = tuple(_pruned_run(facts) for facts in self.gone)
        results = [facts.outcome.steps for facts in self.gone if facts.has_results]
        jobs = {step for steps in results for step, how in steps.items() if how == "completed"}
        told = tuple(sorted(jobs, key=by_number))
        return Pruning(self.state.workflow, len(self.runs), pruned, tuple(self.kept), deleted, told)

    def _asked(self, selection: Selection, now: datetime) -> list[RunRef]:
        if selection.names:
            named = {self.state.run(name).number for name in selection.names}
            return [run for run in self.runs if run.number in named]
        asked = self.runs[: max(0, len(self.runs) - selection.keep)] if selection.keep is not None else self.runs
        if selection.older_than is None:
            return asked
        ages = ((run, now - parse_timestamp(facts_of(run).outcome.last_ts)) for run in asked)
        return [run for run, age in ages if age.total_seconds() > selection.older_than]

    # -- what stays, although it was asked for --

    def _find_needs(self) -> None:
        if self.running is not None:
            self.needs.say(int(self.running[1:]), "it is running")
        history = self.world.history()
        snapshot = self.world.snapshot(history)
        plan = compute_execution_plan(snapshot, PlanOptions())
        records = history.records
        add_held(self.needs, records)
        add_remembered(self.needs, records, {number: facts.requests for number, facts in self.facts.items()})
        self._add_reused(plan, records)
        while stones := self._stones([facts for number, facts in self.facts.items() if number not in self.needs]):
            if not self._differs(records, plan, stones):
                return
            if all(stone.number not in self.needs for stone in stones):
                # No single run can be named for it, so none of them goes.
                for stone in stones:
                    self.needs.say(stone.number, "the plan of now would not be the same without it")

    def _differs(self, records: Records, plan: Plan, stones: Sequence[Tombstone]) -> bool:
        after = History(self.state, self.world.store.read, without=stones)
        steps = {stone.number: self.facts[stone.number].steps for stone in stones}
        if add_lost(self.needs, records, after.records, steps):
            return True
        again = compute_execution_plan(self.world.snapshot(after), PlanOptions())
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
        told = published_sites(run for run in self.runs if run.number not in numbers) if _publish(gone) else set()
        return [facts.tombstone(self.now, told) for facts in gone]


def _pruned_run(facts: RunFacts) -> PrunedRun:
    mode, state = facts.start.mode, facts.state
    told = summarize_run(facts.run, is_running=False).told_state if mode == "compare" else state
    size = folder_size(facts.run.path)
    return PrunedRun(facts.run.name, mode, state, facts.start.ts, facts.events, size, told)


def _publish(gone: Sequence[RunFacts]) -> bool:
    return any(facts.published for facts in gone)
