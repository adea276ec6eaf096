"""What telling costs: 2,000 short tasks, with every line to a file and none at all, in turns."""

from __future__ import annotations

from pathlib import Path

TASKS = 2000

WORK = """\
import hashlib

def short_task(number):
    # About 2 ms of real work.
    return hashlib.pbkdf2_hmac("sha256", b"whyrun", str(number).encode(), 10000).hex()

def job(number):
    return {"Result": short_task(number)}

def study(tasks, told, logger):
    for number in range(tasks):
        found = short_task(number)
        if told:
            logger.log_task("study", "EXECUTES", f"task {number}", runtime=0.002, outputs=found[:8])
    return {"Result": found}
"""

JOBS = """\
workflow: jobs
loops: {number: {count: %d}}
jobs:
  Task:
    for: [number]
    uses: python
    isolation: shared
    with: {call: "work:job", number: "${{ number }}"}
    outputs: {Result: {type: string}}
"""

STUDY = """\
workflow: study
inputs: {Told: {type: boolean, default: true}}
jobs:
  Study:
    uses: python
    with: {call: "work:study", tasks: %d, told: "${{ inputs.Told }}"}
    outputs: {Result: {type: string}}
"""


def project(folder: Path, kind: str) -> list[str]:
    """A fresh project; the words that run it with nothing told go after those that all runs have."""
    folder.mkdir(parents=True)
    (folder / "work.py").write_text(WORK)
    (folder / "workflow.yaml").write_text((JOBS if kind == "jobs" else STUDY) % TASKS)
    return ["--set", "Told=false"] if kind == "study" else []
