"""What a run is asked to do with resources: the options themselves, and what of them cannot be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from whyrun.errors import Diagnostic, InvalidError, did_you_mean, error
from whyrun.snapshot.snapshot import PlanningSnapshot
from whyrun.snapshot.world import World


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
