"""The past, from the logs of all runs: runs, attempts of a job, versions of an artifact, and the inputs in force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET
from msgspec.structs import asdict

from whyrun.errors import StateError, error
from whyrun.ids import output_of
from whyrun.log import events as ev
from whyrun.log.journal import STATUS_FILE, last_event
from whyrun.log.lock import Holder, holder_and_state, running_run
from whyrun.log.outcomes import RunOutcome, error_of, lost_end
from whyrun.log.runs import RunRef, WorkflowState, log_without_start
from whyrun.log.tombstones import Tombstone
from whyrun.planning.reuse import SHARED

if TYPE_CHECKING:
    from whyrun.money import Totals

# --- the runs of a workflow, one record each --------------------------------------------------------------------------
# how many steps, how they ended, and whether the run still goes on.


class RunSummary(msgspec.Struct, frozen=True):
    run: str
    state: str  # succeeded failed interrupted running
    mode: str  # run compare adopt decide
    started: str
    ended: str | None
    duration: float | None
    planned: int
    completed: int
    reused: int
    skipped: int  # inactive
    failed: int  # timed out as well
    blocked: int
    interrupted: int
    error: str | None
    identical: int = 0  # these three: of a comparison
    different: int = 0
    accepted: bool = False  # its results count as the latest
    held: int = 0  # back by a budget
    spent: Totals | None = None

    @property
    def outcome(self) -> str:
        """The state for people: a comparison that found differences has not failed."""
        if self.mode != "compare" or self.state not in ("succeeded", "failed"):
            return self.state
        if self.failed or (self.state == "failed" and not self.different):
            return "failed"
        if self.accepted and self.completed:
            return "accepted"
        return "differences" if self.different else self.state

    def to_json(self) -> dict[str, Any]:
        record = asdict(self)
        del record["spent"]
        record |= _spent_json(self.spent) if self.spent is not None else {}
        compared = {name: record.pop(name) for name in ("identical", "different", "accepted")}
        if not self.held:
            del record["held"]
        return {**record, **compared} if self.mode == "compare" else record


class Unfinished(msgspec.Struct, frozen=True):
    """The last run, if its log has no end: running (the lock is held) or interrupted."""

    run: str
    state: str
    open_steps: tuple[str, ...]
    holder: Holder | None
    mode: str = "run"

    def to_json(self) -> dict[str, Any]:
        by = None
        if self.holder is not None:
            by = {"pid": self.holder.pid, "host": self.holder.host, "since": self.holder.started}
        return {"run": self.run, "state": self.state, "open_steps": list(self.open_steps), "by": by}


def list_runs(state: WorkflowState) -> list[RunSummary]:
    runs, running = state.runs(), running_run(state)
    summaries = []
    for run in runs:
        try:
            summaries.append(summarize_run(run, running == run.name))
        except StateError as refused:
            if refused.diagnostics[0].code != "RUN_PRUNED":
                raise  # RUN_PRUNED: it was pruned after the runs were listed
    return summaries


def summarize_run(run: RunRef, is_running: bool, also: Callable[[ev.AnyEvent], None] | None = None) -> RunSummary:
    """`also`: gets every event as well, so that a long log is read once."""
    costs: list[ev.CostRecorded] = []
    outcome, reused, ends = _fold(run, also, costs)
    assert outcome.start is not None
    counts = outcome.counts()
    state = "running" if is_running else "interrupted"
    if outcome.end is not None:
        state = outcome.end.state
    return RunSummary(
        run=run.name,
        state=state,
        mode=outcome.start.mode,
        started=outcome.start.ts,
        ended=outcome.end.ts if outcome.end is not None else None,
        duration=outcome.end.duration if outcome.end is not None else None,
        planned=outcome.planned if outcome.planned is not None else len(outcome.steps),
        completed=counts["completed"],
        reused=reused,
        skipped=counts["skipped"] - reused - ends["held"],
        held=ends["held"],
        failed=counts["failed"] + counts["timed_out"],
        blocked=counts["blocked"],
        interrupted=counts["interrupted"] + (0 if is_running else len(outcome.open_steps)),
        error=error_of(outcome),
        identical=ends["IDENTICAL"],
        different=ends["DIFFERENT"],
        accepted=bool(outcome.start.options.get("accept")),
        spent=_sum_of(costs) if costs else None,
    )


def _spent_json(spent: Totals) -> dict[str, Any]:
    from whyrun.evidence.queries.costs import totals_json

    return totals_json(spent)


def _sum_of(costs: Iterable[ev.CostRecorded]) -> Totals:
    from whyrun.money import Totals  # imported late: decimals take time to import

    totals = Totals()
    for cost in costs:
        totals.add(cost.amount, cost.currency)
    return totals


def unfinished_run(state: WorkflowState) -> Unfinished | None:
    """The last run, if it has not ended. LOG_DAMAGED if it had ended and the end was cut off."""
    runs = state.runs()
    if not runs:
        return None
    name = runs[-1].name
    is_running = running_run(state) == name  # asked before the log is read
    if run_end(runs[-1]) is not None:
        return None  # nearly always: the log need not be read
    has_status = (runs[-1].path / STATUS_FILE).exists()  # checked before the log is read: `status.json` is written last
    outcome, _, _ = _fold(runs[-1])
    if outcome.end is not None:
        return None
    assert outcome.start is not None
    lost = lost_end(ended=False, has_status=has_status, is_last=True)
    if lost is not None:
        raise error("LOG_DAMAGED", lost.what, file=str(runs[-1].events_path), hint=lost.hint)
    holder = holder_and_state(state.lock_path)[1] if is_running else None
    now = "running" if is_running else "interrupted"
    return Unfinished(name, now, tuple(outcome.open_steps), holder, outcome.start.mode)


def run_end(run: RunRef) -> ev.RunComplete | None:
    """The end of a run, from the last line of its log; None if it has not ended."""
    try:
        last = last_event(run.events_path)
    except FileNotFoundError:
        raise log_without_start(run) from None
    return last if isinstance(last, ev.RunComplete) else None


def _fold(
    run: RunRef, also: Callable[[ev.AnyEvent], None] | None = None, costs: list[ev.CostRecorded] | None = None
) -> tuple[RunOutcome, int, Counter[str]]:
    """(outcome, number of reused steps, completed steps by status, and those `held` by a budget). `costs` gets what
    was spent. LOG_INCOMPLETE without a `run_start`."""
    outcome = RunOutcome()
    completed: Counter[str] = Counter()
    reused: set[str] = set()
    try:
        for event in run.events():
            outcome.add(event)
            if also is not None:
                also(event)
            if isinstance(event, ev.StepSkipped) and event.why == "reused":
                reused.add(event.step_id)
            elif isinstance(event, ev.StepSkipped) and event.why == "budget":
                completed["held"] += 1
            elif isinstance(event, ev.StepComplete):
                completed[event.status] += 1
            elif isinstance(event, ev.CostRecorded) and costs is not None:
                costs.append(event)
    except FileNotFoundError:
        raise log_without_start(run) from None
    if outcome.start is None:
        raise log_without_start(run)
    # A reused step fails if its output cannot be published. It does not count as reused.
    return outcome, sum(outcome.steps[step] == "skipped" for step in reused), completed


# --- history ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Version:
    artifact: str
    sha256: str
    size: int
    value: Any = UNSET

    def to_json(self) -> dict[str, Any]:
        record: dict[str, Any] = {"artifact": self.artifact, "sha256": self.sha256, "size": self.size}
        return record if self.value is UNSET else {**record, "value": self.value}


@dataclass(slots=True)
class HistoryEntry:
    """One attempt of a job instance; or one reuse, adoption, kept result, skip or block."""

    run: str
    step_id: str
    ts: str
    status: str  # EXECUTES IDENTICAL DIFFERENT FAILED TIMED_OUT INTERRUPTED RUNNING REUSED ADOPTED KEPT SKIPS BLOCKED
    mode: str = "run"
    attempt: int | None = None
    duration: float | None = None
    fingerprint: str | None = None
    outputs: list[Version] = field(default_factory=list)
    reused_from: str | None = None
    by: str | None = None
    kept_from: str | None = None  # the run that made a kept result
    old_fingerprint: str | None = None  # of a kept result: what it stood for before
    why: str | None = None  # of a skip, or of a kept result
    because: list[str] | None = None  # of a block
    error: str | None = None
    accepted: bool = False  # of a comparison: its result counts as the latest

    @property
    def succeeded(self) -> bool:
        return self.status in ("EXECUTES", "IDENTICAL", "DIFFERENT", "REUSED", "ADOPTED", "KEPT")

    def to_json(self) -> dict[str, Any]:
        record: dict[str, Any] = {"run": self.run, "step_id": self.step_id, "ts": self.ts, "status": self.status}
        for name in (
            "attempt",
            "duration",
            "fingerprint",
            "old_fingerprint",
            "reused_from",
            "kept_from",
            "by",
            "why",
            "because",
            "error",
        ):
            value = getattr(self, name)
            if value is not None:
                record[name] = value
        if self.mode != "run":
            record["mode"] = self.mode
        if self.mode == "compare" and self.succeeded:
            record["accepted"] = self.accepted
        if self.outputs:
            record["outputs"] = [version.to_json() for version in self.outputs]
        return record


def job_history(runs: list[RunRef], wanted: Callable[[str], bool], running: str | None) -> Iterator[HistoryEntry]:
    """The entries of the wanted jobs, oldest first. `running`: the name of the current run."""
    for run in runs:
        try:
            yield from _RunReader(run, wanted, running == run.name).entries()
        except StateError as refused:
            if refused.diagnostics[0].code != "RUN_PRUNED":
                raise  # RUN_PRUNED: it was pruned after the runs were listed


def artifact_versions(entries: Iterator[HistoryEntry], wanted: Callable[[str], bool]) -> Iterator[HistoryEntry]:
    """The entries that made a version of a wanted artifact, with only these outputs."""
    for entry in entries:
        outputs = [version for version in entry.outputs if wanted(version.artifact)]
        if outputs and entry.succeeded:
            entry.outputs = outputs
            yield entry


class _RunReader:
    def __init__(self, run: RunRef, wanted: Callable[[str], bool], is_running: bool) -> None:
        self.run, self.wanted, self.is_running = run, wanted, is_running
        self.mode = ""  # until `run_start`
        self.accepts = False
        self.open: dict[str, HistoryEntry] = {}  # steps without an end, and reused steps whose outputs follow
        # Adopted leaves and kept outputs: the event that makes them count follows.
        self.leaves: dict[str, list[Version]] = {}
        self._wanted: dict[str, bool] = {}

    def entries(self) -> list[HistoryEntry]:
        entries: list[HistoryEntry] = []
        try:
            for event in self.run.events():
                if isinstance(event, ev.RunStart):
                    self.mode, self.accepts = event.mode, bool(event.options.get("accept"))
                elif not self.mode:
                    raise log_without_start(self.run)
                step = getattr(event, "step_id", None)
                if step is not None and self.is_wanted(step):
                    self.add(event, entries)
        except FileNotFoundError:
            raise log_without_start(self.run) from None
        if not self.mode:
            raise log_without_start(self.run)
        for entry in entries:
            if entry.status == "RUNNING" and not self.is_running:
                entry.status, entry.error = "INTERRUPTED", f"{ev.INTERRUPTED_TYPE}: {ev.INTERRUPTED_ERROR}"
                entry.outputs.clear()
        return entries

    def is_wanted(self, step: str) -> bool:
        if step not in self._wanted:
            self._wanted[step] = self.wanted(step)
        return self._wanted[step]

    def entry(self, event: Any, status: str, **more: Any) -> HistoryEntry:
        return HistoryEntry(self.run.name, event.step_id, event.ts, status, self.mode, **more)

    def ended(self, event: ev.StepComplete | ev.StepFailed) -> HistoryEntry:
        entry = self.open.pop(event.step_id, None)
        if entry is None:
            raise error(
                "LOG_INCOMPLETE",
                f"`{event.step_id}` ended without a `step_start`",
                file=str(self.run.events_path),
                line=event.seq,
                hint="restore the run folder from a copy, or move it away",
            )
        return entry

    def add(self, event: ev.Event, entries: list[HistoryEntry]) -> None:
        match event:
            case ev.StepStart():
                entry = self.entry(event, "RUNNING", attempt=event.attempt, fingerprint=event.fingerprint)
                self.open[event.step_id] = entry
                entries.append(entry)
            case ev.ArtifactAvailable():
                version = Version(event.artifact, event.sha256, event.size, event.value)
                if event.step_id in self.open:
                    self.open[event.step_id].outputs.append(version)
                elif self.mode == "decide":
                    self.leaves.setdefault(event.step_id, []).append(version)
            case ev.StepComplete():
                entry = self.ended(event)
                entry.status, entry.duration, entry.accepted = event.status, event.duration, self.accepts
            case ev.StepFailed():
                entry = self.ended(event)
                entry.status, entry.duration = event.status, event.duration
                entry.error = f"{event.error_type}: {event.error}"
                entry.outputs.clear()  # a failed attempt makes nothing available
            case ev.ResultKept():
                entry = self.entry(event, "KEPT", fingerprint=event.fingerprint, by=event.by, why=event.because)
                entry.old_fingerprint, entry.kept_from = event.old_fingerprint, event.from_run
                entry.outputs = self.leaves.pop(event.step_id, [])
                entries.append(entry)
            case ev.StepSkipped() if event.why == "reused":
                source = event.from_run if event.shared is None else SHARED
                by = None if event.shared is None else event.shared.get("by")
                entry = self.entry(event, "REUSED", fingerprint=event.fingerprint, reused_from=source, by=by)
                self.open[event.step_id] = entry
                entries.append(entry)
            case ev.StepSkipped():
                why = event.why if event.reason is None else f"{event.why}: {event.reason}"
                entries.append(self.entry(event, "SKIPS", why=why))
            case ev.StepBlocked():
                entries.append(self.entry(event, "BLOCKED", because=event.because))
            case ev.ArtifactAdopted():
                self.adopt(event, entries)
            case _:
                pass  # tasks, requests and conditions are in `whyrun log`

    def adopt(self, event: ev.ArtifactAdopted, entries: list[HistoryEntry]) -> None:
        """An adoption has one event per leaf, then one for the whole artifact. Without the last it does not count."""
        version = Version(event.artifact, event.sha256, event.size, event.value)
        entry = self.open.get(event.step_id)
        if entry is not None:  # the first versions wrote the leaves after the whole
            entry.outputs.append(version)
        elif output_of(event.artifact) is None:
            self.leaves.setdefault(event.step_id, []).append(version)
        else:
            entry = self.entry(event, "ADOPTED", fingerprint=event.fingerprint, by=event.by)
            entry.outputs = [version, *self.leaves.pop(event.step_id, ())]
            self.open[event.step_id] = entry
            entries.append(entry)


# --- inputs ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InputInForce:
    """`run`: the first run with this value. The value of a file is its content: only hash and size are kept."""

    id: str
    run: str
    sha256: str
    size: int | None = None
    value: Any = UNSET

    def to_json(self) -> dict[str, Any]:
        record: dict[str, Any] = {"id": self.id, "run": self.run, "sha256": self.sha256}
        if self.size is not None:
            record["size"] = self.size
        return record if self.value is UNSET else {**record, "value": self.value}


def inputs_in_force(runs: Iterable[RunRef], name: str, pruned: Iterable[Tombstone] = ()) -> list[InputInForce]:
    """By ID: each input as it was last recorded up to the run `name`. A run records only inputs that have changed."""
    inputs: dict[str, InputInForce] = {}
    all_runs: list[RunRef | Tombstone] = [*runs, *pruned]
    for run in sorted(all_runs, key=lambda one: one.number):
        if isinstance(run, Tombstone):
            for one in run.inputs:
                inputs[one.id] = InputInForce(one.id, run.run, one.sha256, one.size, one.value)
            continue
        try:
            for event in run.events():
                if isinstance(event, ev.InputRecorded):
                    inputs[event.id] = InputInForce(event.id, run.name, event.sha256, event.size, event.value)
                elif not isinstance(event, ev.RunStart):
                    break  # inputs come first
        except FileNotFoundError:
            raise log_without_start(run) from None
        if run.name == name:
            break
    return [inputs[id_] for id_ in sorted(inputs) if inputs[id_].sha256]  # an empty hash records a removal
