"""Rates: how many attempts of the jobs that use a resource may begin in a time. Pure: the clock is given.

A rate is a bucket of tokens for all workers of a run. An attempt takes as many tokens as its job writes under
`resources:` when it is submitted, and they come back one period after it began. So in no period more begin than the
rate says, also if steps wait in the queue of a worker meanwhile. A step that is taken back gives its tokens back.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from fractions import Fraction

from whyrun.project_config import Rate

Wants = tuple[tuple[str, Fraction], ...]  # resources, and how much of them


class Bucket:
    """The tokens of one resource."""

    def __init__(self, rate: Rate) -> None:
        self._period = rate.seconds
        self._free = Fraction(rate.amount)
        self._queued: dict[int, Fraction] = {}  # by step: taken by an attempt that has not begun
        self._returns: list[tuple[float, Fraction]] = []  # when tokens come back, soonest first
        self.closed_until = 0.0

    def fits(self, amount: Fraction, now: float) -> bool:
        while self._returns and self._returns[0][0] <= now:
            self._free += heapq.heappop(self._returns)[1]
        return now >= self.closed_until and amount <= self._free

    def take(self, step: int, amount: Fraction) -> None:
        self._queued[step] = amount
        self._free -= amount

    def begin(self, step: int, now: float) -> None:
        """The attempt has begun: its tokens come back a period later."""
        heapq.heappush(self._returns, (now + self._period, self._queued.pop(step)))

    def give_back(self, step: int) -> None:
        self._free += self._queued.pop(step)

    def renumber(self, moved: Callable[[int], int]) -> None:
        self._queued = {moved(step): amount for step, amount in self._queued.items()}

    def close(self, amount: Fraction, now: float, seconds: float) -> bool:
        """The service asks to wait: nothing begins before. The request that it refused is made again then, which takes
        tokens, too. Returns whether the bucket was open before."""
        was_open, until = now >= self.closed_until, now + seconds
        self._free -= amount
        heapq.heappush(self._returns, (until + self._period, amount))
        self.closed_until = max(until, self.closed_until)
        return was_open


class Rates:
    """The buckets of a run. `clock` counts seconds."""

    def __init__(self, rates: Mapping[str, Rate], clock: Callable[[], float]) -> None:
        self._buckets = {name: Bucket(rate) for name, rate in rates.items()}
        self._clock = clock

    def __bool__(self) -> bool:
        return bool(self._buckets)

    def __contains__(self, name: str) -> bool:
        return name in self._buckets

    def fit(self, wants: Wants) -> bool:
        """Whether an attempt may be submitted now."""
        if not self._buckets:
            return True
        now = self._clock()
        return all(self._buckets[name].fits(amount, now) for name, amount in wants if name in self._buckets)

    def take(self, step: int, wants: Wants) -> None:
        for name, amount in self._rated(wants):
            self._buckets[name].take(step, amount)

    def begin(self, step: int, wants: Wants) -> None:
        for name, _ in self._rated(wants):
            self._buckets[name].begin(step, self._clock())

    def give_back(self, step: int, wants: Wants) -> None:
        for name, _ in self._rated(wants):
            self._buckets[name].give_back(step)

    def renumber(self, moved: Callable[[int], int]) -> None:
        """The steps have other numbers from now on."""
        for bucket in self._buckets.values():
            bucket.renumber(moved)

    def close(self, wants: Wants, seconds: float) -> list[str]:
        """The service asks to wait. Returns the resources that were open before."""
        now = self._clock()
        return [name for name, amount in self._rated(wants) if self._buckets[name].close(amount, now, seconds)]

    def _rated(self, wants: Wants) -> Wants:
        return tuple((name, amount) for name, amount in wants if name in self._buckets)


def asked_to_wait(resource: str, seconds: float) -> str:
    return f"`{resource}`: the service asks to wait {seconds:g} s (`Retry-After`); no job that uses it starts before"
