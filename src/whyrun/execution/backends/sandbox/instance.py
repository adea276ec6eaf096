"""One sandbox with its site: creates both, receives the worker's messages, and removes both."""

from __future__ import annotations

import os
import signal
import stat
import threading
from collections.abc import Callable
from pathlib import Path

from whyrun.execution.backends.base import Ended, Received
from whyrun.execution.backends.remote import site
from whyrun.execution.backends.sandbox.bubblewrap import Limits, SandboxSpec
from whyrun.execution.backends.sandbox.launcher import ForkServer, SandboxFailed, SandboxProcess, hand_over
from whyrun.execution.files.safe_files import copy_content
from whyrun.execution.files.scratch import Scratch
from whyrun.execution.protocol.framing import describe_exit, encode

STDERR = "worker.stderr"  # stderr of the worker process itself; the sandbox does not see the file
_CHUNK = 1 << 16
_PATIENCE = 5.0  # seconds for a worker that has closed its stdout to end


class SandboxInstance:
    def __init__(
        self, root: Path, inside: str, fork_server: ForkServer, spec: SandboxSpec, limits: Limits, user: int | None
    ) -> None:
        """`root`: path of the site on the host; `inside`: its path in the sandbox."""
        self.root, self.spec, self.limits = root, spec, limits
        self.over = False
        self._over_limit = ""
        self._listener: threading.Thread | None = None
        _make_site(root, user)
        worker_in, self._stdin = os.pipe()
        self._stdout, worker_out = os.pipe()
        start = encode(site.worker_start(inside, single=True)).decode()
        try:
            with open(root / STDERR, "wb") as stderr:
                self.process: SandboxProcess = fork_server.start(
                    spec, limits, start=start, stdin=worker_in, stdout=worker_out, stderr=stderr.fileno()
                )
        except BaseException:
            os.close(self._stdin)
            os.close(self._stdout)
            raise
        finally:
            os.close(worker_in)
            os.close(worker_out)

    @property
    def stdin(self) -> int:
        return self._stdin

    def is_waiting(self) -> bool:
        """Whether the worker runs and waits for its step."""
        try:
            return self.process.wait(0) is None
        except SandboxFailed:
            return False

    def listen(self, deliver: Callable[[Received], None]) -> None:
        self._listener = threading.Thread(target=self._listen, args=(deliver,), daemon=True)
        self._listener.start()

    def _listen(self, deliver: Callable[[Received], None]) -> None:
        """Deliver messages until the worker is gone. Always delivers `Ended`, because the remote worker waits for
        it."""
        reason = describe_exit(-signal.SIGKILL)
        try:
            while chunk := os.read(self._stdout, _CHUNK):
                deliver(chunk)
            status = self.process.wait(_PATIENCE)
            if status is None:
                self.process.signal(signal.SIGKILL)
                status = self.process.wait(_PATIENCE)
            reason = describe_exit(-signal.SIGKILL if status is None else status)
        except (SandboxFailed, OSError) as failed:
            reason = f"the sandbox was lost: {failed}"
        finally:
            self.over = True
            deliver(Ended(self._over_limit or reason))

    def exceeds(self, what: str) -> None:
        """End the sandbox, because its step uses too much `memory` or `disk`."""
        limit, name = (self.limits.disk, "disk space") if what == "disk" else (self.limits.memory, "memory")
        self._over_limit = f"the worker was killed: its step used more {name} than its sandbox may ({size_text(limit)})"
        self.process.signal(signal.SIGKILL)

    def close(self) -> None:
        """End the sandbox and remove its folder."""
        os.close(self._stdin)
        if self._listener is not None:  # let it read the exit status first, which `end` would consume
            self.process.signal(signal.SIGKILL)
            self._listener.join()
        self.process.end()
        os.close(self._stdout)
        Scratch(self.root).remove()


def size_text(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def _make_site(root: Path, user: int | None) -> None:
    for folder in (root, *(root / name for name in (site.PROJECT, *site.FOLDERS))):
        visible_folder(folder)
    Scratch(root / site.SCRATCH).make()
    hand_over(str(root / site.WRITTEN), user)


def private_folder(folder: Path, user: int | None) -> None:
    """Create a folder that only the sandbox's user, and root, can enter."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if user is not None:
        os.chown(folder, user, user)


def visible_folder(folder: Path) -> None:
    """Create a folder that the sandbox's user can read, whatever the umask is."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for new in reversed(missing):
        new.mkdir()
        new.chmod(0o755)


def make_visible(folder: Path) -> None:
    """Make a folder and everything in it readable for the sandbox's user."""
    folder.chmod(0o755)
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(parent, name)
            mode = os.lstat(path).st_mode
            if not stat.S_ISLNK(mode):
                os.chmod(path, 0o755 if mode & stat.S_IXUSR else 0o644)


def copy_visible(source: Path | bytes, target: Path) -> None:
    """Copy a file or folder so that the sandbox can read it. Never a hard link: the sandbox must not reach the host's
    own file."""
    visible_folder(target.parent)
    if isinstance(source, bytes):
        target.write_bytes(source)
        target.chmod(0o644)
    elif source.is_dir():
        visible_folder(target)
        for entry in sorted(source.iterdir()):
            copy_visible(entry, target / entry.name)
    elif source.is_file():
        with open(source, "rb") as original, open(target, "wb") as copy:
            copy_content(original.fileno(), copy.fileno())
        target.chmod(0o755 if os.access(source, os.X_OK) else 0o644)
