"""Which workers of a Dask cluster are heard of no more. Pure: times are arguments.

A worker that hangs, or whose network is cut, closes no connection. But the scheduler hears of each twice a second (less
often where there are many), and the host asks it, again and again, when it last did.

A silence is counted only while host and scheduler are on time themselves: where the machine is so busy that looks come
late, beats do too. And what is slow all the time is waited for longer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

SILENT = 3.2  # seconds without a beat, at least; with the time between two looks, and what is done then, less than 5
BEATS = 3  # and that many of the longest pauses that it has made lately, or that are usual in so large a cluster
DELAYS = 4  # more for each second by which looks are late
LATE = 0.5  # seconds: a look that is later than this, and than twice of what is usual, tells nothing of a silence
LONGEST = 10.0  # seconds of a delay that are remembered: a host that was asleep need not wait for hours
_FADING = 0.9  # the longest pause is forgotten in about ten beats,
_FADING_DELAY = 0.97  # the longest delay in half a minute: what comes again and again must not start the time anew


def beat_interval(workers: int) -> float:
    """Seconds between two beats that the scheduler asks for. As `distributed` has it; here without its import."""
    if workers < 200:
        return 0.5 if workers <= 10 else 1.0 if workers < 50 else 2.0
    return workers / 200 + 1


@dataclass(frozen=True, slots=True)
class _Heard:
    beat: float  # as the scheduler tells it, by its own clock: only that it changes counts
    since: float  # when a look first found it
    pause: float = 0.0  # the longest between two of them, lately
    beats: bool = False  # was seen to

    def after(self, beat: float, now: float) -> _Heard:
        if beat == self.beat:
            return self
        return _Heard(beat, now, max(now - self.since, _FADING * self.pause), True)


class Pulse:
    """Of all workers of a cluster."""

    def __init__(self, now: float) -> None:
        self._steady = now  # since when every look has been on time
        self._delay = 0.0  # the longest of a look, lately
        self._heard: dict[str, _Heard] = {}

    def looked(
        self, due: float, now: float, beats: Mapping[str, float], at_work: Collection[str] = ()
    ) -> dict[str, float]:
        """The answer to a look that was due, which has come now: the last beat of every worker that the scheduler has.
        Those that are silent, with the seconds since they were heard.

        One that was neither seen to beat nor is at work may still be at its start, which takes any time."""
        delay = now - due
        if delay > max(LATE, 2 * self._delay):
            self._steady = now
        self._delay = max(min(delay, LONGEST), _FADING_DELAY * self._delay)
        self._heard = {
            worker: self._heard[worker].after(beat, now) if worker in self._heard else _Heard(beat, now)
            for worker, beat in beats.items()
        }
        usual = beat_interval(len(beats))
        return {
            worker: now - heard.since
            for worker, heard in self._heard.items()
            if (heard.beats or worker in at_work) and self._is_silent(heard, now, usual)
        }

    def unanswered(self, now: float) -> None:
        """A look to which the scheduler gave no answer."""
        self._steady = now

    def _is_silent(self, heard: _Heard, now: float, usual: float) -> bool:
        limit = max(SILENT, BEATS * max(heard.pause, usual)) + DELAYS * self._delay
        return now - max(heard.since, self._steady) > limit
