"""One sandbox with its site: what the host gives to it, hears from it, and takes away at the end."""

from __future__ import annotations

import os
import signal
import stat
import threading
from collections.abc import Callable
from pathlib import Path

from whyrun.execution.backends import site
from whyrun.execution.backends.bubblewrap import Limits, SandboxSpec
from whyrun.execution.backends.copying import copy_content
from whyrun.execution.backends.process import ending
from whyrun.execution.backends.sandbox_process import Nursery, SandboxFailed, SandboxProcess, hand_over
from whyrun.execution.backends.transport import Ended, Heard
from whyrun.execution.scratch import Scratch
from whyrun.execution.wire import encode

STDERR = "worker.stderr"  # of the worker process itself; beside what the sandbox sees
_CHUNK = 1 << 16
_PATIENCE = 5.0  # seconds for a worker that says nothing more to be gone


class SandboxPlace:
    def __init__(
        self, root: Path, inside: str, nursery: Nursery, spec: SandboxSpec, limits: Limits, user: int | None
    ) -> None:
        """`root`: of its site, here; `inside`: how the sandbox calls it."""
        self.root, self.spec, self.limits = root, spec, limits
        self.over = False
        self._too_much = ""
        self._listener: threading.Thread | None = None
        _make_site(root, user)
        theirs_in, self._stdin = os.pipe()
        self._stdout, theirs_out = os.pipe()
        facts = encode(site.worker_start(inside)).decode()
        try:
            with open(root / STDERR, "wb") as stderr:
                self.process: SandboxProcess = nursery.start(
                    spec, limits, facts=facts, stdin=theirs_in, stdout=theirs_out, stderr=stderr.fileno()
                )
        except BaseException:
            os.close(self._stdin)
            os.close(self._stdout)
            raise
        finally:
            os.close(theirs_in)
            os.close(theirs_out)

    @property
    def stdin(self) -> int:
        return self._stdin

    def stands(self) -> bool:
        """Whether a worker is there, waiting for its step."""
        try:
            return self.process.wait(0) is None
        except SandboxFailed:
            return False

    def listen(self, tell: Callable[[Heard], None]) -> None:
        self._listener = threading.Thread(target=self._listen, args=(tell,), daemon=True)
        self._listener.start()

    def _listen(self, tell: Callable[[Heard], None]) -> None:
        """Until it is gone. Its end is told whatever happens: somebody waits for it."""
        reason = ending(-signal.SIGKILL)
        try:
            while chunk := os.read(self._stdout, _CHUNK):
                tell(chunk)
            status = self.process.wait(_PATIENCE)
            if status is None:
                self.process.signal(signal.SIGKILL)
                status = self.process.wait(_PATIENCE)
            reason = ending(-signal.SIGKILL if status is None else status)
        except (SandboxFailed, OSError) as failed:
            reason = f"the sandbox was lost: {failed}"
        finally:
            self.over = True
            tell(Ended(self._too_much or reason))

    def uses_too_much(self) -> None:
        limit = self.limits.memory
        size = f"{limit / 1e9:.1f} GB" if limit >= 1e9 else f"{limit / 1e6:.0f} MB"
        self._too_much = f"the worker was killed: its step used more memory than its sandbox may ({size})"
        self.process.signal(signal.SIGKILL)

    def close(self) -> None:
        """Nothing of it is left."""
        os.close(self._stdin)
        if self._listener is not None:  # it hears the end, and `end` would take that from it
            self.process.signal(signal.SIGKILL)
            self._listener.join()
        self.process.end()
        os.close(self._stdout)
        Scratch(self.root).remove()


def _make_site(root: Path, user: int | None) -> None:
    for folder in (root, *(root / name for name in (site.PROJECT, *site.FOLDERS))):
        visible_folder(folder)
    Scratch(root / site.SCRATCH).make()
    hand_over(str(root / "out"), user)


def visible_folder(folder: Path) -> None:
    """For whoever the sandbox belongs to, whatever rights new files of the host have."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for new in reversed(missing):
        new.mkdir()
        new.chmod(0o755)


def make_visible(folder: Path) -> None:
    """With all that is in it, as `visible_folder`."""
    folder.chmod(0o755)
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(parent, name)
            mode = os.lstat(path).st_mode
            if not stat.S_ISLNK(mode):
                os.chmod(path, 0o755 if mode & stat.S_IXUSR else 0o644)


def place_file(source: Path | bytes, target: Path) -> None:
    """A copy that the sandbox can read: the host's own file stays out of its reach, also for a second name of it."""
    visible_folder(target.parent)
    if isinstance(source, bytes):
        target.write_bytes(source)
        target.chmod(0o644)
    elif source.is_dir():
        visible_folder(target)
        for entry in sorted(source.iterdir()):
            place_file(entry, target / entry.name)
    elif source.is_file():
        with open(source, "rb") as before, open(target, "wb") as after:
            copy_content(before.fileno(), after.fileno())
        target.chmod(0o755 if os.access(source, os.X_OK) else 0o644)
