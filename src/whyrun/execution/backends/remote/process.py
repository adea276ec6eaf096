"""A worker process at a site on this machine: what a sandbox wraps, and what a cluster's worker starts."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from whyrun.actions.child import whyrun_home
from whyrun.artifacts.durable import write_all
from whyrun.execution.backends import site, untrusted
from whyrun.execution.backends.transport import LARGEST_READ, Ended, Heard, PlaceLost, Source
from whyrun.execution.commands import StepNeeds
from whyrun.execution.isolation import descendants, end_group, processes_with
from whyrun.execution.scratch import Scratch
from whyrun.execution.trees import remove
from whyrun.execution.wire import encode

_CHUNK = 1 << 16
_TAIL = 4096


class ProcessTransport:
    """Its site is a folder of this machine. What steps leave there is read without following any link."""

    reusable = True
    outlives_host = True

    def __init__(self, root: Path, project: Path) -> None:
        self.root = root
        self._project = project
        self._process: subprocess.Popen[bytes] | None = None

    # --- the worker ----------------------------------------------------------------------------------------------

    def start(self, needs: StepNeeds, tell: Callable[[Heard], None]) -> None:
        self.make_site()
        with open(self.root / "worker.stderr", "wb") as stderr:
            self._process = self.launch(needs, stderr.fileno())
        threading.Thread(target=_listen, args=(self._process, tell), daemon=True).start()

    def make_site(self) -> None:
        for folder in site.FOLDERS:
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        Scratch(self.root / site.SCRATCH).make()
        os.symlink(self._project, self.root / site.PROJECT)

    def launch(self, needs: StepNeeds, stderr: int) -> subprocess.Popen[bytes]:
        scratch = Scratch(self.root / site.SCRATCH)
        return subprocess.Popen(
            worker_command(str(self.root)),
            env=step_environment(str(scratch.home), str(scratch.tmp)),
            cwd=scratch.work,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        )

    def fits(self, needs: StepNeeds) -> bool:
        return self._process is not None and self._process.poll() is None

    def send(self, line: bytes) -> None:
        process = self._running()
        assert process.stdin is not None
        try:
            write_all(process.stdin.fileno(), line)
        except OSError as problem:
            raise PlaceLost(f"the worker takes no more commands: {problem.strerror}") from None

    def signal(self, signum: int) -> None:
        process = self._running()
        if signum == signal.SIGKILL:
            end_group(process.pid, descendants(process.pid))
        else:
            with suppress(ProcessLookupError):  # it has just ended, and its end is on its way
                os.killpg(process.pid, signum)

    def check(self) -> None:
        """Its end is heard at once, so there is nothing to ask."""

    def last_stderr(self) -> str:
        return untrusted.tail_below(self.root, "worker.stderr", _TAIL).decode("utf-8", "replace").strip()

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            end_group(process.pid, descendants(process.pid))
            process.wait()
            home = os.fsencode(Scratch(self.root / site.SCRATCH).home)
            end_group(process.pid, processes_with(b"HOME=" + home))  # what left both group and tree
        if self.root.exists():
            Scratch(self.root).remove()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise PlaceLost("no worker runs")
        return self._process

    # --- files ---------------------------------------------------------------------------------------------------

    def put(self, files: Mapping[str, Source]) -> None:
        for path, source in files.items():
            target = self.root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(source, bytes):
                target.write_bytes(source)
            elif source.is_dir():
                shutil.rmtree(target, ignore_errors=True)
                shutil.copytree(source, target)
            else:
                target.unlink(missing_ok=True)
                shutil.copyfile(source, target)

    def get(self, path: str, limit: int = LARGEST_READ) -> bytes:
        return untrusted.read_below(self.root, path, limit)

    def fetch(self, path: str, target: Path) -> bool:
        return untrusted.fetch_below(self.root, path, target)

    def fetch_tree(self, path: str, target: Path) -> bool:
        return untrusted.fetch_tree_below(self.root, path, target)

    def remove(self, path: str) -> None:
        if os.path.lexists(self.root / path):
            remove(str(self.root / path))


def worker_command(root: str, python: str = sys.executable) -> list[str]:
    return [python, "-P", "-m", "whyrun.execution.worker", encode(site.worker_start(root)).decode()]


def step_environment(home: str, tmp: str) -> dict[str, str]:
    """All that a step sees of the host's environment."""
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": home, "TMPDIR": tmp, "LANG": "C.UTF-8"}
    own = whyrun_home()
    if own is not None:
        environment["PYTHONPATH"] = own
    return environment


def ending(status: int) -> str:
    """How a worker process ended, in words."""
    if status >= 0:
        return f"the worker exited with status {status} while the step ran"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"the worker was killed by {name}"


def _listen(process: subprocess.Popen[bytes], tell: Callable[[Heard], None]) -> None:
    """Until the process is gone. The end of its pipe is no sign of that: what a step left behind may hold it open."""
    assert process.stdout is not None
    death = os.pidfd_open(process.pid)
    with process.stdout as stdout:
        os.set_blocking(stdout.fileno(), False)
        poll = select.poll()
        poll.register(stdout, select.POLLIN)
        poll.register(death, select.POLLIN)
        gone = False
        while not gone:
            gone = death in [descriptor for descriptor, _ in poll.poll()]
            if not _drain(stdout.fileno(), tell):
                poll.unregister(stdout)
                poll.poll()  # only its death is left
                gone = True
    os.close(death)
    tell(Ended(ending(process.wait())))


def _drain(descriptor: int, tell: Callable[[Heard], None]) -> bool:
    """Tell all that is there; False at the end of the pipe."""
    while True:
        try:
            chunk = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return True
        if not chunk:
            return False
        tell(chunk)
