"""Is the code of an action still what the plan saw? Looked at before a step starts, while it runs and at its end.

A project's module may be edited while a run goes on. What a worker imports then is not what the fingerprint says, and
with the edit taken back later the wrong result would look right for ever. So nothing more is started with it, and what
ran meanwhile fails. A file that was only touched, or an edit that does not count (a comment), is no reason to lose what
was paid for: then the code is read again, and what workers imported is known by the times of the files they read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from whyrun.actions.from_source import Version, version_of
from whyrun.execution.endings import Problem

_EVERY = 0.1  # seconds between two looks at all files


class CodeGuard:
    def __init__(self, project: str, files: Mapping[str, Sequence[str]], is_current: Callable[[str], bool]) -> None:
        """`files`: job name → the files of its action. `is_current(job)`: is their content what was planned with?"""
        self._project = project
        self._files = {job: tuple(paths) for job, paths in files.items() if paths}
        self._is_current = is_current
        self._seen: dict[str, tuple[Version | None, ...]] = dict.fromkeys(self._files, ())
        # job → path → the versions of the file that say what was planned with
        self._right: dict[str, dict[str, set[Version]]] = {
            job: {path: set() for path in paths} for job, paths in self._files.items()
        }
        self._changed: dict[str, str] = {}  # job → the file
        self._gone: dict[str, str] = {}  # the same, at the last look
        self._looked: set[str] = set()
        self._last = 0.0
        self.look()

    def look(self) -> None:
        """Now and then, whatever else happens: an edit that is taken back in between would not be seen otherwise."""
        if time.monotonic() >= self._last + _EVERY:
            for job in self._files:
                self._look(job)
            self._last = time.monotonic()

    def look_again(self) -> None:
        """To be called when steps have ended: one look at a file is enough for all of them."""
        self._looked.clear()

    def loaded(self, told: Mapping[str, Version | None]) -> None:
        """What a worker imported: file → its version; None: it changed while it was read."""
        for path, version in told.items():
            for job, right in self._right.items():
                if path in right and version not in right[path]:
                    self._look(job)  # it may be newer than what we saw last
                    if version not in right[path]:
                        self._changed.setdefault(job, path)

    def changed(self, job: str) -> str | None:
        """The file of this job's action that was edited since the plan, up to a look after `look_again`; or is gone."""
        if job not in self._looked and job in self._files:
            self._looked.add(job)
            self._look(job)
        return self._changed.get(job) or self._gone.get(job)

    @property
    def edits(self) -> int:
        """How many jobs have been found to be edited."""
        return len(self._changed)

    def _look(self, job: str) -> None:
        while job not in self._changed and (found := self._versions(job)) != self._seen[job]:
            missing = [path for path, version in zip(self._files[job], found, strict=True) if version is None]
            if missing:  # some editors save so; and nobody can have imported it
                self._gone[job] = missing[0]
                return
            if not self._is_current(job):
                self._changed[job] = self._newest(job, found)
            elif self._versions(job) == found:  # else it was edited while we read it: once more
                self._seen[job] = found
                for path, version in zip(self._files[job], found, strict=True):
                    if version is not None:
                        self._right[job][path].add(version)
        self._gone.pop(job, None)

    def _versions(self, job: str) -> tuple[Version | None, ...]:
        return tuple(version_of(f"{self._project}/{path}") for path in self._files[job])

    def _newest(self, job: str, found: Sequence[Version | None]) -> str:
        """Of the files that are not as they were seen last: the one that was written last."""
        before = self._seen[job] or (None,) * len(found)
        paths = self._files[job]
        edited = [i for i in range(len(paths)) if found[i] != before[i]] or range(len(paths))
        return paths[max(edited, key=lambda i: (found[i] or (0, 0, 0))[1:])]


def edited_code(action: str, file: str, so: str, duration: float) -> Problem:
    message = f"the code of `{action}` was edited since the plan was made (`{file}`): {so}; run again"
    return Problem("FAILED", "InputChangedDuringRun", message, "", duration)
