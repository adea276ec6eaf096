"""Outputs that a pattern of an input or of `code:` would catch: once published, they would be inputs or code, which no
workflow may change. Told before the first run and not after it, when they are paid for."""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import takewhile
from typing import NamedTuple

from whyrun.errors import Diagnostic
from whyrun.graph.graph import Graph, JobTable, OutputColumn
from whyrun.graph.links import Links
from whyrun.graph.paths import folders_of
from whyrun.ids import split_site
from whyrun.log.runs import STATE_FOLDER
from whyrun.snapshot.linked import Kept, RealPaths

_MAGIC = re.compile(r"[*?[]")
_MAGIC_OR_CLOSED = re.compile(r"[]*?[]")
_LAST = "\U0010ffff"


class Pattern(NamedTuple):
    text: str
    whose: str  # as a message has it
    is_code: bool
    forms: tuple[tuple[str, ...], ...]  # its parts, from the project folder: as written, and with links followed

    @property
    def told(self) -> str:
        return f"{self.whose}: once it is there, it {'counts' if self.is_code else 'is an input, too'}"

    def catches(self, path: str, *, is_folder: bool = False) -> bool:
        if not is_folder and self.text.endswith("/"):
            return False
        return any(_fits(form, path.split("/")) for form in self.forms)

    def looks_into(self, folder: str, files: Collection[str]) -> bool:
        """Deep into it, or at one of these `files`, which are all that lie in it itself."""
        return any(
            at < len(form) - 1 or any(fnmatchcase(name, form[at]) for name in files)
            for form in self.forms
            for at in _after(form, folder.split("/")) - {len(form)}
        )


def patterns_of(graph: Graph, of_inputs: Mapping[str, str], paths: RealPaths) -> list[Pattern]:
    """`of_inputs`: by the ID of the input. Of several who have the same one, the first is told."""
    found: dict[tuple[str, bool], str] = {}
    for id_, text in of_inputs.items():
        found.setdefault((text, False), f"`{id_}`")
    for table in graph.tables:
        for text in table.decl.code:
            if _MAGIC.search(text):  # what names one file is looked at elsewhere
                found.setdefault((text, True), f"`code:` of `{table.name}`")
    return [Pattern(text, whose, is_code, _forms(text, paths)) for (text, is_code), whose in sorted(found.items())]


def _forms(text: str, paths: RealPaths) -> tuple[tuple[str, ...], ...]:
    parts = os.path.relpath(os.path.join(paths.root, text), paths.root).split(os.sep)
    fixed = _fixed(parts)
    real = paths.look("/".join(fixed)).path if fixed else ""
    if real == "/".join(fixed) or real.startswith("/"):
        return (tuple(parts),)
    return tuple(parts), (*filter(None, real.split("/")), *parts[len(fixed) :])


def caught_outputs(graph: Graph, patterns: Sequence[Pattern], links: Links) -> Iterator[Diagnostic]:
    """One path of each output is enough."""
    if not patterns:
        return
    columns = _Columns(graph, links)
    for pattern in patterns:
        for column in columns.near(pattern):
            path = column.caught(pattern)
            if path is not None:
                what = f"`{path}` matches `{pattern.text}` of {pattern.told}"
                hint = "choose another path for the output, or a pattern that does not match it"
                yield column.place.diagnostic("DUPLICATE_OUTPUT_PATH", what, hint)


def kept_in_patterns(patterns: Sequence[Pattern], folders: Sequence[Kept], paths: RealPaths) -> Iterator[Diagnostic]:
    """What looks there finds something else after every run. (`.whyrun` begins with a dot: to `*` it is not there.)"""
    for pattern in patterns:
        for kept in folders:
            for place in paths.inside(kept.path):
                if pattern.looks_into(place, kept.files):
                    looks = f"looks into `{place}`, {kept.what}, which every run changes"
                    hint = f"write a pattern that does not, or {kept.elsewhere}"
                    yield Diagnostic("INPUT_TYPE", f"`{pattern.text}` of {pattern.whose} {looks}", hint=hint)


def outputs_in_kept(graph: Graph, folders: Sequence[Kept], paths: RealPaths, links: Links) -> Iterator[Diagnostic]:
    """Nobody knows what will lie there tomorrow: a log that is published over is gone. One path of each is enough.

    (What is written as `.whyrun/…` is refused already, whatever lies there.)"""
    inside = [(kept, f"{place}/") for kept in folders for place in paths.inside(kept.path)]
    places = [(kept, place) for kept, place in inside if links.folders or place != f"{STATE_FOLDER}/"]
    for column in _Columns(graph, links).all if places else ():
        for kept, place in places:
            if column.begins.startswith(place) or place.startswith(column.begins):
                found = (path for real, path in column.paths.items() if f"{real}/".startswith(place))
                if (path := next(found, None)) is not None:
                    what = f"`{path}` is in `{place[:-1]}`, where whyrun keeps {kept.what}"
                    hint = f"choose another path for the output, or {kept.elsewhere}"
                    yield column.place.diagnostic("DUPLICATE_OUTPUT_PATH", what, hint)


