"""The keys of merges against the columns of the files that are there already: told before anything runs.

Only headers are read, and small JSON files. Where the columns of a file are not known before all of it is read (large
JSON), or a file is still to be made, the step itself tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from whyrun.errors import Diagnostic, did_you_mean
from whyrun.graph.graph import Graph, InputAt, JobTable, sources_of
from whyrun.graph.template import expressions_in
from whyrun.workflow.composition.model import PRIMARY, SECONDARY
from whyrun.workflow.model import JobDecl

_READING = ("delimiter", "encoding", "sheet")  # how the action reads the file
MERGING_ACTION = "data/merge"


def key_problems(graph: Graph, project: Path) -> list[Diagnostic]:
    """Keys that a bound file does not have, each once."""
    found: dict[Diagnostic, None] = {}
    for table in graph.tables:
        if table.decl.uses == MERGING_ACTION or _merges_itself(table.decl):
            found.update(dict.fromkeys(_table_problems(table, project)))
    return list(found)


def _merges_itself(decl: JobDecl) -> bool:
    """A step of a dataset plan that merges with an action of the user's own."""
    return "merge" in decl.places and decl.with_.get("operation") == "merge"


def _table_problems(table: JobTable, project: Path) -> Iterator[Diagnostic]:
    if any(True for name in _READING for _ in expressions_in(table.decl.with_.get(name))):
        return  # how the files are read is known when the step starts
    keys = _keys(table.decl)
    for slot in table.slots:
        wanted = keys.get(str(slot.path[0])) if slot.binding else None
        for position in range(len(table)) if wanted else ():
            for source in sources_of(slot.column.at(position)):
                if isinstance(source, InputAt) and source.value.path is not None:
                    yield from _file_problems(table.decl, source, project / source.value.path, wanted or ())


def _keys(decl: JobDecl) -> dict[str, list[tuple[str, str]]]:
    """By role: the columns that it needs, each with the name of the place where it is written."""
    written = decl.with_.get("keys")
    if any(True for _ in expressions_in(written)):
        return {}  # known when the step starts
    if isinstance(written, dict):
        sides = {PRIMARY: written.get("primary"), SECONDARY: written.get("secondary")}
        return {role: [(name, "with.keys") for name in _texts(names)] for role, names in sides.items()}
    members = enumerate(written) if isinstance(written, list) else ()
    named = [(name, f"with.keys[{index}]") for index, name in members if isinstance(name, str)]
    return {PRIMARY: named, SECONDARY: named}


def _texts(value: Any) -> list[str]:
    return [member for member in value if isinstance(member, str)] if isinstance(value, list) else []


def _file_problems(decl: JobDecl, source: InputAt, path: Path, keys: Sequence[tuple[str, str]]) -> Iterator[Diagnostic]:
    from whyrun.actions.builtin.data.problems import DataError
    from whyrun.actions.builtin.data.tables import other_delimiter

    whole = decl.places.get("with.keys", decl.place)
    reading = {name: decl.with_[name] for name in _READING if isinstance(decl.with_.get(name), str)}
    try:
        names = _header(path, reading)
    except ImportError:
        return  # without the extra `data` nothing can be read; the action says so
    except (DataError, OSError) as problem:
        if decl.uses != MERGING_ACTION:
            return  # it may know how to read it
        hint = "is it the file that was meant, in the format that its name says?"
        yield whole.diagnostic("MERGE_KEY_UNKNOWN", f"`{source.id}` has no header to look for keys in: {problem}", hint)
        return
    if names is None:
        return
    for key, place in keys:
        if key not in names and not (decl.uses != MERGING_ACTION and _may_have(names, key)):
            hint = (
                other_delimiter(names)
                or did_you_mean(key, names)
                or f"its columns: {', '.join(names[:12])}{', …' if len(names) > 12 else ''}"
            )
            message = f"`{source.id}` has no column `{key}`"
            yield decl.places.get(place, whole).diagnostic("MERGE_KEY_UNKNOWN", message, hint)


def _may_have(names: Sequence[str], key: str) -> bool:
    """An action of the user's own may cut or spell the header in another way: `firm_id;year`, `Firm_ID`."""
    return any(key.casefold() in name.casefold() for name in names)


def _header(path: Path, reading: dict[str, str]) -> list[str] | None:
    from whyrun.actions.builtin.data.params import DataParams
    from whyrun.actions.builtin.data.tables import column_names

    return column_names(path, DataParams(**reading))  # type: ignore[arg-type]  # checked with the job's parameters
