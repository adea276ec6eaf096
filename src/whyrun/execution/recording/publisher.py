"""Publishing: put copies of artifacts at the workflow's paths, and save files of the user before overwriting them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from whyrun.artifacts.publishing.merge import SectionMerger
from whyrun.artifacts.publishing.publish import Displaced, publish
from whyrun.artifacts.publishing.sections import SharedFiles
from whyrun.artifacts.stat_cache.cache import StatCache
from whyrun.artifacts.store import Store
from whyrun.console.files import relative
from whyrun.errors import WhyrunError
from whyrun.execution.recording.recorder import Recorder
from whyrun.graph.tables import JobTable
from whyrun.ids import SECTION_MARK, site_of, split_site
from whyrun.log import events as ev
from whyrun.log.runs import WorkflowState
from whyrun.snapshot.observing.disk import SPECIAL

MERGE_PAUSE = 9.0  # times as long as a merge took, so that merging takes a tenth of a run at most
LONGEST_PAUSE = 1.0  # seconds: a step whose section is pending is not complete, and a kill would make it run again


class Publisher:
    """Publishes artifacts at a path, or as a section of a shared file. A `site` names either (see `site_of`)."""

    def __init__(self, store: Store, project: str, cache: StatCache, recorder: Recorder, state: WorkflowState) -> None:
        self.store, self.project, self.cache, self.recorder, self.state = store, project, cache, recorder, state
        self._published = _PublishedContent(lambda: published_hashes(state))
        self._merger = SectionMerger(store, project)
        self._announced: dict[str, dict[str, str]] = {}  # shared file → key → hash
        self.next_merge = 0.0  # monotonic time before which merging again would take too large a part of the run
        self._merged: dict[
            str, tuple[str, WhyrunError | OSError | None]
        ] = {}  # site → hash, and the error of its merge

    def is_ours(self, site: str, sha256: str) -> bool:
        """Whether the log has this content for this site. Then the file may be overwritten without saving it."""
        return self._published.holds(site, sha256)

    def publish(self, site: str, sha256: str, type_: str) -> tuple[str, ...]:
        """Publish an artifact; returns the sites whose existing content was displaced.

        Existing content goes into the store first if no run has published it, or if the store has lost it.
        """
        if SECTION_MARK in site:
            return self._publish_section(site, sha256)
        ours = lambda existing: self.is_ours(site, existing)  # noqa: E731
        result = publish(self.store, self.project, site, sha256, ours, type_, self._displace, self._restore_to_store)
        self._published.add(site, sha256)
        if result.file is not None:
            self.cache.note(f"{self.project}/{site}", result.file)
        return tuple(displaced.path for displaced in result.displaced)

    def content(self, site: str) -> str | None:
        """The hash of the existing file or section; None if there is none, `SPECIAL` if it cannot be an artifact."""
        if SECTION_MARK in site:
            return SharedFiles(self.project, self.cache, None).sha256_of(site)
        return self.cache.sha256_of(f"{self.project}/{site}", SPECIAL)

    def restore(self, site: str, sha256: str) -> None:
        """Restore bytes that the store has lost from the published copy, if that still has them."""
        if SECTION_MARK in site:
            SharedFiles(self.project, self.cache, None).restore(site, sha256, self.store)
        else:
            self.store.restore_from(f"{self.project}/{site}", sha256)

    # -- sections --

    def announce(self, site: str, sha256: str) -> None:
        """This section is recorded and will be published soon. It is merged together with the next section of its
        file, so that a file with many sections is not rewritten for each."""
        path, key = split_site(site)
        self._announced.setdefault(path, {})[key or ""] = sha256

    def _publish_section(self, site: str, sha256: str) -> tuple[str, ...]:
        displaced: tuple[Displaced, ...] = ()
        if self._merged.get(site, ("", None))[0] != sha256:
            path, key = split_site(site)
            displaced = self._merge(path, {**self._announced.pop(path, {}), key or "": sha256})
        problem = self._merged.pop(site)[1]
        if problem is not None:
            raise problem.with_traceback(None)  # one error may be raised for many sections
        return tuple(d.path for d in displaced if d.path == site)

    def _merge(self, path: str, sections: dict[str, str]) -> tuple[Displaced, ...]:
        started = time.monotonic()
        try:
            ours = lambda key, existing: self.is_ours(site_of(path, key), existing)  # noqa: E731
            result = self._merger.merge(path, sections, ours, self._displace, self._restore_to_store)
        except (WhyrunError, OSError) as problem:
            self._merged.update({site_of(path, key): (sha, problem) for key, sha in sections.items()})
            return ()
        finally:
            ended = time.monotonic()
            self.next_merge = max(self.next_merge, ended + min(LONGEST_PAUSE, MERGE_PAUSE * (ended - started)))
        for key, sha in sections.items():
            site = site_of(path, key)
            self._merged[site] = (sha, result.failed.get(key))
            self._published.add(site, sha)
        return result.displaced

    def _restore_to_store(self, existing: Displaced) -> None:
        """The existing file is the only copy of something that a run has published; its bytes are in the store again.

        If that run was pruned, no event refers to the blob. Then it is displaced like a file of the user, which it may
        be: an adopted one.
        """
        if self._published.by_existing_run(existing.path, existing.sha256):
            self.recorder.sync_bytes()
        else:
            self._displace(existing, "had no other copy, and its run was pruned")

    def _displace(self, existing: Displaced, why: str = "was not as this workflow left it") -> None:
        """Called before an existing file is overwritten. From then on the blob is the user's only copy, and the event
        the only reference to it, so both must survive a kill and a power cut."""
        path, section = split_site(existing.path)
        self.recorder.event(ev.FileDisplaced(path=path, sha256=existing.sha256, section=section))
        self.recorder.sync(for_good=True)
        what = "the existing link is kept as the text of its target" if existing.is_link else None
        blob = relative(self.store.path(existing.sha256))
        self.recorder.reporter.note(f"`{existing.path}` {why}; {what or 'its previous content is kept'}: {blob}")


def published_path(table: JobTable, artifact: int, position: int) -> str | None:
    """The site of an artifact (see `site_of`); None if it is not published, as leaves never are."""
    if table.artifacts[artifact].is_leaf:
        return None
    paths = table.output_of(artifact).paths
    return None if paths is None else paths[position]


def path_and_section(site: str | None) -> tuple[str | None, str | None]:
    """The fields `path` and `section` of an event."""
    return (None, None) if site is None else split_site(site)


class _PublishedContent:
    """The content that runs have published at each site, earlier runs and this one."""

    def __init__(self, load: Callable[[], PublishedHashes]) -> None:
        self._load = load
        self._recorded: PublishedHashes | None = None
        self._new: dict[str, set[str]] = {}  # of this run

    def holds(self, site: str, sha256: str) -> bool:
        return sha256 in self._new.get(site, ()) or self._loaded().holds(site, sha256)

    def by_existing_run(self, site: str, sha256: str) -> bool:
        return sha256 in self._new.get(site, ()) or sha256 in self._loaded().existing.get(site, ())

    def _loaded(self) -> PublishedHashes:
        if self._recorded is None:  # reads the whole log, so only once a file is in the way
            self._recorded = self._load()
        return self._recorded

    def add(self, site: str, sha256: str) -> None:
        self._new.setdefault(site, set()).add(sha256)


@dataclass(frozen=True, slots=True)
class PublishedHashes:
    """Site → hashes of everything that was ever published there, by runs that exist and by pruned ones."""

    existing: dict[str, set[str]] = field(default_factory=dict)
    pruned: dict[str, set[str]] = field(default_factory=dict)  # from tombstones

    def holds(self, site: str, sha256: str) -> bool:
        return sha256 in self.existing.get(site, ()) or sha256 in self.pruned.get(site, ())


def published_hashes(state: WorkflowState) -> PublishedHashes:
    hashes = PublishedHashes()
    runs, tombstones = state.runs_and_tombstones()
    for published in (published for tombstone in tombstones for published in tombstone.published):
        hashes.pruned.setdefault(published.site, set()).add(published.sha256)
    for run in runs:
        for event in run.events():
            if isinstance(event, ev.ArtifactAvailable | ev.ArtifactAdopted) and event.path is not None:
                hashes.existing.setdefault(site_of(event.path, event.section), set()).add(event.sha256)
    return hashes
