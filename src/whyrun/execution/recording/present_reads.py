"""What the paths that a job is known to read hold now, for a step that strace did not watch."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Sequence

from whyrun.artifacts.stat_cache.cache import StatCache
from whyrun.errors import WhyrunError
from whyrun.log.reads import Read, folder_sha256, own_names

_TICK = 20_000_000  # nanoseconds: file times may lag so far behind the clock


class PresentReads:
    def __init__(self, project: str, cache: StatCache) -> None:
        self._project, self._cache = project, cache

    def look(self, reads: Sequence[Read], began: int, published: Collection[str]) -> list[Read]:
        """`began`: when the step began; what has changed since then is `unknown`. `published`: by the job itself."""
        return list(self._look(reads, began - _TICK, published))

    def _look(self, reads: Sequence[Read], since: int, published: Collection[str]) -> Iterator[Read]:
        for read in reads:
            location = f"{self._project}/{read.path}"
            try:
                status = os.stat(location)
                if status.st_ctime_ns >= since:
                    yield Read(read.path, "unknown", by="strace")
                elif stat.S_ISDIR(status.st_mode):
                    sha256 = folder_sha256(os.listdir(location), own_names(published, read.path))
                    yield Read(read.path, "folder", sha256, "strace")
                elif (content := self._cache.sha256_of(location)) is not None:
                    yield Read(read.path, "file", content, "strace")
            except (FileNotFoundError, NotADirectoryError):
                was_there = read.kind in ("file", "folder") and _changed(os.path.dirname(location), since)
                yield Read(read.path, "unknown" if was_there else "absent", by="strace")
            except (OSError, WhyrunError):
                yield Read(read.path, "unknown", by="strace")


def _changed(folder: str, since: int) -> bool:
    """Whether something may have been deleted there since then."""
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    try:
        return os.stat(folder).st_mtime_ns >= since
    except OSError:
        return True  # the folder itself, just now
