"""What the reader of the log refuses, `verify` reports: it reads with the same types.

Issue 17, number 20: a comparison with `accept=1` left a log that no command could read, and `verify` called it sound.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from verify_lab import whyrun

from forging import forge, forge_events
from project_lab import Lab
from whyrun.errors import StateError

WORKFLOW = """
    workflow: read
    jobs:
      A: {uses: shell, with: {run: 'echo a > "$out_T"'}, outputs: {T: {type: text}}}
      B:
        uses: shell
        with: {t: "${{ jobs.A.outputs.T }}", run: 'cat "$t" > "$out_T"'}
        outputs: {T: {type: text}}
"""
FORGED = {
    "accept is a number": (r'"mode":"run","options":\{', '"mode":"compare","options":{"accept":1,'),
    "an index that is not canonical": ("Job:B", "Job:B[01]"),
    "an artifact of another job": ('"artifact":"Artifact:B.T"', '"artifact":"Artifact:A.T"'),
    "a start without bindings": (r'"bindings":\{"\.action".*\}(?=,"chain")', '"bindings":{}'),
    "a source without a hash": (r'\{"id":"Artifact:A.T","sha256":"\w+"', '{"id":"Artifact:A.T"'),
    "a source that is no ID": (r'\{"id":"Artifact:A.T"', '{"id":"Artefact:A.T"'),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    lab = Lab(tmp_path_factory.mktemp("read")).write({"workflow.yaml": WORKFLOW})
    lab.succeed()
    return lab


@pytest.fixture
def lab(made: Lab, tmp_path: Path) -> Lab:
    shutil.copytree(made.root, tmp_path / "copy", symlinks=True)
    return Lab(tmp_path / "copy")


@pytest.mark.parametrize("name", FORGED)
def test_a_log_that_planning_refuses_is_not_sound(name: str, lab: Lab) -> None:
    pattern, new = FORGED[name]
    log = lab.run_folder("r0001") / "events.jsonl"
    old = re.search(pattern, log.read_text())
    assert old is not None
    forge(log, old[0], new)
    lab.edit("workflow.yaml", 'cat "$t"', 'cat -u "$t"')  # so that a plan reads what B consumed
    with pytest.raises(StateError) as refused:
        lab.plan()
    (told,) = refused.value.diagnostics
    answer = whyrun(lab.root, "verify", "--json")
    assert answer.code == 3
    lines = [problem["line"] for problem in answer.json["problems"] if problem["kind"] == "log"]
    assert told.line in lines, (told, answer.out)


def test_a_completion_before_its_start_is_not_sound(lab: Lab) -> None:
    """Issue 17, number 9: two lines exchanged, and all numbers and the chain computed again."""
    log = lab.run_folder("r0001") / "events.jsonl"
    starts_last = {"run_start": 0, "step_complete": 1, "run_complete": 3}
    forge_events(log, lambda events: sorted(events, key=lambda event: starts_last.get(event["event"], 2)))
    answer = whyrun(lab.root, "verify")
    assert answer.code == 3
    assert "completed without a `step_start`" in answer.out
