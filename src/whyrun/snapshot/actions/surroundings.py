"""What a job's steps run in, as far as it counts: the packages of its environment, or the image of its container."""

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

    def of_action(self, action: ActionFacts) -> ActionFacts:
        return replace(
            action,
            sha256=digest(*self.counts, action.sha256) if self.counts else action.sha256,
            files={**action.files, **self.files},
            versions={**action.versions, **self.versions},
            environment=self.environment,
            container=self.container,
        )


NOTHING_AROUND = Surroundings()


class Unfit(Exception):
    """A problem, and the key of the job that has it."""

    def __init__(self, key: str, problem: WhyrunError) -> None:
        super().__init__(key)
        self.key, self.problem = key, problem


def surroundings_of(decl: JobDecl, info: ActionInfo, code_cache: CodeCache) -> Surroundings:
    """Raises `Unfit`."""
    if decl.container is not None:
        return _container(decl, info, code_cache)
    if decl.environment is None or not _runs_in_environment(info):
        return NOTHING_AROUND
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
    )


def _runs_in_environment(info: ActionInfo) -> bool:
    """Other built-in actions and those of plugins run with the packages that they were installed with."""
    return info.origin == "project" or (info.origin == "builtin" and info.name in ("shell", "python"))


def _container(decl: JobDecl, info: ActionInfo, code_cache: CodeCache) -> Surroundings:
    from whyrun.environments.images import image_of  # imported late: few jobs have a container
    from whyrun.errors import error

    assert decl.container is not None
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
