"""`WorkflowLogger` writes the lines of a run to the terminal, a log file and a list.

It writes to stderr, so that `--json` on stdout stays a valid document. A run reports to it (it is the `Reporter` of
`execution.recording.recorder`); programs may also use it directly.
"""

from __future__ import annotations

import fcntl
import os
import select
import stat
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import IO, Any, Protocol

from whyrun.console.files import described_files
from whyrun.console.lines import (
    BAD,
    INDENT,
    INTERRUPTED,
    SHOWN_FILES,
    LogLevel,
    TaskLine,
    TaskStatus,
    finite,
    listed,
    runtime_text,
    split_printable,
    task_status,
    task_text,
)
from whyrun.console.paint import Paint
from whyrun.console.progress import UPDATE_INTERVAL, BarProgress, Display, EqualWork, PlainProgress, Progress, Weights
from whyrun.errors import error
from whyrun.notebook import Html, progress_html, text_html

PathLike = str | os.PathLike[str]
CHUNK = 2000  # characters in one write


class WorkflowLogger:
    """In `log_file` every line begins with its time, or is indented and belongs to the line above.

    `log_level`: how much is logged. `quiet`: show only errors and notes on the terminal.

    `capture`: a list that receives every line without colour, for tests and programs.
    """

    def __init__(
        self,
        terminal: bool = True,
        log_file: PathLike | None = None,
        log_level: LogLevel = LogLevel.SUMMARY,
        *,
        quiet: bool = False,
        capture: list[str] | None = None,
        stream: IO[str] | None = None,
        clock: Callable[[], datetime] = datetime.now,
    ) -> None:
        self.log_level = LogLevel(log_level)
        self.counts: Counter[TaskStatus] = Counter()
        self._clock = clock
        self._quiet = quiet
        self._capture = capture
        self._file = _LogFile(log_file) if log_file is not None else None
        output = stream if stream is not None else sys.stderr  # None if the shell closed it (`2>&-`)
        self._terminal = _Terminal(output) if terminal and output is not None else None
        self._expected: tuple[Mapping[str, float | None], int] | None = None
        self._progress: Display | None = None
        self._batch: list[str] | None = None  # collects lines for one write
        self._lock = threading.RLock()  # actions and the runner may log from several threads

    # --- for programs --------------------------------------------------------------------------------------------

    def log_task(
        self,
        action_name: str,
        status: TaskStatus | str,
        message: str,
        runtime: float | None = None,
        inputs: Any = None,
        outputs: Any = None,
        job_info: str | None = None,
    ) -> None:
        """Log one line. Inputs and outputs are paths: one, a list, or a mapping. The line shows the sizes of files.

        Whatever the texts hold, they stay one line. A runtime that is no finite number is left out.
        """
        status = task_status(status)
        text = task_text(
            str(message),
            runtime=runtime_text(status, finite(runtime)),
            inputs=listed(described_files(inputs), SHOWN_FILES),
            outputs=listed(described_files(outputs), SHOWN_FILES),
            details=[str(job_info or "")],
        )
        self.line(TaskLine(self._clock(), str(action_name), status, text))

    def start_progress(self, total_jobs: int, estimated_runtime: float | None = None) -> None:
        with self._lock:
            self._begin(Progress("", total_jobs, 1, EqualWork(total_jobs, finite(estimated_runtime))))

    def update_progress(self, completed: int, current_job: str = "") -> None:
        self.progress(completed, [str(current_job)] if current_job else [])

    def finish_progress(self) -> None:
        with self._lock:
            if self._progress is not None:
                self._progress.finish()
                self._progress = None

    # --- for a run -----------------------------------------------------------------------------------------------

    def expect(self, durations: Mapping[str, float | None], workers: int) -> None:
        """Set the expected duration of each job; the progress is weighted by it."""
        self._expected = (durations, workers)

    def started(self, run: str, total: int) -> None:
        durations, workers = self._expected or ({}, 1)
        work = Weights(durations) if durations else EqualWork(total, None)
        with self._lock:
            self._begin(Progress(run, total, workers, work))

    def tell(self, lines: Iterable[TaskLine]) -> None:
        """Log many lines; without a progress bar, in few writes."""
        with self._lock:
            self._batch = []
            try:
                for line in lines:
                    self.line(line)
            finally:
                batch, self._batch = self._batch, None
                if self._terminal is not None:
                    self._terminal.write_all(batch)

    def line(self, line: TaskLine) -> None:
        with self._lock:
            self.counts[line.status] += 1
            if line.shown_from > self.log_level:
                return
            self._into_file(line.log_lines)
            if self._capture is not None:
                self._capture.append(line.render())
            if self._terminal is not None and (not self._quiet or line.status in BAD or line.always):
                self._show(self._terminal.status_line(line))
                if self.log_level >= LogLevel.DEBUG and line.traceback:
                    self._show("\n".join(line.traceback_lines()))

    def progress(self, ended: int, running: list[str]) -> None:
        with self._lock:
            if self._progress is not None:
                self._progress.update(ended, running)

    def planned(self, steps: list[str], text: str) -> None:
        with self._lock:
            if self._progress is not None:
                self._progress.progress.add(steps)
        self._say(_one_block(text), LogLevel.PROGRESS)

    def step_progress(self, step: str, fraction: float) -> None:
        with self._lock:
            if self._progress is not None:
                self._progress.progress.work.at(step, fraction)

    def step_took(self, step: str, seconds: float) -> None:
        with self._lock:
            if self._progress is not None:
                self._progress.progress.work.took(step, seconds)

    def note(self, text: str) -> None:
        """Log something that the user should know, at every level except `none`."""
        self._say(_one_block(f"note: {text}"), LogLevel.PROGRESS, always=True)

    def debug(self, text: str) -> None:
        self._say(_one_block(f"debug: {text}"), LogLevel.DEBUG)

    def say(self, text: str, style: str | None = None) -> None:
        """Log the first and the last text of a run, which Whyrun wrote itself. `style` colours the first line."""
        self._say(split_printable(text), LogLevel.PROGRESS, style=style)

    def finish(self) -> None:
        self.finish_progress()

    # --- writing -------------------------------------------------------------------------------------------------

    def _begin(self, progress: Progress) -> None:
        self.finish_progress()
        if self._terminal is None or self._quiet or self.log_level < LogLevel.PROGRESS:
            return
        if self._terminal.interactive:
            self._progress = BarProgress(progress)
        else:
            self._progress = PlainProgress(progress, self._terminal.write)

    def _say(self, lines: list[str], level: LogLevel, *, style: str | None = None, always: bool = False) -> None:
        with self._lock:
            if level > self.log_level:
                return
            when = self._clock().isoformat(" ", "seconds")[:19]
            self._into_file(lambda number: [line if line.startswith(" ") else f"{when} {line}" for line in lines])
            if self._capture is not None:
                self._capture.extend(lines)
            if self._terminal is not None and (always or not self._quiet):
                head = self._terminal.paint.styled(lines[0], style) if style else lines[0]
                self._show("\n".join([head, *lines[1:]]))

    def _into_file(self, lines: Callable[[int], list[str]]) -> None:
        if self._file is None:
            return
        try:
            self._file.append(lines)
        except OSError as problem:  # such as a full disk; the run goes on, its own log is elsewhere
            path, self._file = self._file.path, None
            self.note(f"logging to `{path}` stopped: {problem.strerror or problem}; the run continues")

    def _show(self, text: str) -> None:
        assert self._terminal is not None
        if isinstance(self._progress, BarProgress):
            self._progress.print(text)
        elif self._batch is not None:
            self._batch.append(text)
        else:
            self._terminal.write(text)


