"""The memo of compared columns is a cache of one version of the comparing code. It repeats no fault of another one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import whyrun

WORKFLOW = """
workflow: memo
inputs: {Names: {type: "string[]", default: [a, b, c]}}
loops: {n: {each: inputs.Names}}
jobs:
  Greet:
    for: [n]
    uses: shell
    with: {name: "${{ inputs.Names[n] }}", run: 'echo "$name" > "$out_Text"'}
    outputs: {Text: {type: text}}
"""
COMPARED = "enumerate(zip(recorded, heads, consumed, strict=True))"
LESS = "enumerate(list(zip(recorded, heads, consumed, strict=True))[:-1])"  # a fault: the last row is not compared


@pytest.mark.real_start  # a forked command would have the modules of this process
def test_a_mended_fault_of_the_comparison_does_not_live_on_in_the_memo(tmp_path: Path) -> None:
    faulty = tmp_path / "faulty" / "whyrun"
    shutil.copytree(Path(whyrun.__file__).parent, faulty, ignore=shutil.ignore_patterns("__pycache__"))
    suspects = faulty / "snapshot/suspects.py"
    assert suspects.read_text().count(COMPARED) == 1
    suspects.write_text(suspects.read_text().replace(COMPARED, LESS))
    project = tmp_path / "project"
    project.mkdir()
    (project / "workflow.yaml").write_text(WORKFLOW)

    def command(*words: str, source: Path | None = None) -> list[str]:
        environment = {**os.environ, **({} if source is None else {"PYTHONPATH": str(source)})}
        done = subprocess.run(
            [sys.executable, "-m", "whyrun.cli.main", *words],
            cwd=project, env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout.splitlines()

    command("run", "--quiet")
    changed = ("explain", "--set", "Names=[a, b, d]")
    assert command(*changed, source=faulty.parent)[0] == "memo after r0001: nothing to do, 3 of 3 jobs up to date"
    assert command(*changed)[2:] == ['  Job:Greet[2]   INPUT_CHANGED  name ← Input:Names[2]  "c" → "d"']
