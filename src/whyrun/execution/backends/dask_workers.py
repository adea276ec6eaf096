"""What a run knows of the workers of its Dask cluster: who is there, who is gone, and who may be about to go."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

WARY = 3.0  # seconds without new work after a step was ended by somebody else, unless its worker's end is heard of


class DaskWorkers:
    """Told by the thread that looks at the cluster, asked by that of the run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: set[str] = set()  # those that the scheduler has, or had
        self._present: frozenset[str] = frozenset()
        self._silent: dict[str, str] = {}  # by worker that was given up: why
        self._ending: dict[str, float] = {}  # by worker that may be about to end: until when that is waited for

    def are(self, workers: Iterable[str]) -> None:
        with self._lock:
            self._present = frozenset(workers)
            self._known |= self._present
            self._ending = {worker: end for worker, end in self._ending.items() if worker in self._present}

    def is_gone(self, worker: str | None) -> bool:
        with self._lock:
            return worker in self._known and worker not in self._present

    def give_up(self, worker: str, reason: str) -> None:
        self._silent[worker] = reason

    def death(self, worker: str | None) -> str:
        died = f"the Dask worker{f' {worker}' if worker else ''} died while it had the step"
        return self._silent.get(worker or "", died)

    def may_end(self, worker: str) -> None:
        """Where SLURM ends a job, its steps may say so before their worker does: an attempt that is sent there now is
        lost with it."""
        with self._lock:
            self._ending[worker] = time.monotonic() + WARY

    def one_may_end(self) -> bool:
        now = time.monotonic()
        with self._lock:
            self._ending = {worker: end for worker, end in self._ending.items() if end > now}
            return bool(self._ending)
