"""Runs the worker in E2B sandboxes, through the `e2b` SDK. Each worker has its own sandbox, which ends with it."""

from __future__ import annotations

import importlib.util
import math
import os
import shlex
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from e2b import Sandbox, SandboxInfo

from whyrun.console.lines import size
from whyrun.errors import error, to_install
from whyrun.execution.backends.base import LARGEST_READ, Received, Session, Source, StepNeeds, WorkerLost
from whyrun.execution.backends.e2b.calls import (
    BROKEN,
    BUSY,
    GONE,
    OUTAGE,
    SDK_ERRORS,
    CommandFailed,
    Files,
    SandboxConnection,
    short_message,
)
from whyrun.execution.backends.e2b.stream import Stream
from whyrun.execution.backends.remote import setup as remote_setup
from whyrun.execution.backends.remote.remote_worker import RemoteWorker
from whyrun.execution.backends.remote.threaded import ThreadedBackend
from whyrun.execution.bundle import unpack
from whyrun.execution.bundle.bundle import PACKAGE, PROJECT, Bundle

# --- one sandbox -------------------------------------------------------------------------------------------------
#
# One E2B sandbox: creates it, installs the bundle, keeps it alive while it is needed, and deletes it.


WORKER_NEEDS = ("msgspec>=0.20",)  # what a worker imports besides Whyrun and the packages of its actions
TEMPLATE = "WHYRUN_E2B_TEMPLATE"  # environment variable with the name of the template
LIFETIME = 300  # seconds until a sandbox ends that its host neither prolongs nor deletes
# Seconds of age at which a sandbox takes no further step. The service lets a sandbox live for an hour, or a day,
# whatever its host asks for. So every step has 45 minutes at least, and a new sandbox costs seconds.
RENEWED_AFTER = 900.0
_PROLONG = 60.0  # seconds between two extensions of the lifetime
_SLACK = 30.0  # seconds by which host and service may disagree about the age
_NEEDS = "requirements.txt"
_CREATING = 60.0  # seconds to create a sandbox
_BUSY_TRIES = 5  # to create one while the service says that it is busy
_CLOSING = 10.0  # seconds to delete it; else its lifetime ends it
_CLOSING_LOST = 0.3  # seconds to delete one that did not answer before
_SETTINGS = "PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_BREAK_SYSTEM_PACKAGES=1 PIP_NO_INPUT=1"


@dataclass(frozen=True, slots=True)
class Timing:
    """Times that tests shorten."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    outage: float = OUTAGE  # seconds
    pause: float = 1.0  # seconds between two sandboxes: the service refuses more than one a second on some plans


class Turns:
    """Lets threads do something one after the other, with a pause in between."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._lock = threading.Lock()
        self._next = -math.inf

    def wait(self) -> None:
        with self._lock:
            now = self._timing.clock()
            turn = max(now, self._next)
            self._next = turn + self._timing.pause
        if turn > now:
            self._timing.sleep(turn - now)


@dataclass(frozen=True, slots=True)
class Order:
    """What sandboxes a run asks for."""

    bundle: Bundle
    run: str
    tmp: Path
    template: str | None
    turns: Turns
    timing: Timing


