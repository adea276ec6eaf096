"""`plan` and `explain` of many jobs: summaries, pages and filters on the command line."""

from __future__ import annotations

from pathlib import Path

from cli_lab import whyrun

from whyrun.planning.reasons import CODES

MANY = """\
workflow: many
inputs: {Rows: {type: integer, default: 4}}
loops: {row: {count: inputs.Rows}}
jobs:
  Fit:
    for: [row]
    uses: shell
    with: {run: 'echo "$row" > "$out_Model"', row: "${{ row }}"}
    outputs: {Model: {type: text}}
  Score:
    for: [row]
    uses: shell
    with: {run: 'cat "$model" > "$out_Score"', model: "${{ jobs.Fit.outputs.Model[row] }}"}
    outputs: {Score: {type: text}}
"""


def test_what_is_shown_of_a_plan_is_chosen_by_options(tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").write_text(MANY)
    page = whyrun(tmp_path, "plan", "--limit", "2", "--offset", "3")
    assert (page.code, page.err, page.out.splitlines()) == (0, "", [
        "many before its first run: 8 of 8 jobs to run",
        "layer 0",
        "  Job:Fit[3]     MISSING_OUTPUT",
        "layer 1",
        "  Job:Score[0]   MISSING_OUTPUT (+1)",
        "jobs 4 to 5 of 8 (`--offset 5` continues)",
    ])  # fmt: skip
    some = whyrun(
        tmp_path, "explain", "--reason", "upstream_dirty", "--job", "Job:*[1]", "--job", "Artifact:Fit.Model[2]"
    )
    assert some.out.splitlines() == [
        "many before its first run: 8 of 8 jobs to run",
        "layer 1",
        "  Job:Score[1]   MISSING_OUTPUT  Artifact:Score.Score[1]",
        "                 UPSTREAM_DIRTY  Job:Fit[1]",
        "1 of the 8 jobs in the plan",
    ]
    short = whyrun(tmp_path, "plan", "--summary", "--status", "planned")
    assert short.out.splitlines()[1:-1] == [
        "layer 0",
        "  Job:Fit[*]     4 jobs   MISSING_OUTPUT",
        "layer 1",
        "  Job:Score[*]   4 jobs   MISSING_OUTPUT, UPSTREAM_DIRTY",
    ]
    found = whyrun(tmp_path, "explain", "--json", "--limit", "1", "--offset", "7").json
    assert (found["chosen"], found["offset"], found["limit"]) == (8, 7, 1)
    assert [job["id"] for layer in found["layers"] for job in layer["jobs"]] == ["Job:Score[3]"]


def test_more_than_a_thousand_jobs_are_summed_up_unless_all_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").write_text(MANY)
    assert whyrun(tmp_path, "plan", "--set", "Rows=600").out.splitlines() == [
        "many before its first run: 1200 of 1200 jobs to run",
        "layer 0",
        "  Job:Fit[*]     600 jobs   MISSING_OUTPUT",
        "layer 1",
        "  Job:Score[*]   600 jobs   MISSING_OUTPUT, UPSTREAM_DIRTY",
        "a summary of 1200 jobs; `--limit N --offset M` lists a page of them, `--all` every one, "
        "`--job ID`, `--reason CODE` and `--status S` some",
    ]
    assert len(whyrun(tmp_path, "plan", "--set", "Rows=600", "--all").out.splitlines()) == 1203


def test_what_cannot_be_chosen_is_refused(tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").write_text(MANY)
    unknown = whyrun(tmp_path, "plan", "--job", "Job:Fitt[1]")
    assert (unknown.code, unknown.out) == (2, "")
    assert unknown.err.splitlines()[0] == "error[UNKNOWN_REFERENCE]: `Job:Fitt[1]` names nothing in this workflow"
    wrong = whyrun(tmp_path, "plan", "--reason", "BORED")
    assert (wrong.code, wrong.err.splitlines()[0]) == (2, (
        "error[USAGE]: invalid value for `--reason`: `BORED` is not a reason; "
        f"the reasons are {', '.join(CODES)}"
    ))  # fmt: skip
    part = whyrun(tmp_path, "plan", "--json", "--reason", "FORCED")
    assert part.code == 2
    message = part.json["diagnostics"][0]["message"]
    assert message == "`--json` prints the whole plan, because its digest covers all jobs"


WIDE = """\
workflow: wide
inputs: {Broken: {type: boolean, default: false}}
loops: {i: {count: 25}}
jobs:
  Part:
    for: [i]
    uses: shell
    with: {broken: "${{ inputs.Broken }}", run: 'if [ "$broken" = true ]; then exit 3; fi; echo 1 > "$out_T"'}
    outputs: {T: {type: text}}
  Whole:
    uses: shell
    with: {parts: "${{ jobs.Part.outputs.T[:] }}", run: 'cat "${parts[@]}" > "$out_T"'}
    outputs: {T: {type: text}}
"""


def test_every_particular_of_a_chosen_job_is_listed_with_all(tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").write_text(WIDE)
    assert whyrun(tmp_path, "run", "-q", "--set", "Broken=true").code == 1
    few = whyrun(tmp_path, "explain", "--job", "Job:Whole").out.splitlines()
    assert few[2:] == [
        "  Job:Whole   MISSING_OUTPUT   Artifact:Whole.T",
        *(f"              UPSTREAM_FAILED  Artifact:Part.T[{i}]" for i in range(20)),
        "              UPSTREAM_FAILED  … and 5 more (`--job ID --all` lists them)",
        *(f"              UPSTREAM_DIRTY   Job:Part[{i}]" for i in range(20)),
        "              UPSTREAM_DIRTY   … and 5 more (`--job ID --all` lists them)",
        "1 of the 26 jobs in the plan",
    ]
    every = whyrun(tmp_path, "explain", "--job", "Job:Whole", "--all").out.splitlines()
    assert every[2:] == [
        "  Job:Whole   MISSING_OUTPUT   Artifact:Whole.T",
        *(f"              UPSTREAM_FAILED  Artifact:Part.T[{i}]" for i in range(25)),
        *(f"              UPSTREAM_DIRTY   Job:Part[{i}]" for i in range(25)),
        "1 of the 26 jobs in the plan",
    ]
    shown = whyrun(tmp_path, "explain", "--job", "Job:Whole", "--all", "--json").json
    assert shown["digest"] == whyrun(tmp_path, "plan", "--json").json["digest"], "what is shown changes no plan"
    assert len(shown["layers"][0]["jobs"][0]["reasons"]) == 51
    forced = whyrun(tmp_path, "explain", "--force", "Job:Whole", "--job", "Job:Whole", "--all").out.splitlines()
    assert forced[2:-1] == [*every[2:-1], "              FORCED           --force Job:Whole"]
    # Without `--job` the jobs are all listed, each with what the plan keeps of its reasons.
    last = whyrun(tmp_path, "explain", "--all").out.splitlines()[-42:]
    assert [line.split() for line in last] == [line.split() for line in few[3:-1]]
