"""Published files: independent copies of artifacts at the workflow's paths, and nothing of the user's is lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from whyrun.artifacts.merge import SectionMerger
from whyrun.artifacts.publish import Displaced, publish
from whyrun.artifacts.sections import SharedFiles
from whyrun.artifacts.stat_cache import StatCache
from whyrun.artifacts.store import Store
from whyrun.console.render import relative
from whyrun.errors import WhyrunError
from whyrun.execution.recorder import Recorder
from whyrun.graph.graph import JobTable
from whyrun.ids import SECTION_MARK, site_of, split_site
from whyrun.log import events as ev
from whyrun.log.runs import WorkflowState
from whyrun.snapshot.observe import SPECIAL

MERGE_PAUSE = 9.0  # times as long as a merge took: so merging into ever larger files takes a tenth of a run at most
LONGEST_PAUSE = 1.0  # seconds: a step that is held is not complete yet, and a kill would make it run again


class Publisher:
    """Puts artifacts where they are published: at a path, or as a section of a file that others share."""

    def __init__(self, store: Store, project: str, cache: StatCache, recorder: Recorder, state: WorkflowState) -> None:
        self.store, self.project, self.cache, self.recorder = store, project, cache, recorder
        self._ours = _Ours(lambda: published_hashes(state))
        self._merger = SectionMerger(store, project)
        self._announced: dict[str, dict[str, str]] = {}  # shared file → key → hash
        self.next_merge = 0.0  # monotonic time: sooner, merging would take more than its share of the run
        self._merged: dict[str, tuple[str, WhyrunError | OSError | None]] = {}  # site → hash, and what went wrong

    def is_ours(self, site: str, sha256: str) -> bool:
        """Does the log hold this content for this place? Then a file with it may be written over."""
        return self._ours.holds(site, sha256)

    def publish(self, site: str, sha256: str, type_: str) -> tuple[str, ...]:
        """Put an artifact at its place. What stands there and is not ours goes into the store first; those places. So
        does what is ours and the store has lost."""
        if SECTION_MARK in site:
            return self._publish_section(site, sha256)
        ours = lambda found: self.is_ours(site, found)  # noqa: E731
        result = publish(self.store, self.project, site, sha256, ours, type_, self._displaces, self._puts_back)
        self._ours.add(site, sha256)
        if result.file is not None:
            self.cache.note(f"{self.project}/{site}", result.file)
        return tuple(displaced.path for displaced in result.displaced)

    def content(self, site: str) -> str | None:
        """The hash of what stands there now; of what can be nobody's artifact, no hash of any."""
        if SECTION_MARK in site:
            return SharedFiles(self.project, self.cache, None).sha256_of(site)
        return self.cache.sha256_of(f"{self.project}/{site}", SPECIAL)

    def restore(self, site: str, sha256: str) -> None:
        """Bytes that are gone from the store, from what is published there if it still has them."""
        if SECTION_MARK in site:
            SharedFiles(self.project, self.cache, None).restore(site, sha256, self.store)
        else:
            self.store.restore_from(f"{self.project}/{site}", sha256)

    # -- sections --

    def announce(self, site: str, sha256: str) -> None:
        """This section is recorded and will be published soon. It is merged together with the next section of its
        file, so that a file with many sections is not written anew for each."""
        path, key = split_site(site)
        self._announced.setdefault(path, {})[key or ""] = sha256

    def _publish_section(self, site: str, sha256: str) -> tuple[str, ...]:
        displaced: tuple[Displaced, ...] = ()
        if self._merged.get(site, ("", None))[0] != sha256:
            path, key = split_site(site)
            displaced = self._merge(path, {**self._announced.pop(path, {}), key or "": sha256})
        problem = self._merged.pop(site)[1]
        if problem is not None:
            raise problem.with_traceback(None)  # one problem may be that of many sections
        return tuple(d.path for d in displaced if d.path == site)

    def _merge(self, path: str, sections: dict[str, str]) -> tuple[Displaced, ...]:
        started = time.monotonic()
        try:
            ours = lambda key, found: self.is_ours(site_of(path, key), found)  # noqa: E731
            result = self._merger.merge(path, sections, ours, self._displaces, self._puts_back)
        except (WhyrunError, OSError) as problem:
            self._merged.update({site_of(path, key): (sha, problem) for key, sha in sections.items()})
            return ()
        finally:
            ended = time.monotonic()
            self.next_merge = max(self.next_merge, ended + min(LONGEST_PAUSE, MERGE_PAUSE * (ended - started)))
        for key, sha in sections.items():
            site = site_of(path, key)
            self._merged[site] = (sha, result.failed.get(key))
            self._ours.add(site, sha)
        return result.displaced

    def _puts_back(self, one: Displaced) -> None:
        """What a run has published, and only its published file still had. Where a kept run speaks of it, the store has
        it again. Else nobody would: then it is kept like a file of the user's, which it may be (an adoption)."""
        if self._ours.is_of_a_kept_run(one.path, one.sha256):
            self.recorder.sync_bytes()
        else:
            self._displaces(one, "had no other copy, and its run was pruned")

    def _displaces(self, one: Displaced, why: str = "was not as this workflow left it") -> None:
        """Before it is written over: the blob is the user's only copy then, and the event all that leads to it. Both
        outlast a kill and a power cut."""
        path, section = split_site(one.path)
        self.recorder.event(ev.FileDisplaced(path=path, sha256=one.sha256, section=section))
        self.recorder.sync(for_good=True)
        what = "the link that stood there is kept as the text of where it leads" if one.is_link else None
        place = relative(self.store.path(one.sha256))
        self.recorder.reporter.note(f"`{one.path}` {why}; {what or 'what stood there is kept'}: {place}")


