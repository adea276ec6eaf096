"""Checks before a run starts: limits, resources, and folders that cannot be published to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from operator import itemgetter

from whyrun.artifacts.hashing import iter_parents
from whyrun.artifacts.publishing.publish import LINK_HINT, link_problem
from whyrun.errors import Diagnostic, InvalidError, did_you_mean, error
from whyrun.execution.protocol.run_options import RunOptions
from whyrun.graph.tables import Graph
from whyrun.ids import split_site
from whyrun.project import Project
from whyrun.snapshot.snapshot import PlanningSnapshot
from whyrun.workflow.model import Place


def resource_limits(project: Project, options: RunOptions) -> dict[str, float]:
    """The limits of `whyrun.toml`, overridden by those of the command line."""
    return {**(project.config.resources or {}), **(options.limits or {})}


def unlimited_resources(project: Project, limits: Mapping[str, float]) -> list[str]:
    """Resources that jobs use and that have no limit, each with a similar name that has one: they restrict nothing."""
    used = sorted({name for table in project.graph.tables for name in table.decl.resources if name not in limits})
    near = {name: did_you_mean(name, sorted(limits)) for name in used}
    return [f"`{name}`" + (f" ({near[name]})" if near[name] else "") for name in used] if limits else []


def check_limits(project: Project, given: Mapping[str, float]) -> None:
    """Refuse a limit for a resource that no job uses: it is most likely a misspelling."""
    used = sorted({name for table in project.graph.tables for name in table.decl.resources})
    for name in given:
        if name not in used:
            hint = did_you_mean(name, used) or "no job of this workflow has `resources:`"
            raise error("USAGE", f"`--limit {name}`: no job uses the resource `{name}`", hint=hint)


def check_resources(snapshot: PlanningSnapshot, nodes: Sequence[int], limits: Mapping[str, float]) -> None:
    """Refuse a job that needs more of a resource than its limit: it could never start."""
    problems: dict[str, Diagnostic] = {}
    for node in nodes:
        table, _ = snapshot.dependency_graph.table_at(node)
        for name, amount in table.decl.resources.items():
            if name in limits and amount > limits[name]:
                place = table.decl.places.get("resources", table.decl.place)
                message = f"`{table.name}` needs {name}: {amount:g}, but the limit is {limits[name]:g}"
                problems[table.name] = place.diagnostic("USAGE", message, "raise the limit, or lower the job's share")
    if problems:
        raise InvalidError(problems.values())


def check_folders(project: Project, nodes: Sequence[int]) -> None:
    """Refuse outputs whose folders are links out of the project, before any step is paid for.

    Publishing checks again, because a link may appear later. Each folder is checked once for all of its outputs.
    """
    link_problem_of = cache(partial(link_problem, str(project.folder)))
    problems: dict[tuple[str, int, int], Diagnostic] = {}  # one for each output declaration
    for place, path in _one_path_for_each_folder(project.graph, nodes):
        problem = next(filter(None, map(link_problem_of, iter_parents(path))), None)
        if problem is not None:
            diagnostic = place.diagnostic("PATH_OUTSIDE", f"`{path}` {problem}", LINK_HINT)
            problems.setdefault((place.source, place.line, place.column), diagnostic)
    if problems:
        raise InvalidError(problem for _, problem in sorted(problems.items(), key=itemgetter(0)))


def _one_path_for_each_folder(graph: Graph, nodes: Sequence[int]) -> Iterator[tuple[Place, str]]:
    """For each output of these nodes: the first path in each of its folders, with its place in the workflow file."""
    seen: set[tuple[str, str, str]] = set()
    for node in nodes:
        table, position = graph.table_at(node)
        for output in table.outputs:
            if output.paths is None:
                continue
            path, _ = split_site(output.paths[position])
            key = (table.name, output.name, path.rpartition("/")[0])
            if key not in seen:
                seen.add(key)
                yield table.decl.places.get(f"outputs.{output.name}.path", table.decl.place), path
