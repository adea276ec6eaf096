"""The differences between a saved plan and the present one."""

from __future__ import annotations

from collections.abc import Callable

from project_lab import Lab
from whyrun.planning.answers.plan_diff import plan_differences

TWO = """
workflow: two
inputs: {Word: {type: string, default: one}}
jobs:
  A:
    uses: shell
    with: {word: "${{ inputs.Word }}", run: 'printf "$word" > "$out_T"'}
    outputs: {T: {type: text, path: out/a.txt}}
  B:
    uses: shell
    with: {a: "${{ jobs.A.outputs.T }}", run: 'cp "$a" "$out_T"'}
    outputs: {T: {type: text}}
"""


def test_a_plan_does_not_differ_from_itself(project: Callable[..., Lab]) -> None:
    lab = project(TWO)
    assert plan_differences(lab.plan().to_json(), lab.plan().to_json()) == []


def test_inputs_come_first_then_jobs_in_one_of_them_then_reasons_and_the_rest(project: Callable[..., Lab]) -> None:
    lab = project(TWO)
    first = lab.plan().to_json()
    lab.succeed()
    changed = lab.plan(sets=["Word=two"]).to_json()
    other = lab.plan(sets=["Word=three"]).to_json()
    assert plan_differences(changed, lab.plan().to_json()) == [
        "Input:Word: changed since the last run when the plan was saved, unchanged now",
        'Job:A: planned when it was saved, up to date now  (INPUT_CHANGED word ← Input:Word  "one" → "two")',
        "Job:B: planned when it was saved, up to date now  (UPSTREAM_DIRTY Job:A)",
    ]
    assert plan_differences(changed, other) == [
        'Job:A: was INPUT_CHANGED word ← Input:Word  "one" → "two"; '
        'is INPUT_CHANGED word ← Input:Word  "one" → "three"',
    ]
    forced, both = lab.plan(force=["Job:B"]), lab.plan(sets=["Word=two"], force=["Job:B"])
    assert plan_differences(forced.to_json(), both.to_json()) == [
        "Input:Word: unchanged since the last run when the plan was saved, changed now",
        'Job:A: up to date when it was saved, planned now  (INPUT_CHANGED word ← Input:Word  "one" → "two")',
        "Job:B: now also UPSTREAM_DIRTY Job:A",
    ]
    assert plan_differences(first, changed) == [
        "Input:Word: unchanged since the last run when the plan was saved, changed now",
        "Job:A: was MISSING_OUTPUT Artifact:A.T; is INPUT_CHANGED word ← Input:Word  \"one\" → \"two\"",
        "Job:B: no longer MISSING_OUTPUT Artifact:B.T",
        "0 artifacts were available when it was saved, 2 are now",
    ]  # fmt: skip


def test_a_workflow_that_grew_and_a_reason_of_another_version(project: Callable[..., Lab]) -> None:
    lab = project(TWO)
    saved = lab.plan().to_json()
    saved["jobs"][0]["reasons"] = [{"code": "MOON_PHASE", "phase": "full"}]
    lab.edit("workflow.yaml", "  B:\n", "  C:\n    uses: shell\n    with: {run: exit 0}\n    outputs: {}\n  B:\n")
    assert plan_differences(saved, lab.plan().to_json()) == [
        "Job:C: up to date when it was saved, planned now  (MISSING_OUTPUT it has not succeeded yet)",
        "Job:A: was MOON_PHASE; is MISSING_OUTPUT Artifact:A.T",
        "the workflow had 2 job instances when it was saved, and has 3 now",
    ]
