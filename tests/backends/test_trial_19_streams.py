"""Issue 17, number 19: what a step with a secret prints is redacted before it reaches a file; its files are private.

Looked at while the step runs, and after its host was killed.
"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import whyrun
from project_lab import Lab
from whyrun.execution.backends.sandbox.backend import why_unavailable

Make = Callable[..., Lab]
SECRET = "correct-horse-battery"
SAID = "it is ***"
FLOW = """
workflow: tale
inputs: {Wait: {type: integer, default: 0}}
jobs:
  Tell:
    uses: python
    with: {call: "steps:tell", wait: "${{ inputs.Wait }}", token: "${{ secrets.TOKEN }}"}
    secrets: [TOKEN]
    outputs: {T: {type: text}}
"""
STEPS = """
import os, subprocess, sys, time
from pathlib import Path

def tell(wait, token, context):
    text = "it is " + token
    print(text)
    print(text, file=sys.stderr)
    os.write(1, text.encode()[:12])
    time.sleep(0.05)  # so that the worker reads the pieces apart
    os.write(1, text.encode()[12:] + b"\\n")
    subprocess.run(["sh", "-c", 'echo "$0"; echo "$0" >&2', text])
    print("end")
    Path("notes.txt").write_text(text)
    if wait:
        context.task("EXECUTES", "waits")
        time.sleep(wait)
    return {"T": "done"}
"""
TOLD = {"stdout": [SAID] * 3 + ["end"], "stderr": [SAID] * 2}


def traces(root: Path) -> list[str]:
    """The files that hold the secret."""
    return sorted(
        path.relative_to(root).as_posix()
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink() and SECRET.encode() in path.read_bytes()
    )


def open_to_others(root: Path) -> list[str]:
    """The files that another user of the machine could read, if the folder is open."""
    found = []
    for entry in sorted(root.iterdir()):
        mode = entry.lstat().st_mode
        if stat.S_ISDIR(mode):
            found += open_to_others(entry) if mode & 0o001 else []
        elif stat.S_ISREG(mode) and mode & 0o004:
            found.append(entry.name)
    return found


def run(lab: Lab, backend: str) -> int:
    return whyrun.run(lab.root / "workflow.yaml", backend=backend).exit_code


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture(params=["local", "sandbox"])
def backend(request: pytest.FixtureRequest) -> str:
    if request.param == "sandbox" and (problem := why_unavailable()) is not None:
        pytest.skip(problem.message)
    return str(request.param)


def test_no_file_has_the_secret_while_its_step_runs_and_none_after_a_kill(project: Make, backend: str) -> None:
    lab = project(FLOW, {"steps.py": STEPS})
    command = [sys.executable, "-m", "whyrun.cli.main", "run", "--backend", backend, "--set", "Wait=1000"]
    mask = os.umask(0)
    try:
        host = subprocess.Popen(
            command, cwd=lab.root, env={**os.environ, "TOKEN": SECRET}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    finally:
        os.umask(mask)
    state = lab.root / ".whyrun"
    log = state / "tale/runs/r0001/events.jsonl"
    until(lambda: host.poll() is not None or (log.exists() and b'"waits"' in log.read_bytes()))
    assert host.poll() is None
    (notes,) = (path for path in state.rglob("notes.txt"))  # its own file, which nobody else can reach
    assert traces(state) == [notes.relative_to(state).as_posix()]
    scratch = notes.parents[1]
    # The task may be in the log before the worker has written what was printed before it.
    until(lambda: all((scratch / name).read_text().splitlines() == lines for name, lines in TOLD.items()))
    assert traces(state) == [notes.relative_to(state).as_posix()]
    assert open_to_others(state / "tmp") == []
    host.send_signal(signal.SIGKILL)
    host.communicate()
    assert (
        subprocess.run([*command[:3], "plan", "--set", "Wait=1000"], cwd=lab.root, capture_output=True).returncode < 2
    )
    assert traces(state) == []
    assert not scratch.exists()


def test_what_it_prints_is_in_the_evidence(project: Make, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", SECRET)
    lab = project(FLOW, {"steps.py": STEPS})
    ran = run(lab, backend)
    assert ran == 0
    for name, lines in TOLD.items():
        assert (lab.root / f".whyrun/tale/runs/r0001/steps/Tell/{name}.log").read_text().splitlines() == lines
    assert traces(lab.root / ".whyrun") == []


SCRIPT = """
workflow: tale
jobs:
  Fail:
    uses: shell
    secrets: [TOKEN]
    with:
      token: "${{ secrets.TOKEN }}"
      run: |
        for n in $(seq 2000); do echo "line $n: $token"; done
        printf "at the end: %s, corr" "$token" >&2
        exit 3
    outputs: {T: {type: text}}
  Die:
    uses: shell
    secrets: [TOKEN]
    with:
      token: "${{ secrets.TOKEN }}"
      run: |
        printf "the last word is %s, corr" "$token" >&2
        kill -SEGV $PPID
        sleep 100
    outputs: {T: {type: text}}
"""


def test_the_error_of_a_script_has_its_last_words(project: Make, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that may still become a secret."""
    monkeypatch.setenv("TOKEN", SECRET)
    lab = project(SCRIPT)
    assert run(lab, backend) == 1
    events = {event.step_id: event for event in lab.events("r0001") if type(event).__name__ == "StepFailed"}
    assert events["Job:Fail"].error == "exit status 3: at the end: ***, corr"
    assert events["Job:Die"].error_type == "WorkerDied"
    steps = lab.root / ".whyrun/tale/runs/r0001/steps"
    assert (steps / "Die/stderr.log").read_text() == "the last word is ***, corr"
    assert (steps / "Fail/stdout.log").read_text() == "".join(f"line {n}: ***\n" for n in range(1, 2001))
    assert traces(lab.root / ".whyrun") == []
