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

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from whyrun.evidence.queries.history import summarize_run
from whyrun.ids import by_number, output_of, site_of
from whyrun.log import events as ev
from whyrun.log.journal import FIRST_CHAIN, Clock, check_chain, parse_timestamp, timestamp
from whyrun.log.lean_events import ArtifactAdopted, ArtifactAvailable, scan
from whyrun.log.lock import RunLock, running_run
from whyrun.log.outcomes import RunOutcome
from whyrun.log.runs import RunRef, log_without_start
from whyrun.log.tombstones import (
    Adopted,
    CarriedInput,
    Displaced,
    PublishedSite,
    Tombstone,
    add_tombstones,
    remove_pruned_folders,
)
from whyrun.planning.plan import Plan, PlanOptions, compute_execution_plan
from whyrun.project import Project
from whyrun.snapshot.history.reader import History
from whyrun.snapshot.records import Attempt, Records, StepRecord, run_name

# --- facts about a run: what its tombstone keeps, and the steps and requests that it has ------------------------------


Request = tuple[str, str, str]  # step, fingerprint, key


@dataclass(frozen=True, slots=True)
class RunFacts:
    run: RunRef
    start: ev.RunStart
    outcome: RunOutcome
    events: int
    chain: str
    inputs: tuple[CarriedInput, ...]
    displaced: tuple[Displaced, ...]
    adopted: tuple[Adopted, ...]
    published: dict[str, PublishedSite]  # by site
    steps: frozenset[str]
    requests: frozenset[Request]

    @property
    def state(self) -> Literal["succeeded", "failed", "interrupted"]:
        return self.outcome.end.state if self.outcome.end is not None else "interrupted"

    @property
    def has_results(self) -> bool:
        """Whether its results count. Those of a comparison count only with `--accept`."""
        return self.start.mode != "compare" or bool(self.start.options.get("accept"))

    def tombstone(self, pruned: str, published_by_kept: Collection[str] = ()) -> Tombstone:
        """`published_by_kept`: sites that kept runs have published, too. The tombstone leaves them out."""
        return Tombstone(
            run=self.run.name,
            mode=self.start.mode,
            state=self.state,
            started=self.start.ts,
            ended=self.outcome.last_ts,
            events=self.events,
            previous_chain=self.start.previous_chain,
            chain=self.chain,
            pruned=pruned,
            inputs=list(self.inputs),
            displaced=list(self.displaced),
            published=[one for site, one in sorted(self.published.items()) if site not in published_by_kept],
            adopted=list(self.adopted),
        )

    def check_log(self) -> None:
        """LOG_DAMAGED if the chain is broken: a damaged run is reported, not removed."""
        check_chain([self.run.events_path], self.start.previous_chain or FIRST_CHAIN)


def facts_of(run: RunRef) -> RunFacts:
    outcome = RunOutcome()
    inputs: list[CarriedInput] = []
    displaced: list[Displaced] = []
    adopted: list[Adopted] = []
    published: dict[str, PublishedSite] = {}
    steps: set[str] = set()
    requests: set[Request] = set()
    seq, chain = 0, ""
    try:
        for event in run.events():
            outcome.add(event)
            seq, chain = event.seq, event.chain
            step = getattr(event, "step_id", None)
            if step is not None:
                steps.add(step)
            if isinstance(event, ev.ArtifactAdopted) and output_of(event.artifact) is not None:  # skip leaves
                adopted.append(Adopted(event.artifact, event.sha256, event.type))
            match event:
                case ev.InputRecorded():
                    inputs.append(CarriedInput(event.id, event.sha256, event.size, event.value))
                case ev.FileDisplaced():
                    displaced.append(Displaced(event.path, event.sha256, event.section))
                case ev.ArtifactAvailable() | ev.ArtifactAdopted() if event.path is not None:
                    site = site_of(event.path, event.section)
                    published[site] = PublishedSite(event.artifact, site, event.sha256)
                case ev.RequestRecorded():
                    requests.add((event.step_id, event.fingerprint, event.key))
                case _:
                    pass  # the tombstone keeps nothing of it
    except FileNotFoundError:
        raise log_without_start(run) from None
    if outcome.start is None:
        raise log_without_start(run)
    return RunFacts(
        run, outcome.start, outcome, seq, chain, tuple(inputs), tuple(displaced), tuple(adopted), published,
        frozenset(steps), frozenset(requests),
    )  # fmt: skip


def published_sites(runs: Iterable[RunRef]) -> set[str]:
    """Every site that one of these runs has published."""
    return {
        site_of(event.path, event.section)
        for run in runs
        for events in scan(run.events_path)
        for event in events
        if isinstance(event, ArtifactAvailable | ArtifactAdopted) and event.path is not None
    }


def folder_size(folder: Path) -> int:
    """The size of its files. Links are not followed."""
    return sum(os.lstat(os.path.join(here, name)).st_size for here, _, names in os.walk(folder) for name in names)


# --- which runs are needed --------------------------------------------------------------------------------------------
# A run can be pruned only if no plan changes. The folded latest attempt and success of each step must stay the same.
# Older results may be lost: that is the purpose of pruning. But no older result may become current again, as would
# happen if the pruned run superseded a result of a kept run.


