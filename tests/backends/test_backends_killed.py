"""SIGKILL for the host ends its steps, and the next run keeps their logs and files."""

from __future__ import annotations

import secrets
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from backends_lab import EVERY_RUN, BackendLab, named, run_files

from project_lab import wait_until
from whyrun.log import events as ev
from whyrun.log.journal import read_events

Make = Callable[..., BackendLab]

WORKFLOW = """
    workflow: killed
    loops: {i: {count: 2}}
    jobs:
      Wait:
        for: [i]
        uses: python
        with: {call: "waiting:wait", me: "${{ i }}"}
        outputs: {Word: {type: text}}
"""
CODE = """
    import ctypes
    import sys
    import time
    from pathlib import Path

    def wait(me, context):
        if not Path("GO").exists():
            ctypes.CDLL(None).prctl(15, b"MARK", 0, 0, 0)
            print(f"{me} printed")
            print(f"{me} warned", file=sys.stderr)
            Path("partial").write_text(f"part of {me}")
            context.task("EXECUTES", f"{me} waits")
            time.sleep(600)
        return {"Word": f"{me}"}
"""


@pytest.mark.parametrize("backend", ["local", "dask"])
def test_what_steps_left_when_their_host_was_killed_is_kept_by_the_next_run(
    backend: str, on_backend: Make, tmp_path: Path
) -> None:
    mark = f"w{secrets.token_hex(6)}"
    lab = on_backend(WORKFLOW, {"waiting.py": CODE.replace("MARK", mark).replace("GO", str(tmp_path / "go"))})
    running = lab.start("--jobs", "2")
    running.wait_for_task("0 waits")
    running.wait_for_task("1 waits")
    running.signal(signal.SIGKILL)
    killed = running.ended()
    assert killed.code == -signal.SIGKILL
    wait_until(lambda: named(mark) == [])
    (tmp_path / "go").touch()
    second = lab.run_on_backend("--jobs", "2")
    assert second.completed == ["Job:Wait[0]", "Job:Wait[1]"]
    steps = ("Wait%5B0%5D", "Wait%5B1%5D")
    kept = ("stdout.log", "stderr.log", "scratch/work/partial")
    assert run_files(killed.folder) == {
        *EVERY_RUN, *(f"cfg/{step}.json" for step in steps),
        *(f"steps/{step}/{name}" for step in steps for name in kept),
    }  # fmt: skip
    for number, step in enumerate(steps):
        contents = [killed.file(f"steps/{step}/{name}") for name in kept]
        assert contents == [f"{number} {words}".encode() for words in ("printed\n", "warned\n")] + [
            b"part of %d" % number
        ]
    (repaired,) = [e for e in read_events(killed.folder / "events.jsonl") if isinstance(e, ev.LogRepaired)]
    assert sorted(repaired.interrupted) == ["Job:Wait[0]", "Job:Wait[1]"]
    assert lab.left_over() == []
