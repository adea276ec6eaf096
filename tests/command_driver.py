"""`python command_driver.py WORD…`: the command `whyrun WORD…`, which waits or dies at a point of `whyrun.disk`.

With `GATE_POINT=prune.rename` and `GATE=file` it makes `file.reached` before the first call of that point, and goes on
once there is `file`. With `KILL_AT=N` it is killed right before its Nth call of a point that begins with `KILL_AREAS`
(names with blanks between them); with `KILL_AT=0` it prints how many there were.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from whyrun import disk
from whyrun.cli.main import main

PATIENCE = 300.0
calls = 0


def gate(point: str, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    reached = Path(os.environ["GATE"] + ".reached")
    if point == os.environ["GATE_POINT"] and not reached.exists():
        reached.touch()
        deadline = time.monotonic() + PATIENCE
        while not Path(os.environ["GATE"]).exists():
            assert time.monotonic() < deadline, "the gate does not open"
            time.sleep(0.01)
    return call(*arguments, **named)


def killer(point: str, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    global calls
    if point.partition(".")[0] in os.environ["KILL_AREAS"].split():
        calls += 1
        if calls == int(os.environ["KILL_AT"]):
            os.kill(os.getpid(), signal.SIGKILL)
    return call(*arguments, **named)


if __name__ == "__main__":
    if "GATE" in os.environ:
        disk.hook = gate
    elif "KILL_AT" in os.environ:
        disk.hook = killer
    try:
        main(sys.argv[1:])
    finally:
        if os.environ.get("KILL_AT") == "0":
            print(f"calls {calls}", file=sys.stderr)
