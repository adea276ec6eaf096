"""The real command in processes of its own, which can be made to wait or to die at a point of `whyrun.disk`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fork_server import run_command
from project_lab import PATIENCE, Lab, file_of, states_of, written

DRIVER = Path(__file__).with_name("command_driver.py")
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith(("WHYRUN", "NO_COLOR", "FORCE_COLOR", "PYTEST"))}


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.01)


class Command:
    """The real command in a process of its own."""

    def __init__(self, folder: Path, words: tuple[str, ...], environment: dict[str, str]) -> None:
        # Not pipes: a process that held the other end by mistake would keep `ended` waiting.
        self._out, self._err = file_of(self), file_of(self)
        self.process = subprocess.Popen(
            [sys.executable, str(DRIVER), *words],
            cwd=folder,
            env={**ENVIRONMENT, **environment},
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=self._err,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def ended(self) -> Answer:
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"no end\n{written(self._err)}\n{states_of(self.process.pid)}") from None
        return Answer(code, written(self._out), written(self._err))

    def kill(self) -> None:
        """At once. What it started may live on, and is not waited for."""
        self.process.kill()
        self.process.wait(PATIENCE)


class CommandLab(Lab):
    """A project in which commands are given."""

    def start(self, *words: str, **environment: str) -> Command:
        return Command(self.root, words, environment)

    def whyrun(self, *words: str, **environment: str) -> Answer:
        if environment:
            return self.start(*words, **environment).ended()
        done = run_command(words, cwd=self.root, env=ENVIRONMENT, timeout=PATIENCE)
        return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())

    def start_gated(self, gate: Path, point: str, *words: str) -> Command:
        """It is before this point when this returns, and goes on when the file `gate` is made."""
        command = self.start(*words, GATE=str(gate), GATE_POINT=point)
        until(lambda: Path(f"{gate}.reached").exists() or command.process.poll() is not None)
        assert command.process.poll() is None, command.ended()
        return command
