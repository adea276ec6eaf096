"""Runs the worker in E2B sandboxes, through the `e2b` SDK. Each worker has its own sandbox, which ends with it."""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from whyrun.errors import error
from whyrun.execution.backends.base import LARGEST_READ, Received, Session, Source, StepNeeds, WorkerLost
from whyrun.execution.backends.remote.remote_worker import RemoteWorker
from whyrun.execution.backends.remote.threaded import ThreadedBackend
from whyrun.execution.bundle.bundle import Bundle, bundle_project

if TYPE_CHECKING:
    from whyrun.execution.backends.e2b.instance import E2BInstance

_TAIL = 4096


def e2b_backend() -> ThreadedBackend:
    spec = importlib.util.find_spec("e2b")
    if spec is None or spec.origin is None:
        raise error("BACKEND_UNAVAILABLE", "the package `e2b` is not installed", hint="pip install 'whyrun[e2b]'")
    if not os.environ.get("E2B_API_KEY"):
        raise error("BACKEND_UNAVAILABLE", "there is no key for E2B", hint="set the variable E2B_API_KEY to yours")
    return ThreadedBackend("e2b", _Workers().make)


class _Workers:
    """Creates the workers of a run. All sandboxes get the same bundle, which is built once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bundle: Bundle | None = None

    def make(self, session: Session) -> RemoteWorker:
        with self._lock:
            if self._bundle is None:
                self._bundle = session.bundle() if session.bundle is not None else bundle_project(session.project)
        return RemoteWorker(session, E2BTransport(self._bundle, session.run, session.tmp))


class E2BTransport:
    reusable = True
    outlives_host = False

    def __init__(self, bundle: Bundle, run: str, tmp: Path) -> None:
        self._bundle = bundle
        self._run = run
        self._tmp = tmp
        self._instance: E2BInstance | None = None

    # --- the worker ---------------------------------------------------------------------------------------------

    def start(self, needs: StepNeeds, deliver: Callable[[Received], None]) -> None:
        from whyrun.execution.backends.e2b.instance import E2BInstance  # importing the SDK takes a second

        self._instance = E2BInstance.create(self._bundle, self._run, self._tmp, deliver)

    def fits(self, needs: StepNeeds) -> bool:
        return self._instance is not None and not self._instance.stream.ended

    def send(self, line: bytes) -> None:
        self._current().stream.send(line)

    def signal(self, signum: int) -> None:
        self._current().stream.signal(signum)

    def check(self) -> None:
        instance = self._current()
        instance.connection.check_alive()
        instance.stream.check()

    def last_stderr(self) -> str:
        instance = self._current()
        printed = instance.files.tail("worker.stderr", _TAIL) or instance.stream.stderr().encode()
        return printed[-_TAIL:].decode("utf-8", "replace").strip()

    def close(self) -> None:
        instance, self._instance = self._instance, None
        if instance is not None:
            instance.close()

    def _current(self) -> E2BInstance:
        if self._instance is None:
            raise WorkerLost("there is no sandbox")
        return self._instance

    # --- files --------------------------------------------------------------------------------------------------

    def put(self, files: Mapping[str, Source]) -> None:
        self._current().files.put(files)

    def get(self, path: str, limit: int = LARGEST_READ) -> bytes:
        return self._current().files.get(path, limit)

    def fetch(self, path: str, target: Path) -> bool:
        return self._current().files.fetch(path, target)

    def fetch_tree(self, path: str, target: Path) -> bool:
        return self._current().files.fetch_tree(path, target)

    def remove(self, path: str) -> None:
        self._current().files.remove(path)
