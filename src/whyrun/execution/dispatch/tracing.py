"""Which steps strace watches: with `trace = "first"` one instance of each job that needs it, until one succeeds.

What strace saw of that instance, beyond what the audit hook saw, stands for the others of its job.
"""

from __future__ import annotations

from collections.abc import Callable

from whyrun.project_config import Trace


class Tracing:
    def __init__(self, mode: Trace, needed: Callable[[str], bool]) -> None:
        """`needed(job)`: has no instance been traced since the job's script, action or packages changed?"""
        self._mode, self._needed = mode, needed
        self._watched: dict[str, str] = {}  # job → the step that is traced for it, or was

    def watches(self, job: str, step: str) -> bool:
        """Whether this attempt, which starts now, is to be traced."""
        if self._mode != "first":
            return self._mode == "always"
        if job not in self._watched and self._needed(job):
            self._watched[job] = step
            return True
        return False

    def ended(self, job: str, step: str, *, succeeded: bool) -> None:
        """Only a success counts: after a failure another attempt is traced."""
        if not succeeded and self._watched.get(job) == step:
            del self._watched[job]
