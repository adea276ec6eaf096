"""Issue 20: every command that lists or explains instances knows `Job:Clip[?]`, the entry of a loop that is open."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_lab import whyrun

TEXT = """\
workflow: w
inputs: {N: {type: integer, default: 2}}
loops: {segment: {count: jobs.Script.outputs.Count}}
jobs:
  Script:
    uses: python
    with: {call: "s:script", n: "${{ inputs.N }}"}
    outputs: {Count: {type: integer}}
  Clip:
    for: [segment]
    uses: python
    with: {call: "s:clip", i: "${{ segment }}"}
    outputs: {Frame: {type: json, path: "out/f-${{ segment }}.json"}}
  Film:
    uses: python
    with: {call: "s:film", frames: "${{ jobs.Clip.outputs.Frame[:] }}"}
    outputs: {Film: {type: json}}
"""
CODE = """\
def script(n): return {"Count": n}
def clip(i): return {"Frame": i}
def film(frames): return {"Film": len(frames)}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "workflow.yaml").write_text(TEXT)
    (tmp_path / "s.py").write_text(CODE)
    for words in (["--target", "Job:Script"], []):
        assert whyrun(tmp_path, "run", *words).code == 0
    return tmp_path


def test_commands_on_a_loop_that_is_open(folder: Path) -> None:
    other = ["--set", "N=3"]

    def lines(*words: str) -> list[str]:
        answer = whyrun(folder, *words, *other)
        assert answer.code == 0, answer.err
        return answer.out.splitlines()

    assert lines("explain", "--status", "open")[1:3] == ["open", "  Job:Clip[?]   UPSTREAM_DIRTY  Job:Script"]
    explained = json.loads("\n".join(lines("explain", "--json")))
    assert [job["id"] for job in explained["open"]] == ["Job:Clip[?]"]
    assert lines("why", "Job:Clip[?]")[0] == (
        "Job:Clip[?] is open: how many it stands for is known once Job:Script has run (layer 1), after r0002"
    )
    assert "because Job:Clip[?] is open" in "\n".join(lines("why", "Job:Film"))
    assert any("stands for all instances" in line for line in lines("explain", "--trace", "Job:Clip[?]"))
    assert json.loads("\n".join(lines("show", "Artifact:Clip.Frame[?]", "--json")))["job_state"] == "open"
    status = lines("status")
    assert [line.split()[:3] for line in status if "Clip" in line] == [
        ["Artifact:Clip.Frame[?]", "missing", "UPSTREAM_DIRTY"]
    ]
    assert not any("leftover" in line for line in status)
    assert any("Clip" in line for line in lines("graph"))
    assert lines("report", "--output", "r.html") == ["r.html"]
    ran = whyrun(folder, "run", *other)
    assert (ran.code, [line for line in ran.err.splitlines() if "known now" in line]) == (
        0, ["Job:Script has ended: 3 instances known now, 1 to run, 2 up to date"],
    )  # fmt: skip
    assert "r0003 succeeded" in ran.err
    assert "3 executed, 2 up to date" in ran.err
    at = whyrun(folder, "explain", "--at", "r0003").out.splitlines()
    assert at[:2] == [
        "w after r0002: 3 of 5 jobs to run, 2 up to date",
        "layer 0",
    ]
    assert whyrun(folder, "why", "Job:Clip[2]", "--at", "r0003").out.splitlines()[1] == (
        "  exists          because Artifact:Script.Count is 3, made in the same run"
    )
    assert whyrun(folder, "verify", "--replay").code == 0
    shrunk = whyrun(folder, "run", "--set", "N=1", "--json")
    answer = json.loads(shrunk.out)
    assert (answer["totals"]["clean"], answer["totals"]["open"], answer["stages"][0]["source"]) == (1, 0, "Job:Script")
    assert "2 published files or sections belong to no job any more" in shrunk.err


def test_commands_on_a_loop_that_is_known(folder: Path) -> None:
    status = whyrun(folder, "status").out
    assert "Clip.Frame[0]" in status
    assert "Clip.Frame[1]" in status
    assert "[?]" not in status
    assert whyrun(folder, "explain").out == "w after r0002: nothing to do, 4 of 4 jobs up to date\n"
    assert whyrun(folder, "why", "Job:Clip[?]").code == 2
    assert whyrun(folder, "why", "Job:Clip[1]").out.splitlines()[:2] == [
        "Job:Clip[1] is up to date, after r0002",
        "  exists        because Artifact:Script.Count is 2, made in r0001",
    ]
    answer = json.loads(whyrun(folder, "why", "Job:Clip[1]", "--json").out)
    assert answer["jobs"][0]["exists_by"] == [{"artifact": "Artifact:Script.Count", "count": 2, "run": "r0001"}]
    assert whyrun(folder, "verify", "--replay").code == 0
    assert whyrun(folder, "run", "--target", "Job:Script", "--set", "N=1").code == 0
    assert "out/f-1.json  Artifact:Clip.Frame[1] from r0002" in whyrun(folder, "status", "--set", "N=1").out


def test_an_export_knows_the_reasons_of_the_stages_of_a_run(folder: Path) -> None:
    assert whyrun(folder, "run", "--set", "N=3").code == 0
    summary = whyrun(folder, "export", "markdown", "r0003").out
    assert "\n3 succeeded, 2 up to date; " in summary
    assert "| `Job:Clip[2]` | succeeded | `MISSING_OUTPUT` `Artifact:Clip.Frame[2]` |" in summary


def test_a_step_of_a_stage_fails(folder: Path) -> None:
    """The graph before the run does not have it."""
    code = CODE.replace("def clip(i):", "def clip(i):\n    if i == 2: raise ValueError('not 2')\n   ")
    (folder / "s.py").write_text(code)
    ran = whyrun(folder, "run", "--set", "N=3", "--json")
    assert ran.code == 1, ran.err
    assert "Job:Clip[2]  ValueError: not 2  (s.py:3)" in ran.err
    assert "r0003 failed" in ran.err
    assert [(failed["id"], failed["error"]) for failed in ran.json["failed"]] == [("Job:Clip[2]", "not 2")]
