"""Did a path lead elsewhere before? A link that was switched while a step ran, or a folder that was renamed into place.

The files behind them have not changed, so their own times tell nothing.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection


class Replaced:
    """Since one moment, apart from what the step itself wrote."""

    def __init__(self, root: str, began: int, written: Collection[str]) -> None:
        self._root, self._began = root, began
        # What the step wrote, and the folders above.
        self._own = {above for path in written for above in (path, *_above(path))}
        self._known: dict[str, bool] = {"": False, ".": False}

    def is_at(self, path: str) -> bool:
        """`path`: in the project, relative to it."""
        known = self._known.get(path)
        if known is None:
            self._known[path] = False  # a link may lead to itself
            known = self._known[path] = self.is_at(os.path.dirname(path)) or self._is_new(path)
        return known

    def _is_new(self, path: str) -> bool:
        try:
            status = os.lstat(f"{self._root}/{path}")
        except OSError:
            return False
        if stat.S_ISDIR(status.st_mode):
            # A new entry in a folder changes both times, a new name of the folder only one.
            return status.st_mtime_ns < self._began <= status.st_ctime_ns and path not in self._own
        if not stat.S_ISLNK(status.st_mode):
            return False
        if status.st_ctime_ns >= self._began and path not in self._own:
            return True
        target = os.path.normpath(os.path.join(self._root, os.path.dirname(path), os.readlink(f"{self._root}/{path}")))
        return target.startswith(f"{self._root}/") and self.is_at(target[len(self._root) + 1 :])


def _above(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[: end + 1]) for end in range(len(parts))]
