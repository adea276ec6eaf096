"""Watches a Dask cluster while a run uses it: whether the scheduler answers, which workers it has, which are silent.

`Pulse` decides which workers are silent. It is pure: times are arguments. `Watch` is the thread that looks.

A worker that hangs, or whose network is cut, closes no connection. But every worker sends the scheduler a heartbeat
twice a second (less often in a large cluster), and the host asks the scheduler for the time of the last one.

A silence counts only while host and scheduler are on time themselves: on a machine so busy that looks come late,
heartbeats come late too. A worker that is always slow is given more time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from whyrun.execution.backends.dask.cluster import LOOK, TEND, ClusterLost, DaskCluster

# --- which workers are silent -----------------------------------------------------------------------------------

SILENT = 3.2  # seconds without a heartbeat, at least; with the time between two looks this stays below 5
BEATS = 3  # and this many of the worker's longest recent pauses, or of those usual in a cluster of this size
DELAYS = 4  # additional seconds for each second by which looks are late
LATE = 0.5  # seconds: a look later than this, and than twice the usual delay, says nothing about a silence
LONGEST = 10.0  # seconds of a delay that are remembered: a host that was suspended must not wait for hours
_FADING = 0.9  # the longest pause is forgotten after about ten heartbeats,
_FADING_DELAY = 0.97  # the longest delay after half a minute: a repeated delay must not restart the count


def beat_interval(workers: int) -> float:
    """Seconds between two heartbeats that the scheduler asks for. A copy of the rule in `distributed`, to avoid its
    import."""
    if workers < 200:
        return 0.5 if workers <= 10 else 1.0 if workers < 50 else 2.0
    return workers / 200 + 1


@dataclass(frozen=True, slots=True)
class _Heartbeat:
    beat: float  # by the scheduler's clock; only a change of it counts
    since: float  # when a look first saw it
    pause: float = 0.0  # the longest recent one between two heartbeats
    beats: bool = False  # at least two were seen

    def after(self, beat: float, now: float) -> _Heartbeat:
        if beat == self.beat:
            return self
        return _Heartbeat(beat, now, max(now - self.since, _FADING * self.pause), True)


class Pulse:
    """The heartbeats of all workers of a cluster."""

    def __init__(self, now: float) -> None:
        self._steady = now  # since when every look has been on time
        self._delay = 0.0  # the longest recent delay of a look
        self._heartbeats: dict[str, _Heartbeat] = {}

    def looked(
        self, due: float, now: float, beats: Mapping[str, float], at_work: Collection[str] = ()
    ) -> dict[str, float]:
        """Take the scheduler's answer: the last heartbeat of every worker. `due`: when the look should have taken
        place. Returns the silent workers, with the seconds of their silence.

        A worker that has sent neither two heartbeats nor a step's message may still be starting, for any time."""
        delay = now - due
        if delay > max(LATE, 2 * self._delay):
            self._steady = now
        self._delay = max(min(delay, LONGEST), _FADING_DELAY * self._delay)
        self._heartbeats = {
            worker: self._heartbeats[worker].after(beat, now) if worker in self._heartbeats else _Heartbeat(beat, now)
            for worker, beat in beats.items()
        }
        usual = beat_interval(len(beats))
        return {
            worker: now - last.since
            for worker, last in self._heartbeats.items()
            if (last.beats or worker in at_work) and self._is_silent(last, now, usual)
        }

    def unanswered(self, now: float) -> None:
        """The scheduler did not answer a look."""
        self._steady = now

    def _is_silent(self, last: _Heartbeat, now: float, usual: float) -> bool:
        limit = max(SILENT, BEATS * max(last.pause, usual)) + DELAYS * self._delay
        return now - max(last.since, self._steady) > limit


# --- the thread that looks -------------------------------------------------------------------------------------

ALIVE = 0.4  # seconds between two looks at the scheduler; two unanswered looks take less than 5 seconds
EACH = 0.004  # additional seconds for each worker: the answer about hundreds of workers costs the scheduler time
BEAT = 10  # looks after which the agents on the workers hear that the host is alive
JOBS = 2 * TEND  # looks between two at SLURM
OTHERS = 30.0  # seconds of silence for a worker that also has tasks of other clients, which may keep it busy


class WatchListener(Protocol):
    """The backend, as the watching thread calls it."""

    at_work: set[str]  # workers that have sent messages of steps

    def cluster_lost(self, reason: str) -> None:
        """Called once; nothing is called after it."""

    def worker_silent(self, worker: str, reason: str) -> None:
        """The worker is about to be removed. Any loss that follows from it has this reason."""

    def workers_present(self, workers: Mapping[str, Any]) -> None: ...


class Watch:
    def __init__(self, cluster: DaskCluster, listener: WatchListener) -> None:
        self._cluster, self._listener = cluster, listener
        self._pulse = Pulse(time.monotonic())
        self._looks = 0
        self._workers: Mapping[str, Any] = {}

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True, name="whyrun-dask").start()

    def _run(self) -> None:
        """Report what can no longer run steps: they would wait for it forever. Workers may join and leave."""
        unanswered = 0
        while True:
            pause = LOOK if unanswered else ALIVE + EACH * len(self._workers)
            due = time.monotonic() + pause
            if self._cluster.left.wait(pause):
                return
            self._looks += 1
            lost = self._look(due, at_jobs=unanswered > 0 or self._looks % JOBS == 0)
            unanswered = unanswered + 1 if lost else 0
            # A slow scheduler is not gone, so one unanswered look is allowed; a closed connection stays closed.
            if lost and (unanswered > 1 or self._cluster.is_closed()):
                if not self._cluster.left.is_set():
                    self._listener.cluster_lost(lost)
                return
            if self._looks % BEAT == 0 and not lost:
                with suppress(ClusterLost):  # agents that hear nothing from the host end their steps
                    self._cluster.send_order("alive")

    def _look(self, due: float, at_jobs: bool) -> str | None:
        """Why the cluster seems to be lost; None if all is well."""
        try:
            workers = self._cluster.workers()
        except ClusterLost as lost:
            self._pulse.unanswered(time.monotonic())
            return f"the Dask scheduler is gone: {lost}"
        beats = {worker: info["last_seen"] for worker, info in workers.items()}
        silent = self._pulse.looked(due, time.monotonic(), beats, self._listener.at_work)
        for worker, seconds in silent.items():
            self._give_up(worker, workers[worker].get("nanny"), seconds)
        self._workers = workers
        self._listener.workers_present(workers)
        return self._cluster.tend_jobs(bool(workers)) if at_jobs else None

    def _give_up(self, worker: str, nanny: str | None, seconds: float) -> None:
        """Remove a silent worker, as Dask does after some minutes. In a cluster that others use too, only a worker that
        has tasks of this run."""
        with suppress(ClusterLost):  # the next look tries again
            if not self._cluster.is_own:
                ours, others = self._cluster.keys_at(worker)
                if not ours or (others and seconds < OTHERS):
                    return
            reason = f"the Dask worker {worker} hangs or is cut off: it sends no heartbeats"
            self._listener.worker_silent(worker, reason)
            self._cluster.remove_worker(worker, nanny)
