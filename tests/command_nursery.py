"""The command `whyrun …` in a process of its own, forked from one that has imported it already.

Two thirds of what a short command costs is starting Python and importing, and the suite runs thousands. What a start
itself does is for tests that use `subprocess`; so are other settings of Python, a shell around it, and signals.
`python command_nursery.py FD` is the process that forks.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

COMMAND = [sys.executable, "-m", "whyrun.cli.main"]
_LARGEST = 1 << 20
_OF_PYTHON = ("PYTHON", "LC_", "TZ", "LD_")  # read when it starts
_IMPORTED = (
    "whyrun.execution.backends.local", "whyrun.planning.why", "whyrun.execution.compare", "whyrun.execution.adopt",
    "whyrun.evidence.verify", "whyrun.console.logger",
)  # fmt: skip


class Nursery:
    """Started with the first command, and there for as long as the tests are."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def run(
        self, words: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[bytes]:
        """`whyrun WORDS` with an empty stdin."""
        if _of_python(env) == _of_python(os.environ) and self._lock.acquire(blocking=False):
            try:
                return self._forked(words, cwd, env, timeout)
            finally:
                self._lock.release()
        return subprocess.run(
            [*COMMAND, *words],
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
        )

    def _forked(
        self, words: Sequence[str], cwd: Path, env: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[bytes]:
        there = self._socket if self._socket is not None else self._start()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            asked = json.dumps({"words": list(words), "cwd": str(cwd), "env": dict(env)}).encode()
            assert len(asked) < _LARGEST
            try:
                there.settimeout(timeout)
                socket.send_fds(there, [asked], [out.fileno(), err.fileno()])
                status = int(there.recv(100))
            except TimeoutError:
                self.stop()
                raise subprocess.TimeoutExpired(list(words), timeout) from None
            except (OSError, ValueError):  # it is dead: this test is told, and the next command gets another one
                self.stop()
                raise
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess([*COMMAND, *words], status, out.read(), err.read())

    def _start(self) -> socket.socket:
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, __file__, str(its.fileno())]
        self._process = subprocess.Popen(command, pass_fds=[its.fileno()], start_new_session=True)
        its.close()
        self._socket = mine
        atexit.register(self.stop)
        return mine

    def stop(self) -> None:
        if self._process is None or self._socket is None:
            return
        self._socket.close()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = self._socket = None


def _of_python(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_OF_PYTHON)}


NURSERY = Nursery()


# --- the process that forks ---------------------------------------------------------------------------------------


def serve(descriptor: int) -> None:
    sys.path.pop(0)  # this folder, which no command has
    for name in _IMPORTED:
        importlib.import_module(name)
    from whyrun.cli.main import COMMANDS

    for module, _ in COMMANDS.values():
        importlib.import_module(f"whyrun.cli.{module}")
    there = socket.socket(fileno=descriptor)
    os.set_inheritable(descriptor, False)
    while True:
        asked, descriptors, _, _ = socket.recv_fds(there, _LARGEST, 2)
        if not asked:
            return
        child = os.fork()
        if child == 0:
            there.close()
            _be_the_command(json.loads(asked), descriptors)
        for received in descriptors:
            os.close(received)
        there.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())


def _be_the_command(asked: dict[str, object], descriptors: Sequence[int]) -> None:
    code = 70
    try:
        for target, source in ((0, os.open(os.devnull, os.O_RDONLY)), (1, descriptors[0]), (2, descriptors[1])):
            os.dup2(source, target)
            os.close(source)
        os.chdir(str(asked["cwd"]))
        os.environ.clear()
        os.environ.update(asked["env"])  # type: ignore[call-overload]
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        sys.path.insert(0, os.getcwd())  # as `python -m` has it
        sys.argv = ["whyrun", *asked["words"]]  # type: ignore[misc]
        code = exit_status()
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def exit_status() -> int:
    """Of the command that `sys.argv` names, run here; as the interpreter would have it."""
    from whyrun.cli.main import main

    try:
        main()
    except SystemExit as ending:
        if isinstance(ending.code, str):
            print(ending.code, file=sys.stderr)
            return 1
        return int(ending.code or 0)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    serve(int(sys.argv[1]))