class E2BInstance:
    def __init__(self, sandbox: Sandbox, order: Order, began: float, deliver: Callable[[Received], None]) -> None:
        self._sandbox = sandbox
        self._order = order
        self._began = began
        self.connection = SandboxConnection(sandbox, order.timing.outage, order.timing.clock)
        self.stream = Stream(sandbox, self.connection, deliver)
        self._folder = ""
        self._sites = 0
        self._closed = threading.Event()
        self.is_ending = False  # its lifetime cannot be extended any more
        self._known: SandboxInfo | None = None

    @classmethod
    def create(cls, order: Order, needs: StepNeeds, deliver: Callable[[Received], None]) -> E2BInstance:
        key = str(uuid.uuid4())
        for tried in range(1, _BUSY_TRIES + 1):
            order.turns.wait()
            began = order.timing.clock()
            try:
                sandbox = Sandbox.create(
                    order.template,
                    timeout=LIFETIME,
                    metadata={"whyrun": order.run},
                    idempotency_key=key,
                    request_timeout=_CREATING,
                )
                break
            except BUSY as problem:
                if tried == _BUSY_TRIES:
                    raise WorkerLost(f"no sandbox could be created: {short_message(problem)}") from problem
            except SDK_ERRORS as problem:
                raise WorkerLost(f"no sandbox could be created: {short_message(problem)}") from problem
        instance = cls(sandbox, order, began, deliver)
        threading.Thread(target=instance._prolong_until_closed, daemon=True).start()
        try:
            instance._check_memory(needs)
            instance._set_up(order.bundle)
            instance._start_worker()
        except BaseException:
            instance.close()
            raise
        return instance

    @property
    def takes_steps(self) -> bool:
        return not (self.stream.ended or self.is_ending or self._age() > RENEWED_AFTER)

    def _age(self) -> float:
        return self._order.timing.clock() - self._began

    def has_memory_for(self, needs: StepNeeds) -> bool:
        return needs.memory is None or needs.memory <= self._info().memory_mb << 20

    def _info(self) -> SandboxInfo:
        if self._known is None:
            self._known = self.connection.call(self._sandbox.get_info)
        return self._known

    def _check_memory(self, needs: StepNeeds) -> None:
        """Refuse a sandbox with less memory than the job asks for. Only a template can have more."""
        if needs.memory is not None and not self.has_memory_for(needs):
            info = self._info()
            asked, template = size(needs.memory), self._order.template or "base"
            raise WorkerLost(
                f"the job asks for {asked} of memory (`sandbox: {{memory: …}}`), and the E2B template `{template}` has "
                f"{size(info.memory_mb << 20)} and {info.cpu_count} processors. Build a template with more (`e2b "
                "template build --cpu-count N --memory-mb N`), and name it with `--e2b-template`"
            )

    def _set_up(self, bundle: Bundle) -> None:
        # The template may decide about the home folder.
        self._folder = f"{self._files('').run('pwd').strip()}/whyrun"
        here = self._files(self._folder)
        here.put(
            {
                "bundle.tar": bundle.data,
                "unpack.py": Path(unpack.__file__),
                "remote_setup.py": Path(remote_setup.__file__),
            }
        )
        needs = [*WORKER_NEEDS, *bundle.needs]
        words = ["python3", "remote_setup.py", "bundle.tar", "bundle", bundle.sha256, *needs]
        enter = f"cd {shlex.quote(self._folder)}"
        missing = here.run(f"{enter} && {shlex.join(words)}").split("\n")[:-1]
        if not missing:
            return
        # Into the sandbox's own Python, which belongs to root and ends with the sandbox.
        install = f"python3 -m pip install -q {shlex.join(needs)} $(test -f {_NEEDS} && echo -r {_NEEDS})"
        try:
            here.run(f"{enter}/bundle/{PROJECT} && export {_SETTINGS} && {install}", user="root")
        except CommandFailed as failed:
            lacks = ", ".join(f"`{line}`" for line in missing)
            raise WorkerLost(
                f"the template `{self._order.template or 'base'}` lacks {lacks}, and pip could not install it there. "
                "Use a template that has it (`--e2b-template`), or one with pip and a network\n" + str(failed)
            ) from None

    def _start_worker(self) -> None:
        self.stream.start(self._relay_command)
        self.files = self._files(self._site)

    def _files(self, root: str) -> Files:
        return Files(self._sandbox, self.connection, root, self._order.tmp)

    def _relay_command(self) -> str:
        self._sites += 1
        bundle = f"{self._folder}/bundle"
        words = ["-P", "-m", "whyrun.execution.backends.e2b.relay", self._site, f"{bundle}/{PROJECT}"]
        return f"PYTHONPATH={shlex.quote(f'{bundle}/{PACKAGE}')} exec python3 {shlex.join(words)}"

    @property
    def _site(self) -> str:
        return f"{self._folder}/site-{self._sites}"

    def _prolong_until_closed(self) -> None:
        while not (self._closed.wait(_PROLONG) or self.connection.is_lost):
            self.prolong()

    def prolong(self) -> None:
        """Extend the lifetime while the host is alive. It is short, so that no sandbox outlives a killed host for long.

        The service may grant less than it was asked for, without a word, or refuse: then the sandbox takes no further
        step, and if it ends before its step does, the error says why.
        """
        asked = self._age() + LIFETIME
        try:
            self._sandbox.set_timeout(LIFETIME)
            info = self._sandbox.get_info()
        except GONE:
            self.connection.gone()
            return
        except BROKEN:
            return  # the lifetime leaves time for several more attempts
        except SDK_ERRORS as problem:
            self._will_end(f"E2B refused to extend its lifetime: {short_message(problem)}")
            return
        granted = (info.end_at - info.started_at).total_seconds()
        if granted < asked - _SLACK:
            self._will_end(f"E2B lets no sandbox live longer than {granted / 60:.0f} min here")

    def _will_end(self, why: str) -> None:
        self.is_ending = True
        self.connection.end_of_life = f": {why}. A step must end before that; split it, or use a plan with longer lives"

    def close(self) -> None:
        self._closed.set()
        self.stream.close()
        closing = threading.Thread(target=_delete, args=(self._sandbox,), daemon=True)
        closing.start()
        closing.join(_CLOSING_LOST if self.connection.is_lost else _CLOSING)


