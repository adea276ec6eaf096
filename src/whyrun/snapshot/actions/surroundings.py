"""What a job's steps run in, as far as it counts: packages of an environment, the image of a container, the project."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from whyrun.actions.code.code_cache import CodeCache
from whyrun.actions.description import ActionInfo
from whyrun.artifacts.hashing import digest
from whyrun.errors import WhyrunError
from whyrun.snapshot.snapshot import NAMED_FILES, ActionFacts, ContainerFacts, EnvironmentFacts
from whyrun.workflow.model import JobDecl


class Surroundings(msgspec.Struct, frozen=True):
    environment: EnvironmentFacts | None = None
    container: ContainerFacts | None = None
    counts: tuple[str, ...] = ()  # for the digest of the action
    files: Mapping[str, str] = {}
    versions: Mapping[str, str] = {}  # of few packages, or of the image
    in_project: bool = False

    def of_action(self, action: ActionFacts) -> ActionFacts:
        sha256 = digest(*self.counts, action.sha256) if self.counts else action.sha256
        return replace(
            action,
            sha256=digest("action-in-project/v1", sha256) if self.in_project else sha256,
            files={**action.files, **self.files},
            versions={**action.versions, **self.versions},
            environment=self.environment,
            container=self.container,
            in_project=self.in_project,
        )


class Unfit(Exception):
    """A problem, and the key of the job that has it."""

    def __init__(self, key: str, problem: WhyrunError) -> None:
        super().__init__(key)
        self.key, self.problem = key, problem


def surroundings_of(decl: JobDecl, info: ActionInfo, code_cache: CodeCache) -> Surroundings:
    """Raises `Unfit`."""
    if decl.container is not None:
        return _container(decl, info, code_cache)
    runs_code = info.origin != "builtin" or info.name in ("shell", "python")  # of the project's author
    in_project = decl.workdir == "project" and runs_code
    if decl.environment is None or not runs_code or info.origin == "plugin":
        # Other built-in actions and those of plugins run with the packages that they were installed with.
        return Surroundings(in_project=in_project)
    try:
        lock = code_cache.lock(decl.environment.python)
    except WhyrunError as problem:
        raise Unfit("environment.python", problem) from None
    return Surroundings(
        EnvironmentFacts(lock.path, lock.sha256, lock.packages),
        None,
        ("action-in-environment/v1", lock.sha256),
        lock.files,
        lock.packages if len(lock.packages) <= NAMED_FILES else {},
        in_project,
    )


def _container(decl: JobDecl, info: ActionInfo, code_cache: CodeCache) -> Surroundings:
    from whyrun.environments.images import image_of  # imported late: few jobs have a container
    from whyrun.errors import error

    assert decl.container is not None
    if decl.workdir == "project":
        hint = "remove `workdir`, or write `workdir: scratch`, and give it what it reads as inputs"
        raise Unfit(
            "workdir", error("INVALID_USES", "a container sees its inputs and not the project folder", hint=hint)
        )
    if info.name != "shell":
        hint = "write it at each `shell` job; for packages of Python there is `environment:`"
        problem = error("INVALID_USES", f"a step of `{info.name}` cannot run in a container", hint=hint)
        raise Unfit("container", problem)
    written = decl.container.image
    try:
        image = image_of(written, code_cache.project, code_cache.images)
    except WhyrunError as problem:
        raise Unfit("container.image", problem) from None
    counted = f"tag {written}" if image is None else image.digest
    return Surroundings(
        None,
        ContainerFacts(
            written, None if image is None else image.reference, decl.container.network, decl.container.engine
        ),
        ("action-in-container/v1", counted),
        {},
        {written.partition("@")[0]: counted[:19]},
    )
