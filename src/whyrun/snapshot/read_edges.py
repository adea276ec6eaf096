"""Undeclared reads of what other jobs publish: which artifacts stand there, and the edges that follow. Pure.

The log knows them from an earlier run, so they are edges from the next plan on, as if they were declared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace as replaced

import msgspec
from msgspec.structs import replace

from whyrun.errors import InvalidError
from whyrun.graph.layers import check_cycles
from whyrun.graph.tables import ArtifactAt, EachTerm, Graph, Group, JobTable, SameTerm, Slot
from whyrun.ids import split_site
from whyrun.snapshot.observations import KnownRead, Observations
from whyrun.workflow.arrays import is_array

OBSERVED = ".observed"  # the slot of these edges; a leading dot cannot clash with an entry of `with:`


class Made(msgspec.Struct, frozen=True):
    """The artifacts at the path of a read. `whole`: the path holds just this one file, so its hash is that of the
    artifact; else it is in a folder that is an artifact, is a file that several jobs share, or a folder."""

    artifacts: tuple[ArtifactAt, ...]
    whole: bool


def find_made(graph: Graph, reads: Iterable[KnownRead]) -> dict[str, Made]:
    """By `KnownRead.key`: what jobs publish there."""
    files: dict[str, list[str]] = {}  # path, or a folder above it → the keys of reads
    folders: dict[str, list[str]] = {}
    kinds = {read.key: read for read in reads}
    for key, read in kinds.items():
        if read.kind == "folder":
            folders.setdefault(read.path, []).append(key)
        for path in _with_folders_above(read.path):
            files.setdefault(path, []).append(key)
    found: dict[str, dict[ArtifactAt, bool]] = {}
    for table in graph.tables if kinds else ():
        for a, spec in enumerate(table.artifacts):
            output = table.output_of(a)
            if spec.is_leaf or output.paths is None:
                continue
            paths = [split_site(site)[0] for site in output.paths] if output.append else output.paths
            is_folder = spec.type == "directory" or is_array(spec.type)
            hits = files.keys() & set(paths)
            for p, path in enumerate(paths if hits else ()):
                if path in hits:
                    for key in files[path]:
                        exact = kinds[key].path == path and kinds[key].kind != "folder"
                        if exact or is_folder:
                            whole = exact and not is_folder and not output.append
                            found.setdefault(key, {})[ArtifactAt(table.number, a, p)] = whole
            for p, path in enumerate(paths if folders else ()):
                for key in folders.get(path.rpartition("/")[0] or ".", ()):
                    found.setdefault(key, {})[ArtifactAt(table.number, a, p)] = False
    return {key: Made(tuple(sorted(there)), list(there.values()) == [True]) for key, there in found.items()}


def _with_folders_above(path: str) -> Iterator[str]:
    while path:
        yield path
        path = path.rpartition("/")[0]


def with_read_edges(
    graph: Graph,
    columns: Sequence[Sequence[int]],
    observations: Observations,
    made: Mapping[str, Made],
    is_outdated: Callable[[JobTable, int], bool],
) -> Graph:
    """The graph with an edge for each undeclared read of what another job publishes.

    `columns`: by table, the number of each row's reads. A listed folder makes no edge that would close a circle: only
    the names in it count. A circle of other reads is CYCLE, unless the job has changed since (`is_outdated`, by table
    and row), so that nobody knows what it reads now.
    """
    if not made:
        return graph
    every = _with_edges(graph, columns, observations, made, folders=True)
    if every is graph or _circle(every) is None:
        return every
    files = _with_edges(graph, columns, observations, made, folders=False)
    if _circle(files) is None:
        return files
    outdated = {table.number for table in files.tables if _is_outdated(table, columns[table.number], is_outdated)}
    known = _with_edges(graph, columns, observations, made, folders=False, without=outdated)
    circle = _circle(known)
    if circle is not None:
        raise _explained(circle, known, columns, observations, made)
    return known


def _with_edges(
    graph: Graph,
    columns: Sequence[Sequence[int]],
    observations: Observations,
    made: Mapping[str, Made],
    *,
    folders: bool,
    without: Collection[int] = (),
) -> Graph:
    groups: dict[tuple[ArtifactAt, ...], Group] = {}  # one object for all readers of the same
    tables = list(graph.tables)
    for table in graph.tables:
        if table.number in without:
            continue
        column, by_number = columns[table.number], dict[int, Group]()
        for number in set(column):
            sources = dict.fromkeys(
                at
                for read in observations.reads_of(number)
                if read.key in made and (folders or read.kind != "folder")
                for at in made[read.key].artifacts
                if at.table != table.number
            )
            by_number[number] = groups.setdefault(tuple(sorted(sources)), Group(tuple(sorted(sources))))
        if any(group.members for group in by_number.values()):
            one = len(by_number) == 1
            terms = SameTerm(by_number[column[0]]) if one else EachTerm([by_number[number] for number in column])
            slot = Slot(OBSERVED, True, (OBSERVED,), "observed", terms, table.decl.place)
            tables[table.number] = replace(table, observed=slot)
    changed = any(new is not old for new, old in zip(tables, graph.tables, strict=True))
    return replace(graph, tables=tuple(tables)) if changed else graph


def _circle(graph: Graph) -> InvalidError | None:
    try:
        check_cycles(graph)
    except InvalidError as circle:
        return circle
    return None


def _is_outdated(table: JobTable, column: Sequence[int], is_outdated: Callable[[JobTable, int], bool]) -> bool:
    row = next((row for row, number in enumerate(column) if number), None)
    return table.observed is not None and row is not None and is_outdated(table, row)


def _explained(
    circle: InvalidError,
    graph: Graph,
    columns: Sequence[Sequence[int]],
    observations: Observations,
    made: Mapping[str, Made],
) -> InvalidError:
    """The error, with the first of the undeclared reads that may have closed the circle."""
    first = circle.diagnostics[0]
    named = {table.name for table in graph.tables if f"Job:{table.name}" in first.message}
    for table in graph.tables:
        if table.observed is None or table.name not in named:
            continue
        for row, number in enumerate(columns[table.number]):
            for read in observations.reads_of(number):
                makers = [at for at in made[read.key].artifacts if at.table != table.number] if read.key in made else []
                maker = next((graph.tables[at.table] for at in makers if graph.tables[at.table].name in named), None)
                if maker is not None and read.kind != "folder":
                    what = f"{table.job_id(row)} read `{read.shown}`, which Job:{maker.name} makes"
                    hint = "change what one of them reads; what it read before a change of its script does not count"
                    return InvalidError([replaced(first, message=f"{first.message}: {what}", hint=hint)])
    return circle
