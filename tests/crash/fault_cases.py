"""Which faults are tried: some of each point in the suite, all of them with WHYRUN_SOAK=1 (`make soak`)."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable

from fault_hook import Fault
from fault_lab import Course

SOAK = bool(os.environ.get("WHYRUN_SOAK"))
# Of these every point is tried in both ways in the suite, too: they are what a lost byte would be lost in.
CRITICAL = ("log", "store", "draft", "publish", "section", "status", "prune")


def cases(course: Course, name: str, area: str, hows: Iterable[str]) -> list[Fault]:
    """Faults at the points of one area, in the host and in workers."""
    hows = list(hows)
    found: list[Fault] = []
    for (role, point), count in sorted(course.hits.items()):
        if point.partition(".")[0] != area:
            continue
        chance = random.Random(f"{name} {role} {point}")
        fitting = [how for how in hows if how != "short" or point.endswith(".write")]
        if SOAK:
            found += [Fault(point, number, how, role) for how in fitting for number in range(1, count + 1)]
        elif name == "run" and area in CRITICAL:
            found += [Fault(point, chance.randint(1, count), how, role) for how in fitting]
        elif name == "run" or chance.random() < 0.15:
            found.append(Fault(point, chance.randint(1, count), chance.choice(fitting), role))
    return found
