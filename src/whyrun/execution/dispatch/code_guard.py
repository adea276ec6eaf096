"""Detects code that is edited while a run goes on: before a step starts, while it runs, and at its end.

A worker that imports an edited module does not execute the code of the fingerprint, and once the edit is reverted the
wrong result would look right forever. So no more steps start with edited code, and steps that ran meanwhile fail.

An edit that does not count (a touched file, a comment) must not discard paid work: the code is read again, and workers
report the versions of the files they imported. Nobody reports when a step reads a file that `code:` names (a prompt, a
tool, a module of a child process): there any write while a step runs counts, as for a file that no worker has reported.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from pathlib import Path

from whyrun.actions.code.code_cache import matching_code_files
from whyrun.actions.code.source_loader import Version, Versions, version_of

POLL_INTERVAL = 0.1  # seconds between two checks of all files
WILDCARDS = frozenset("*?[")
# A pattern that takes longer than this to expand is expanded for a tenth of the time at most.
SLOW_PATTERN, SLOW_PATTERN_PAUSE = 0.005, 10  # seconds; times as long as it took


class NamedCode:
    """The files that `code:` names. A file that appears during a run may match a pattern although no plan knows it."""

    def __init__(self, project: Path, patterns: Mapping[str, Sequence[str]]) -> None:
        """`patterns`: job name → its `code:`."""
        self._project = project
        distinct = {tuple(given) for given in patterns.values() if given}
        files = {given: matching_code_files(project, given) for given in distinct}
        self._named = {job: files[tuple(given)] for job, given in patterns.items() if given}
        self._wild = {job: tuple(p for p in given if WILDCARDS.intersection(p)) for job, given in patterns.items()}
        self._matches: dict[tuple[str, ...], Set[str]] = {}  # by patterns: jobs share them
        self._paused_until: dict[tuple[str, ...], float] = {}  # monotonic

    def names(self, job: str, path: str) -> bool:
        return path in self._named.get(job, ())

    def refresh(self) -> None:
        now = time.monotonic()
        self._matches = {
            patterns: matches for patterns, matches in self._matches.items() if self._paused_until[patterns] > now
        }

    def matches(self, job: str) -> Set[str]:
        """The files that match the wildcard patterns of a job, as of the last `refresh`."""
        patterns = self._wild.get(job, ())
        if patterns and patterns not in self._matches:
            began = time.monotonic()
            self._matches[patterns] = matching_code_files(self._project, patterns)
            took = time.monotonic() - began
            self._paused_until[patterns] = began + took * SLOW_PATTERN_PAUSE if took > SLOW_PATTERN else 0.0
        return self._matches.get(patterns, frozenset())


NOTHING_NAMED = NamedCode(Path(), {})


class CodeGuard:
    def __init__(
        self,
        project: str,
        files: Mapping[str, Sequence[str]],
        is_current: Callable[[str], bool],
        named: NamedCode = NOTHING_NAMED,
    ) -> None:
        """`files`: job name → the files of its action. `is_current(job)`: do they have the content of the plan?"""
        self._project = project
        self._files = {job: tuple(paths) for job, paths in files.items() if paths}
        self._is_current = is_current
        self._named = named
        self._seen: dict[str, Versions] = dict.fromkeys(self._files, ())
        # job → path → the versions of the file that had the content of the plan
        self._accepted: dict[str, dict[str, set[Version]]] = {
            job: {path: set() for path in paths} for job, paths in self._files.items()
        }
        self._reported: set[str] = set()  # files that workers have reported as read
        self._unplanned: dict[str, Version] = {}  # reported files that no plan knows, and that are unchanged since
        self._unplanned_checked: dict[str, int] = dict.fromkeys(self._files, 0)  # how many there were at the last check
        self._edited: dict[str, str] = {}  # job → the edited file
        self._missing: dict[str, str] = {}  # job → the file that was missing at the last check
        self._checked: set[str] = set()  # jobs, since `refresh`
        self._stats: dict[str, Version | None] = {}  # of this check: jobs share files
        self._last_poll = 0.0
        self.poll()

    def poll(self) -> None:
        """Check all files now and then: an edit that is reverted before a step ends would stay unnoticed otherwise."""
        if time.monotonic() >= self._last_poll + POLL_INTERVAL:
            self._forget_stats()
            for job in self._files:
                self._check(job)
            self._last_poll = time.monotonic()

    def refresh(self) -> None:
        """Called when steps have ended: one new check of each file serves all of them."""
        self._checked.clear()
        self._forget_stats()

    def _forget_stats(self) -> None:
        self._stats.clear()
        self._named.refresh()

    def loaded(self, reported: Mapping[str, Version | None]) -> None:
        """What a worker imported: file → its version; None: it changed while it was read."""
        self._reported.update(reported)
        for path, version in reported.items():
            jobs = [job for job, accepted in self._accepted.items() if path in accepted]
            for job in jobs:
                accepted = self._accepted[job][path]
                if version not in accepted:
                    self._check(job, fresh=True)  # the worker may have read a newer version than we saw
                    if version not in accepted:
                        self._edited.setdefault(job, path)
            if not jobs:
                self._loaded_unplanned(path, version)

    def _loaded_unplanned(self, path: str, version: Version | None) -> None:
        """A worker imported a file that no plan knows: it is new, or imported by a computed name.

        If it is unchanged, a check against the present plan tells which. If not, a worker keeps code in its memory that
        no plan will see, so it counts as an edit of every job.
        """
        before = self._unplanned.get(path, version)
        if version is None or not (version == before == self._version(path, fresh=True)):
            for job in self._files:
                self._edited.setdefault(job, path)
        else:
            self._unplanned[path] = version

    def versions(self, job: str) -> Versions:
        """The file versions to keep with a step that is submitted now."""
        return self._seen.get(job, ())

    def edited_file(self, job: str) -> str | None:
        """The file of this job's action that was edited since the plan, or is missing; checked once per `refresh`."""
        if job not in self._checked and job in self._files:
            self._checked.add(job)
            self._check(job)
        return self._edited.get(job) or self._missing.get(job)

    def edited_while_running(self, job: str, since: Versions) -> str | None:
        """The file that invalidates the result of a step submitted with these versions.

        This may be a file that was written to and has its planned content again, if nobody reports when it was read.
        """
        file = self.edited_file(job)
        if file is None and since != (now := self.versions(job)):
            versions = zip(self._files[job], since, now, strict=True)
            written = (path for path, before, after in versions if before != after)
            file = next((path for path in written if not self._is_reported_by_workers(job, path)), None)
            for other in self._files:
                if file is not None and self._named.names(other, file):
                    self._edited.setdefault(other, file)  # a worker may keep what it read for all later steps
        return file

    def _is_reported_by_workers(self, job: str, path: str) -> bool:
        """Whether only workers read it, and report the version they read."""
        return path in self._reported and not self._named.names(job, path)

    @property
    def edits(self) -> int:
        """How many jobs have edited code."""
        return len(self._edited)

    def _check(self, job: str, *, fresh: bool = False) -> None:
        """Compare the files of a job with the plan. Their content is read only if their versions have changed."""
        while job not in self._edited:
            found, unplanned = self._versions(self._files[job], fresh), self._versions(self._unplanned, fresh)
            if any(now != before for now, before in zip(unplanned, self._unplanned.values(), strict=True)):
                versions = zip(self._unplanned.items(), unplanned, strict=True)
                self._edited[job] = next(path for (path, before), now in versions if now != before)
                break
            if found == self._seen[job] and len(unplanned) == self._unplanned_checked[job]:
                new = sorted(self._named.matches(job) - self._accepted[job].keys())
                self._edited.update((job, path) for path in new[:1])
                break
            missing = [path for path, version in zip(self._files[job], found, strict=True) if version is None]
            if missing:  # some editors save this way; and no worker can have imported it
                self._missing[job] = missing[0]
                return
            if not self._is_current(job):
                self._edited[job] = self._newest(job, found)
            elif self._versions(self._files[job], fresh=True) == found:  # else it was edited while we read it: repeat
                self._seen[job], self._unplanned_checked[job] = found, len(unplanned)
                for path, version in zip(self._files[job], found, strict=True):
                    if version is not None:
                        self._accepted[job][path].add(version)
        self._missing.pop(job, None)

    def _versions(self, paths: Iterable[str], fresh: bool) -> Versions:
        return tuple(self._version(path, fresh) for path in paths)

    def _version(self, path: str, fresh: bool) -> Version | None:
        if fresh or path not in self._stats:
            self._stats[path] = version_of(f"{self._project}/{path}")
        return self._stats[path]

    def _newest(self, job: str, found: Versions) -> str:
        """The file that was written last, of those that have changed since the last check; else an unplanned one."""
        before = self._seen[job] or (None,) * len(found)
        paths = self._files[job]
        edited = [i for i in range(len(paths)) if found[i] != before[i]]
        if not edited and self._unplanned:
            return next(reversed(self._unplanned))
        return paths[max(edited or range(len(paths)), key=lambda i: (found[i] or (0, 0, 0))[1:])]
