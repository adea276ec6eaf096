"""Makes what the steps of a run run in, before the first of them starts: environments, and images of containers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from whyrun.console.lines import count, listed, seconds
from whyrun.errors import InvalidError, error
from whyrun.execution.backends.base import Capabilities
from whyrun.project import Project
from whyrun.snapshot.snapshot import ContainerFacts, EnvironmentFacts
from whyrun.workflow.model import JobDecl

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


def _needed_containers(project: Project, nodes: Iterable[int]) -> list[tuple[JobDecl, ContainerFacts]]:
    having = {job: facts.container for job, facts in project.actions.items() if facts.container is not None}
    tables = {(table := project.graph.table_at(node)[0]).name: table for node in nodes} if having else {}
    return [(table.decl, container) for name, table in tables.items() if (container := having.get(name)) is not None]


def images_of(project: Project) -> dict[str, tuple[ContainerFacts, list[str]]]:
    """By image as written: its container, and the jobs that have it."""
    found: dict[str, tuple[ContainerFacts, list[str]]] = {}
    for job, facts in project.actions.items():
        if facts.container is not None:
            found.setdefault(facts.container.image, (facts.container, []))[1].append(job)
    return found


def resolve_tags(project: Project, note: Callable[[str], None], *, again: bool = False) -> None:
    """Record what the tags of images stand for that no run has resolved yet, or `again` all. It is part of the plan."""
    containers = [facts.container for facts in project.actions.values() if facts.container is not None]
    wanted = {one.image: one.engine for one in containers if one.reference is None}
    if again:
        from whyrun.environments.images import is_tag

        wanted = {one.image: one.engine for one in containers if is_tag(one.image)}
    if not wanted:
        return
    from whyrun.environments.engines import engine_for
    from whyrun.environments.images import record_images, recorded_images, resolve

    images = recorded_images(project.state_dir)
    for tag, engine in wanted.items():
        before, images[tag] = images.get(tag), resolve(engine_for(engine), tag, again=again)
        if images[tag] != before:
            note(f"`{tag}` stands for {images[tag].digest[:19]}… from now on: `whyrun env sync` looks again")
    record_images(project.state_dir, images)
    del project.looked_up, project.actions  # they were looked up without


def fetch_images(project: Project, nodes: Iterable[int], backend: Capabilities, note: Callable[[str], None]) -> None:
    """Raises an error with the engine's own words; also for a job that would run inside a sandbox."""
    needed = _needed_containers(project, nodes)
    for decl, _ in needed:
        if backend.confines(decl.sandbox.required):
            place = decl.places.get("container", decl.place)
            what = f"`{decl.name}` has a container, which cannot start in a sandbox"
            hint = "run it without: a container sees only its inputs, and has no network unless the job says so"
            raise InvalidError([place.diagnostic("CONTAINER_FAILED", what, hint)])
    if not needed or backend.remote:
        return
    from whyrun.environments.engines import engine_error, engine_for
    from whyrun.environments.images import fetch, is_present

    for reference, wanted in {one.reference or one.image: one.engine for _, one in needed}.items():
        engine = engine_for(wanted)
        if engine.inspects and not is_present(engine, reference):
            note(f"fetching the image `{reference}` …")
            if said := fetch(engine, reference):
                raise engine_error(engine, f"the image `{reference}` cannot be fetched", said)
