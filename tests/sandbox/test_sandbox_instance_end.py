"""The end of a sandbox is always reported, also with descriptors above 1023."""

from __future__ import annotations

import fcntl
import os
import queue
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from whyrun.execution.backends.base import Ended, Received
from whyrun.execution.backends.sandbox.instance import SandboxInstance
from whyrun.execution.backends.sandbox.launcher import (
    Exited,
    SandboxFailed,
    SandboxProcess,
    Started,
    StartFailed,
    encode,
)
from whyrun.execution.backends.sandbox.view import Limits, SandboxSpec, Visible

Message = Started | StartFailed | Exited


class SpeakingForkServer:
    """A fork server whose keepers say only these words; no sandbox is made."""

    def __init__(self, *words: Message) -> None:
        self._words = words

    def start(self, spec: SandboxSpec, limits: Limits, **channels: Any) -> SandboxProcess:
        return said_by_keeper(*self._words)


def said_by_keeper(*words: Message, number: int = 0) -> SandboxProcess:
    told, told_end = os.pipe()
    for word in words:
        os.write(told_end, encode(word) + b"\n")
    os.close(told_end)
    moved = fcntl.fcntl(told, fcntl.F_DUPFD_CLOEXEC, number)
    os.close(told)
    return SandboxProcess(moved, lambda: "nobody keeps it")


def test_a_keeper_that_fails_after_the_birth_is_an_end_too(tmp_path: Path) -> None:
    nobody = 1 << 22  # a number that no process has
    fork_server: Any = SpeakingForkServer(Started(nobody, nobody), StartFailed("OSError: no more of it"))
    limits = Limits(1 << 30, 8, 1 << 30)
    place = SandboxInstance(tmp_path / "site", "/whyrun", fork_server, SandboxSpec(Visible()), limits, None)
    heard: queue.SimpleQueue[Received] = queue.SimpleQueue()
    place.listen(heard.put)
    assert heard.get(timeout=300) == Ended("the sandbox was lost: OSError: no more of it")
    assert place.over
    place.close()
    assert not (tmp_path / "site").exists()


@pytest.fixture
def many_descriptors() -> Iterator[int]:
    """A number of a descriptor that `select` does not know."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 3000:
        pytest.skip("no process of this machine can have so many open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 3000), hard))
    yield 2500
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_sandbox_is_heard_by_a_host_with_many_open_files(many_descriptors: int) -> None:
    process = said_by_keeper(Started(1 << 22, 1 << 22), Exited(3), number=many_descriptors)
    assert (process.started(), process.wait(300)) == (Started(1 << 22, 1 << 22), 3)
    process.end()
    not_started = said_by_keeper(StartFailed("bubblewrap says no"), number=many_descriptors)
    with pytest.raises(SandboxFailed, match="bubblewrap says no"):
        not_started.wait(300)
    not_started.end()
