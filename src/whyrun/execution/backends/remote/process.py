"""A worker process on this machine that gets its files through a site: the base of the sandbox's transport, and what
the relay in an E2B sandbox starts."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from whyrun.artifacts.durable import write_all
from whyrun.execution.backends.base import (
    LARGEST_READ,
    Ended,
    Received,
    Source,
    StepNeeds,
    WorkerLost,
    step_environment,
    worker_command,
)
from whyrun.execution.backends.remote import site
from whyrun.execution.files import safe_files
from whyrun.execution.files.scratch import Scratch
from whyrun.execution.files.tree_removal import remove
from whyrun.execution.protocol.framing import describe_exit
from whyrun.execution.worker.processes import descendants, end_group, processes_with

_CHUNK = 1 << 16
_TAIL = 4096


class ProcessTransport:
    """Its site is a folder of this machine. The host reads a step's files there without following links."""

    reusable = True
    outlives_host = True

    def __init__(self, root: Path, project: Path) -> None:
        self.root = root
        self._project = project
        self._process: subprocess.Popen[bytes] | None = None

    # --- the worker ---------------------------------------------------------------------------------------------

    def start(self, needs: StepNeeds, deliver: Callable[[Received], None]) -> None:
        self.make_site()
        with open(self.root / "worker.stderr", "wb") as stderr:
            self._process = self.launch(needs, stderr.fileno())
        threading.Thread(target=_listen, args=(self._process, deliver), daemon=True).start()

    def make_site(self) -> None:
        for folder in site.FOLDERS:
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        Scratch(self.root / site.SCRATCH).make()
        os.symlink(self._project, self.root / site.PROJECT)

    def launch(self, needs: StepNeeds, stderr: int) -> subprocess.Popen[bytes]:
        scratch = Scratch(self.root / site.SCRATCH)
        return subprocess.Popen(
            worker_command(site.worker_start(str(self.root))),
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
            raise WorkerLost(f"the worker takes no more commands: {problem.strerror}") from None

    def signal(self, signum: int) -> None:
        process = self._running()
        if signum == signal.SIGKILL:
            end_group(process.pid, descendants(process.pid))
        else:
            with suppress(ProcessLookupError):  # it has just ended; `Ended` follows
                os.killpg(process.pid, signum)

    def check(self) -> None:
        """The end of a local process is noticed at once, so there is nothing to check."""

    def last_stderr(self) -> str:
        return safe_files.tail_below(self.root, "worker.stderr", _TAIL).decode("utf-8", "replace").strip()

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            end_group(process.pid, descendants(process.pid))
            process.wait()
            home = os.fsencode(Scratch(self.root / site.SCRATCH).home)
            end_group(process.pid, processes_with(b"HOME=" + home))  # those that left group and process tree
        if self.root.exists():
            Scratch(self.root).remove()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise WorkerLost("no worker runs")
        return self._process

    # --- files --------------------------------------------------------------------------------------------------

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
        try:
            return safe_files.read_below(self.root, path, limit)
        except safe_files.FileTooLarge as problem:
            raise WorkerLost(str(problem)) from None

    def fetch(self, path: str, target: Path) -> bool:
        return safe_files.fetch_below(self.root, path, target)

    def fetch_tree(self, path: str, target: Path) -> bool:
        return safe_files.fetch_tree_below(self.root, path, target)

    def remove(self, path: str) -> None:
        if os.path.lexists(self.root / path):
            remove(str(self.root / path))


def _listen(process: subprocess.Popen[bytes], deliver: Callable[[Received], None]) -> None:
    """Deliver messages until the process is gone. The end of the pipe is not the end of the process, nor the other way
    round: a process that a step left running may hold the pipe open."""
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
            if not _drain(stdout.fileno(), deliver):
                poll.unregister(stdout)
                poll.poll()  # now only the process itself is waited for
                gone = True
    os.close(death)
    deliver(Ended(describe_exit(process.wait())))


def _drain(descriptor: int, deliver: Callable[[Received], None]) -> bool:
    """Deliver everything that is in the pipe. Returns False at the end of the pipe."""
    while True:
        try:
            chunk = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return True
        if not chunk:
            return False
        deliver(chunk)
