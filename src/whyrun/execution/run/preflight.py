"""What a run is asked to do: its options, and what of them and of its plan cannot be. Before anything starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from operator import itemgetter

from whyrun.artifacts.hashing import iter_parents
from whyrun.artifacts.publish import LINK_HINT, link_problem
from whyrun.errors import Diagnostic, InvalidError, did_you_mean, error
from whyrun.graph.graph import Graph
from whyrun.ids import split_site
from whyrun.snapshot.snapshot import PlanningSnapshot
from whyrun.snapshot.world import World
from whyrun.workflow.model import Place


@dataclass(frozen=True, slots=True)
class RunOptions:
    jobs: int = 0  # 0: as many as there are processors
    fail_fast: bool = False
    limits: Mapping[str, float] | None = None
    backend: str = "local"
    dask_address: str | None = None  # of a scheduler that runs already
    grace: float = 10.0  # seconds that a step has to end between SIGTERM and SIGKILL

    def __post_init__(self) -> None:
        if self.jobs < 0:
            raise error("USAGE", f"{self.jobs} jobs at a time is not possible", hint="0 means one for each processor")
        for name, limit in (self.limits or {}).items():
            if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 <= limit < float("inf"):
                raise error("USAGE", f"the limit of `{name}` is {limit!r}", hint="a limit is a number from 0 up")


def resource_limits(world: World, options: RunOptions) -> dict[str, float]:
    """Those of `whyrun.toml`, and over them those of the command line."""
    return {**(world.config.resources or {}), **(options.limits or {})}


def unlimited_resources(world: World, limits: Mapping[str, float]) -> list[str]:
    """Resources that jobs use and nobody limits, each with what it may be a slip of: then they restrict nothing."""
    used = sorted({name for table in world.graph.tables for name in table.decl.resources if name not in limits})
    near = {name: did_you_mean(name, sorted(limits)) for name in used}
    return [f"`{name}`" + (f" ({near[name]})" if near[name] else "") for name in used] if limits else []


def check_limits(world: World, given: Mapping[str, float]) -> None:
    """A limit for something that no job uses is a mistake, not a wish."""
    used = sorted({name for table in world.graph.tables for name in table.decl.resources})
    for name in given:
        if name not in used:
            hint = did_you_mean(name, used) or "no job of this workflow has `resources:`"
            raise error("USAGE", f"`--limit {name}`: no job uses the resource `{name}`", hint=hint)


def check_resources(snapshot: PlanningSnapshot, nodes: Sequence[int], limits: Mapping[str, float]) -> None:
    """A job that wants more than there is could never start."""
    problems: dict[str, Diagnostic] = {}
    for node in nodes:
        table, _ = snapshot.dependency_graph.table_at(node)
        for name, amount in table.decl.resources.items():
            if name in limits and amount > limits[name]:
                place = table.decl.places.get("resources", table.decl.place)
                message = f"`{table.name}` wants {name}: {amount:g}, but the limit is {limits[name]:g}"
                problems[table.name] = place.diagnostic("USAGE", message, "raise the limit, or lower the job's share")
    if problems:
        raise InvalidError(problems.values())


def check_folders(world: World, nodes: Sequence[int]) -> None:
    """Where publishing would refuse to write, nothing is paid for first. (It still looks itself: links can come later.)

    Each folder is looked at once, however many outputs go there.
    """
    look = cache(partial(link_problem, str(world.project)))
    problems: dict[tuple[str, int, int], Diagnostic] = {}  # one for each output is enough
    for place, path in _one_path_for_each_folder(world.graph, nodes):
        problem = next(filter(None, map(look, iter_parents(path))), None)
        if problem is not None:
            told = place.diagnostic("PATH_OUTSIDE", f"`{path}` {problem}", LINK_HINT)
            problems.setdefault((place.source, place.line, place.column), told)
    if problems:
        raise InvalidError(problem for _, problem in sorted(problems.items(), key=itemgetter(0)))


def _one_path_for_each_folder(graph: Graph, nodes: Sequence[int]) -> Iterator[tuple[Place, str]]:
    """Of each output of these nodes: the first path in each folder that it goes to, and where that is written."""
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
