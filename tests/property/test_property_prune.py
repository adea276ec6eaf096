"""Random stories in which runs are pruned and the store is cleared: see oracle_prune for what is checked."""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path

import pytest
from oracle_counts import Counts
from oracle_generate import RandomDice
from oracle_prune import tell_pruning

SOAK = bool(os.environ.get("WHYRUN_SOAK"))
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None


@pytest.mark.parametrize("part", range(4 if SOAK else 2))
def test_no_plan_shows_that_runs_were_pruned(part: int) -> None:
    first = random.SystemRandom().randrange(10**9) if SOAK else part * 1000
    counts = Counts()
    for number in range(first, first + (500 if SOAK else 3)):
        record: list[str] = [f"seed {number}"]
        with tempfile.TemporaryDirectory(prefix="lab-", dir=MEMORY) as folder:
            try:
                counts.add(tell_pruning(RandomDice(number), Path(folder), record))
            except BaseException as failed:
                failed.add_note("\n".join(record))
                raise
    assert counts.pruned > 0, "stories in which nothing is ever pruned prove nothing"
