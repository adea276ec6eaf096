"""Creates sandboxes for tests, as the user who runs it. Reads and writes lines of JSON."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from whyrun.errors import Diagnostic
from whyrun.execution.backends.sandbox.backend import find_tools
from whyrun.execution.backends.sandbox.instance import Measured, Watch
from whyrun.execution.backends.sandbox.launcher import ForkServer, hand_over, real_user
from whyrun.execution.backends.sandbox.view import (
    Limits,
    Machine,
    Mount,
    SandboxSpec,
    Visible,
    interpreter_view,
    programs,
)

WAIT = 60.0


class Driver:
    def __init__(self, folder: str, *pythons: str) -> None:
        """`folder`: the one that sandboxes may write to; `pythons`: interpreters that they see besides this one."""
        tools = find_tools()
        assert not isinstance(tools, Diagnostic), tools
        shown = programs() + interpreter_view()
        for python in pythons:
            shown += interpreter_view(python)
        self._machine = Machine(shown)
        self._own = Visible(writable=(Mount(folder, "/whyrun/out"),))
        self._folder = Path(folder)
        hand_over(folder, real_user(0))
        self.fork_server = ForkServer(self._machine.for_fork_server() + self._own, tools, real_user(0))
        self._watch = Watch()
        self._waiting: dict[str, Any] = {}

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        network = asked.get("network", False)
        visible = self._machine.for_sandbox(network) + self._own.as_mounted()
        spec = SandboxSpec(visible, network, (("PATH", "/usr/bin:/bin"), ("LANG", "C.UTF-8")), "/whyrun/out")
        limits = Limits(
            asked.get("memory", 1 << 30), asked.get("processes", 64), asked.get("disk", 1 << 30), temporary=8 << 20
        )
        with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr, open(os.devnull, "rb") as stdin:
            process = self.fork_server.start(
                spec,
                limits,
                command=asked["command"],
                stdin=stdin.fileno(),
                stdout=stdout.fileno(),
                stderr=stderr.fileno(),
            )
            try:
                started = process.started()
                real = ""
                if asked.get("look"):  # at what runs until it is ended
                    real = Path(f"/proc/{started.worker}/status").read_text()
                    process.signal(signal.SIGKILL)
                processes = (started.first, started.worker)
                measured = Measured(processes, self._folder, limits, lambda what: process.signal(signal.SIGKILL))
                self._watch.add(process, measured)
                if "end_when" in asked:
                    until_file(Path(asked["end_when"]))
                    process.signal(signal.SIGKILL)
                status = process.wait(asked.get("wait", WAIT))
            finally:
                self._watch.forget(process)
                process.end()
            stdout.seek(0)
            stderr.seek(0)
            return {
                "status": status,
                "stdout": stdout.read().decode("utf-8", "replace"),
                "stderr": stderr.read().decode("utf-8", "replace"),
                "real": {line.split(":")[0]: line.split(":")[1].split() for line in real.splitlines()},
            }


def plant_key() -> None:
    """Where the kernel keeps the keys of whoever runs this, as a login with tickets does."""
    libc = ctypes.CDLL(None)
    if os.uname().machine == "x86_64":
        libc.syscall(250, 1, None)
        for keyring in (-3, -4):  # of the session, and of the user in all sessions
            libc.syscall(248, b"user", b"whyrun-planted", b"secret", 6, keyring)


def until_file(path: Path) -> None:
    waited = threading.Event()
    for _ in range(int(WAIT * 100)):
        if path.exists():
            return
        waited.wait(0.01)
    raise TimeoutError(path)


def main(folder: str, *pythons: str) -> None:
    plant_key()
    driver = Driver(folder, *pythons)
    for line in sys.stdin:
        print(json.dumps(driver.answer(json.loads(line))), flush=True)
    driver.fork_server.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
