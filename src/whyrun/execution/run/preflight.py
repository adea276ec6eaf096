"""Before a run starts: checks of limits, resources and folders, and the completion of a run that was killed."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from operator import itemgetter
from pathlib import Path

import msgspec

from whyrun import disk
from whyrun.artifacts.hashing import iter_parents
from whyrun.artifacts.publishing.publish import LINK_HINT, link_problem
from whyrun.artifacts.store import Store
from whyrun.connections.redact import NOTHING_SECRET
from whyrun.disk import Area
from whyrun.errors import Diagnostic, InvalidError, did_you_mean, error
from whyrun.evidence.composition.run_folder import finish_run
from whyrun.evidence.run_directory import RunDirectory
from whyrun.execution.backends.registry import RunOptions, capabilities_of
from whyrun.execution.backends.remote.site import MARKER as SITE_MARKER
from whyrun.execution.backends.remote.site import SCRATCH as SITE_SCRATCH
from whyrun.execution.files.safe_files import fetch_tree_below, head_below
from whyrun.execution.files.scratch import MARKER_SIZE, NESTED_SITES, Scratch, drop_links, read_marker, step_folder
from whyrun.execution.files.tree_removal import is_real_folder
from whyrun.execution.worker.processes import end_workers
from whyrun.graph.tables import Graph
from whyrun.ids import file_name, split_site
from whyrun.log import events as ev
from whyrun.log.decoding import decoded
from whyrun.log.events import UNREADABLE
from whyrun.log.lock import kept_free
from whyrun.log.runs import RunRef, WorkflowState
from whyrun.project import Project
from whyrun.project_config import Rate
from whyrun.snapshot.snapshot import PlanningSnapshot
from whyrun.workflow.model import Place

_OWN_FILES = 64  # open files of a run that do not depend on the number of workers, at most


def resource_limits(project: Project, options: RunOptions) -> dict[str, float]:
    """The limits of `whyrun.toml`, overridden by those of the command line."""
    return {**(project.config.resources or {}), **(options.limits or {})}


def unlimited_resources(project: Project, limits: Mapping[str, float]) -> list[str]:
    """Resources that jobs use and that have no limit and no rate, each with a similar name that has one: they restrict
    nothing."""
    bounded = {*limits, *(project.config.rates or ())}
    used = sorted({name for table in project.graph.tables for name in table.decl.resources if name not in bounded})
    near = {name: did_you_mean(name, sorted(bounded)) for name in used}
    return [f"`{name}`" + (f" ({near[name]})" if near[name] else "") for name in used] if bounded else []


def allow_open_files(options: RunOptions, steps: int | None) -> None:
    """Raise this process's limit of open files, if it is too low for the workers of the run. Raises an error before
    anything runs if the system does not allow that. `steps`: None if a stage may add to them."""
    workers, each = options.jobs or os.cpu_count() or 1, capabilities_of(options.backend).open_files
    workers = workers if steps is None else min(workers, steps)
    needed = len(os.listdir("/proc/self/fd")) + _OWN_FILES + workers * each
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if needed <= soft:
        return
    if hard == resource.RLIM_INFINITY or needed <= hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
        return
    fewer = (hard - needed) // each + workers
    raise error(
        "BACKEND_UNAVAILABLE",
        f"{workers} workers need up to {needed:,} open files, and this process may have {hard:,}",
        hint=(f"run with `--jobs {fewer}`, or " if fewer > 0 else "") + f"raise the limit: `ulimit -n {needed}`",
    )


def check_limits(project: Project, given: Mapping[str, float]) -> None:
    """Refuse a limit for a resource that no job uses: it is most likely a misspelling."""
    used = sorted({name for table in project.graph.tables for name in table.decl.resources})
    for name in given:
        if name not in used:
            hint = did_you_mean(name, used) or "no job of this workflow has `resources:`"
            raise error("USAGE", f"`--limit {name}`: no job uses the resource `{name}`", hint=hint)


def check_resources(
    snapshot: PlanningSnapshot, nodes: Sequence[int], limits: Mapping[str, float], rates: Mapping[str, Rate] | None
) -> None:
    """Refuse a job that needs more of a resource than its limit or its rate: it could never start."""
    problems: dict[str, Diagnostic] = {}
    for node in nodes:
        table, _ = snapshot.dependency_graph.table_at(node)
        for name, amount in table.decl.resources.items():
            if name in limits and amount > limits[name]:
                place = table.decl.places.get("resources", table.decl.place)
                message = f"`{table.name}` needs {name}: {amount:g}, but the limit is {limits[name]:g}"
                problems[table.name] = place.diagnostic("USAGE", message, "raise the limit, or lower the job's share")
            elif rates and name in rates and amount > rates[name].amount:
                place = table.decl.places.get("resources", table.decl.place)
                message = f"`{table.name}` needs {name}: {amount:g}, but its rate allows {rates[name].amount} at once"
                hint = "raise the rate (`60/min` instead of `1/s`), or lower the job's share"
                problems[table.name] = place.diagnostic("USAGE", message, hint)
    if problems:
        raise InvalidError(problems.values())


def check_folders(folder: Path, graph: Graph, nodes: Sequence[int]) -> None:
    """Refuse outputs whose folders are links out of the project, before any step is paid for.

    Publishing checks again, because a link may appear later. Each folder is checked once for all of its outputs.
    """
    link_problem_of = cache(partial(link_problem, str(folder)))
    problems: dict[tuple[str, int, int], Diagnostic] = {}  # one for each output declaration
    for place, path in _one_path_for_each_folder(graph, nodes):
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
            if position in table.open_rows:
                path = path.rpartition("?")[0]  # what makes it the path of no other row
            key = (table.name, output.name, path.rpartition("/")[0])
            if key not in seen:
                seen.add(key)
                yield table.decl.places.get(f"outputs.{output.name}.path", table.decl.place), path


# --- What a killed run left ------------------------------------------------------------------------------------------


class _Secrets(msgspec.Struct):
    """The secrets that a cfg names."""

    secrets: list[str] = []


_secrets = msgspec.json.Decoder(_Secrets)


def complete_killed_run(run: RunRef, store: Store, scratch: Path) -> None:
    """Called by `repair`: complete the folder of a killed run. Its status is written last, as a sign that all is."""
    _keep_leftovers(run, scratch)
    finish_run(RunDirectory(run.path), store)


def _keep_leftovers(run: RunRef, scratch: Path) -> None:
    try:
        names = sorted(os.listdir(scratch))
    except FileNotFoundError:
        return
    left = [path for name in names if name.startswith(f"{run.name}-") and is_real_folder(path := scratch / name)]
    own = [folder for folder in left if os.access(folder, os.R_OK | os.W_OK | os.X_OK, effective_ids=True)]
    for folder in left:
        if folder not in own:  # of another member of the group, whose next command removes it
            text = f"{folder.name}: what its steps left could not be kept: the folder belongs to another user"
            disk.append_line(Area.RUN, RunDirectory(run.path).debug_log, text)
    if not own:
        return
    for folder in own:  # the workers of a Dask cluster that the run started have their scratch folders below
        for beneath in sorted(folder.glob(f"{NESTED_SITES}/whyrun-*/tmp")):
            _keep_leftovers(run, beneath)
    end_workers([Scratch(folder).home for folder in own])
    for folder in own:
        Scratch(folder).end_container()
    interrupted = _interrupted_steps(run)
    for folder in own:
        for site in (None, *sorted(name for name in os.listdir(folder) if name.isdigit())):
            marked = Scratch(folder).marked() if site is None else _marked_at(folder, site)
            # Files of a step that no event names are not evidence. Files of a step with secrets cannot be kept: the
            # secrets are not known any more, so they cannot be redacted.
            if marked is None or interrupted.get(marked[0]) != marked[1] or _has_secrets(run, marked[0]):
                continue
            try:
                found = Scratch(folder if site is None else _copied(folder, site))
                found.keep_all(step_folder(run.path, marked[0]), NOTHING_SECRET)
            except OSError as problem:  # files that cannot be moved must not stop every later run
                text = f"{marked[0]}: what it left could not be kept: {problem.strerror}"
                disk.append_line(Area.RUN, RunDirectory(run.path).debug_log, text)


def remove_secret_leftovers(state: WorkflowState) -> None:
    """Remove the scratch folders of killed steps that had secrets: nothing of them is evidence, so there is no reason
    to wait for the repair. Does nothing while a run goes on, and nothing to the log."""
    runs = {run.name: run for run in state.runs()}
    with kept_free(state.lock_path) as free:
        for name in sorted(os.listdir(state.scratch)) if free else ():
            run, folder = runs.get(name.partition("-")[0]), state.scratch / name
            for own in (folder, *folder.glob(f"{NESTED_SITES}/whyrun-*/tmp/*")):
                with suppress(PermissionError):  # of another member of the group, whose command removes it
                    if run and is_real_folder(own) and any(_has_secrets(run, step) for step in _steps_in(own)):
                        end_workers([Scratch(own).home])
                        Scratch(own).remove()


def _steps_in(folder: Path) -> list[str]:
    """The steps that began last in a scratch folder, or at the sites in a folder of sandboxes."""
    sites = [name for name in os.listdir(folder) if name.isdigit()]
    marks = [Scratch(folder).marked(), *(_marked_at(folder, site) for site in sites)]
    return [mark[0] for mark in marks if mark is not None]


# A sandboxed step may have replaced anything below its site by a symlink, and we are not sandboxed. So we open a path
# part by part without following links, and keep a copy instead of moving files.


def _marked_at(folder: Path, site: str) -> tuple[str, int] | None:
    """The marker of the host; the step could have changed the marker of its worker."""
    return read_marker(head_below(folder, f"{site}/{SITE_MARKER}", MARKER_SIZE))


def _copied(folder: Path, site: str) -> Path:
    """A complete copy of the scratch folder at a site. An earlier repair that was killed may have made it already."""
    copy, part = folder / f"brought-{site}", folder / "part"
    if not copy.exists():
        Scratch(part).remove()
        fetch_tree_below(folder, f"{site}/{SITE_SCRATCH}", part)
        drop_links(part)
        os.rename(part, copy)
    return copy


def _interrupted_steps(run: RunRef) -> dict[str, int]:
    """The steps that the repair recorded as interrupted, each with its last attempt."""
    attempts: dict[str, int] = {}
    interrupted: set[str] = set()
    for event in run.events():
        if isinstance(event, ev.StepStart):
            attempts[event.step_id] = event.attempt
        elif isinstance(event, ev.LogRepaired):
            interrupted.update(event.interrupted)
    return {step: attempts[step] for step in interrupted if step in attempts}


def _has_secrets(run: RunRef, step: str) -> bool:
    """Whether the step had secrets; True also if its cfg cannot be read any more."""
    path = RunDirectory(run.path).cfg / f"{file_name(step.partition(':')[2])}.json"
    try:
        return bool(decoded(_secrets.decode, path.read_bytes()).secrets)
    except (OSError, *UNREADABLE):
        return True
