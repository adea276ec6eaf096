"""Observes the disk for planning: whether artifacts are still there, in published files and in the store."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from whyrun.artifacts.publishing.sections import SharedFiles
from whyrun.artifacts.stat_cache.cache import StatCache
from whyrun.artifacts.store import Store
from whyrun.ids import SECTION_MARK, split_site
from whyrun.snapshot.snapshot import BlobCheck

# The content of something at a published path that cannot be an artifact: a pipe, or a folder that contains one.
SPECIAL = "special"


class DiskObserver:
    """Implements `Observer` on the real project folder and store."""

    def __init__(self, project: Path, store: Store, cache: StatCache, shared: SharedFiles) -> None:
        self.root = str(project)
        self.store = store
        self.cache = cache
        self.shared = shared

    def changed_files(self, paths: Sequence[str], sha256s: Sequence[str | None]) -> Mapping[str, str]:
        hashes = self.cache.sha256_in(self.root, paths, SPECIAL)
        if hashes == sha256s:
            return {}
        return {
            path: "deleted" if sha is None else "changed"
            for path, sha, expected in zip(paths, hashes, sha256s, strict=True)
            if sha != expected
        }

    def changed_sections(self, sites: Sequence[str], sha256s: Sequence[str | None]) -> Mapping[str, str]:
        files: dict[str, Mapping[str, str]] = {}
        found: dict[str, str] = {}
        for site, expected in zip(sites, sha256s, strict=True):
            path, key = split_site(site)
            if path not in files:
                files[path] = self.shared.sections(path) or {}
            sha = files[path].get(key or "")
            if sha is None:
                found[site] = "unreadable" if self.shared.is_unreadable(path) else "deleted"
            elif sha != expected:
                found[site] = "changed"
        return found

    def lost_blobs(self, checks: Sequence[BlobCheck]) -> Iterable[str]:
        lost = []
        for check in checks:
            if check.type == "directory":
                there = self.store.has_tree(check.sha256)
            else:
                there = self.store.has(check.sha256, check.size if check.size >= 0 else None)
            if not there and check.path is not None:
                there = self.published(check.path) == check.sha256
            if not there:
                lost.append(check.key)
        return lost

    def stands(self, site: str) -> bool:
        """Does anything exist there?"""
        return os.path.lexists(f"{self.root}/{site}") if SECTION_MARK not in site else self.published(site) is not None

    def published(self, site: str) -> str | None:
        """The hash of the content at a published site."""
        if SECTION_MARK in site:
            return self.shared.sha256_of(site)
        return self.cache.sha256_of(f"{self.root}/{site}", SPECIAL)
