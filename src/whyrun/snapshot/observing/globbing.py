"""The files that a pattern matches, and checks of many paths at once."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Sequence

_MAGIC = frozenset("*?[")


def files_like(pattern: str, root: str) -> list[str]:
    """The files that `glob.glob` finds from `root`, in any order.

    Most patterns match in one folder; a plain `listdir` is much faster there than the walk of `glob`.
    """
    folder, _, name = pattern.rpartition("/")
    special = "//" in pattern or (pattern.startswith("/") and not folder)
    if special or not name or "**" in name or _MAGIC.intersection(folder):
        import glob

        return glob.glob(pattern, root_dir=root, recursive=True)
    try:
        names = os.listdir(os.path.join(root, folder))
    except OSError:
        return []
    if not name.startswith("."):
        names = [other for other in names if not other.startswith(".")]
    found = fnmatch.filter(names, name)
    return [f"{folder}/{other}" for other in found] if folder else found


def in_byte_order(paths: Sequence[str]) -> list[str]:
    """Sorted by bytes, not by locale, so that the order is the same on every machine."""
    return sorted(paths) if "".join(paths).isascii() else sorted(paths, key=os.fsencode)


def are_normal(paths: Sequence[str]) -> bool:
    """Are all of these relative, and written as `os.path.normpath` would? False if a quick search cannot tell."""
    text = "\n" + "\n".join(paths) + "\n"
    if text.count("\n") != len(paths) + 1:
        return False
    return not any(unusual in text for unusual in ("\n/", "/\n", "//", "/.", "\n.", "\n\n"))
