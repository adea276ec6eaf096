"""What of a project goes to a remote place in its bundle, and what has its own way there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from whyrun.actions.from_source import version_of
from whyrun.errors import error
from whyrun.execution.run_secrets import RunSecrets
from whyrun.ids import split_site
from whyrun.snapshot.snapshot import leaf_inputs
from whyrun.snapshot.world import World

if TYPE_CHECKING:
    from whyrun.execution.bundle import Bundle

_TRIES = 5
ELSEWHERE = ("sandbox", "e2b", "dask")  # backends that need a bundle for every step


def bundle_for(backend: str, world: World, secrets: RunSecrets) -> Callable[[], Bundle]:
    """What a backend may ask for. To be called before anything is recorded: where it will be asked for, it is made now,
    and what cannot be sent is told."""
    make = partial(_bundle_of, world, secrets)
    if backend not in ELSEWHERE:
        return make
    bundle = make()
    return lambda: bundle


def _bundle_of(world: World, secrets: RunSecrets) -> Bundle:
    from whyrun.execution.bundle import bundle_project  # only where a run goes elsewhere

    pack = partial(
        bundle_project,
        world.project,
        apart=frozenset(_apart(world)),
        code=frozenset(_code(world)),
        secrets=[value.encode("utf-8", "surrogateescape") for value in secrets.values.values() if value],
    )
    return packed_as_planned(world, pack)


def packed_as_planned(world: World, pack: Callable[[], Bundle]) -> Bundle:
    """What is executed elsewhere is this copy, so the copy has to be what was planned with: nothing was written from
    before it was made until the code was seen to be that of the plan."""
    files = [f"{world.project}/{file}" for file in sorted(_code(world))]
    for _ in range(_TRIES):
        before = [version_of(file) for file in files]
        bundle = pack()
        edited = [job for job, action in world.actions.items() if action.files and not world.is_current(job)]
        if [version_of(file) for file in files] == before:
            if not edited:
                return bundle
            break
    what = f"the code of `{edited[0]}` was edited" if edited else "code of the project was written to again and again"
    raise error("PLAN_STALE", f"{what} while the run was prepared", hint="run again when nobody writes to it")


def _code(world: World) -> set[str]:
    return {file for action in world.actions.values() for file in action.files}


def _apart(world: World) -> Iterator[str]:
    """Inputs are sent to the steps that read them, artifacts come out of the store, and the state stays here."""
    paths: Iterable[str] = (
        *(value.path for _, value in leaf_inputs(world.graph.inputs) if value.path is not None),
        *(
            split_site(site)[0]
            for table in world.graph.tables
            for output in table.outputs
            for site in output.paths or ()
        ),
        os.path.relpath(world.state_dir, world.project),
    )
    for path in paths:
        normal = os.path.normpath(path)
        if not os.path.isabs(normal) and normal.partition("/")[0] not in (".", ".."):
            yield normal
