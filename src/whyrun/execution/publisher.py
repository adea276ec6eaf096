"""Published files: independent copies of artifacts at the workflow's paths, and nothing of the user's is lost."""

from __future__ import annotations

import os
from collections.abc import Callable

from whyrun.artifacts.publish import publish
from whyrun.artifacts.stat_cache import StatCache
from whyrun.artifacts.store import Store
from whyrun.execution.recorder import Recorder
from whyrun.graph.graph import JobTable
from whyrun.log import events as ev
from whyrun.log.runs import WorkflowState


class Publisher:
    def __init__(self, store: Store, project: str, cache: StatCache, recorder: Recorder, state: WorkflowState) -> None:
        self.store, self.project, self.cache, self.recorder = store, project, cache, recorder
        self._ours = _Ours(lambda: published_hashes(state))

    def is_ours(self, path: str, sha256: str) -> bool:
        """Does the log hold this content for this path? Then a file with it may be written over."""
        return self._ours.holds(path, sha256)

    def publish(self, path: str, sha256: str, type_: str) -> tuple[str, ...]:
        """Put an artifact at its path. What stands there and is not ours goes into the store first; those paths."""
        result = publish(self.store, self.project, path, sha256, lambda found: self.is_ours(path, found), type_)
        for displaced in result.displaced:
            self.recorder.event(ev.FileDisplaced(path=displaced.path, sha256=displaced.sha256))
            self.recorder.reporter.note(
                f"`{displaced.path}` was not as this workflow left it; what stood there is kept: "
                f"{os.path.relpath(self.store.path(displaced.sha256), self.project)}"
            )
        self._ours.add(path, sha256)
        if result.file is not None:
            self.cache.note(f"{self.project}/{path}", result.file)
        return tuple(displaced.path for displaced in result.displaced)

    def restore(self, path: str, sha256: str) -> None:
        """Bytes that are gone from the store, from the file at this path if it still has them."""
        self.store.restore_from(f"{self.project}/{path}", sha256)


def published_path(table: JobTable, artifact: int, position: int) -> str | None:
    """Where an artifact is published; leaves never are."""
    if table.artifacts[artifact].is_leaf:
        return None
    paths = table.output_of(artifact).paths
    return None if paths is None else paths[position]


class _Ours:
    """Which content the log holds for a published path: a file with any of it is ours to write over."""

    def __init__(self, load: Callable[[], dict[str, set[str]]]) -> None:
        self._load = load
        self._known: dict[str, set[str]] | None = None
        self._new: dict[str, set[str]] = {}

    def holds(self, path: str, sha256: str) -> bool:
        if sha256 in self._new.get(path, ()):
            return True
        if self._known is None:  # only once a file stands in the way: this reads the whole log
            self._known = self._load()
        return sha256 in self._known.get(path, ())

    def add(self, path: str, sha256: str) -> None:
        self._new.setdefault(path, set()).add(sha256)


def published_hashes(state: WorkflowState) -> dict[str, set[str]]:
    """Path → every content that the log holds for it, over all runs."""
    found: dict[str, set[str]] = {}
    for run in state.runs():
        for event in run.events():
            if isinstance(event, ev.ArtifactAvailable | ev.ArtifactAdopted) and event.path is not None:
                found.setdefault(event.path, set()).add(event.sha256)
    return found
