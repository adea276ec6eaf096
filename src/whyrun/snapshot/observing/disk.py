"""Observes the disk for planning: whether artifacts are still there, and what undeclared reads would find."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from whyrun.artifacts.publishing.sections import SharedFiles
from whyrun.artifacts.stat_cache.cache import StatCache
from whyrun.artifacts.store import Store
from whyrun.errors import WhyrunError
from whyrun.ids import SECTION_MARK, split_site
from whyrun.log.reads import counted_names, folder_sha256, name_changes
from whyrun.snapshot.observations import ABSENT, KnownRead
from whyrun.snapshot.snapshot import BlobCheck

# The content of something at a published path that cannot be an artifact: a pipe, or a folder that contains one.
SPECIAL = "special"

# The same of an undeclared read.
FOLDER, UNREADABLE = "a folder", "unreadable"


class DiskObserver:
    """Implements `Observer` on the real project folder and store."""

    def __init__(
        self, project: Path, store: Store, cache: StatCache, shared: SharedFiles, counts_packages: bool = False
    ) -> None:
        self.root = str(project)
        self.store = store
        self.cache = cache
        self.shared = shared
        self.counts_packages = counts_packages

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

    # -- undeclared reads --

    def contents(
        self, files: Sequence[str], others: Collection[str], folders: Mapping[str, tuple[str, Collection[str]]]
    ) -> Mapping[str, str]:
        found: dict[str, str] = {}
        more: list[str] = []
        for path in others:
            here = f"{self.root}/{path}"
            if os.path.isdir(here):
                found[path] = FOLDER  # it may be large, and nobody read it
            elif os.path.exists(here):
                more.append(path)
            else:
                found[path] = ABSENT
        paths = [*files, *more]
        for path, sha in zip(paths, self._hashes(paths), strict=True):
            found[path] = ABSENT if sha is None else sha
        for key, (folder, own) in folders.items():
            try:
                found[key] = folder_sha256(os.listdir(f"{self.root}/{folder}"), own)
            except OSError:
                found[key] = ABSENT
        return found

    def name_changes(self, read: KnownRead, own: Collection[str], known: Collection[str]) -> Sequence[str]:
        changed_at: dict[str, int] = {}
        try:
            with os.scandir(f"{self.root}/{read.path}") as entries:
                for entry in entries:
                    changed_at[entry.name] = entry.stat(follow_symlinks=False).st_ctime_ns
        except OSError:
            return ()
        names = sorted(counted_names(changed_at, own), key=lambda name: (-changed_at[name], name))
        return name_changes(read.sha256 or "", names, known)

    def _hashes(self, paths: Sequence[str]) -> Sequence[str | None]:
        try:
            return self.cache.sha256_in(self.root, paths, SPECIAL)
        except (WhyrunError, OSError):
            return [self._hash(path) for path in paths]  # one by one: some cannot be read

    def _hash(self, path: str) -> str | None:
        try:
            return self.cache.sha256_of(f"{self.root}/{path}", SPECIAL)
        except (WhyrunError, OSError):
            return UNREADABLE

    def versions(self, packages: Collection[str]) -> Mapping[str, str | None]:
        installed: dict[str, str] = {}
        for folder in reversed(sys.path):  # of a package that is installed twice, the first counts
            installed |= _installed_in(folder)
        return {name: installed.get(_normal(name)) or _version_of(name) for name in packages}


def _installed_in(folder: str) -> dict[str, str]:
    """Package → version, by the names of `….dist-info` folders alone: their files need not be read."""
    try:
        names = os.listdir(folder or ".")
    except OSError:
        return {}
    found = {}
    for name in names:
        if name.endswith(".dist-info"):
            package, _, version = name.removesuffix(".dist-info").partition("-")
            found[_normal(package)] = version
    return found


def _normal(package: str) -> str:
    return re.sub("[-_.]+", "-", package).lower()


def _version_of(package: str) -> str | None:
    """Of packages that are installed in another way."""
    from importlib.metadata import PackageNotFoundError, version  # imported late: most are found by name

    try:
        return version(package)
    except PackageNotFoundError:
        return None
