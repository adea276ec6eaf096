"""Which faults are tried: some of each point in the suite, all of them with WHYRUN_SOAK=1 (`make soak`)."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence

from fault_hook import Fault
from fault_lab import Course

SOAK = bool(os.environ.get("WHYRUN_SOAK"))
SHORT = ("short",)  # a write that takes half
SHARE = {"repair": 0.2, "plan": 0.3, "prune": 0.4, "gc": 1.0}  # of the points of these scenarios; of others less
# Of these every point is tried in every kind of way in the suite, too: they are what a lost byte would be lost in. And
# so it is when what a user puts in place is published.
CRITICAL = ("log", "store", "draft", "publish", "section", "status", "prune")


def cases(course: Course, name: str, area: str, kinds: Sequence[Sequence[str]]) -> list[Fault]:
    """Faults at the points of one area, in the host and in workers. Of each of `kinds` the suite tries one way."""
    found: list[Fault] = []
    for (role, point), count in sorted(course.hits.items()):
        if point.partition(".")[0] != area:
            continue
        chance = random.Random(f"{name} {role} {point}")
        fitting = [kind for kind in kinds if kind != SHORT or point.endswith(".write")]
        if SOAK:
            ways = [how for kind in fitting for how in kind]
            found += [Fault(point, number, how, role) for how in ways for number in range(1, count + 1)]
        elif (name == "run" and area in CRITICAL) or (name in ("adopt", "restore") and area == "publish"):
            found += [Fault(point, chance.randint(1, count), chance.choice(kind), role) for kind in fitting]
        elif name == "run" or chance.random() < SHARE.get(name, 0.1):
            found.append(Fault(point, chance.randint(1, count), chance.choice(chance.choice(fitting)), role))
    return found