def _one_block(text: str) -> list[str]:
    """The lines of a text that may quote anybody: all but the first are indented, so that none looks like another."""
    return f"\n{INDENT}".join(split_printable(text)).split("\n")


class _Terminal:
    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream
        self.paint = Paint.for_stream(stream, os.environ)
        self.for_people = stream.isatty()  # lines in a pipe may be for a program
        self.interactive = stream is sys.stderr and self.for_people and os.environ.get("TERM") != "dumb"
        self._closed = False

    def status_line(self, line: TaskLine) -> str:
        if self.for_people and line.interrupted:
            return self.paint.status_line(line.for_terminal(), INTERRUPTED)
        return self.paint.status_line(line.render(), line.status)

    def write_all(self, texts: list[str]) -> None:
        """Write in few chunks, each small enough for the buffer of the stream (see `_flush`)."""
        chunk: list[str] = []
        for text in texts:
            if chunk and sum(map(len, chunk)) + len(text) > CHUNK:
                self.write("\n".join(chunk))
                chunk.clear()
            chunk.append(text)
        if chunk:
            self.write("\n".join(chunk))

    def write(self, text: str) -> None:
        if self._closed:
            return
        try:
            self.stream.write(f"{text}\n")
            self._flush()
        except OSError as problem:
            # The reader is gone (`whyrun run 2>&1 | head`) or the disk is full: the run continues without lines. On
            # stdout the lines are the result (a dry run), so a lost line is an error.
            if self.stream is sys.stdout and not isinstance(problem, BrokenPipeError):
                raise
            self._closed = True

    def _flush(self) -> None:
        """Flush, also if another process made the stream non-blocking: unwritten text stays in the buffer."""
        while True:
            try:
                return self.stream.flush()
            except BlockingIOError:
                select.select([], [self.stream], [], 1.0)


