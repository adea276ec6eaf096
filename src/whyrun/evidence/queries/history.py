"""Every attempt of a job and every version of an artifact, read from the logs of all runs in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from msgspec import UNSET

from whyrun.errors import StateError, error
from whyrun.ids import output_of
from whyrun.log import events as ev
from whyrun.log.runs import RunRef, log_without_start
from whyrun.planning.reuse import SHARED


@dataclass(slots=True)
class Version:
    artifact: str
    sha256: str
    size: int
    value: Any = UNSET

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"artifact": self.artifact, "sha256": self.sha256, "size": self.size}
        return found if self.value is UNSET else {**found, "value": self.value}


@dataclass(slots=True)
class HistoryEntry:
    """One try of one job instance; or that it was reused, adopted, skipped or blocked."""

    run: str
    step_id: str
    ts: str
    status: str  # EXECUTES IDENTICAL DIFFERENT FAILED TIMED_OUT INTERRUPTED RUNNING REUSED ADOPTED SKIPS BLOCKED
    mode: str = "run"
    attempt: int | None = None
    duration: float | None = None
    fingerprint: str | None = None
    outputs: list[Version] = field(default_factory=list)
    reused_from: str | None = None
    by: str | None = None
    why: str | None = None  # of a skip
    because: list[str] | None = None  # of a block
    error: str | None = None
    accepted: bool = False  # of a comparison: its result counts as the latest from then on

    @property
    def succeeded(self) -> bool:
        return self.status in ("EXECUTES", "IDENTICAL", "DIFFERENT", "REUSED", "ADOPTED")

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"run": self.run, "step_id": self.step_id, "ts": self.ts, "status": self.status}
        for name in ("attempt", "duration", "fingerprint", "reused_from", "by", "why", "because", "error"):
            value = getattr(self, name)
            if value is not None:
                found[name] = value
        if self.mode != "run":
            found["mode"] = self.mode
        if self.mode == "compare" and self.succeeded:
            found["accepted"] = self.accepted
        if self.outputs:
            found["outputs"] = [version.to_json() for version in self.outputs]
        return found


def job_history(runs: list[RunRef], wanted: Callable[[str], bool], running: str | None) -> Iterator[HistoryEntry]:
    """The entries of the jobs that `wanted` names, oldest first. `running`: the run that is going on now."""
    for run in runs:
        try:
            yield from _RunReader(run, wanted, running == run.name).entries()
        except StateError as refused:
            if refused.diagnostics[0].code != "RUN_PRUNED":
                raise  # else it was pruned since the runs were listed


def artifact_versions(entries: Iterator[HistoryEntry], wanted: Callable[[str], bool]) -> Iterator[HistoryEntry]:
    """The entries that made a version of a wanted artifact, with these outputs only."""
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
        self.open: dict[str, HistoryEntry] = {}  # steps without an end yet, or whose outputs follow (reuse)
        self.leaves: dict[str, list[Version]] = {}  # adopted, before their whole
        self._wanted: dict[str, bool] = {}

    def entries(self) -> list[HistoryEntry]:
        found: list[HistoryEntry] = []
        try:
            for event in self.run.events():
                if isinstance(event, ev.RunStart):
                    self.mode, self.accepts = event.mode, bool(event.options.get("accept"))
                elif not self.mode:
                    raise log_without_start(self.run)
                step = getattr(event, "step_id", None)
                if step is not None and self.is_wanted(step):
                    self.add(event, found)
        except FileNotFoundError:
            raise log_without_start(self.run) from None
        if not self.mode:
            raise log_without_start(self.run)
        for entry in found:
            if entry.status == "RUNNING" and not self.is_running:
                entry.status, entry.error = "INTERRUPTED", f"{ev.INTERRUPTED_TYPE}: {ev.INTERRUPTED_ERROR}"
                entry.outputs.clear()
        return found

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

    def add(self, event: ev.Event, found: list[HistoryEntry]) -> None:
        match event:
            case ev.StepStart():
                entry = self.entry(event, "RUNNING", attempt=event.attempt, fingerprint=event.fingerprint)
                self.open[event.step_id] = entry
                found.append(entry)
            case ev.ArtifactAvailable():
                if event.step_id in self.open:
                    version = Version(event.artifact, event.sha256, event.size, event.value)
                    self.open[event.step_id].outputs.append(version)
            case ev.StepComplete():
                entry = self.ended(event)
                entry.status, entry.duration, entry.accepted = event.status, event.duration, self.accepts
            case ev.StepFailed():
                entry = self.ended(event)
                entry.status, entry.duration = event.status, event.duration
                entry.error = f"{event.error_type}: {event.error}"
                entry.outputs.clear()  # a failed attempt makes nothing available
            case ev.StepSkipped() if event.why == "reused":
                source = event.from_run if event.shared is None else SHARED
                by = None if event.shared is None else event.shared.get("by")
                entry = self.entry(event, "REUSED", fingerprint=event.fingerprint, reused_from=source, by=by)
                self.open[event.step_id] = entry
                found.append(entry)
            case ev.StepSkipped():
                why = event.why if event.reason is None else f"{event.why}: {event.reason}"
                found.append(self.entry(event, "SKIPS", why=why))
            case ev.StepBlocked():
                found.append(self.entry(event, "BLOCKED", because=event.because))
            case ev.ArtifactAdopted():
                self.adopt(event, found)
            case _:
                pass  # tasks, requests and conditions are in `whyrun log`

    def adopt(self, event: ev.ArtifactAdopted, found: list[HistoryEntry]) -> None:
        """One adoption is several events where the artifact has leaves; without the whole, the last, it is none."""
        version = Version(event.artifact, event.sha256, event.size, event.value)
        entry = self.open.get(event.step_id)
        if entry is not None:  # logs of the first versions have the leaves after the whole
            entry.outputs.append(version)
        elif output_of(event.artifact) is None:
            self.leaves.setdefault(event.step_id, []).append(version)
        else:
            entry = self.entry(event, "ADOPTED", fingerprint=event.fingerprint, by=event.by)
            entry.outputs = [version, *self.leaves.pop(event.step_id, ())]
            self.open[event.step_id] = entry
            found.append(entry)
