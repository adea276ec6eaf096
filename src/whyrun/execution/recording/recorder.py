"""Writing the evidence of a run while it happens: events, commands, metrics, human logs, and when they are synced.

Order: stored bytes are synced before the log sync that covers their events, and success is told to the user after that
sync. Many events share one sync; a power cut loses at most the unsynced tail, and then those steps run again.
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Protocol

from whyrun import disk
from whyrun.artifacts.store import Store
from whyrun.console.lines import LogLevel, TaskLine, TaskStatus
from whyrun.disk import Area
from whyrun.evidence.links import Links
from whyrun.evidence.run_directory import Metric, RunDirectory, SeenEvents
from whyrun.evidence.text_log import TextLog
from whyrun.log.events import Event
from whyrun.log.journal import Journal, read_events

SYNC_INTERVAL = 0.25  # seconds
SYNC_PAUSE = 4.0  # times as long as a sync took: so that a slow disk is not kept busy by syncs alone
LONGEST_PAUSE = 2.0  # seconds: what is not synced is not told
MANY_ENDED = 256  # steps whose artifacts are linked at once while a run goes on
UNITS = {
    "step_duration_ms": "ms",
    "cpu_seconds": "s",
    "max_rss_bytes": "bytes",
    "disk_read_bytes": "bytes",
    "disk_written_bytes": "bytes",
}


class Reporter(Protocol):
    """Who tells the user. `tell` comes after the sync that covers what it says."""

    def started(self, run: str, total: int) -> None: ...

    def tell(self, lines: list[TaskLine]) -> None: ...

    def progress(self, ended: int, running: list[str]) -> None: ...

    def step_progress(self, step: str, fraction: float) -> None: ...

    def note(self, text: str) -> None: ...

    def debug(self, text: str) -> None: ...

    def finish(self) -> None:
        """There is no more progress: what is printed next stands alone."""


class _Sync(threading.Thread):
    """One sync: the stored bytes first, then the log that speaks of them."""

    def __init__(self, store: Store, journal: Journal, lines: list[TaskLine]) -> None:
        super().__init__(name="whyrun-sync", daemon=True)
        self.store, self.journal, self.lines = store, journal, lines
        self.seq = journal.seq  # what comes later may be synced with bytes that are not
        # Until it is done: whatever ends the thread before, nothing counts as synced that is not.
        self.problem: Exception | None = RuntimeError("the sync did not come to its end")
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
            self.problem = problem  # raised by whoever waits for the sync
        except Exception as problem:
            self.journal.cannot_sync(OSError(errno.EIO, f"{type(problem).__name__}: {problem}"))
            self.problem = problem  # the same


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
        self._lines: list[TaskLine] = []  # not yet in whyrun.log
        self._written = 0  # lines of whyrun.log
        self._untold: list[TaskLine] = []  # not yet told, because not yet synced
        self._unsynced = False
        self._last_sync = time.monotonic()
        self._pause = SYNC_INTERVAL
        self._syncing: _Sync | None = None
        self.seen = SeenEvents()
        for event in read_events(directory.events):  # `run_start`, with which the run was made
            self.seen.add(event)
        self._links = Links(directory, store)
        self._log = TextLog(directory.log)
        self._debug = TextLog(directory.debug_log)

    def event(self, event: Event, ts: str | None = None) -> None:
        event.ts = self.journal.append(event, ts)
        event.seq = self.journal.seq  # as whoever reads it back will see it
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
        self, action: str, status: TaskStatus, text: str, *, traceback: str = "", level: LogLevel = LogLevel.SUMMARY
    ) -> None:
        """A line of the human log, told to the user once it is true for good."""
        self._lines.append(TaskLine(self.clock().astimezone(), action, status, text, level, traceback))

    def debug(self, text: str) -> None:
        self._debug.write(f"{self.clock().isoformat()} {text}\n")
        self.reporter.debug(text)

    def flush(self) -> None:
        """Everything so far into its files: one write each."""
        if self._commands:
            self.directory.append_commands(self._commands)
            self._commands = []
        if self._metrics:
            self.directory.append_metrics(self._metrics)
            self._metrics = []
        self.journal.flush()
        if self._lines:
            self._write_log(self._lines)
            self._untold.extend(self._lines)
            self._lines = []

    def link_ended(self) -> None:
        """The artifacts of steps that are complete, into the run folder, once they are many; `finish` does the rest."""
        if self.seen.ended >= MANY_ENDED:
            self._links.link(self.seen.take_ended())

    def _flush_logs(self) -> None:
        """Whoever is told where a traceback stands finds it there, however long the run goes on; and after a kill."""
        self._log.flush()
        self._debug.flush()

    def _write_log(self, lines: list[TaskLine]) -> None:
        written: list[str] = []
        for line in lines:
            number = self._written + len(written) + 1
            if line.traceback:
                line.see = number + 1  # whoever is told of the failure is told where to look
            written.extend(line.log_lines(number))
        self._log.write("\n".join(written) + "\n")
        self._written += len(written)

    def sync_if_due(self) -> None:
        """Sync beside the work, so that nobody waits for the disk; what it makes true is told when it is done."""
        if self._syncing is not None and not self._syncing.is_alive():
            self._end_sync()
        due = time.monotonic() - self._last_sync >= self._pause
        if due and self._syncing is None and (self._unsynced or self._untold):
            self.flush()
            self._flush_logs()
            self._syncing = _Sync(self.store, self.journal, self._untold)
            self._untold, self._unsynced = [], False
            self._last_sync = time.monotonic()
            self._syncing.start()

    def sync(self, *, for_good: bool = False) -> None:
        """All that was recorded is on disk when this returns.

        `for_good`: and a power cut will not make anybody doubt it, whatever becomes of the bytes that it speaks of.
        Costs one more sync, so it is for what cannot be made again.
        """
        if self._syncing is not None:
            self._end_sync()
        self.flush()
        self._flush_logs()
        if self._unsynced:
            try:
                disk.sync_filesystem(Area.STORE, self.store.root)  # the bytes that the events speak of
            except OSError as problem:
                self.journal.cannot_sync(problem)
                raise
            self.journal.sync()
            self.journal.is_synced(self.journal.seq, for_good=for_good)
            self._unsynced = False
        self._last_sync = time.monotonic()
        untold, self._untold = self._untold, []
        self.reporter.tell(untold)

    def sync_bytes(self) -> None:
        """The same for bytes that were put into the store and that no new event speaks of."""
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

    def close(self) -> None:
        try:
            self.sync()
        except BaseException:
            self._links.abandon()
            raise
        self._links.finish()
        self._log.close()
        self._debug.close()
        self.journal.close()
