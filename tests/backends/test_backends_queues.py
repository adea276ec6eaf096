"""Short steps are sent in batches. A long step among them delays no other, and queued steps whose code was edited do
not begin."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Callable

from backends_lab import BackendLab, named

from whyrun.log import events as ev

Make = Callable[..., BackendLab]

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


def test_what_waits_behind_a_long_step_goes_to_whoever_is_free(backend: str, on_backend: Make) -> None:
    mark = f"w{secrets.token_hex(6)}"
    lab = on_backend(WORKFLOW, {"queue_work.py": CODE.replace("MARK", mark)})
    running = lab.start("--quiet", "--jobs", "2")
    running.wait_for(lambda: [e for e in lab.log() if e["event"] == "step_complete"][38:], "all but one")
    running.wait_for(lambda: named(mark), "the long one to run")
    (long,) = named(mark)
    os.kill(long, signal.SIGKILL)
    ended = running.ended()
    assert ended.code == 1, ended.said
    assert ended.failures == [("Job:Mixed[1]", "FAILED", "WorkerDied", False)]
    starts = [(e.step_id, e.attempt) for e in ended.of(ev.StepStart)]
    expected = [*(f"Job:Mixed[{j}]" for j in range(16)), *(f"Job:Short[{i}]" for i in range(24))]
    assert sorted(starts) == sorted((step, 1) for step in expected), "each began once"
    assert set(ended.completed) == set(expected) - {"Job:Mixed[1]"}


EDITED = """
    workflow: edited
    loops: {i: {count: 3}}
    jobs:
      Long:
        for: [i]
        uses: python
        with: {call: "long_work:go", me: "${{ i }}"}
        outputs: {Word: {type: string}}
"""
LONG = """
    import ctypes
    import time

    def go(me):
        ctypes.CDLL(None).prctl(15, b"MARK", 0, 0, 0)
        time.sleep(600)
"""


def test_what_waits_while_its_code_is_edited_is_not_begun(backend: str, on_backend: Make) -> None:
    mark = f"w{secrets.token_hex(6)}"
    lab = on_backend(EDITED, {"long_work.py": LONG.replace("MARK", mark)})
    running = lab.start("--quiet", "--jobs", "1")
    running.wait_for(lambda: named(mark), "the first to run")
    running.wait_for(lambda: [e for e in lab.log() if e["event"] == "step_start"], "that to be heard")
    lab.edit("long_work.py", "600", "601")
    running.wait_for(lambda: [e for e in lab.log() if e["event"] == "step_failed"][1:], "the two that wait to fail")
    (long,) = named(mark)
    os.kill(long, signal.SIGKILL)
    ended = running.ended()
    assert (ended.code, sorted(ended.failures)) == (
        1,
        [
            ("Job:Long[0]", "FAILED", "WorkerDied", False),
            ("Job:Long[1]", "FAILED", "InputChangedDuringRun", False),
            ("Job:Long[2]", "FAILED", "InputChangedDuringRun", False),
        ],
    ), ended.said
    assert [(e.step_id, e.attempt) for e in ended.of(ev.StepStart)] == [(f"Job:Long[{i}]", 1) for i in range(3)]


UNTIL_TOLD = """
    import ctypes
    import signal
    import time

    def go(me):
        told = []
        signal.signal(signal.SIGUSR1, lambda *_: told.append(True))
        ctypes.CDLL(None).prctl(15, b"MARK", 0, 0, 0)
        while not told:
            time.sleep(0.02)
        return {"Word": "planned"}
"""


def test_what_runs_elsewhere_while_its_code_is_edited_counts(backend: str, on_backend: Make) -> None:
    """It has a copy of what was planned with. A local worker reads the file itself, and nobody knows when."""
    mark = f"w{secrets.token_hex(6)}"
    lab = on_backend(EDITED.replace("count: 3", "count: 1"), {"long_work.py": UNTIL_TOLD.replace("MARK", mark)})
    running = lab.start("--quiet", "--jobs", "1")
    running.wait_for(lambda: named(mark), "it to run")
    lab.edit("long_work.py", "planned", "edited")
    (waiting,) = named(mark)
    os.kill(waiting, signal.SIGUSR1)
    ended = running.ended()
    if backend == "local":
        assert (ended.code, ended.failures) == (1, [("Job:Long[0]", "FAILED", "InputChangedDuringRun", False)])
        return
    assert (ended.code, ended.completed) == (0, ["Job:Long[0]"]), ended.said
    lab.edit("long_work.py", "edited", "planned")
    assert lab.plan().planned == []
