"""10,000 trivial Python jobs with two workers: whyrun with its whole log and durability, beside a bare process pool.

As a script, `python bench/trivial.py pool FOLDER N`, it is the bare pool: one submit a task, the same function.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from pathlib import Path

WORK = """\
def job(number):
    return {"Result": number * number}
"""

WORKFLOW = """\
workflow: trivial
inputs:
  Count: {type: integer, default: %d}
loops:
  number: {count: inputs.Count}
jobs:
  Square:
    for: [number]
    uses: python
    isolation: %s
    with: {call: "work:job", number: "${{ number }}"}
    outputs: {Result: {type: integer}}
"""


def project(folder: Path, jobs: int, isolation: str = "shared") -> None:
    folder.mkdir(parents=True)
    (folder / "workflow.yaml").write_text(WORKFLOW % (jobs, isolation))
    (folder / "work.py").write_text(WORK)


def pool(folder: str, jobs: int) -> None:
    sys.path.insert(0, folder)
    function = import_module("work").job
    began = time.perf_counter()
    with ProcessPoolExecutor(2) as executor:
        futures = [executor.submit(function, number) for number in range(jobs)]
        results = [future.result()["Result"] for future in futures]
    assert results == [number * number for number in range(jobs)]
    sys.stdout.write(f"{(time.perf_counter() - began) / jobs * 1000:.4f} ms a task\n")


if __name__ == "__main__":
    pool(sys.argv[2], int(sys.argv[3]))