class _LogFile:
    """Appends lines to a file that other processes also append to. Each write is atomic and knows its line numbers."""

    def __init__(self, path: PathLike) -> None:
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        except OSError as problem:
            raise error(
                "USAGE",
                f"the log file `{os.fspath(path)}` cannot be written: {problem.strerror}",
                hint="choose a file in an existing folder that you may write to",
            ) from None
        self.path = os.fspath(path)
        # A pipe or a device cannot be read back, so only our own lines are counted, without a lock.
        self._shared = stat.S_ISREG(os.fstat(self._descriptor).st_mode)
        self._counted = 0  # bytes whose lines are counted
        self._lines = 0

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):  # missing if the file could not be opened
            os.close(self._descriptor)

    def append(self, lines: Callable[[int], list[str]]) -> None:
        """`lines` returns the lines to write, given the number of the first one."""
        if not self._shared:
            self._lines += self._write(lines(self._lines + 1))
            return
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        try:
            self._count()
            self._write(lines(self._lines + 1))
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def _write(self, lines: list[str]) -> int:
        """Returns the number of lines written."""
        whole = data = "".join(f"{line}\n" for line in lines).encode(errors="replace")
        while data:
            data = data[os.write(self._descriptor, data) :]
        return whole.count(b"\n")

    def _count(self) -> None:
        """Count the lines that were added since the last call, by us or by others."""
        while True:
            data = os.pread(self._descriptor, 1 << 20, self._counted)
            if not data:
                return
            self._counted += len(data)
            self._lines += data.count(b"\n")


# --- the progress of a run in a notebook: one display that is updated in place, and the lines of what failed ----------


class Handle(Protocol):
    """What IPython's `display(…, display_id=True)` returns."""

    def update(self, shown: Any) -> None: ...


class Show(Protocol):
    def __call__(self, shown: Any, *, display_id: bool) -> Handle: ...


def notebook_logger() -> WorkflowLogger | None:
    """A logger for the notebook that this code runs in; None outside of one. Without IPython nothing is imported."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None or not hasattr(shell, "kernel"):  # a terminal has no place that could be updated
        return None
    from IPython.display import display

    return NotebookLogger(display)


class NotebookLogger(WorkflowLogger):
    def __init__(self, display: Show) -> None:
        super().__init__(terminal=False)
        self._display = display
        self._failures: list[str] = []

    def line(self, line: TaskLine) -> None:
        super().line(line)
        if line.status in BAD:
            with self._lock:
                self._failures.append(line.render())

    def _begin(self, progress: Progress) -> None:
        self.finish_progress()
        self._progress = NotebookProgress(progress, self._display)

    def finish(self) -> None:
        super().finish()
        failures, self._failures = self._failures, []
        if failures:
            self._display(Html(text_html("\n".join(failures))), display_id=True)


class NotebookProgress:
    """A bar with count and time left. It is removed when the run ends: the result shows itself."""

    def __init__(self, progress: Progress, display: Show) -> None:
        self.progress = progress
        self.updated = 0.0
        self._handle = display(Html(self._html()), display_id=True)

    def _html(self) -> str:
        progress = self.progress
        done = progress.completed / progress.work.total if progress.work.total else 0.0
        return progress_html(done, progress.plain())

    def update(self, ended: int, running: list[str]) -> None:
        now = time.monotonic()
        if now < self.updated + UPDATE_INTERVAL and ended < self.progress.jobs:
            return
        self.updated = now
        self.progress.update(ended, running)
        self._handle.update(Html(self._html()))

    def finish(self) -> None:
        self._handle.update(Html(""))
