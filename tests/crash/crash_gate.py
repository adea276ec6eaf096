"""The `slow` project: its steps wait at a gate until the test opens it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from crash_lab import PATIENCE, Host, Lab

FINAL = {
    "out/first.txt": b"first\n",
    "out/wait-0.txt": b"first\n0\n",
    "out/wait-1.txt": b"first\n1\n",
    "out/wait-2.txt": b"first\n2\n",
    "out/after.txt": b"first\n0\nfirst\n1\nfirst\n2\n",
}


def until(true: Callable[[], object], seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.01)


class GateLab(Lab):
    def __init__(self, root: Path, ignore: str = "") -> None:
        super().__init__(root / "project", "slow")
        self.gate = root / "gate"
        self.sets = (f"Gate={self.gate}", f"Ignore={ignore}")

    def start_waiting(self) -> Host:
        """A run whose first two steps wait at the gate."""
        host = self.start()
        until(lambda: all(Path(f"{self.gate}.{turn}").exists() for turn in (0, 1)))
        until(lambda: {"Job:Wait[0]", "Job:Wait[1]"} <= self.executed(self.runs()[-1]).keys())  # in the log as well
        return host

    def was_asked(self) -> bool:
        """Whether both steps that wait and ignore have been asked to end."""
        return all(Path(f"{self.gate}.{turn}.asked").exists() for turn in (0, 1))

    def open_gate(self) -> None:
        self.gate.touch()

    def published(self) -> dict[str, bytes]:
        return {path: data for path, data in self.artifacts().items() if path.startswith("out/")}

    def workers(self) -> list[int]:
        return [int(line.split(":")[0]) for line in self.processes() if "whyrun.execution.worker.main" in line]
