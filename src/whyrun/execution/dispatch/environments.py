"""Makes the environments that the steps of a run need, before the first of them starts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from whyrun.console.lines import count, listed, seconds
from whyrun.errors import error
from whyrun.project import Project
from whyrun.snapshot.snapshot import EnvironmentFacts

Needed = Mapping[str, tuple[EnvironmentFacts, list[str]]]  # by digest: the environment, and the jobs that have it


def needed_environments(project: Project, nodes: Iterable[int]) -> Needed:
    found: dict[str, tuple[EnvironmentFacts, list[str]]] = {}
    having = {job: facts.environment for job, facts in project.actions.items() if facts.environment is not None}
    for name in dict.fromkeys(project.graph.table_at(node)[0].name for node in nodes) if having else ():
        environment = having.get(name)
        if environment is not None:
            found.setdefault(environment.sha256, (environment, []))[1].append(name)
    return found


def make_environments(project: Project, needed: Needed, note: Callable[[str], None]) -> None:
    """Make those that are missing. Raises an error with uv's own words."""
    if not needed:
        return
    from whyrun.environments.locks import read_lock  # imported late: most runs need no environment
    from whyrun.environments.making import environment_folder, is_made, make_environment

    for sha256, (environment, jobs) in needed.items():
        if is_made(environment_folder(project.state.environments, sha256)):
            continue
        lock = read_lock(project.folder, environment.lock)
        if lock.sha256 != sha256:
            what = f"`{environment.lock}` was edited while the run was prepared"
            raise error("PLAN_STALE", what, hint="run again when nobody writes to it")
        note(f"making the environment of `{lock.path}` ({count(len(lock.packages), 'package')}) for {listed(jobs)} …")
        began = time.monotonic()
        make_environment(project.state.environments, project.folder, lock)
        note(f"made the environment of `{lock.path}` in {seconds(time.monotonic() - began)}")