_KINDS = {
    "attempt": "has the latest attempt of {}",
    "success": "has the latest success of {}",
    "adoption": "has the adoption of {}",
    "kept": "keeps the result of {}",
    "made": "made the result of {} that later runs reuse",
    "traced": "has the latest traced step of {}",
    "request": "recorded a request that the next attempt of {} resumes",
    "reuse": "the current plan reuses its result of {}",
    "superseded": "without it an older result of {} would count again",
    "state": "the current state of {} depends on it",
}


@dataclass
class Needs:
    """Run → why it is needed. `why` gives the first reason in the order of `_KINDS`."""

    _by_kind: dict[int, dict[str, dict[str, None]]] = field(default_factory=dict)
    _others: dict[int, str] = field(default_factory=dict)

    def add(self, run: int, kind: str, subject: str) -> None:
        self._by_kind.setdefault(run, {}).setdefault(kind, {})[subject] = None

    def add_reason(self, run: int, why: str) -> None:
        """A reason that does not depend on a step."""
        self._others.setdefault(run, why)

    def __contains__(self, run: int) -> bool:
        return run in self._by_kind or run in self._others

    def why(self, run: int) -> str:
        if run in self._others:
            return self._others[run]
        by_kind = self._by_kind[run]
        kind = next(kind for kind in _KINDS if kind in by_kind)
        subjects = sorted(by_kind[kind])
        more = f" and {len(subjects) - 1} more" if len(subjects) > 1 else ""
        return _KINDS[kind].format(f"{subjects[0]}{more}")


def add_latest(needs: Needs, records: Records) -> None:
    """Add the runs with the latest attempt, success or adoption of a step, or with a result that a later run reused."""
    for step, record in records.steps.items():
        needs.add(record.latest.run, "attempt", step)
        for attempt in {id(a): a for a in (record.latest, record.last_success()) if a is not None}.values():
            if attempt.ok:
                needs.add(attempt.run, "success", step)
            for artifact, (run, origin) in (attempt.apart or {}).items():
                needs.add(run, {"adopted": "adoption", "kept": "kept"}.get(origin, "made"), artifact)
            if attempt.made:
                needs.add(attempt.made, "made", step)
    for job, (run, reads) in records.observations.traced.items():
        if reads:  # else the next step of the job is traced again, which finds the same
            needs.add(run, "traced", f"Job:{job}")


def add_requests(needs: Needs, records: Records, requests: Mapping[int, Iterable[tuple[str, str, str]]]) -> None:
    """Add the runs with a request that the next attempt resumes. `requests`: run → its recorded requests."""
    for run, recorded in requests.items():
        for step, fingerprint, key in recorded:
            record = records.steps.get(step)
            if record is not None and key in (record.requests or {}).get(fingerprint, {}):
                needs.add(run, "request", step)


def add_lost(needs: Needs, before: Records, after: Records, steps: Mapping[int, frozenset[str]]) -> bool:
    """Compare the fold of all runs with the fold without the runs of `steps` (run → the steps in its log), and add the
    runs that make a difference. False: no plan can differ."""
    same = before.inputs == after.inputs and (before.run, before.seq) == (after.run, after.seq)
    for step, record in before.steps.items():
        left = after.steps.get(step)
        if left is None or _current(left) != _current(record):
            _keep_all_of(needs, step, steps)
            same = False
            continue
        now = {attempt.kind: attempt for attempt in record.attempts()}
        for attempt in left.attempts():
            same &= _is_latest(needs, step, attempt, now.get(attempt.kind), steps)
    # For a deterministic job, the latest attempt of its kind counts, of any step.
    latest = _latest_by_kind(before)
    for kind, (step, attempt) in _latest_by_kind(after).items():
        by = latest.get(kind)
        same &= _is_latest(needs, step, attempt, None if by is None else by[1], steps)
    return not same


def _current(record: StepRecord) -> tuple[object, ...]:
    return record.latest, record.last_success(), record.requests or None, record.remembered_by or None


def _is_latest(
    needs: Needs, step: str, left: Attempt, latest: Attempt | None, steps: Mapping[int, frozenset[str]]
) -> bool:
    """Whether a remaining result is still the latest of its kind. If not, add the run that superseded it, or the run
    that made the superseding result; if both are kept already, all runs with the step."""
    if left == latest:
        return True
    if latest is not None and latest.run in steps:
        needs.add(latest.run, "superseded", step)
    elif latest is not None and latest.made in steps:
        needs.add(latest.made, "made", step)
    else:
        _keep_all_of(needs, step, steps)
    return False


def _keep_all_of(needs: Needs, step: str, steps: Mapping[int, frozenset[str]]) -> None:
    for run, steps_of_run in steps.items():
        if step in steps_of_run:
            needs.add(run, "state", step)


def _latest_by_kind(records: Records) -> dict[tuple[str, int, int], tuple[str, Attempt]]:
    latest: dict[tuple[str, int, int], tuple[str, Attempt]] = {}
    for step, record in records.steps.items():
        for attempt in record.for_others():
            before = latest.get(attempt.kind)
            if before is None or (before[1].run, before[1].seq) < (attempt.run, attempt.seq):
                latest[attempt.kind] = (step, attempt)
    return latest


# --- what is removed --------------------------------------------------------------------------------------------------


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
