"""The lines of a run for people: one for the outcome of each step, and one for each task that an action reports."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whyrun.artifacts.store import Store
from whyrun.console.files import input_size, inputs_text, made_note, outputs_text
from whyrun.console.lines import (
    BAD,
    STATUSES,
    LogLevel,
    TaskStatus,
    finite,
    listed,
    runtime_text,
    seconds,
    task_text,
    why_no_value,
)
from whyrun.console.preview import reuse_note, task_name
from whyrun.execution.protocol.messages import OutputResult, TaskReported
from whyrun.execution.recording.recorder import Recorder
from whyrun.graph.tables import ArtifactAt, Graph, InputAt, JobTable, Source
from whyrun.log.events import FailureStatus
from whyrun.planning.consume import Consumption, Entry
from whyrun.planning.reuse import Reuse


@dataclass(frozen=True, slots=True)
class StepFailure:
    """Why an attempt failed, as `step_failed` records it."""

    status: FailureStatus
    error_type: str
    message: str
    traceback: str
    duration: float

    @property
    def text(self) -> str:
        if self.status != "FAILED":
            return self.message
        return f"{self.error_type}: {self.message}" if self.message else self.error_type


class StepLines:
    def __init__(self, graph: Graph, recorder: Recorder, store: Store, project: str) -> None:
        self.graph, self.recorder, self.store, self.project = graph, recorder, store, Path(project)
        self._without_value: dict[str, str] = {}  # why a condition has no value → the first step with it

    def executes(
        self,
        table: JobTable,
        position: int,
        consumed: Consumption,
        outputs: Sequence[OutputResult],
        duration: float,
    ) -> None:
        sizes = {output.key: output.size for output in outputs}
        text = task_text(
            task_name(table, position),
            runtime=f"in {seconds(duration)}",
            inputs=self.inputs(consumed),
            outputs=outputs_text(table, position, lambda a: made_note(table, position, a, sizes)),
        )
        self.recorder.status(table.decl.uses, TaskStatus.EXECUTES, text)

    def skips(
        self, table: JobTable, position: int, why: str, reuse: Reuse | None = None, *, always: bool = False
    ) -> None:
        """`reuse`: the result that the step has without being executed. `always`: also with `--quiet`."""
        outputs = "" if reuse is None else outputs_text(table, position, reuse_note(table, position, reuse, "exists, "))
        text = task_text(task_name(table, position), outputs=outputs, details=[why])
        self.recorder.status(table.decl.uses, TaskStatus.SKIPS, text, always=always)

    def failed(
        self,
        table: JobTable,
        position: int,
        failure: StepFailure,
        *,
        note: str = "",
        retry_after: int | None = None,
    ) -> None:
        """The status of an interrupted step is FAILED, and its line says so. `retry_after`: the failed attempt."""
        shown = TaskStatus.TIMED_OUT if failure.status == "TIMED_OUT" else TaskStatus.FAILED
        what = self._shortened_if_repeated(task_name(table, position), failure.text)
        tries = table.decl.retries.max + 1
        retry = f" (attempt {retry_after} of {tries}, will retry)" if retry_after is not None else ""
        text = task_text(
            task_name(table, position),
            runtime=runtime_text(shown, failure.duration),
            details=[what.split("\n", 1)[0] + retry, note],
        )
        # The traceback of a killed step shows only where the signal arrived.
        below = failure.traceback if failure.status == "FAILED" else ""
        interrupted = failure.status == "INTERRUPTED"
        self.recorder.status(table.decl.uses, shown, text, traceback=below, interrupted=interrupted)

    def _shortened_if_repeated(self, step: str, what: str) -> str:
        """All steps of a branch share its condition; why it has no value is printed for the first of them only."""
        why = why_no_value(what)
        if why is None:
            return what
        first = self._without_value.setdefault(why, step)
        return what if first == step else f"its condition has no value, as that of {first}"

    def task(self, action: str, message: TaskReported) -> None:
        """A task that the action reports while it runs."""
        status = STATUSES.get(message.status)
        if status is None:
            self.recorder.debug(f"{message.step_id} reports a task of unknown status {message.status!r:.100}")
            return
        details = message.details if isinstance(message.details, dict) else {}
        text = task_text(
            message.message,
            runtime=runtime_text(status, finite(details.get("runtime"))),
            inputs=listed(_texts(details.get("inputs"))),
            outputs=listed(_texts(details.get("outputs"))),
            details=[*_texts(details.get("job_info")), message.step_id],
        )
        asked = details.get("level")  # an action may ask for a line on the terminal
        told = status in BAD or asked in ("summary", "always") or details.get("decision") == "merge"
        level = LogLevel.SUMMARY if told else LogLevel.ALL
        named = details.get("action")
        shown = named if isinstance(named, str) else action
        self.recorder.status(shown, status, text, level=level, always=asked == "always")

    # -- files --

    def inputs(self, consumed: Consumption) -> str:
        shas: dict[ArtifactAt, str] = {}
        return inputs_text(self.graph, _bound_sources(consumed, shas), lambda source: self._size(source, shas))

    def _size(self, source: Source, shas: dict[ArtifactAt, str]) -> int | None:
        if isinstance(source, InputAt):
            return input_size(self.project, source)
        if self.graph.tables[source.table].artifacts[source.artifact].type == "directory":
            return None  # its blob is a list of its files
        try:
            return os.stat(self.store.path(shas[source])).st_size
        except OSError:  # a small value may be in the log only
            return None


def _bound_sources(consumed: Consumption, shas: dict[ArtifactAt, str]) -> Iterator[Sequence[Source]]:
    """The sources of each input. Fills `shas` with the hashes of those that may be shown."""
    for entries in consumed.entries.values():
        if isinstance(entries, Entry):
            if entries.source is not None:
                if isinstance(entries.source, ArtifactAt):
                    shas[entries.source] = entries.sha256
                yield (entries.source,)
        elif entries and entries[0].source is not None:
            members = _Sources(entries)
            shas.update({e.source: e.sha256 for e in entries[:4] if isinstance(e.source, ArtifactAt)})
            yield members


class _Sources(Sequence[Source]):
    """The sources of a fan-in as a view: only the few that are shown are looked up."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, index: Any) -> Any:
        return self._entries[index].source


def _texts(value: Any) -> list[str]:
    if value is None or value == "":
        return []
    return [str(each) for each in (value if isinstance(value, list) else [value])]
