"""Answers that left out what the user asked for: changed parameters, the values of `--set`, straight columns."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_lab import whyrun

from project_lab import Lab
from whyrun.cli.commands.log import _LONGEST_EVENT, event_names, event_text
from whyrun.facts.history import difference

WORKFLOW = """\
workflow: study
inputs:
  N: {type: integer, default: 3}
  Topic: {type: string, default: tea}
loops: {s: {values: [a, b]}}
jobs:
  Fit:
    for: [s]
    uses: shell
    env: {MODE: fast}
    with: {alpha: 0.05, s: "${{ s }}", caption: "n is ${{ inputs.N }}", run: 'echo "$alpha $caption" > "$out_T"'}
    outputs: {T: {type: text}}
  Other:
    uses: shell
    with: {topic: "${{ inputs.Topic }}", run: 'echo "$topic" > "$out_T"'}
    outputs: {T: {type: text}}
"""


@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Two runs; the second with other parameters, and with a value from the command line."""
    lab = Lab(tmp_path_factory.mktemp("answers")).write({"workflow.yaml": WORKFLOW})
    lab.succeed()
    lab.edit("workflow.yaml", "alpha: 0.05", "alpha: 0.1")
    lab.edit("workflow.yaml", "MODE: fast", "MODE: slow")
    lab.succeed(sets=["N=5"])
    return lab


def test_diff_shows_the_parameters_that_changed(first_run: Lab) -> None:
    diff = difference(first_run.opened(), "r0001", "r0002")
    changed = {d.id: (d.old["value"], d.new["value"]) for d in diff.parameters}
    assert changed == {
        f"Input:Fit[{s}].{name}": values
        for s in "ab"
        for name, values in {
            "env.MODE": ("fast", "slow"),
            "with.alpha": (0.05, 0.1),
            "with.caption": ("n is 3", "n is 5"),
        }.items()
    }
    assert [d.id for d in diff.inputs] == ["Input:N"]
    shown = whyrun(first_run.root, "diff", "r0001", "r0002").out.splitlines()
    assert shown[shown.index("parameters") + 2] == "  Input:Fit[a].with.alpha    0.05 → 0.1"
    assert difference(first_run.opened(), "r0002", "r0002").same


def test_status_after_a_run_with_set_says_which_value_is_back(first_run: Lab) -> None:
    answer = whyrun(first_run.root, "status")
    assert "  Input:N  5 → 3" in answer.out.splitlines()
    assert answer.err == (
        "note: Input:N: the last run had another value; `--set` and `--inputs` apply to one command, so give them "
        "again, or change the default\n"
    )
    again = whyrun(first_run.root, "status", "--set", "N=5")
    assert "inputs that changed" not in again.out
    assert again.err == ""


def test_the_columns_of_a_log_are_as_wide_as_its_longest_event() -> None:
    assert max(map(len, event_names())) == _LONGEST_EVENT
    starts = {event_text({"ts": None, "event": name, "step_id": "Job:A"}).index("Job:A") for name in event_names()}
    assert len(starts) == 1


def test_nothing_is_said_of_a_default_that_did_not_change(tmp_path: Path) -> None:
    lab = Lab(tmp_path).write({"workflow.yaml": WORKFLOW})
    lab.succeed()
    assert whyrun(tmp_path, "status").err == ""
