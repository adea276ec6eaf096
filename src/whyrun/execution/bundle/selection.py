"""Selects the files of a project that go into its bundle, and packs them as they were planned with."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from whyrun.actions.code.source_loader import version_of
from whyrun.errors import error
from whyrun.ids import split_site
from whyrun.project import Project
from whyrun.snapshot.snapshot import leaf_inputs

if TYPE_CHECKING:
    from whyrun.execution.bundle.bundle import Bundle

_TRIES = 5


def bundle_for(project: Project, secrets: Iterable[str], *, at_once: bool) -> Callable[[], Bundle]:
    """A function that returns the bundle. `at_once`: build it now, so that a problem is reported before the run writes
    anything. `secrets`: values that no bundled file may contain."""
    build = partial(_build, project, list(secrets))
    if not at_once:
        return build
    bundle = build()
    return lambda: bundle


def _build(project: Project, secrets: list[str]) -> Bundle:
    from whyrun.execution.bundle.bundle import bundle_project  # not needed by a run on the host's own files

    pack = partial(
        bundle_project,
        project.folder,
        apart=frozenset(_apart(project)),
        code=frozenset(_code(project)),
        secrets=[value.encode("utf-8", "surrogateescape") for value in secrets if value],
    )
    return packed_as_planned(project, pack)


def packed_as_planned(project: Project, pack: Callable[[], Bundle]) -> Bundle:
    """Pack the project so that the bundle has exactly the code of the plan. Repeats if a code file is written to
    between the start of packing and the check against the plan."""
    files = [f"{project.folder}/{file}" for file in sorted(_code(project))]
    for _ in range(_TRIES):
        before = [version_of(file) for file in files]
        bundle = pack()
        edited = [job for job, action in project.actions.items() if action.files and not project.is_current(job)]
        if [version_of(file) for file in files] == before:
            if not edited:
                return bundle
            break
    what = f"the code of `{edited[0]}` was edited" if edited else "code of the project was written to again and again"
    raise error("PLAN_STALE", f"{what} while the run was prepared", hint="run again when nobody writes to it")


def _code(project: Project) -> set[str]:
    return {file for action in project.actions.values() for file in action.files}


def _apart(project: Project) -> Iterator[str]:
    """Paths that are not bundled: inputs go to the steps that read them, outputs come from the store, and Whyrun's own
    state stays on the host."""
    paths: Iterable[str] = (
        *(value.path for _, value in leaf_inputs(project.graph.inputs) if value.path is not None),
        *(
            split_site(site)[0]
            for table in project.graph.tables
            for output in table.outputs
            for site in output.paths or ()
        ),
        os.path.relpath(project.state_dir, project.folder),
    )
    for path in paths:
        normal = os.path.normpath(path)
        if not os.path.isabs(normal) and normal.partition("/")[0] not in (".", ".."):
            yield normal
