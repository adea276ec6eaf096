"""`whyrun reads`, and what other commands tell of undeclared reads and packages."""

from __future__ import annotations

import importlib.metadata
import json
import re
from collections.abc import Callable

import pytest
from cli_lab import whyrun
from question_lab import plain

from observed_lab import absent, file, folder, saw
from project_lab import Lab
from whyrun.log.reads import Read

Make = Callable[..., Lab]

FLOW = """
    workflow: w
    inputs: {Two: {type: "integer[]", default: [0, 1]}, Page: {type: text, default: page.txt}}
    loops: {i: {each: inputs.Two}}
    jobs:
      Fit:
        for: [i]
        uses: shell
        with: {page: "${{ inputs.Page }}", i: "${{ i }}", run: 'cat "$page" > "$out_Text"'}
        outputs: {Text: {type: text, path: "out/fit-${{ i }}.txt"}}
      Sum:
        uses: shell
        with: {texts: "${{ jobs.Fit.outputs.Text[:] }}", run: 'echo sum > "$out_All"'}
        outputs: {All: {type: text}}
      Look:
        uses: shell
        with: {run: 'echo look > "$out_Text"'}
        outputs: {Text: {type: text}}
"""
MSGSPEC = importlib.metadata.version("msgspec")


@pytest.fixture
def lab(project: Make) -> Lab:
    made = project(FLOW, {"page.txt": "a page", "helper.sh": "1", "data/a.csv": "a"})
    made.succeed()
    of_all = [file(made, "helper.sh", "strace"), absent("conf.json")]
    reads = {
        "Job:Fit[0]": [*of_all, folder(made, "data"), file(made, "data/a.csv"), Read("moving", "unknown")],
        "Job:Fit[1]": of_all,
        "Job:Look": [file(made, "out/fit-1.txt")],
    }
    return saw(made, reads, traced=["Job:Fit[0]"], packages={"Job:Look": {"msgspec": "0.0.1"}})


def test_what_is_read_is_listed_by_job(lab: Lab) -> None:
    answer = whyrun(lab.root, "reads")
    assert (answer.code, answer.err) == (0, "")
    assert [re.sub("  +", "  ", line) for line in plain(answer.out).splitlines()] == [
        "Job:Fit  2 instances, traced in r0001",
        "  declared  Input:Page",
        "  observed  conf.json  absent",
        "  data/  HASH…  in 1",
        "  data/a.csv  HASH…  in 1",
        "  helper.sh  HASH…  by strace",
        "  moving  not known  in 1, now absent",
        "Job:Look  1 instance, not traced",
        "  observed  out/fit-1.txt  HASH…  Job:Fit makes it: bind it",
        "  packages  msgspec 0.0.1",
        "Job:Sum  1 instance, not traced",
        "  declared  Artifact:Fit.Text",
    ]
    chosen = json.loads(whyrun(lab.root, "reads", "Job:Fit[1]", "--json").out)["jobs"]
    assert [(job["job"], job["instances"], job["traced"]) for job in chosen] == [("Job:Fit", 1, "r0001")]
    assert [(read["path"], read["kind"], read["by"]) for read in chosen[0]["observed"]] == [
        ("conf.json", "absent", "python"), ("helper.sh", "file", "strace"),
    ]  # fmt: skip
    unknown = whyrun(lab.root, "reads", "Job:Nobody")
    assert (unknown.code, "Job:Nobody" in unknown.err) == (2, True)


