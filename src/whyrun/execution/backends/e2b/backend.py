"""Runs the worker in E2B sandboxes, through the `e2b` SDK. Each worker has its own sandbox, which ends with it."""

from __future__ import annotations

import importlib.util
import os
import shlex
import threading
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from e2b import Sandbox

from whyrun.errors import error
from whyrun.execution.backends.base import LARGEST_READ, Received, Session, Source, StepNeeds, WorkerLost
from whyrun.execution.backends.e2b.calls import GONE, SDK_ERRORS, SandboxConnection, short_message
from whyrun.execution.backends.e2b.files import Files
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
_PROLONG = 60.0  # seconds between two extensions of the lifetime
_NEEDS = "requirements.txt"
_CREATING = 60.0  # seconds to create a sandbox
_CLOSING = 10.0  # seconds to delete it; else its lifetime ends it
_CLOSING_LOST = 0.3  # seconds to delete one that did not answer before
_SETTINGS = "PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_BREAK_SYSTEM_PACKAGES=1 PIP_NO_INPUT=1"


class E2BInstance:
    def __init__(self, sandbox: Sandbox, tmp: Path, deliver: Callable[[Received], None]) -> None:
        self._sandbox = sandbox
        self.connection = SandboxConnection(sandbox)
        self.stream = Stream(sandbox, self.connection, deliver)
        self._tmp = tmp
        self._folder = ""
        self._sites = 0
        self._closed = threading.Event()

    @classmethod
    def create(cls, bundle: Bundle, run: str, tmp: Path, deliver: Callable[[Received], None]) -> E2BInstance:
        try:
            sandbox = Sandbox.create(
                os.environ.get(TEMPLATE),
                timeout=LIFETIME,
                metadata={"whyrun": run},
                idempotency_key=str(uuid.uuid4()),
                request_timeout=_CREATING,
            )
        except SDK_ERRORS as problem:
            raise WorkerLost(f"no sandbox could be created: {short_message(problem)}") from problem
        instance = cls(sandbox, tmp, deliver)
        threading.Thread(target=instance._prolong, daemon=True).start()
        try:
            instance._set_up(bundle)
            instance._start_worker()
        except BaseException:
            instance.close()
            raise
        return instance

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
        words = ["python3", "remote_setup.py", "bundle.tar", "bundle", bundle.sha256, *WORKER_NEEDS]
        enter = f"cd {shlex.quote(self._folder)}"
        if not here.run(f"{enter} && {shlex.join(words)}").strip():
            return
        # Into the sandbox's own Python, which belongs to root and ends with the sandbox.
        install = f"python3 -m pip install -q {shlex.join(WORKER_NEEDS)} $(test -f {_NEEDS} && echo -r {_NEEDS})"
        here.run(f"{enter}/bundle/{PROJECT} && export {_SETTINGS} && {install}", user="root")

    def _start_worker(self) -> None:
        self.stream.start(self._relay_command)
        self.files = self._files(self._site)

    def _files(self, root: str) -> Files:
        return Files(self._sandbox, self.connection, root, self._tmp)

    def _relay_command(self) -> str:
        self._sites += 1
        bundle = f"{self._folder}/bundle"
        words = ["-P", "-m", "whyrun.execution.backends.e2b.relay", self._site, f"{bundle}/{PROJECT}"]
        return f"PYTHONPATH={shlex.quote(f'{bundle}/{PACKAGE}')} exec python3 {shlex.join(words)}"

    @property
    def _site(self) -> str:
        return f"{self._folder}/site-{self._sites}"

    def _prolong(self) -> None:
        """Extend the lifetime while the host is alive. It is short, so that no sandbox outlives a killed host for
        long."""
        while not self._closed.wait(_PROLONG):
            try:
                self._sandbox.set_timeout(LIFETIME)
            except GONE:
                self.connection.lose("the sandbox is gone")
                return
            except SDK_ERRORS:
                pass  # the lifetime leaves time for several more attempts

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
                self._bundle = session.bundle()
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
