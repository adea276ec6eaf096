"""`whyrun …` in a fork of this process instead of a new one, so that tests of the command see the mutant, too.

It stands in for the `runner` of tests/cli/cli_lab.py, and only while mutants are tried.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType


class ForkedCommand:
    """In the place of `run_command`. `at_end` is called in the fork, when the command has ended."""

    def __init__(self, at_end: Callable[[], None]) -> None:
        self._at_end = at_end

    def __call__(
        self, words: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[bytes]:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            child = os.fork()
            if child == 0:
                self._in_child(words, cwd, env, out.fileno(), err.fileno())
            deadline = time.monotonic() + timeout
            while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
                if time.monotonic() > deadline:
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                    raise subprocess.TimeoutExpired(list(words), timeout)
                time.sleep(0.002)
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(list(words), os.waitstatus_to_exitcode(ended[1]), out.read(), err.read())

    def _in_child(self, words: Sequence[str], cwd: Path, env: Mapping[str, str], out: int, err: int) -> None:
        code = 70
        try:
            os.chdir(cwd)
            os.environ.clear()
            os.environ.update(env)
            for target, source in ((0, os.open(os.devnull, os.O_RDONLY)), (1, out), (2, err)):
                os.dup2(source, target)
            sys.stdin = open(0, closefd=False)  # noqa: SIM115
            sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
            sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
            sys.argv = ["whyrun", *words]
            code = _exit_status()
            sys.stdout.flush()
            sys.stderr.flush()
            self._at_end()
        finally:
            os._exit(code)


def _exit_status() -> int:
    """Of the command that `sys.argv` names, as the interpreter would have it."""
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


def stand_in(cli_lab: ModuleType, at_end: Callable[[], None]) -> None:
    cli_lab.runner = ForkedCommand(at_end)  # type: ignore[attr-defined]
