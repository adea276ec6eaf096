"""An observer that looks at each thing once, so that a stage sees what the first plan of its run saw.

What a stage asks for the first time, such as the published files of instances that nobody knew before, is looked at
then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from whyrun.snapshot.observations import KnownRead
from whyrun.snapshot.snapshot import BlobCheck, Observer

_Look = Callable[[Sequence[str], Sequence[str | None]], Mapping[str, str]]


class SteadyObserver:
    """Implements `Observer`."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self.counts_packages = observer.counts_packages
        self._changes: dict[tuple[str, str | None], str | None] = {}  # by site and expected hash
        self._lost: dict[str, bool] = {}
        self._contents: dict[tuple[str, Collection[str]], str | None] = {}  # by key and the names that do not count
        self._names: dict[tuple[str, Collection[str]], Sequence[str]] = {}
        self._versions: dict[str, str | None] = {}

    def changed_files(self, paths: Sequence[str], sha256s: Sequence[str | None]) -> Mapping[str, str]:
        return self._changed(self._observer.changed_files, paths, sha256s)

    def changed_sections(self, sites: Sequence[str], sha256s: Sequence[str | None]) -> Mapping[str, str]:
        return self._changed(self._observer.changed_sections, sites, sha256s)

    def _changed(self, look: _Look, sites: Sequence[str], sha256s: Sequence[str | None]) -> Mapping[str, str]:
        asked = list(zip(sites, sha256s, strict=True))
        if new := [one for one in asked if one not in self._changes]:
            found = look([site for site, _ in new], [sha256 for _, sha256 in new])
            self._changes.update({one: found.get(one[0]) for one in new})
        return {one[0]: change for one in asked if (change := self._changes[one]) is not None}

    def lost_blobs(self, checks: Sequence[BlobCheck]) -> Iterable[str]:
        if new := [check for check in checks if check.key not in self._lost]:
            lost = set(self._observer.lost_blobs(new))
            self._lost.update({check.key: check.key in lost for check in new})
        return [check.key for check in checks if self._lost[check.key]]

    def contents(
        self, files: Sequence[str], others: Collection[str], folders: Mapping[str, tuple[str, Collection[str]]]
    ) -> Mapping[str, str]:
        asked = {key: (key, frozenset(own)) for key, (_, own) in folders.items()}
        asked |= {path: (path, frozenset[str]()) for path in (*files, *others)}
        new = {key for key, one in asked.items() if one not in self._contents}
        if new:
            found = self._observer.contents(
                [path for path in files if path in new],
                [path for path in others if path in new],
                {key: folder for key, folder in folders.items() if key in new},
            )
            self._contents.update({asked[key]: found.get(key) for key in new})
        return {key: content for key, one in asked.items() if (content := self._contents[one]) is not None}

    def name_changes(self, read: KnownRead, own: Collection[str], known: Collection[str]) -> Sequence[str]:
        asked = read.names_key, frozenset(own)
        if asked not in self._names:
            self._names[asked] = self._observer.name_changes(read, own, known)
        return self._names[asked]

    def versions(self, packages: Collection[str]) -> Mapping[str, str | None]:
        if new := [name for name in packages if name not in self._versions]:
            self._versions.update(self._observer.versions(new))
        return {name: self._versions[name] for name in packages if name in self._versions}
