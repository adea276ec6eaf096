"""10,000 trivial Python jobs with two workers: whyrun with its whole log and durability, beside a bare process pool.

As a script, `python bench/trivial.py pool FOLDER N`, it is the bare pool: one submit a task, the same function. With
`forks` in place of `pool` it is what any engine in Python pays that has a process for each task: two processes without
Whyrun fork for each task; the fork imports the module, calls the function and gives the answer as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
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
    from concurrent.futures import ProcessPoolExecutor  # a fork of it would be dearer: `forks` has only what it needs

    sys.path.insert(0, folder)
    function = import_module("work").job
    began = time.perf_counter()
    with ProcessPoolExecutor(2) as executor:
        futures = [executor.submit(function, number) for number in range(jobs)]
        results = [future.result()["Result"] for future in futures]
    assert results == [number * number for number in range(jobs)]
    sys.stdout.write(f"{(time.perf_counter() - began) / jobs * 1000:.4f} ms a task\n")


def forks(folder: str, jobs: int) -> None:
    sys.path.insert(0, folder)
    halves = []
    for half in range(2):
        process = os.fork()
        if process == 0:
            _fork_each(range(half, jobs, 2))
            os._exit(0)
        halves.append(process)
    for process in halves:
        assert os.waitpid(process, 0)[1] == 0


def _fork_each(numbers: range) -> None:
    for number in numbers:
        answer = os.memfd_create("answer")
        process = os.fork()
        if process == 0:
            os.write(answer, json.dumps(import_module("work").job(number)).encode())
            os._exit(0)
        os.waitpid(process, 0)
        assert json.loads(os.pread(answer, 1000, 0)) == {"Result": number * number}
        os.close(answer)


if __name__ == "__main__":
    (pool if sys.argv[1] == "pool" else forks)(sys.argv[2], int(sys.argv[3]))