class _Column:
    """The paths of one output. There may be very many, and most are nowhere near any pattern."""

    def __init__(self, table: JobTable, output: OutputColumn, sites: Sequence[str], links: Links) -> None:
        self.place = table.decl.places.get(f"outputs.{output.name}.path", table.decl.place)
        self._output, self._sites, self._links = output, sites, links
        # What all paths begin with that lie in one and the same folder; None where that is not known.
        self._heads = None if output.head is None else {output.head, links.real(output.head)}

    @cached_property
    def paths(self) -> dict[str, str]:
        """Where they lie → as they are written."""
        written = [split_site(site)[0] for site in self._sites]
        return {place: path for path in written for place in (path, self._links.real(path))}

    @cached_property
    def begins(self) -> str:
        """What all of them begin with."""
        sites = self._heads or (self.paths if self._links.folders else self._sites)
        return os.path.commonprefix([min(sites), max(sites)])  # noqa: RUF071 - letter by letter is what is meant

    @cached_property
    def _folders(self) -> list[str]:
        return sorted({folder for path in self._heads or self.paths for folder in folders_of(path)})

    def caught(self, pattern: Pattern) -> str | None:
        if not self._surely_apart(pattern):
            is_folder = self._output.type == "directory"
            for place, path in self.paths.items():
                if pattern.catches(place, is_folder=is_folder):
                    return path
        if pattern.is_code:
            return None  # which are files
        # Made for an output: to `*` it is like any other name.
        return next((folder for folder in self._folders if pattern.catches(folder, is_folder=True)), None)

    def _surely_apart(self, pattern: Pattern) -> bool:
        """By their suffix, or by how deep they lie."""
        end = _MAGIC_OR_CLOSED.split(pattern.forms[0][-1])[-1]
        if "." in end and not end.endswith(self._output.suffix):
            return True
        depths = {head.count("/") + 1 for head in self._heads or ()}
        return bool(depths) and all("**" not in form and len(form) not in depths for form in pattern.forms)


class _Columns:
    """Finds those whose paths a pattern may catch, by what they begin with: jobs and patterns may both be many."""

    def __init__(self, graph: Graph, links: Links) -> None:
        self._by_begin: dict[str, list[_Column]] = {}
        for table in graph.tables:
            for output in table.outputs:
                if output.paths:
                    column = _Column(table, output, output.paths, links)
                    self._by_begin.setdefault(column.begins, []).append(column)
        self._begins = sorted(self._by_begin)

    @property
    def all(self) -> list[_Column]:
        return [column for columns in self._by_begin.values() for column in columns]

    def near(self, pattern: Pattern) -> list[_Column]:
        found: dict[str, list[_Column]] = {}
        for form in pattern.forms:
            fixed = "".join(f"{part}/" for part in _fixed(form))
            shorter = (fixed[:length] for length in range(len(fixed)))
            longer = self._begins[bisect_left(self._begins, fixed) : bisect_left(self._begins, fixed + _LAST)]
            found |= {begin: self._by_begin.get(begin, []) for begin in (*shorter, *longer)}
        return [column for columns in found.values() for column in columns]


def _fixed(parts: Sequence[str]) -> list[str]:
    """The folders that all that it catches lie in."""
    return list(takewhile(lambda part: not _MAGIC.search(part), parts))


def _fits(parts: Sequence[str], names: Sequence[str]) -> bool:
    """As `glob` has it: `*` stands for no name that begins with a dot, and `**` for any number of folders."""
    return len(parts) in _after(parts, names)


def _after(parts: Sequence[str], names: Sequence[str]) -> set[int]:
    """Which parts may come next, after these names: all of them at once. Trying one way after the other takes ages with
    many `**`."""
    nexts = _with_empty(parts, {0})
    for name in names:
        is_hidden = name.startswith(".")
        reached = set()
        for at in nexts - {len(parts)}:
            if parts[at] == "**":
                reached |= set() if is_hidden else {at}
            elif (parts[at].startswith(".") or not is_hidden) and fnmatchcase(name, parts[at]):
                reached.add(at + 1)
        nexts = _with_empty(parts, reached)
    return nexts


def _with_empty(parts: Sequence[str], positions: set[int]) -> set[int]:
    """Those that follow without a name are there, too: `**` may stand for no folder."""
    for at, part in enumerate(parts):
        if at in positions and part == "**":
            positions.add(at + 1)
    return positions
