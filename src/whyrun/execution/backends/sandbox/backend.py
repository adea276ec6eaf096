"""The same worker in a sandbox: no file but the step's inputs and the interpreter, no network, no rights.

A new sandbox for every step, and the next one is made while a step runs.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path

from whyrun.actions.editable import BUNDLED
from whyrun.artifacts.durable import write_all
from whyrun.errors import Diagnostic, InvalidError
from whyrun.execution.backends import site
from whyrun.execution.backends.bubblewrap import Limits, Mount, SandboxSpec, Tools, Visible
from whyrun.execution.backends.memory_watch import MemoryWatch
from whyrun.execution.backends.process import ProcessTransport
from whyrun.execution.backends.remote import RemotePost
from whyrun.execution.backends.sandbox_check import find_tools, why_unavailable
from whyrun.execution.backends.sandbox_place import SandboxPlace, make_visible, place_file, visible_folder
from whyrun.execution.backends.sandbox_process import Nursery, SandboxFailed, real_user
from whyrun.execution.backends.sandbox_view import Machine, interpreter_view, programs, search_path
from whyrun.execution.backends.threaded import ThreadedBackend
from whyrun.execution.backends.transport import Heard, PlaceLost, Source
from whyrun.execution.bundle import PROJECT, bundle_project, unpack
from whyrun.execution.commands import Session, StepNeeds
from whyrun.execution.scratch import Scratch

_CODE_SUFFIXES = (".py", ".pyi", ".so")
PROCESSES = 512  # unless the job says otherwise
_INSIDE = "/whyrun"  # its site, as a step sees it
_SITES, _CODE = "/run/whyrun/sites", "/run/whyrun/code"  # what only the nursery sees


def sandbox_backend() -> SandboxBackend:
    """Refused where this machine cannot have sandboxes: a step that must be confined is not run without."""
    problem = why_unavailable()
    if problem is not None:
        raise InvalidError([problem])
    tools = find_tools()
    assert not isinstance(tools, Diagnostic)
    return SandboxBackend(tools)


class SandboxBackend(ThreadedBackend):
    def __init__(self, tools: Tools) -> None:
        super().__init__("sandbox", self._post)
        self._tools = tools
        self._making = threading.Lock()
        self._common: _Common | None = None
        self._transports: list[SandboxTransport] = []

    def _post(self, session: Session) -> RemotePost:
        with self._making:
            if self._common is None:
                self._common = _Common(session, self._tools)
            transport = SandboxTransport(self._common, len(self._transports))
            self._transports.append(transport)
        return RemotePost(session, transport)

    def close(self) -> None:
        super().close()
        for transport in self._transports:
            transport.leave()
        if self._common is not None:
            self._common.close()


class _Common:
    """What all sandboxes of a run share: the code, what is seen of the machine, and who watches them."""

    def __init__(self, session: Session, tools: Tools) -> None:
        self.session, self.tools = session, tools
        self.watch = MemoryWatch()
        self.machine = Machine(programs() + interpreter_view(project=str(session.project)))
        self._folder = session.tmp / f"{session.run}-code-{os.getpid()}"
        bundle = session.bundle() if session.bundle is not None else bundle_project(session.project)
        unpack(bundle.data, str(self._folder), bundle.sha256)
        self.code = self._folder / PROJECT
        _leave_code_only(self.code, bundle.code)
        visible_folder(self.code)
        make_visible(self.code)

    def close(self) -> None:
        self.watch.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _leave_code_only(project: Path, code: frozenset[str]) -> None:
    """A step that reads a file which nobody declares must not find it here: that is how its author learns of it."""
    for path in sorted(project.rglob("*")) if project.is_dir() else ():
        name = path.relative_to(project).as_posix()
        if not path.is_dir() and not name.endswith(_CODE_SUFFIXES) and name not in {*code, BUNDLED}:
            path.unlink()


class SandboxTransport(ProcessTransport):
    reusable = False

    def __init__(self, common: _Common, slot: int) -> None:
        session = common.session
        self._common = common
        self._user = real_user(slot)
        self._sites = session.tmp / f"{session.run}-sandbox-{os.getpid()}-{slot}"
        self._numbers = count(1)
        self._making = threading.Lock()
        self._nursery: Nursery | None = None
        self._place: SandboxPlace | None = None
        self._spare: Future[SandboxPlace] | None = None  # made while the step before runs
        self._aside = ThreadPoolExecutor(2, "whyrun-sandbox")
        super().__init__(self._sites / "0", session.project)

    # --- the worker ----------------------------------------------------------------------------------------------

    def start(self, needs: StepNeeds, tell: Callable[[Heard], None]) -> None:
        place = self._take_spare(needs)
        try:
            if place is None:
                place = self._make_place(needs)
            self._place, self.root = place, place.root
            born = place.process.born()
        except SandboxFailed as failed:
            self.close()
            raise PlaceLost(f"the sandbox could not be made: {failed}") from None
        place.listen(tell)
        self._common.watch.watch(place, (born.first, born.worker), place.limits.memory, place.uses_too_much)
        self._spare = self._aside.submit(self._make_place, needs)

    def _take_spare(self, needs: StepNeeds) -> SandboxPlace | None:
        spare, self._spare = self._spare, None
        if spare is None or spare.exception() is not None:  # what keeps it from being made is told by the next attempt
            return None
        place = spare.result()
        if _suits(place, needs) and place.stands():
            return place
        self._aside.submit(place.close)
        return None

    def _make_place(self, needs: StepNeeds) -> SandboxPlace:
        nursery = self._living_nursery()
        name = str(next(self._numbers))
        there = f"{_SITES}/{name}"
        own = Visible(
            read_only=(Mount(f"{there}/in", f"{_INSIDE}/in"), Mount(_CODE, f"{_INSIDE}/{site.PROJECT}")),
            writable=(Mount(f"{there}/out", f"{_INSIDE}/out"),),
        )
        visible = self._common.machine.for_sandbox(needs.network) + own
        scratch = Scratch(Path(_INSIDE) / site.SCRATCH)
        environment = {
            "PATH": search_path(os.environ.get("PATH", os.defpath), visible),
            "HOME": str(scratch.home),
            "TMPDIR": str(scratch.tmp),
            "LANG": "C.UTF-8",
        }
        spec = SandboxSpec(visible, needs.network, tuple(environment.items()), str(scratch.work))
        return SandboxPlace(self._sites / name, _INSIDE, nursery, spec, _limits(needs), self._user)

    def _living_nursery(self) -> Nursery:
        """The one there is; a new one, if the kernel or somebody else has ended it."""
        with self._making:
            if self._nursery is not None and not self._nursery.lives():
                self._nursery.close()
                self._nursery = None
            if self._nursery is None:
                visible_folder(self._sites)
                own = Visible(
                    read_only=(Mount(str(self._common.code), _CODE),), writable=(Mount(str(self._sites), _SITES),)
                )
                visible = self._common.machine.for_nursery() + own
                mark = str(Scratch(self._sites).home)
                self._nursery = Nursery(visible, self._common.tools, self._user, mark)
            return self._nursery

    def fits(self, needs: StepNeeds) -> bool:
        return self._place is not None and not self._place.over and _suits(self._place, needs)

    def send(self, line: bytes) -> None:
        try:
            write_all(self._there().stdin, line)
        except OSError as problem:
            raise PlaceLost(f"the worker takes no more commands: {problem.strerror}") from None

    def signal(self, signum: int) -> None:
        self._there().process.signal(signum)

    def close(self) -> None:
        """All that runs in it is ended at once; that it is gone, and its folder too, nobody has to wait for."""
        place, self._place = self._place, None
        if place is not None:
            self._common.watch.forget(place)
            with suppress(SandboxFailed):
                place.process.signal(signal.SIGKILL)
            self._aside.submit(place.close)

    def leave(self) -> None:
        """Nothing more is to come."""
        self.close()
        spare, self._spare = self._spare, None
        if spare is not None and spare.exception() is None:
            spare.result().close()
        self._aside.shutdown()
        if self._nursery is not None:
            self._nursery.close()
            Scratch(self._sites).remove()

    def _there(self) -> SandboxPlace:
        if self._place is None:
            raise PlaceLost("no worker runs")
        return self._place

    # --- files ---------------------------------------------------------------------------------------------------

    def put(self, files: Mapping[str, Source]) -> None:
        """Only before a step begins: nothing but our worker has been in the sandbox, so no link can be in the way."""
        for path, source in files.items():
            place_file(source, self.root / path)


def _limits(needs: StepNeeds) -> Limits:
    return Limits(needs.memory or _half_of_memory(), needs.processes or PROCESSES)


def _half_of_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _suits(place: SandboxPlace, needs: StepNeeds) -> bool:
    return (place.spec.network, place.limits) == (needs.network, _limits(needs))
