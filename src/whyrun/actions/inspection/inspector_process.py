"""The host's end of an asked process: start it, put a question, end it, and say how it ended."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import weakref
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec

from whyrun.actions.child import whyrun_home
from whyrun.actions.questions import Answer, Question

_TAIL = 300  # bytes of what a process printed before it died


@dataclass(frozen=True, slots=True)
class Ended:
    why: str
    idle: bool  # it went by itself, as it does when nobody asks


class AskedProcess:
    """One asked process, with nothing of the host's environment but what a step would see of it."""

    def __init__(self, project: Path) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="whyrun-asked-")
        self._printed: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `_finish`
        self._channel, theirs = socket.socketpair()
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": self._folder.name,
            "TMPDIR": self._folder.name,
            "LANG": "C.UTF-8",
        }
        home = whyrun_home()
        if home is not None:
            environment["PYTHONPATH"] = home
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "whyrun.actions.answer", str(theirs.fileno()), str(project)],
                env=environment,
                cwd=self._folder.name,
                stdin=subprocess.DEVNULL,
                stdout=self._printed,
                stderr=self._printed,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._lines = self._channel.makefile("rb")
        self._trouble = ""
        self._finish = weakref.finalize(
            self, _finish, self._process, self._channel, self._lines, self._folder, self._printed
        )

    def ask(self, question: Question, timeout: float) -> Answer | None:
        """None: it died or did not answer in time; `end` says which."""
        self._channel.settimeout(timeout)
        try:
            self._channel.sendall(msgspec.json.encode(question) + b"\n")
            line = self._lines.readline()
        except TimeoutError:
            self._trouble = f"it gave no answer within {timeout:g} s"
            return None
        except OSError:  # it is gone
            return None
        return msgspec.json.decode(line, type=Answer) if line.endswith(b"\n") else None

    def is_gone(self) -> bool:
        return self._process.poll() is not None

    def end(self) -> Ended:
        """End it; in words, how it went."""
        if self._trouble:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._channel.shutdown(socket.SHUT_RDWR)
        status = self._process.wait()
        size = self._printed.seek(0, os.SEEK_END)
        self._printed.seek(max(0, size - _TAIL))
        last = " ".join(self._printed.read().decode(errors="replace").split())
        self._finish()
        if self._trouble:
            return Ended(self._trouble, idle=False)
        ended = f"exit status {status}" if status >= 0 else f"signal {-status}"
        said = f" after: …{last}" if last else ""
        return Ended(f"the process that imported it ended with {ended}{said}", idle=status == 0)


def _finish(
    process: subprocess.Popen[bytes],
    channel: socket.socket,
    lines: IO[bytes],
    folder: tempfile.TemporaryDirectory[str],
    printed: IO[bytes],
) -> None:
    lines.close()
    channel.close()
    if process.poll() is None:
        try:
            process.wait(0.5)  # it ends by itself when nobody can ask any more
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    printed.close()
    folder.cleanup()
