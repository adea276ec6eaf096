"""Calls the output hooks of actions: `get_output_files` returns paths to publish, `get_output_contribution_key` names a
section, and `has_existing_contribution` checks whether the action's part of a published file is still there.

The first two are part of the graph. They receive only what is the same in every plan, so that published paths never
depend on earlier runs. The snapshot records their answers, and a replay uses the record.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from whyrun.actions.inspection.messages import WithBlock, encode_value
from whyrun.errors import Diagnostic
from whyrun.graph.paths import OutputColumn
from whyrun.graph.publishing.conflicts import path_problems, sections_without_file
from whyrun.graph.slots import import_folder
from whyrun.graph.tables import Graph, JobTable
from whyrun.ids import SECTION_MARK, site_of, split_site
from whyrun.snapshot.actions.known_inputs import InputReader, reader_of_graph
from whyrun.snapshot.snapshot import PlanningSnapshot
from whyrun.workflow.fields import path_problem
from whyrun.workflow.model import VALUE_TYPES

if TYPE_CHECKING:
    from whyrun.actions.description import ActionInfo
    from whyrun.actions.inspection.inspector import Inspector

FILES, KEY, EXISTING = "get_output_files", "get_output_contribution_key", "has_existing_contribution"
DISOWNED = "disowned"  # of a published file: the action does not find its part in it

OfJob = Mapping[str, Sequence[str]]  # output → published site by row
Sites = Mapping[str, OfJob]  # by job


def ask_outputs(
    graph: Graph, infos: Mapping[str, ActionInfo], inspector: Inspector, project: Path
) -> tuple[Graph, list[Diagnostic]]:
    """The graph with the answers, and what is wrong with them."""
    problems: list[Diagnostic] = []
    sites: dict[str, dict[str, Sequence[str]]] = {}
    reader = reader_of_graph(graph, project)
    for table in graph.tables:
        info = infos.get(table.name)
        if info is None or not info.hooks & {FILES, KEY} or not len(table):
            continue
        known = [reader.inputs(table, position) for position in range(len(table))]
        if any(one.missing for one in known):
            continue  # called only if all bindings are known
        blocks = [WithBlock(encode_value(one.given)) for one in known]
        if FILES in info.hooks:
            answers = inspector.call(info, FILES, blocks, keep=True)
            sites.setdefault(table.name, {}).update(_added_paths(table, info, answers, problems))
        if KEY in info.hooks:
            answers = inspector.call(info, KEY, blocks, keep=True)
            placed = sites.setdefault(table.name, {})
            placed.update(_named_sections(table, placed, answers, problems))
    graph = with_sites(graph, {name: found for name, found in sites.items() if found})
    if graph.asked:
        problems.extend(path_problems(graph))
    return graph, problems or sections_without_file(graph, infos)


def with_sites(graph: Graph, sites: Sites) -> Graph:
    """The graph with outputs published at these sites.

    Suffixes stay as declared: they count in the fingerprint, paths do not.
    """
    if not sites:
        return graph  # the usual case: keeps what the graph and its tables have cached
    tables = tuple(_with_paths(table, sites[table.name]) if table.name in sites else table for table in graph.tables)
    return replace(graph, tables=tables, asked=sites)


def _with_paths(table: JobTable, found: Mapping[str, Sequence[str]]) -> JobTable:
    outputs = tuple(replace(o, paths=found[o.name], head=None) if o.name in found else o for o in table.outputs)
    return replace(table, outputs=outputs)


def _added_paths(
    table: JobTable, info: ActionInfo, answers: Sequence[Mapping[str, Any]], problems: list[Diagnostic]
) -> dict[str, Sequence[str]]:
    """The sites of the outputs that the job declares without a `path:`. A list of paths is in the order of the action's
    outputs: of these, or of all that are files."""
    types = info.outputs if info.outputs is not None else {o.name: o.type for o in table.outputs}
    files = [name for name, type_ in types.items() if type_ not in VALUE_TYPES]
    open_ = [name for name in types if name in table.output_number and _is_open(table, name)]
    rows: list[Mapping[str, str]] = []
    for position, answer in enumerate(answers):
        given = _by_name(answer.get("value", []), open_, files)
        wrong = answer.get("error") or _misfit(given, open_)
        if wrong is not None:
            problems.append(_problem(table, position, FILES, str(wrong)))
            return {}
        rows.append(given)
    everywhere = [name for name in open_ if all(name in row for row in rows)]
    folders = [import_folder(table, position) for position in range(len(rows))]
    paths = {
        name: [folder + posixpath.normpath(row[name]) for folder, row in zip(folders, rows, strict=True)]
        for name in everywhere
    }
    return {name: _sites(table.outputs[table.output_number[name]], found) for name, found in paths.items()}


def _by_name(given: Any, open_: Sequence[str], files: Sequence[str]) -> Any:
    """A list of paths by output, if it fits the outputs without a `path:` or all that are files."""
    if isinstance(given, Mapping) or len(open_) < len(given) != len(files):
        return given
    if len(given) > len(open_):
        return {name: path for name, path in zip(files, given, strict=True) if name in open_}
    return dict(zip(open_, given, strict=False))


def _sites(column: OutputColumn, paths: Sequence[str]) -> Sequence[str]:
    return paths if column.keys is None else [site_of(*one) for one in zip(paths, column.keys, strict=True)]


def _is_open(table: JobTable, name: str) -> bool:
    column = table.outputs[table.output_number[name]]
    return column.paths is None and column.type not in VALUE_TYPES


def _misfit(given: Any, open_: Sequence[str]) -> str | None:
    if isinstance(given, Mapping):
        unknown = [name for name in given if name not in open_]
        if unknown:
            return f"`{unknown[0]}` is not an output of this job without a `path:`"
    elif len(given) > len(open_):
        return f"{len(given)} paths for {len(open_)} outputs without a `path:`"
    for path in given.values() if isinstance(given, Mapping) else given:
        problem = path_problem(path)
        if problem is not None:
            return f"`{path}`: {problem}"
    return None


def _named_sections(
    table: JobTable, placed: OfJob, answers: Sequence[Mapping[str, Any]], problems: list[Diagnostic]
) -> dict[str, Sequence[str]]:
    """The key for every section of the job that has no `key:` of its own; None keeps the default.

    `placed`: the sites of outputs whose path the action has named.
    """
    columns = [o for o in table.outputs if o.append and table.decl.outputs[o.name].key is None]
    for position, answer in enumerate(answers if columns else ()):
        key = answer.get("value")
        wrong = answer.get("error") or (f"the key {key!r} is not printable" if not _is_key(key) else None)
        if wrong is not None:
            problems.append(_problem(table, position, KEY, str(wrong)))
            return {}
    known = {column.name: placed.get(column.name, column.paths or ()) for column in columns}
    return {name: list(_with_keys(sites, answers)) for name, sites in known.items() if sites}


def _is_key(key: str | None) -> bool:
    return key is None or (bool(key) and key.isprintable())


def _with_keys(sites: Sequence[str], answers: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for site, answer in zip(sites, answers, strict=True):
        key = answer["value"]
        yield site if key is None else f"{split_site(site)[0]}{SECTION_MARK}{key}"


def _problem(table: JobTable, position: int, method: str, wrong: str) -> Diagnostic:
    place = table.decl.places.get("uses", table.decl.place)
    message = f"`{method}` of the action `{table.decl.uses}` fails for `{table.job_id(position)}`: {wrong}"
    return place.diagnostic("INVALID_USES", message, "correct the action")


# --- contributions to published files ----------------------------------------------------------------------------


def disowned_sites(
    snapshot: PlanningSnapshot, infos: Mapping[str, ActionInfo], inspector: Inspector, reader: InputReader
) -> dict[str, str]:
    """Sections that are as recorded, but which their action does not find in the file: site → DISOWNED.

    The hook is about the section whose key the class named. It can only make a job dirty: it is not called for missing
    sections, and an error in it counts as "yes".
    """
    found: dict[str, str] = {}
    for table in snapshot.dependency_graph.tables:
        info = infos.get(table.name)
        if info is None or not info.hooks >= {EXISTING, KEY}:
            continue
        asked: list[tuple[str, WithBlock]] = []
        for a, spec in enumerate(table.artifacts):
            output = table.output_of(a)
            if spec.is_leaf or not output.append or table.decl.outputs[output.name].key is not None:
                continue
            for position, site in enumerate(output.paths or ()):
                if split_site(site)[1] == table.path(position):
                    continue  # the default key: the class named none
                known = reader.inputs(table, position)
                if snapshot.shas[table.number][a][position] is not None and not known.missing:
                    file = str(reader.project / split_site(site)[0])
                    asked.append((site, WithBlock(encode_value(known.given), file=file)))
        answers = inspector.call(info, EXISTING, [block for _, block in asked]) if asked else []
        found |= {
            site: DISOWNED for (site, _), answer in zip(asked, answers, strict=True) if answer.get("value") is False
        }
    return found
