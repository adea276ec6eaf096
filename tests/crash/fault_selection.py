"""Which faults are tried: a third of the fault points by commit, all of them with WHYRUN_SOAK=1 (`make soak-crash`).

A fault point is a point of `whyrun.disk.TABLE` in the host or in a worker, in one scenario. By commit a fixed rule
chooses, without chance:

1. Each fault point has a number: the position of the point in the table, plus the position of the scenario, plus 1 for
   a worker. Every third number is chosen, so neighbouring scenarios try different points.
2. All points of an area are chosen in the scenario that shows the most of that area (`OWN`).
3. The chosen points take turns in how they fail: a kill before the call, a kill after it, ENOSPC, EIO, and for writes
   half a write. The first run of a project tries the points of `CRITICAL` areas twice: with a kill and with an error.
4. They also take turns in which call fails: the first, the middle or the last one.

The points that an undisturbed command does not reach have faults of their own (`fault_ways`). `uncovered` says what all
these faults leave out. `test_crash_points` requires that it is nothing: by commit, every point of the table is tried,
so every area and every operation, and every way to fail.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

import pytest
from fault_hook import Fault

from whyrun.disk import points

SOAK = bool(os.environ.get("WHYRUN_SOAK"))
soak_only = pytest.mark.skipif(not SOAK, reason="`make soak-crash` runs it: a clock decides what it hits")
KILLS = ("before", "after")
ERRORS = ("ENOSPC", "EIO")
SHORT = "short"  # a write that takes half
NAMES = ("run", "change", "adopt", "restore", "compare", "repair", "torn", "plan", "prune", "gc")  # of the scenarios
OWN = {
    "run": ("lock", "section"), "change": ("publish",), "torn": ("log",), "plan": ("saved",), "prune": ("prune",),
    "gc": ("gc",),
}  # fmt: skip
CRITICAL = ("log", "store", "draft", "publish", "section", "status")  # a byte that is lost would be lost here

Hits = Mapping[tuple[str, str], int]  # (role, point) → how many calls an undisturbed command makes


def selected(name: str, hits: Hits) -> list[Fault]:
    """The faults for one scenario."""
    faults: list[Fault] = []
    for (role, point), calls in sorted(hits.items()):
        ways = (*KILLS, *ERRORS, SHORT) if point.endswith(".write") else (*KILLS, *ERRORS)
        if SOAK:
            faults += [Fault(point, call, how, role) for how in ways for call in range(1, calls + 1)]
            continue
        area = point.partition(".")[0]
        number = points().index(point) + NAMES.index(name) + (role == "worker")
        if number % 3 and area not in OWN.get(name, ()):
            continue
        turn = number // 3
        call = (1, (calls + 1) // 2, calls)[turn % 3]
        chosen = [ways[turn % len(ways)]]
        if name == "run" and area in CRITICAL:
            chosen.append(ERRORS[turn % 2] if chosen[0] in KILLS else KILLS[turn % 2])
        faults += [Fault(point, call, how, role) for how in chosen]
    return faults


def uncovered(faults: Iterable[Fault]) -> set[str]:
    """The points of the table and the ways to fail that none of these faults has."""
    tried = {name for fault in faults for name in (fault.point, fault.how)}
    return {*points(), *KILLS, *ERRORS, SHORT} - tried


def cuts(log: bytes, first: int) -> list[int]:
    """Where a log is cut, from byte `first` on: by commit around the end of each line and at every 16th byte between,
    in a soak at every byte."""
    ends = [at + 1 for at, byte in enumerate(log) if byte == ord("\n")]
    near = {end + offset for end in ends for offset in (-2, -1, 0, 1)}
    return [at for at in range(first, len(log) + 1) if SOAK or at in near or (at - first) % 16 == 0]
