"""Outputs that a pattern of an input or of `code:` would catch: once published, they would be inputs or code, which no
workflow may change. Told before the first run and not after it, when they are paid for."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import takewhile

from whyrun.errors import Diagnostic
from whyrun.graph.graph import Graph, OutputColumn
from whyrun.graph.paths import folders_of
from whyrun.ids import split_site

_MAGIC = re.compile(r"[*?[]")
_MAGIC_OR_CLOSED = re.compile(r"[]*?[]")


def caught_outputs(graph: Graph, of_inputs: Mapping[str, str], project: str) -> Iterator[Diagnostic]:
    """`of_inputs`: by the ID of the input. One path of each output is enough."""
    told = {(pattern, f"`{id_}`: once it is there, it is an input, too", True) for id_, pattern in of_inputs.items()}
    for table in graph.tables:
        of_what = f"`code:` of `{table.name}`: once it is there, it counts"
        told |= {(pattern, of_what, False) for pattern in table.decl.code}
    for pattern, of_what, folders_too in sorted(told):
        parts = os.path.relpath(os.path.join(project, pattern), project).split(os.sep)
        for table in graph.tables:
            for output in table.outputs:
                path = _caught(output, parts, pattern.endswith("/"))
                if path is None and folders_too:  # made for an output: to `*` it is like any other name
                    path = next((folder for folder in _folders(output) if _fits(parts, folder.split("/"))), None)
                if path is not None:
                    place = table.decl.places.get(f"outputs.{output.name}.path", table.decl.place)
                    what = f"`{path}` matches `{pattern}` of {of_what}"
                    hint = "choose another path for the output, or a pattern that does not match it"
                    yield place.diagnostic("DUPLICATE_OUTPUT_PATH", what, hint)


def _caught(output: OutputColumn, parts: list[str], only_folders: bool) -> str | None:
    if _surely_apart(output, parts) or (only_folders and output.type != "directory"):
        return None  # most are, and there may be very many paths
    return next((path for path in map(_path, output.paths or ()) if _fits(parts, path.split("/"))), None)


def _folders(output: OutputColumn) -> list[str]:
    """Those above its paths. A column with a head has one, however many paths."""
    paths = map(_path, output.paths or ()) if output.head is None else [output.head]
    return sorted({folder for path in paths for folder in folders_of(path)})


def _surely_apart(output: OutputColumn, parts: list[str]) -> bool:
    """By what all its paths begin with, or by their suffix."""
    head, fixed = output.head, _fixed_head(parts)
    if head is not None and not head.startswith(fixed):  # what follows it in a path is no folder
        return True
    if head is not None and "**" not in parts and head.count("/") >= len(parts):
        return True
    end = _MAGIC_OR_CLOSED.split(parts[-1])[-1]
    return "." in end and not end.endswith(output.suffix)


def _path(site: str) -> str:
    return split_site(site)[0]


def _fixed_head(parts: list[str]) -> str:
    """What all that it catches begins with."""
    fixed = takewhile(lambda part: not _MAGIC.search(part), parts)
    return "".join(f"{part}/" for part in fixed)


def _fits(parts: list[str], names: list[str]) -> bool:
    """As `glob` has it: `*` stands for no name that begins with a dot, and `**` for any number of folders."""
    if not parts:
        return not names
    first, *others = parts
    if first == "**":
        return _fits(others, names) or (bool(names) and not names[0].startswith(".") and _fits(parts, names[1:]))
    if not names or (names[0].startswith(".") and not first.startswith(".")):
        return False
    return fnmatchcase(names[0], first) and _fits(others, names[1:])
