"""The progress of a run in a notebook: one display that is updated in place, and the lines of what failed."""

from __future__ import annotations

import sys
import time
from typing import Any, Protocol

from whyrun.console.lines import BAD, TaskLine
from whyrun.console.logger import WorkflowLogger
from whyrun.console.progress import UPDATE_INTERVAL, Progress
from whyrun.notebook import Html, progress_html, text_html


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
