"""The lines of a run: what each step's end looks like to people. What is recorded is decided elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from whyrun.artifacts.store import Store
from whyrun.console.files import input_size, inputs_text, outputs_text
from whyrun.console.foretold import task_name
from whyrun.console.lines import (
    BAD,
    STATUSES,
    LogLevel,
    TaskStatus,
    listed,
    runtime_text,
    seconds,
    size,
    task_text,
    why_no_value,
)
from whyrun.execution.commands import OutputResult, TaskReported
from whyrun.execution.recorder import Recorder
from whyrun.graph.graph import ArtifactAt, Graph, InputAt, JobTable, Source
from whyrun.planning.consume import Consumption, Entry
from whyrun.planning.explain import printable


class Lines:
    def __init__(self, graph: Graph, recorder: Recorder, store: Store, project: str) -> None:
        self.graph, self.recorder, self.store, self.project = graph, recorder, store, Path(project)
        self._without_value: dict[str, str] = {}  # why a condition has none → the step for which it was told

    def executes(
        self,
        table: JobTable,
        position: int,
        found: Consumption | None,
        outputs: Sequence[OutputResult],
        duration: float,
    ) -> None:
        sizes = {output.key: output.size for output in outputs}
        text = task_text(
            task_name(table, position),
            runtime=f"in {seconds(duration)}",
            inputs=self.inputs(found),
            outputs=outputs_text(table, position, lambda a: size(sizes[table.artifacts[a].key_at(position)])),
        )
        self.recorder.status(table.decl.uses, TaskStatus.EXECUTES, text)

    def skips(self, table: JobTable, position: int, why: str) -> None:
        text = task_text(task_name(table, position), details=[printable(why)])
        self.recorder.status(table.decl.uses, TaskStatus.SKIPS, text)

    def failed(
        self,
        table: JobTable,
        position: int,
        *,
        status: str,
        what: str,
        note: str = "",
        duration: float | None = None,
        traceback: str = "",
        retry_after: int | None = None,
    ) -> None:
        """`status` is the event's; an interrupted step is `FAILED … interrupted`. `retry_after`: the attempt."""
        shown = TaskStatus.TIMED_OUT if status == "TIMED_OUT" else TaskStatus.FAILED
        what = self._once(task_name(table, position), what)
        tries = table.decl.retries.max + 1
        retry = f" (attempt {retry_after} of {tries}, will retry)" if retry_after is not None else ""
        text = task_text(
            task_name(table, position),
            runtime=runtime_text(shown, duration),
            details=[printable(what.split("\n", 1)[0]) + retry, note],
        )
        # Of a step that was told to end, the place where it stood is of no use.
        below = traceback if status == "FAILED" else ""
        self.recorder.status(table.decl.uses, shown, text, traceback=below)

    def _once(self, step: str, what: str) -> str:
        """A condition stands on every step of its branches; why it has no value is told for the first of them."""
        why = why_no_value(what)
        if why is None:
            return what
        first = self._without_value.setdefault(why, step)
        return what if first == step else f"its condition has no value, as that of {first}"

    def task(self, action: str, message: TaskReported) -> None:
        """A unit of work that the action reports while it runs, at its own granularity."""
        status = STATUSES.get(message.status)
        if status is None:
            self.recorder.debug(f"{message.step_id} reports a task of unknown status {message.status!r:.100}")
            return
        details = message.details if isinstance(message.details, dict) else {}
        text = task_text(
            printable(message.message),
            runtime=runtime_text(status, _number(details.get("runtime"))),
            inputs=listed(_texts(details.get("inputs"))),
            outputs=listed(_texts(details.get("outputs"))),
            details=[*_texts(details.get("job_info")), message.step_id],
        )
        told = status in BAD or details.get("level") == "summary"  # an action may find it worth telling at once
        level = LogLevel.SUMMARY if told else LogLevel.ALL
        named = details.get("action")
        self.recorder.status(printable(named) if isinstance(named, str) else action, status, text, level=level)

    # -- files --

    def inputs(self, found: Consumption | None) -> str:
        if found is None:
            return ""
        shas: dict[ArtifactAt, str] = {}
        return inputs_text(self.graph, _bound(found, shas), lambda source: self._size(source, shas))

    def _size(self, source: Source, shas: dict[ArtifactAt, str]) -> int | None:
        if isinstance(source, InputAt):
            return input_size(self.project, source)
        if self.graph.tables[source.table].artifacts[source.artifact].type == "directory":
            return None  # what is stored under its hash is a list of its files
        try:
            return os.stat(self.store.path(shas[source])).st_size
        except OSError:  # a small value may stand in the log alone
            return None


def _bound(found: Consumption, shas: dict[ArtifactAt, str]) -> Iterator[Sequence[Source]]:
    for entries in found.entries.values():
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
    """The sources of a fan-in, without going through all of it."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, index: Any) -> Any:
        return self._entries[index].source


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _texts(value: Any) -> list[str]:
    if value is None or value == "":
        return []
    return [printable(str(each)) for each in (value if isinstance(value, list) else [value])]