def _delete(sandbox: Sandbox) -> None:
    """Runs in a thread, because the SDK may wait longer for the answer than the host wants to."""
    try:
        sandbox.kill(request_timeout=_CLOSING)
    except SDK_ERRORS:
        pass  # it cannot be reached; its lifetime ends it


# --- the transport -----------------------------------------------------------------------------------------------


_TAIL = 4096


def e2b_backend(e2b_template: str | None = None) -> ThreadedBackend:
    spec = importlib.util.find_spec("e2b")
    if spec is None or spec.origin is None:
        raise error("BACKEND_UNAVAILABLE", "the package `e2b` is not installed", hint=to_install("e2b"))
    if not os.environ.get("E2B_API_KEY"):
        raise error("BACKEND_UNAVAILABLE", "there is no key for E2B", hint="set the variable E2B_API_KEY to yours")
    return ThreadedBackend("e2b", Workers(e2b_template or os.environ.get(TEMPLATE) or None).make)


class Workers:
    """Creates the workers of a run. All sandboxes get the same bundle, which is built once."""

    def __init__(self, template: str | None, timing: Timing = Timing()) -> None:  # it is frozen
        self._template, self._timing = template, timing
        self._lock = threading.Lock()
        self._order: Order | None = None

    def make(self, session: Session) -> RemoteWorker:
        with self._lock:
            if self._order is None:
                turns, bundle = Turns(self._timing), session.bundle()
                self._order = Order(bundle, session.run, session.tmp, self._template, turns, self._timing)
        return RemoteWorker(session, E2BTransport(self._order))


class E2BTransport:
    reusable = True
    outlives_host = False

    def __init__(self, order: Order) -> None:
        self._order = order
        self._instance: E2BInstance | None = None

    # --- the worker ---------------------------------------------------------------------------------------------

    def start(self, needs: StepNeeds, deliver: Callable[[Received], None]) -> None:
        self._instance = E2BInstance.create(self._order, needs, deliver)

    def fits(self, needs: StepNeeds) -> bool:
        return self._instance is not None and self._instance.takes_steps and self._instance.has_memory_for(needs)

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
