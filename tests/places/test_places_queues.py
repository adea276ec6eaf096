"""Steps that take a moment are sent some at a time; one that takes long among them holds up nobody else."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Callable

from places_lab import PlaceLab, named

from whyrun.log import events as ev

Make = Callable[..., PlaceLab]

WORKFLOW = """
    workflow: queue
    loops: {i: {count: 24}, j: {count: 16}}
    jobs:
      Short:
        for: [i]
        uses: python
        with: {call: "queue_work:short", me: "${{ i }}"}
        outputs: {Word: {type: string}}
      Mixed:
        for: [j]
        needs: [Short]
        uses: python
        with: {call: "queue_work:mixed", me: "${{ j }}"}
        outputs: {Word: {type: string}}
"""
CODE = """
    import ctypes
    import time

    def short(me):
        return {"Word": str(me)}

    def mixed(me):
        if me == 1:
            ctypes.CDLL(None).prctl(15, b"MARK", 0, 0, 0)
            time.sleep(600)
        return {"Word": str(me)}
"""


def test_what_waits_behind_a_long_step_goes_to_whoever_is_free(place: str, at_place: Make) -> None:
    mark = f"w{secrets.token_hex(6)}"
    lab = at_place(WORKFLOW, {"queue_work.py": CODE.replace("MARK", mark)})
    running = lab.start("--quiet", "--jobs", "2")
    running.wait_for(lambda: [e for e in lab.log() if e["event"] == "step_complete"][38:], "all but one")
    (long,) = named(mark)
    os.kill(long, signal.SIGKILL)
    ended = running.ended()
    assert ended.code == 1, ended.said
    assert ended.failures == [("Job:Mixed[1]", "FAILED", "WorkerDied", False)]
    starts = [(e.step_id, e.attempt) for e in ended.of(ev.StepStart)]
    expected = [*(f"Job:Mixed[{j}]" for j in range(16)), *(f"Job:Short[{i}]" for i in range(24))]
    assert sorted(starts) == sorted((step, 1) for step in expected), "each began once"
    assert set(ended.completed) == set(expected) - {"Job:Mixed[1]"}