def published_path(table: JobTable, artifact: int, position: int) -> str | None:
    """Where an artifact is published (see `site_of`); leaves never are."""
    if table.artifacts[artifact].is_leaf:
        return None
    paths = table.output_of(artifact).paths
    return None if paths is None else paths[position]


def recorded_place(site: str | None) -> tuple[str | None, str | None]:
    """`path` and `section` of an event."""
    return (None, None) if site is None else split_site(site)


class _Ours:
    """Which content the log holds for a published place: a file with any of it is ours to write over."""

    def __init__(self, load: Callable[[], PublishedHashes]) -> None:
        self._load = load
        self._known: PublishedHashes | None = None
        self._new: dict[str, set[str]] = {}

    def holds(self, site: str, sha256: str) -> bool:
        return sha256 in self._new.get(site, ()) or self._loaded().holds(site, sha256)

    def is_of_a_kept_run(self, site: str, sha256: str) -> bool:
        return sha256 in self._new.get(site, ()) or sha256 in self._loaded().kept.get(site, ())

    def _loaded(self) -> PublishedHashes:
        if self._known is None:  # only once a file stands in the way: this reads the whole log
            self._known = self._load()
        return self._known

    def add(self, site: str, sha256: str) -> None:
        self._new.setdefault(site, set()).add(sha256)


@dataclass(frozen=True, slots=True)
class PublishedHashes:
    """Published place → every content that the log holds for it, over all runs."""

    kept: dict[str, set[str]] = field(default_factory=dict)
    pruned: dict[str, set[str]] = field(default_factory=dict)  # as their tombstones tell

    def holds(self, site: str, sha256: str) -> bool:
        return sha256 in self.kept.get(site, ()) or sha256 in self.pruned.get(site, ())


def published_hashes(state: WorkflowState) -> PublishedHashes:
    found = PublishedHashes()
    runs, pruned = state.runs_and_tombstones()
    for one in (one for stone in pruned for one in stone.published):
        found.pruned.setdefault(one.site, set()).add(one.sha256)
    for run in runs:
        for event in run.events():
            if isinstance(event, ev.ArtifactAvailable | ev.ArtifactAdopted) and event.path is not None:
                found.kept.setdefault(site_of(event.path, event.section), set()).add(event.sha256)
    return found
