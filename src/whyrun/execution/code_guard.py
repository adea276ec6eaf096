"""Is the code of an action still what the plan saw? Looked at when a step has ended, before its result counts.

A project's module may be edited while a run goes on. What a worker imported then is not what the fingerprint says, and
with the edit taken back later the wrong result would look right for ever. So such an attempt fails.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

Signature = tuple[tuple[int, ...] | None, ...]


class CodeGuard:
    def __init__(self, project: str, files: Mapping[str, Sequence[str]], is_current: Callable[[str], bool]) -> None:
        """`files`: job name → the files of its action. `is_current(job)`: is their content what was planned with?"""
        self._files = {job: [f"{project}/{path}" for path in paths] for job, paths in files.items()}
        self._seen = {job: self._look(job) for job in self._files}
        self._looked: set[str] = set()
        self._changed = {job for job in self._files if self._files[job] and not is_current(job)}

    def look_again(self) -> None:
        """To be called when steps have ended: one look at a file is enough for all of them."""
        self._looked.clear()

    def changed(self, job: str) -> bool:
        """Was the code of this job's action touched since the plan, up to a look after `look_again`?

        An edit that was taken back counts: a worker may have imported it in between, and keeps what it imported.
        """
        if job not in self._looked:
            self._looked.add(job)
            if job not in self._changed and self._look(job) != self._seen[job]:
                self._changed.add(job)
        return job in self._changed

    def _look(self, job: str) -> Signature:
        return tuple(map(_signature, self._files[job]))


def _signature(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None  # gone or out of reach: not what was planned with
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