def test_the_lines_that_would_declare_it_are_a_workflow(lab: Lab) -> None:
    answer = whyrun(lab.root, "reads", "--declare")
    assert answer.out.splitlines() == [
        "jobs:",
        "  Fit:",
        '    code: ["data/*", "helper.sh"]',
        "    # not there, or not known, so nothing declares it: conf.json, moving",
        "  Look:",
        "    with:",
        "      text: ${{ jobs.Fit.outputs.Text[:] }}",
    ]
    lab.edit("workflow.yaml", "Fit:\n", 'Fit:\n    code: ["data/*", "helper.sh"]\n')
    lab.edit(
        "workflow.yaml", "with: {run: 'echo look", "with: {text: '${{ jobs.Fit.outputs.Text[:] }}', run: 'echo look"
    )
    assert whyrun(lab.root, "validate").code == 0
    bound = whyrun(lab.root, "reads", "Job:Look", "--declare")
    assert bound.out == "# nothing was read that is not declared\n", "it is bound, and still read by its path"
    listed = plain(whyrun(lab.root, "reads", "Job:Look").out)
    assert "  observed  out/fit-1.txt      HASH…  Job:Fit makes it\n" in listed
    assert "bind it" not in whyrun(lab.root, "explain").out


def test_a_plan_tells_of_files_to_bind_and_of_packages(lab: Lab) -> None:
    told = [
        "Job:Look reads out/fit-1.txt, which Job:Fit makes: bind it",
        f'1 job ran with msgspec 0.0.1, now {MSGSPEC}: not counted (whyrun.toml: packages = "count")',
    ]
    assert whyrun(lab.root, "plan").out.splitlines()[-2:] == told
    assert whyrun(lab.root, "explain").out.splitlines()[-2:] == told
    lab.write({"whyrun.toml": 'packages = "count"'})
    counted = whyrun(lab.root, "explain").out
    assert f"  Job:Look     INPUT_CHANGED   packages ← msgspec  0.0.1 → {MSGSPEC}\n" in counted
    assert (told[0] in counted, told[1] in counted) == (True, False)
    lab.write({"whyrun.toml": 'packages = "maybe"'})
    answer = whyrun(lab.root, "plan")
    assert (answer.code, '`packages` is "tell"' in answer.err) == (2, True)


def test_other_questions_know_of_it(lab: Lab) -> None:
    clean = plain(whyrun(lab.root, "why", "Job:Fit[1]").out).splitlines()
    assert clean[-2:] == ["  same          observed ← conf.json  absent", "  same          observed ← helper.sh  HASH…"]
    assert "  observed\n    out/fit-1.txt  HASH…  Job:Fit makes it\n" in plain(whyrun(lab.root, "show", "Job:Look").out)
    lab.write({"helper.sh": "2"})
    trace = plain(whyrun(lab.root, "explain", "--trace", "Job:Fit[1]").out)
    lines = {" ".join(line.split()) for line in trace.splitlines()}
    assert {
        "snapshot/reads observed helper.sh HASH… → HASH…",
        "snapshot/reads observed 1 undeclared read as r0001 attempt 1 found it",
        "snapshot/suspects suspect what it read undeclared has changed",
        "planning/reuse r0001 rejected: it read undeclared files that are otherwise now (`observed`)",
    } <= lines
    why = plain(whyrun(lab.root, "why", "Job:Sum").out)
    assert "because Job:Fit[1] is planned (layer 0)\n    INPUT_CHANGED  observed ← helper.sh  HASH… → HASH…" in why


def test_the_difference_of_two_runs_names_files_and_packages(lab: Lab) -> None:
    lab.write({"helper.sh": "2"})
    lab.succeed(force=["Job:Look"])
    saw(lab, {f"Job:Fit[{i}]": [file(lab, "helper.sh")] for i in (0, 1)}, packages={"Job:Look": {"msgspec": "9"}})
    diff = plain(whyrun(lab.root, "diff", "r0001", "r0002").out)
    assert "undeclared reads\n" in diff
    assert "  helper.sh      HASH… → HASH…\n" in diff
    assert "packages\n  msgspec  0.0.1 → 9\n" in diff
    assert json.loads(whyrun(lab.root, "diff", "r0001", "r0002", "--json").out)["packages"] == [
        {"id": "msgspec", "old": "0.0.1", "new": "9"}
    ]
