"""The same worker in an E2B sandbox, through the real `e2b` SDK. One sandbox a worker; it ends with the worker."""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from whyrun.errors import error
from whyrun.execution.backends.remote import RemotePost
from whyrun.execution.backends.threaded import ThreadedBackend
from whyrun.execution.backends.transport import LARGEST_READ, Heard, PlaceLost, Source
from whyrun.execution.bundle import Bundle, bundle_project
from whyrun.execution.commands import Session, StepNeeds

if TYPE_CHECKING:
    from whyrun.execution.backends.e2b_place import Place

_TAIL = 4096


def e2b_backend() -> ThreadedBackend:
    found = importlib.util.find_spec("e2b")
    if found is None or found.origin is None:
        raise error("BACKEND_UNAVAILABLE", "the package `e2b` is not installed", hint="pip install 'whyrun[e2b]'")
    if not os.environ.get("E2B_API_KEY"):
        raise error("BACKEND_UNAVAILABLE", "there is no key for E2B", hint="set the variable E2B_API_KEY to yours")
    return ThreadedBackend("e2b", _Posts().make)


class _Posts:
    """All sandboxes of a run get the same bundle, which is made once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bundle: Bundle | None = None

    def make(self, session: Session) -> RemotePost:
        with self._lock:
            if self._bundle is None:
                self._bundle = session.bundle() if session.bundle is not None else bundle_project(session.project)
        return RemotePost(session, E2BTransport(self._bundle, session.run, session.tmp))


class E2BTransport:
    reusable = True
    outlives_host = False

    def __init__(self, bundle: Bundle, run: str, tmp: Path) -> None:
        self._bundle = bundle
        self._run = run
        self._tmp = tmp
        self._place: Place | None = None

    # --- the worker --------------------------------------------------------------------------------------------------

    def start(self, needs: StepNeeds, tell: Callable[[Heard], None]) -> None:
        from whyrun.execution.backends.e2b_place import Place  # the SDK takes a second to import

        self._place = Place.make(self._bundle, self._run, self._tmp, tell)

    def fits(self, needs: StepNeeds) -> bool:
        return self._place is not None and not self._place.stream.ended

    def send(self, line: bytes) -> None:
        self._there().stream.send(line)

    def signal(self, signum: int) -> None:
        self._there().stream.signal(signum)

    def check(self) -> None:
        place = self._there()
        place.reach.look()
        place.stream.look()

    def last_stderr(self) -> str:
        place = self._there()
        said = place.files.tail("worker.stderr", _TAIL) or place.stream.stderr().encode()
        return said[-_TAIL:].decode("utf-8", "replace").strip()

    def close(self) -> None:
        place, self._place = self._place, None
        if place is not None:
            place.close()

    def _there(self) -> Place:
        if self._place is None:
            raise PlaceLost("there is no sandbox")
        return self._place

    # --- files -------------------------------------------------------------------------------------------------------

    def put(self, files: Mapping[str, Source]) -> None:
        self._there().files.put(files)

    def get(self, path: str, limit: int = LARGEST_READ) -> bytes:
        return self._there().files.get(path, limit)

    def fetch(self, path: str, target: Path) -> bool:
        return self._there().files.fetch(path, target)

    def fetch_tree(self, path: str, target: Path) -> bool:
        return self._there().files.fetch_tree(path, target)

    def remove(self, path: str) -> None:
        self._there().files.remove(path)
