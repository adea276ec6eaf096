"""Running commands and saying what they cost: wall time, processor time, peak memory."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Cost:
    """What one command took. Peak memory is that of the largest single process, as the kernel counted it."""

    seconds: float
    cpu_seconds: float
    peak_mb: float


def measured_environment() -> dict[str, str]:
    """Installed programs have their bytecode on disk and buffer what they print; some shells switch either off."""
    switched = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
    return {name: value for name, value in os.environ.items() if name not in switched}


class Failed(RuntimeError):
    """A measured command did not do what it should, so its time means nothing."""


def timed(
    command: Sequence[str | Path],
    cwd: Path,
    *,
    output: Path,
    limit: float = 900.0,
    allow_failure: bool = False,
) -> Cost | None:
    """Run a command, its output into a file; None if it took longer than `limit` seconds (it is then ended)."""
    words = [str(word) for word in command]
    with output.open("wb") as sink:
        began = time.perf_counter()
        process = subprocess.Popen(
            words, cwd=cwd, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT,
            env=measured_environment(),            start_new_session=True,
        )  # fmt: skip
        status, usage, seconds = _wait(process.pid, began, limit)
    process.returncode = os.waitstatus_to_exitcode(status) if status is not None else -1
    if status is None or usage is None:
        return None
    if process.returncode != 0 and not allow_failure:
        tail = output.read_text(errors="replace")[-2000:]
        raise Failed(f"{' '.join(words)} ended with {process.returncode}:\n{tail}")
    return Cost(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def _wait(pid: int, began: float, limit: float) -> tuple[int | None, Any, float]:
    """Wait for a child with `wait4`, which alone tells the memory of this one; beyond the limit end its group."""
    descriptor = os.pidfd_open(pid)
    try:
        import select

        ready, _, _ = select.select([descriptor], [], [], limit)
        if not ready:
            os.killpg(pid, signal.SIGKILL)
            os.wait4(pid, 0)
            return None, None, limit
        seconds = time.perf_counter() - began
        _, status, usage = os.wait4(pid, 0)
        return status, usage, seconds
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Series:
    """Repeated measurements of one thing."""

    name: str
    costs: tuple[Cost, ...]

    @property
    def best(self) -> float:
        return min(cost.seconds for cost in self.costs)

    @property
    def cpu(self) -> float:
        """Processor time, which hardly changes with what else the machine does: to tell noise from cost."""
        return min(cost.cpu_seconds for cost in self.costs)

    @property
    def median(self) -> float:
        return statistics.median(cost.seconds for cost in self.costs)

    @property
    def peak_mb(self) -> float:
        return max(cost.peak_mb for cost in self.costs)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "best_s": round(self.best, 4),
            "median_s": round(self.median, 4),
            "cpu_s": round(self.cpu, 4),
            "peak_mb": round(self.peak_mb, 1),
            "all_s": [round(cost.seconds, 4) for cost in self.costs],
        }


def alternate(
    commands: Mapping[str, Sequence[str | Path]], folders: Mapping[str, Path], repeats: int, scratch: Path
) -> dict[str, Series]:
    """Measure several commands in turn, round after round, so that what else the machine does hits all alike.

    The first round warms the file cache and is not counted.
    """
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for round_ in range(repeats + 1):
        for name, command in commands.items():
            cost = timed(command, folders[name], output=scratch / f"{name.replace(' ', '-').replace('/', '-')}.log")
            assert cost is not None, "the limit is far beyond what is measured in turns"
            if round_:
                costs[name].append(cost)
    return {name: Series(name, tuple(found)) for name, found in costs.items()}
