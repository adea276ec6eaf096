"""Outputs of a job, a column at a time: artifacts and published paths, and facts about whole columns of paths. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import pairwise, takewhile

import msgspec

from whyrun.ids import Index
from whyrun.lazy_regex import lazy_regex
from whyrun.workflow.fields import LONGEST_NAME, LONGEST_PATH
from whyrun.workflow.model import Expression, Formatted, Template

# What makes a path unusual, in a text with one path per line: anywhere in it, and at its beginning or end.
_UNUSUAL = lazy_regex(r"//|\./|[\0-\x09\x0b-\x1f\\:§]")
_UNUSUAL_ENDS = lazy_regex(r"^(?:[/.~ ]|$)|[/. ]$", re.MULTILINE)
_SURELY_SHORT = LONGEST_NAME // 4  # characters, of at most four bytes each
_TOO_LONG = lazy_regex(rb"[^/\n]{%d}|[^\n]{%d}" % (LONGEST_NAME + 1, LONGEST_PATH + 1))
_WORDS = lazy_regex(r"[A-Za-z0-9_-]+(?:\n[A-Za-z0-9_-]+)*")
_WORD = "x"  # stands for any letter of a word: only the length of a word can make a path unusual


class ArtifactSpec(msgspec.Struct, frozen=True):
    """One declared output, or one declared leaf of it, for all rows of a table."""

    output: str
    type: str
    leaf: str = ""  # ".Segments[0].HasTransition"; "" for the output itself
    leaf_by_row: Sequence[str] | None = None  # where the leaf's path uses the job's own loop

    def leaf_at(self, position: int) -> str:
        return self.leaf if self.leaf_by_row is None else self.leaf_by_row[position]

    def key_at(self, position: int) -> str:
        """The name within its step: `Story` or `Story.Segments[0].HasTransition`."""
        return self.output + self.leaf_at(position)

    @property
    def is_leaf(self) -> bool:
        return bool(self.leaf) or self.leaf_by_row is not None


class OutputColumn(msgspec.Struct, frozen=True):
    name: str
    type: str
    suffix: str
    paths: Sequence[str] | None  # published site by row, relative to the project: see `ids.site_of`
    append: bool = False  # the sites are sections of shared files
    head: str | None = None  # what all paths begin with: see `PathTexts`
    keys: Sequence[str] | None = None  # of sections without a path: the action must name their file


class LoopWords:
    """One loop variable as text, by row. `place` is its position in the row. Tables over the same loops share it."""

    def __init__(self, rows: Sequence[tuple[Index, ...]], place: int) -> None:
        self.rows, self.place = rows, place

    @cached_property
    def texts(self) -> list[str]:
        place = self.place
        return [str(row[place]) for row in self.rows]

    @cached_property
    def are_words(self) -> bool:
        """Letters, digits, `_` and `-` only."""
        return _WORDS.fullmatch("\n".join(self.texts)) is not None

    @cached_property
    def longest(self) -> int:
        return max(map(len, self.texts), default=0)

    @cached_property
    def are_distinct(self) -> bool:
        return len(set(self.texts)) == len(self.texts)


class PathTexts(msgspec.Struct, frozen=True):
    """The paths of one output by row.

    `head`: the text that all of them begin with, if they are distinct and all lie in the folder of the head. None if
    that is not known; then each path has to be looked at.
    """

    texts: list[str]
    are_plain: bool
    head: str | None = None


def same_path(path: str, rows: int) -> PathTexts:
    return PathTexts([path] * rows, are_all_plain([path]), path if rows == 1 else None)


def loop_paths(parts: Sequence[str | LoopWords], rows: int) -> PathTexts:
    """Paths that consist of text and loop variables."""
    variables = [part for part in parts if not isinstance(part, str)]
    if len(variables) == 1:
        at = next(i for i, part in enumerate(parts) if not isinstance(part, str))
        head, words, tail = "".join(parts[:at]), variables[0], "".join(parts[at + 1 :])  # type: ignore[arg-type]
        texts = [f"{head}{word}{tail}" for word in words.texts]
        if not words.are_words:
            return PathTexts(texts, are_all_plain(texts))
        known = "/" not in tail and words.are_distinct
        return PathTexts(texts, are_all_plain([head + _WORD * words.longest + tail]), head if known else None)
    texts = [""] * rows
    for part in parts:
        if isinstance(part, str):
            texts = [text + part for text in texts]
        else:
            texts = [text + word for text, word in zip(texts, part.texts, strict=True)]
    if all(words.are_words for words in variables):
        pattern = "".join(part if isinstance(part, str) else _WORD * part.longest for part in parts)
        if are_all_plain([pattern]):
            return PathTexts(texts, True)
    return PathTexts(texts, are_all_plain(texts))


def loop_parts(template: Template, loops: Sequence[str]) -> list[str | int] | None:
    """A formatted string of text and bare loop variables, as text and positions in the row; else None."""
    parts = template.parts if isinstance(template, Formatted) else (template,)
    found: list[str | int] = []
    for part in parts:
        if isinstance(part, str):
            found.append(part)
        elif isinstance(part, Expression) and part.text.strip() in loops:
            found.append(loops.index(part.text.strip()))
        else:
            return None
    return found or None


def are_all_plain(paths: Sequence[str]) -> bool:
    """Do all these paths need no closer check? Nearly all do not; this is one search for the whole column."""
    text = "\n".join(paths)
    if max(map(len, paths), default=0) > _SURELY_SHORT and _TOO_LONG.search(text.encode(errors="surrogatepass")):
        return False
    return text.count("\n") == len(paths) - 1 and not _UNUSUAL.search(text) and not _UNUSUAL_ENDS.search(text)


def surely_apart(heads: Sequence[str | None], others: Collection[str]) -> bool:
    """Do columns with these heads surely have no conflict?

    No path occurs twice, none is the folder of another, and none is equal to one of `others`, below it (`.` is above
    all) or its folder.

    Every path of a column begins with its head and lies in the head's folder. So no two paths are equal if no head
    begins with another head, and no folder is a path if no folder begins with a head.
    """
    known = [head for head in heads if head is not None]
    if len(known) < len(heads):
        return False
    if any(after.startswith(before) for before, after in pairwise(sorted(known))):
        return False
    begins = tuple(known)
    if any(folder.startswith(begins) for head in known for folder in folders_of(head)):
        return False
    if not {".", *(folder for head in known for folder in folders_of(head))}.isdisjoint(others):
        return False
    text = "\n" + "\n".join(others)
    return not any(f"\n{head}" in text for head in known)


def folders_of(path: str) -> Iterable[str]:
    folder = path.rpartition("/")[0]
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]


# --- glob patterns of inputs and of `code:`, matched against paths that do not exist yet. Pure ------------------------


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
