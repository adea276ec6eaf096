"""One E2B sandbox: made, set up with the bundle, kept alive while it is needed, deleted."""

from __future__ import annotations

import os
import shlex
import threading
import uuid
from collections.abc import Callable
from pathlib import Path

from e2b import Sandbox

from whyrun.execution import unpack
from whyrun.execution.backends import remote_setup
from whyrun.execution.backends.e2b_calls import GONE, SDK_ERRORS, Reach, brief
from whyrun.execution.backends.e2b_files import Files
from whyrun.execution.backends.e2b_stream import Stream
from whyrun.execution.backends.transport import Heard, PlaceLost
from whyrun.execution.bundle import PACKAGE, PROJECT, Bundle

WORKER_NEEDS = ("msgspec>=0.20",)  # all that a worker imports beside Whyrun itself and what its actions bring
TEMPLATE = "WHYRUN_E2B_TEMPLATE"  # the variable that names one
LIFETIME = 300  # seconds that a sandbox outlives a host which does not delete it
_PROLONG = 60.0  # seconds after which its end is put off again
_NEEDS = "requirements.txt"
_MAKING = 60.0  # seconds for a new one
_CLOSING = 10.0  # seconds to delete it; else its lifetime ends it
_HOPELESS = 0.3  # seconds, where it did not answer before
_SETTINGS = "PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_BREAK_SYSTEM_PACKAGES=1 PIP_NO_INPUT=1"


class Place:
    def __init__(self, sandbox: Sandbox, tmp: Path, tell: Callable[[Heard], None]) -> None:
        self._sandbox = sandbox
        self.reach = Reach(sandbox)
        self.stream = Stream(sandbox, self.reach, tell)
        self._tmp = tmp
        self._folder = ""
        self._sites = 0
        self._closed = threading.Event()

    @classmethod
    def make(cls, bundle: Bundle, run: str, tmp: Path, tell: Callable[[Heard], None]) -> Place:
        try:
            sandbox = Sandbox.create(
                os.environ.get(TEMPLATE),
                timeout=LIFETIME,
                metadata={"whyrun": run},
                idempotency_key=str(uuid.uuid4()),
                request_timeout=_MAKING,
            )
        except SDK_ERRORS as problem:
            raise PlaceLost(f"no sandbox could be made: {brief(problem)}") from problem
        place = cls(sandbox, tmp, tell)
        threading.Thread(target=place._keep, daemon=True).start()
        try:
            place._set_up(bundle)
            place._start_worker()
        except BaseException:
            place.close()
            raise
        return place

    def _set_up(self, bundle: Bundle) -> None:
        # What the sandbox calls its folders, a template may decide.
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
        # Into the sandbox's own Python, which is thrown away with it; as root, to whom it belongs.
        install = f"python3 -m pip install -q {shlex.join(WORKER_NEEDS)} $(test -f {_NEEDS} && echo -r {_NEEDS})"
        here.run(f"{enter}/bundle/{PROJECT} && export {_SETTINGS} && {install}", user="root")

    def _start_worker(self) -> None:
        self.stream.start(self._relay_command)
        self.files = self._files(self._site)

    def _files(self, root: str) -> Files:
        return Files(self._sandbox, self.reach, root, self._tmp)

    def _relay_command(self) -> str:
        self._sites += 1
        bundle = f"{self._folder}/bundle"
        words = ["-P", "-m", "whyrun.execution.backends.relay", self._site, f"{bundle}/{PROJECT}"]
        return f"PYTHONPATH={shlex.quote(f'{bundle}/{PACKAGE}')} exec python3 {shlex.join(words)}"

    @property
    def _site(self) -> str:
        return f"{self._folder}/site-{self._sites}"

    def _keep(self) -> None:
        """Its lifetime is short, so that none is left behind for long; while there is a host, it is put off."""
        while not self._closed.wait(_PROLONG):
            try:
                self._sandbox.set_timeout(LIFETIME)
            except GONE:
                self.reach.lose("the sandbox is gone")
                return
            except SDK_ERRORS:
                pass  # there are several more chances before its time is over

    def close(self) -> None:
        self._closed.set()
        self.stream.close()
        closing = threading.Thread(target=_delete, args=(self._sandbox,), daemon=True)
        closing.start()
        closing.join(_HOPELESS if self.reach.is_lost else _CLOSING)


def _delete(sandbox: Sandbox) -> None:
    """In a thread: the SDK waits longer for an answer than anyone should who is leaving."""
    try:
        sandbox.kill(request_timeout=_CLOSING)
    except SDK_ERRORS:
        pass  # out of reach; its lifetime ends it
