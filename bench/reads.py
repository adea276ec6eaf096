"""What it costs to see what steps read: `python bench/reads.py`.

The hook: `open`, watched and not. A step: what its worker does before and after it.
strace: one shell step that starts 200 programs, and a Python script that imports a large library.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from whyrun.artifacts.stat_cache.rows import FileClock
from whyrun.execution.protocol.framing import WorkerStart
from whyrun.execution.reads.eyes import Eyes
from whyrun.execution.reads.strace_eye import StraceEye

TRIES = 5
OPENING = """
import sys, time
from whyrun.execution.reads.python_eye import PythonEye
if sys.argv[1] == "watched":
    PythonEye().watch()
best = 9e9
for _ in range(40):
    began = time.process_time()
    for number in range(2500):
        open(sys.argv[2]).close()
    best = min(best, time.process_time() - began)
print(best / 2500)
"""


def best(work: Callable[[], object]) -> float:
    """Seconds, the shortest of some tries."""
    times = []
    for _ in range(TRIES):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def used(work: Callable[[], object]) -> float:
    """CPU seconds of this process, the fewest of many tries: other work on the machine does not count."""
    fewest = float("inf")
    for _ in range(40):
        began = time.process_time()
        work()
        fewest = min(fewest, time.process_time() - began)
    return fewest


def opening(how: str, file: Path) -> float:
    """CPU seconds for each `open`."""
    command = [sys.executable, "-c", OPENING, how, str(file)]
    return min(float(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(3))


def of_step(folder: Path) -> float:
    """CPU seconds for each step that reads one module of the project."""
    scratch = folder / ".whyrun" / "tmp" / "s"
    (scratch / "work").mkdir(parents=True)
    module = folder / "module.py"
    module.write_text("X = 1\n")
    time.sleep(0.1)  # so that its times prove its content
    store = str(folder / ".whyrun" / "store")
    start = WorkerStart(str(folder / ".whyrun" / "r"), str(folder), str(folder), store, store, str(scratch))
    eyes = Eyes(start, FileClock(folder))

    def steps() -> None:
        for _ in range(250):
            eyes.begin("python", trace=False, folder=scratch / "work", copy=False)
            with eyes.watching("python"):
                open(module).close()
            eyes.reads(eyes.glimpsed(), ())

    return used(steps) / 250


def traced(command: list[str], folder: Path) -> tuple[float, float]:
    eye = StraceEye(folder, str(folder))
    launcher = eye.launcher()
    assert launcher, eye.problem

    def run(words: list[str]) -> None:
        subprocess.run(words, check=True, capture_output=True)

    return best(lambda: run(command)), best(lambda: run([*launcher, *command]))


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plain, watched = (opening(how, Path(__file__)) * 1e6 for how in ("plain", "watched"))
        print(f"open and close: {plain:.2f} µs, watched {watched:.2f} µs ({watched / plain:.2f}×)")
        print(f"each step that reads one module: {of_step(folder) * 1e6:.0f} µs")
        programs = ["bash", "-c", "for i in $(seq 200); do /bin/true; done"]
        for what, command in {
            "200 programs": programs,
            "import pandas": [sys.executable, "-c", "import pandas"],
        }.items():
            alone, with_strace = traced(command, folder)
            print(f"{what}: {alone:.2f} s, traced {with_strace:.2f} s ({with_strace / alone:.2f}×)")


if __name__ == "__main__":
    main()
