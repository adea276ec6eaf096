"""Is the code of an action still what the plan saw? Looked at before a step starts, while it runs and at its end.

A project's module may be edited while a run goes on. What a worker imports then is not what the fingerprint says, and
with the edit taken back later the wrong result would look right for ever. So nothing more is started with it, and what
ran meanwhile fails. A file that was only touched, or an edit that does not count (a comment), is no reason to lose what
was paid for: then the code is read again, and what workers imported is known by the times of the files they read. Of a
file that `code:` names (prompts, tools, what a child process imports), or that no worker has spoken of, nobody knows
when it was read: there any write while a step runs counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from whyrun.actions.from_source import Version, Versions, version_of
from whyrun.console.lines import listed
from whyrun.execution.endings import Problem
from whyrun.execution.named_code import NOTHING_NAMED, NamedCode

_EVERY = 0.1  # seconds between two looks at all files


class CodeGuard:
    def __init__(
        self,
        project: str,
        files: Mapping[str, Sequence[str]],
        is_current: Callable[[str], bool],
        named: NamedCode = NOTHING_NAMED,
    ) -> None:
        """`files`: job name → the files of its action. `is_current(job)`: is their content what was planned with?"""
        self._project = project
        self._files = {job: tuple(paths) for job, paths in files.items() if paths}
        self._is_current = is_current
        self._named = named
        self._seen: dict[str, Versions] = dict.fromkeys(self._files, ())
        # job → path → the versions of the file that say what was planned with
        self._right: dict[str, dict[str, set[Version]]] = {
            job: {path: set() for path in paths} for job, paths in self._files.items()
        }
        self._reported: set[str] = set()  # files that workers say they have read
        self._strangers: dict[str, Version] = {}  # those of them that no plan knows, and that are still the same
        self._asked: dict[str, int] = dict.fromkeys(self._files, 0)  # how many strangers there were at the last look
        self._changed: dict[str, str] = {}  # job → the file
        self._gone: dict[str, str] = {}  # the same, at the last look
        self._looked: set[str] = set()
        self._stats: dict[str, Version | None] = {}  # of this look: jobs share files
        self._last = 0.0
        self.look()

    def look(self) -> None:
        """Now and then, whatever else happens: an edit that is taken back in between would not be seen otherwise."""
        if time.monotonic() >= self._last + _EVERY:
            self._forget_looks()
            for job in self._files:
                self._look(job)
            self._last = time.monotonic()

    def look_again(self) -> None:
        """To be called when steps have ended: one look at a file is enough for all of them."""
        self._looked.clear()
        self._forget_looks()

    def _forget_looks(self) -> None:
        self._stats.clear()
        self._named.look_again()

    def loaded(self, told: Mapping[str, Version | None]) -> None:
        """What a worker imported: file → its version; None: it changed while it was read."""
        self._reported.update(told)
        for path, version in told.items():
            known = [job for job, right in self._right.items() if path in right]
            for job in known:
                right = self._right[job][path]
                if version not in right:
                    self._look(job, afresh=True)  # it may be newer than what we saw last
                    if version not in right:
                        self._changed.setdefault(job, path)
            if not known:
                self._meet(path, version)

    def _meet(self, path: str, version: Version | None) -> None:
        """A file that was not there when it was planned, or is imported by a name that no reading finds. If it is still
        there, the plan of now tells which of both. If not, a process has it in its memory for all steps to come."""
        met = self._strangers.get(path, version)
        if version is None or not (version == met == self._version(path, afresh=True)):
            for job in self._files:
                self._changed.setdefault(job, path)
        else:
            self._strangers[path] = version

    def versions(self, job: str) -> Versions:
        """To be kept with a step that is handed out now."""
        return self._seen.get(job, ())

    def changed(self, job: str) -> str | None:
        """The file of this job's action that was edited since the plan, up to a look after `look_again`; or is gone."""
        if job not in self._looked and job in self._files:
            self._looked.add(job)
            self._look(job)
        return self._changed.get(job) or self._gone.get(job)

    def ended(self, job: str, since: Versions) -> str | None:
        """For a step that was handed out with these versions: the file because of which its result does not count. That
        may also be one that was written to meanwhile, and nobody knows when it was read."""
        found = self.changed(job)
        if found is None and since != (now := self.versions(job)):
            paths = zip(self._files[job], since, now, strict=True)
            found = next((path for path, was, is_ in paths if was != is_ and not self._tells_itself(job, path)), None)
            for other in self._files:
                if found is not None and self._named.names(other, found):
                    self._changed.setdefault(other, found)  # a worker may have kept what it read for all steps to come
        return found

    def _tells_itself(self, job: str, path: str) -> bool:
        """Whether it is read by workers, which say so, and by nobody else."""
        return path in self._reported and not self._named.names(job, path)

    def uncounted(self) -> str | None:
        """What the user should know of files that were imported and that no plan knows. Nothing where code was edited
        as well: what came only then, the next plan may know."""
        if not self._strangers or self._changed:
            return None
        were, them = ("was", "it") if len(self._strangers) == 1 else ("were", "them")
        return (
            f"{listed(sorted(self._strangers))} {were} imported, and no plan counts {them}: an edit there runs nothing "
            f"again (name {them} under `code:` of the job)"
        )

    @property
    def edits(self) -> int:
        """How many jobs have been found to be edited."""
        return len(self._changed)

    def _look(self, job: str, *, afresh: bool = False) -> None:
        while job not in self._changed:
            found, strangers = self._versions(self._files[job], afresh), self._versions(self._strangers, afresh)
            if any(now != met for now, met in zip(strangers, self._strangers.values(), strict=True)):
                paths = zip(self._strangers.items(), strangers, strict=True)
                self._changed[job] = next(path for (path, met), now in paths if now != met)
                break
            if found == self._seen[job] and len(strangers) == self._asked[job]:
                self._changed.update((job, path) for path in sorted(self._named.now(job) - self._right[job].keys())[:1])
                break
            missing = [path for path, version in zip(self._files[job], found, strict=True) if version is None]
            if missing:  # some editors save so; and nobody can have imported it
                self._gone[job] = missing[0]
                return
            if not self._is_current(job):
                self._changed[job] = self._newest(job, found)
            elif self._versions(self._files[job], afresh=True) == found:  # else it was edited as we read it: once more
                self._seen[job], self._asked[job] = found, len(strangers)
                for path, version in zip(self._files[job], found, strict=True):
                    if version is not None:
                        self._right[job][path].add(version)
        self._gone.pop(job, None)

    def _versions(self, paths: Iterable[str], afresh: bool) -> Versions:
        return tuple(self._version(path, afresh) for path in paths)

    def _version(self, path: str, afresh: bool) -> Version | None:
        if afresh or path not in self._stats:
            self._stats[path] = version_of(f"{self._project}/{path}")
        return self._stats[path]

    def _newest(self, job: str, found: Versions) -> str:
        """Of the files that are not as they were seen last: the one that was written last; else a stranger."""
        before = self._seen[job] or (None,) * len(found)
        paths = self._files[job]
        edited = [i for i in range(len(paths)) if found[i] != before[i]]
        if not edited and self._strangers:
            return next(reversed(self._strangers))
        return paths[max(edited or range(len(paths)), key=lambda i: (found[i] or (0, 0, 0))[1:])]


def edited_code(action: str, file: str, so: str, duration: float) -> Problem:
    message = f"the code of `{action}` was edited since the plan was made (`{file}`): {so}; run again"
    return Problem("FAILED", "InputChangedDuringRun", message, "", duration)
