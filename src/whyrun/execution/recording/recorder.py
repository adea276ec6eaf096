"""Writes the evidence of a run while it happens (events, commands, metrics, logs for people) and syncs it.

Order: stored bytes are synced before the log that refers to them, and a success is reported to the user after both.
Many events share one sync; a power cut loses at most the unsynced end of the log, and then those steps run again.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Protocol

from whyrun import disk
from whyrun.artifacts.store import Store
from whyrun.console.lines import INDENT, LogLevel, TaskLine, TaskStatus, split_printable
from whyrun.disk import Area
from whyrun.evidence.artifact_links import ArtifactLinks
from whyrun.evidence.run_directory import Metric, RunDirectory, SeenEvents
from whyrun.log.events import Event
from whyrun.log.journal import Journal, read_events

SYNC_INTERVAL = 0.25  # seconds
SYNC_PAUSE = 4.0  # times as long as a sync took, so that syncs do not keep a slow disk busy
LONGEST_PAUSE = 2.0  # seconds: what is not synced is not reported
MANY_ENDED = 256  # ended steps, after which their artifacts are linked into the run folder
UNITS = {
    "step_duration_ms": "ms",
    "cpu_seconds": "s",
    "max_rss_bytes": "bytes",
    "disk_read_bytes": "bytes",
    "disk_written_bytes": "bytes",
}


class Reporter(Protocol):
    """Shows a run to the user. `tell` gets lines after the sync that covers them."""

    def started(self, run: str, total: int) -> None: ...

    def tell(self, lines: list[TaskLine]) -> None: ...

    def progress(self, ended: int, running: list[str]) -> None: ...

    def planned(self, steps: list[str], text: str) -> None:
        """A stage adds these steps to the run; `text` tells more."""

    def step_progress(self, step: str, fraction: float) -> None: ...

    def step_took(self, step: str, seconds: float) -> None:
        """A step has succeeded."""

    def note(self, text: str) -> None: ...

    def debug(self, text: str) -> None: ...

    def finish(self) -> None:
        """Remove the progress display, because something else is printed next."""


class TextLog:
    """A log for people. Text is collected and written in one call."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._descriptor = disk.open(Area.RUN, path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._texts: list[str] = []

    def write(self, text: str) -> None:
        self._texts.append(text)

    def flush(self) -> None:
        if self._texts:
            # Dropped before it is written: after a failed write, half a line twice would be worse than a lost line.
            texts, self._texts = self._texts, []
            disk.write(Area.RUN, self._descriptor, "".join(texts).encode(errors="backslashreplace"))

    def close(self) -> None:
        """Flush and close. Closing twice is harmless."""
        if self._descriptor < 0:
            return
        try:
            self.flush()
        finally:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


class _Sync(threading.Thread):
    """One sync in the background: first the stored bytes, then the log that refers to them."""

    def __init__(self, store: Store, journal: Journal, lines: list[TaskLine]) -> None:
        super().__init__(name="whyrun-sync", daemon=True)
        self.store, self.journal, self.lines = store, journal, lines
        self.seq = journal.seq  # later events may refer to bytes that this sync does not cover
        # Set until the sync is done: whatever ends the thread before that, nothing counts as synced.
        self.problem: Exception | None = RuntimeError("the sync did not finish")
        self.took = 0.0  # seconds

    def run(self) -> None:
        began = time.monotonic()
        try:
            disk.sync_filesystem(Area.STORE, self.store.root)
            self.journal.sync_written()
            self.took = time.monotonic() - began
            self.problem = None
        except OSError as problem:
            self.journal.cannot_sync(problem)
            self.problem = problem  # raised in `_end_sync`
        except Exception as problem:
            self.journal.cannot_sync(OSError(errno.EIO, f"{type(problem).__name__}: {problem}"))
            self.problem = problem


