"""After a failed `--force`, the answer names the earlier result and the command that takes it. Issue 17, number 15."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable

from cli_lab import whyrun

from project_lab import Lab, codes

Make = Callable[..., Lab]
FLOW = """
workflow: tale
inputs: {Word: {type: string, default: one}}
jobs:
  Make:
    uses: shell
    with:
      word: "${{ inputs.Word }}"
      run: 'test ! -e "BREAK"; echo "$word" > "$out_T"; echo "{\\"n\\": 1}" > "$out_J"; echo 5 > "$out_N"'
    outputs:
      T: {type: text, path: t.txt}
      J: {type: json, leaves: {n: integer}}
      N: {type: integer}
  Use:
    uses: shell
    with: {text: "${{ jobs.Make.outputs.T }}", n: "${{ jobs.Make.outputs.J.n }}", run: 'cat "$text" > "$out_T"'}
    outputs: {T: {type: text}}
"""
ONE = """
workflow: one
jobs:
  Make:
    uses: shell
    with: {run: 'test ! -e "BREAK"; echo one > "$out_T"'}
    outputs: {T: {type: text, path: t.txt}}
"""


def broken(project: Make, flow: str) -> Lab:
    """A success, and then a forced attempt with the same inputs that failed."""
    lab = project("workflow: none\njobs: {}\n")
    switch = lab.root.parent / "break"
    lab.write({"workflow.yaml": flow.replace("BREAK", str(switch))})
    lab.succeed()
    switch.touch()
    assert lab.run(force=["Job:Make"]).exit_code == 1
    return lab


def test_explain_and_why_name_the_result_and_the_command_which_works(project: Make) -> None:
    lab = broken(project, ONE)
    explained = whyrun(lab.root, "explain")
    assert explained.out.splitlines()[2:] == [
        "  Job:Make   RETRY_PREVIOUS_FAILURE  r0002 attempt 1: CommandFailed: exit status 1",
        "             MISSING_OUTPUT          Artifact:Make.T",
    ]
    assert explained.err == (
        "note: Job:Make failed, and an earlier result is kept: Artifact:Make.T of r0001; to use it again instead of "
        "running the job: whyrun restore Artifact:Make.T --from r0001\n"
    )
    assert whyrun(lab.root, "plan").err == explained.err
    assert whyrun(lab.root, "why", "Job:Make").out.splitlines()[1:] == [
        "  RETRY_PREVIOUS_FAILURE  r0002 attempt 1: CommandFailed: exit status 1",
        "  MISSING_OUTPUT          Artifact:Make.T",
        "  kept                    Artifact:Make.T of r0001; to use it again instead of running the job:",
        "                          whyrun restore Artifact:Make.T --from r0001",
    ]
    job = json.loads(whyrun(lab.root, "explain", "--json").out)["layers"][0]["jobs"][0]
    assert job["restorable"] == {"Artifact:Make.T": "r0001"}
    assert "restorable" not in json.dumps(lab.plan().to_json())  # recorded plans have the same bytes as before
    restored = whyrun(lab.root, *shlex.split(explained.err.partition("job: ")[2])[1:])
    assert restored.code == 0, restored.err
    assert lab.plan().totals["clean"] == 1
    assert lab.read("t.txt") == "one\n"


def test_restoring_one_output_brings_the_others_of_the_same_success(project: Make) -> None:
    lab = broken(project, FLOW)
    lines = whyrun(lab.root, "why", "Job:Make").out.splitlines()
    at = next(i for i, line in enumerate(lines) if " kept " in line)
    assert "Artifact:Make.J (and 2 more) of r0001" in lines[at]
    restored = whyrun(lab.root, *shlex.split(lines[at + 1])[1:])
    assert restored.code == 0, restored.err
    assert [line.strip() for line in restored.out.splitlines()[1:]][:3] == [
        "Artifact:Make.J.n = 1",
        "with Artifact:Make.N, another output of the same success",
        "with Artifact:Make.T, another output of the same success",
    ]
    assert lab.plan().totals == {"jobs": 2, "planned": 0, "reused": 0, "clean": 2, "deferred": 0, "inactive": 0}
    assert (lab.content("Artifact:Make.N"), lab.content("Artifact:Make.J")) == (5, {"n": 1})
    assert whyrun(lab.root, "verify").code == 0


def test_no_such_offer_where_the_inputs_changed_or_the_earlier_result_is_taken_anyway(project: Make) -> None:
    lab = broken(project, FLOW)
    plan = lab.plan(sets=["Word=two"])
    assert codes(plan)["Job:Make"][0] == "RETRY_PREVIOUS_FAILURE"
    assert [job.restorable for job in plan.planned] == [{}, {}]
    (lab.root.parent / "break").unlink()
    lab.succeed(sets=["Word=two"])
    plan = lab.plan()  # the failed attempt with this word is the latest one with that fingerprint
    assert [dict(job.restorable) for job in plan.planned] == [{}, {}]
