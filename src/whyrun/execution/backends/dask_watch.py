"""Looks at a Dask cluster while a run uses it: whether its scheduler answers, who is there, who is heard of no more."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

from whyrun.execution.backends.dask_cluster import LOOK, TEND, ClusterLost, DaskCluster
from whyrun.execution.backends.dask_pulse import Pulse

ALIVE = 0.4  # seconds between two looks at the scheduler; with two answers that do not come, less than 5
EACH = 0.004  # more for each worker: what a scheduler says of hundreds is work for it
BEAT = 10  # looks after which agents are told that the host lives
JOBS = 2 * TEND  # looks between two at SLURM
OTHERS = 30.0  # seconds of silence for a worker that has work of others, too, which may keep it from saying anything


class Watching(Protocol):
    """Who is told, by the thread that looks."""

    at_work: set[str]  # workers from which steps were heard

    def cluster_lost(self, reason: str) -> None:
        """Once, and nothing after it."""

    def worker_silent(self, worker: str, reason: str) -> None:
        """It will be given up: whatever is heard of that now has this reason."""

    def workers_present(self, workers: Mapping[str, Any]) -> None: ...


class Watch:
    def __init__(self, cluster: DaskCluster, told: Watching) -> None:
        self._cluster, self._told = cluster, told
        self._pulse = Pulse(time.monotonic())
        self._looks = 0
        self._workers: Mapping[str, Any] = {}

    def start(self) -> None:
        threading.Thread(target=self._look_on, daemon=True, name="whyrun-dask").start()

    def _look_on(self) -> None:
        """What can no longer run steps is told of: they would wait for it for ever. Workers may come and go."""
        unanswered = 0
        while True:
            pause = LOOK if unanswered else ALIVE + EACH * len(self._workers)
            due = time.monotonic() + pause
            if self._cluster.left.wait(pause):
                return
            self._looks += 1
            lost = self._look(due, at_jobs=unanswered > 0 or self._looks % JOBS == 0)
            unanswered = unanswered + 1 if lost else 0
            # One that is slow is not gone; but a connection that is closed stays so.
            if lost and (unanswered > 1 or self._cluster.is_closed()):
                if not self._cluster.left.is_set():
                    self._told.cluster_lost(lost)
                return
            if self._looks % BEAT == 0 and not lost:
                with suppress(ClusterLost):  # agents whose host is not heard of any more end their steps
                    self._cluster.tell("alive")

    def _look(self, due: float, at_jobs: bool) -> str | None:
        try:
            workers = self._cluster.workers()
        except ClusterLost as lost:
            self._pulse.unanswered(time.monotonic())
            return f"the Dask scheduler is gone: {lost}"
        beats = {worker: said["last_seen"] for worker, said in workers.items()}
        silent = self._pulse.looked(due, time.monotonic(), beats, self._told.at_work)
        for worker, seconds in silent.items():
            self._give_up(worker, workers[worker].get("nanny"), seconds)
        self._workers = workers
        self._told.workers_present(workers)
        return self._cluster.tend_jobs(bool(workers)) if at_jobs else None

    def _give_up(self, worker: str, nanny: str | None, seconds: float) -> None:
        """As Dask itself does it after some minutes. Of a cluster that others use, only what we use as well."""
        with suppress(ClusterLost):  # then it is tried again at the next look
            if not self._cluster.is_own:
                ours, others = self._cluster.keys_at(worker)
                if not ours or (others and seconds < OTHERS):
                    return
            self._told.worker_silent(worker, f"the Dask worker {worker} hangs or is cut off: no sign of life from it")
            self._cluster.remove_worker(worker, nanny)
