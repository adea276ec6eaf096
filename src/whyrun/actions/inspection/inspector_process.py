"""The host's side of the inspector process: start it, send a request, end it, and report how it ended."""

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

from whyrun.actions.code.editable import whyrun_home
from whyrun.actions.inspection.messages import Reply, Request

_TAIL = 300  # bytes of the process's output that an error message shows


@dataclass(frozen=True, slots=True)
class Ended:
    why: str
    idle: bool  # it ended by itself, as it does when it gets no requests


class InspectorProcess:
    """One inspector process. Of the host's environment it sees only what a step would see."""

    def __init__(self, project: Path) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="whyrun-inspector-")
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
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "whyrun.actions.inspection.inspector_main",
                    str(theirs.fileno()),
                    str(project),
                ],
                env=environment,
                cwd=self._folder.name,
                stdin=subprocess.DEVNULL,
                stdout=self._printed,
                stderr=self._printed,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._lines = self._channel.makefile("rb")
        self._timeout_message = ""
        self._finish = weakref.finalize(
            self, _finish, self._process, self._channel, self._lines, self._folder, self._printed
        )

    def send(self, request: Request, timeout: float) -> Reply | None:
        """None: the process died or did not answer in time; `end` says which."""
        self._channel.settimeout(timeout)
        try:
            self._channel.sendall(msgspec.json.encode(request) + b"\n")
            line = self._lines.readline()
        except TimeoutError:
            self._timeout_message = f"it did not answer within {timeout:g} s"
            return None
        except OSError:  # the process died
            return None
        return msgspec.json.decode(line, type=Reply) if line.endswith(b"\n") else None

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def end(self) -> Ended:
        """End the process and say how it ended."""
        if self._timeout_message:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._channel.shutdown(socket.SHUT_RDWR)
        status = self._process.wait()
        size = self._printed.seek(0, os.SEEK_END)
        self._printed.seek(max(0, size - _TAIL))
        tail = " ".join(self._printed.read().decode(errors="replace").split())
        self._finish()
        if self._timeout_message:
            return Ended(self._timeout_message, idle=False)
        ended = f"exit status {status}" if status >= 0 else f"signal {-status}"
        printed = f" after: …{tail}" if tail else ""
        return Ended(f"the process that imported it ended with {ended}{printed}", idle=status == 0)


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
            process.wait(0.5)  # it ends by itself once the socket is closed
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    printed.close()
    folder.cleanup()
