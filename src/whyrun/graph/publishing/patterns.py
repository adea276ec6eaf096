"""Glob patterns of inputs and of `code:`, matched against paths that do not exist yet. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from itertools import takewhile

import msgspec

from whyrun.lazy_regex import lazy_regex

_MAGIC = lazy_regex(r"[*?[]")
_MAGIC_OR_CLOSING = lazy_regex(r"[]*?[]")


class Pattern(msgspec.Struct, frozen=True):
    text: str
    owner: str  # the input or job that has it, for messages
    is_code: bool
    forms: tuple[tuple[str, ...], ...]  # its parts, from the project folder: as written, and with links resolved

    @property
    def consequence(self) -> str:
        return f"{self.owner}: once it exists, it {'counts' if self.is_code else 'is an input, too'}"

    @property
    def fixed_prefixes(self) -> list[str]:
        """Of each form: the folders that all matches lie in."""
        return ["".join(f"{part}/" for part in fixed_parts(form)) for form in self.forms]

    @property
    def ending(self) -> str:
        """The text that all matches end with."""
        return _MAGIC_OR_CLOSING.split(self.forms[0][-1])[-1]

    def matches(self, path: str, *, is_folder: bool = False) -> bool:
        if not is_folder and self.text.endswith("/"):
            return False
        return any(parts_match(form, path.split("/")) for form in self.forms)

    def may_match_below(self, folder: str) -> bool:
        """May it match a file of some name in this folder, or below it?"""
        return any(_next_parts(form, folder.split("/")) - {len(form)} for form in self.forms)

    def reaches_into(self, folder: str, files: Collection[str]) -> bool:
        """May it match a file below this folder? `files` are the only ones directly in it."""
        return any(
            at < len(form) - 1 or any(fnmatchcase(name, form[at]) for name in files)
            for form in self.forms
            for at in _next_parts(form, folder.split("/")) - {len(form)}
        )


def is_pattern(text: str) -> bool:
    return _MAGIC.search(text) is not None


def fixed_parts(parts: Sequence[str]) -> list[str]:
    """The parts before the first with a wildcard."""
    return list(takewhile(lambda part: not is_pattern(part), parts))


def parts_match(parts: Sequence[str], names: Sequence[str]) -> bool:
    """As `glob` does: `*` matches no name that begins with a dot, and `**` matches any number of folders."""
    return len(parts) in _next_parts(parts, names)


def _next_parts(parts: Sequence[str], names: Sequence[str]) -> set[int]:
    """The parts that may come next after these names.

    All possibilities advance together: trying one after the other takes exponential time with many `**`.
    """
    positions = _skip_empty(parts, {0})
    for name in names:
        is_hidden = name.startswith(".")
        reached = set()
        for at in positions - {len(parts)}:
            if parts[at] == "**":
                reached |= set() if is_hidden else {at}
            elif (parts[at].startswith(".") or not is_hidden) and fnmatchcase(name, parts[at]):
                reached.add(at + 1)
        positions = _skip_empty(parts, reached)
    return positions


def _skip_empty(parts: Sequence[str], positions: set[int]) -> set[int]:
    """`**` also matches no folder at all, so the position after it is reached, too."""
    for at, part in enumerate(parts):
        if at in positions and part == "**":
            positions.add(at + 1)
    return positions