class Recorder:
    def __init__(
        self, journal: Journal, directory: RunDirectory, store: Store, reporter: Reporter, clock: Callable[[], datetime]
    ) -> None:
        self.journal = journal
        self.directory = directory
        self.store = store
        self.reporter = reporter
        self.clock = clock
        self._commands: list[Any] = []
        self._metrics: list[Metric] = []
        self._lines: list[TaskLine] = []  # not in whyrun.log yet
        self._written = 0  # lines of whyrun.log
        self._unreported: list[TaskLine] = []  # not synced, so not shown to the user yet
        self._unsynced = False
        self._last_sync = time.monotonic()
        self._pause = SYNC_INTERVAL
        self._syncing: _Sync | None = None
        self.seen = SeenEvents()
        for event in read_events(directory.events):  # `run_start`, written by `create_run`
            self.seen.add(event)
        self._links = ArtifactLinks(directory, store)
        self._log = TextLog(directory.log)
        self._debug = TextLog(directory.debug_log)

    def event(self, event: Event, ts: str | None = None) -> None:
        event.ts = self.journal.append(event, ts)
        event.seq = self.journal.seq  # as a reader of the log gets it
        self.seen.add(event)
        self._unsynced = True

    def command(self, command: Any) -> None:
        self._commands.append(command)

    def metric(self, step_id: str, metric: str, value: float, unit: str, ts: str) -> None:
        self._metrics.append(Metric(ts, self.journal.session, metric, value, unit, step_id))

    def metrics(self, step_id: str, metrics: Mapping[str, float], ts: str) -> None:
        for name, value in metrics.items():
            self.metric(step_id, name, value, UNITS.get(name, ""), ts)

    def status(
        self,
        action: str,
        status: TaskStatus,
        text: str,
        *,
        traceback: str = "",
        level: LogLevel = LogLevel.SUMMARY,
        always: bool = False,
        interrupted: bool = False,
    ) -> None:
        """A line for `whyrun.log`, shown to the user once it is synced. `always`: also with `--quiet`."""
        now = self.clock().astimezone()
        line = TaskLine(now, action, status, text, level, traceback, always=always, interrupted=interrupted)
        self._lines.append(line)

    def debug(self, text: str) -> None:
        self._debug.write(f"{self.clock().isoformat()} " + f"\n{INDENT}".join(split_printable(text)) + "\n")
        self.reporter.debug(text)

    def flush(self) -> None:
        """Write everything so far into its files, with one write each."""
        if self._commands:
            self.directory.append_commands(self._commands)
            self._commands = []
        if self._metrics:
            self.directory.append_metrics(self._metrics)
            self._metrics = []
        self.journal.flush()
        if self._lines:
            self._write_log(self._lines)
            self._unreported.extend(self._lines)
            self._lines = []

    def link_ended(self) -> None:
        """Link the artifacts of ended steps into the run folder once there are many; `close` links the rest."""
        if self.seen.ended >= MANY_ENDED:
            self._links.link(self.seen.take_ended())

    def _flush_logs(self) -> None:
        """The user is shown where to find a traceback, so it must be in the file by then, and after a kill."""
        self._log.flush()
        self._debug.flush()

    def _write_log(self, lines: list[TaskLine]) -> None:
        written: list[str] = []
        for line in lines:
            number = self._written + len(written) + 1
            if line.traceback:
                line.see = number + 1  # the failure is shown with this line number
            written.extend(line.log_lines(number))
        self._log.write("\n".join(written) + "\n")
        self._written += len(written)

    def sync_if_due(self) -> None:
        """Sync in the background, so that no step waits for the disk; report the synced lines when it is done."""
        if self._syncing is not None and not self._syncing.is_alive():
            self._end_sync()
        due = time.monotonic() - self._last_sync >= self._pause
        if due and self._syncing is None and (self._unsynced or self._unreported):
            self.flush()
            self._flush_logs()
            self._syncing = _Sync(self.store, self.journal, self._unreported)
            self._unreported, self._unsynced = [], False
            self._last_sync = time.monotonic()
            self._syncing.start()

    def sync(self, *, for_good: bool = False) -> None:
        """Everything recorded so far is on disk when this returns.

        `for_good`: after a power cut the log counts as synced up to here, whatever happened to the bytes that it refers
        to. That costs one more sync, so it is for events that cannot be repeated.
        """
        if self._syncing is not None:
            self._end_sync()
        self.flush()
        self._flush_logs()
        if self._unsynced:
            try:
                disk.sync_filesystem(Area.STORE, self.store.root)  # the bytes that the events refer to
            except OSError as problem:
                self.journal.cannot_sync(problem)
                raise
            self.journal.sync()
            self.journal.is_synced(self.journal.seq, for_good=for_good)
            self._unsynced = False
        self._last_sync = time.monotonic()
        lines, self._unreported = self._unreported, []
        self.reporter.tell(lines)

    def sync_bytes(self) -> None:
        """Sync also bytes in the store that no new event refers to."""
        self._unsynced = True
        self.sync()

    def _end_sync(self) -> None:
        assert self._syncing is not None
        ended, self._syncing = self._syncing, None
        ended.join()
        if ended.problem is not None:
            raise ended.problem
        self._pause = max(SYNC_INTERVAL, min(LONGEST_PAUSE, (1 + SYNC_PAUSE) * ended.took))
        self.journal.is_synced(ended.seq)
        self.reporter.tell(ended.lines)

    def settle(self) -> None:
        """Everything recorded so far is on disk, with all links."""
        try:
            self.sync()
        except BaseException:
            self._links.abandon()
            raise
        self._links.finish()

    def close(self) -> None:
        self.settle()
        self._log.close()
        self._debug.close()
        self.journal.close()
