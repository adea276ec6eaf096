"""`whyrun diff`: what differs between two runs."""

from __future__ import annotations

from pathlib import Path

from cli_lab import dedent, whyrun
from question_lab import plain, run, tale


def test_jobs_reasons_inputs_artifacts_and_actions_that_differ(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    (folder / "words/a.txt").write_text("uno\ndue\n")
    run(folder, "--set", "Mark=?")
    answer = whyrun(folder, "diff", "r0001", "r0002")
    assert (answer.code, answer.err) == (0, "")
    assert plain(answer.out) == dedent("""
        r0001 → r0002
        inputs
          Input:Mark      "!" → "?"
          Input:Words[0]  HASH… → HASH…
        first reasons
          Job:Echo[0]   MISSING_OUTPUT → UPSTREAM_DIRTY
          Job:Join      MISSING_OUTPUT → UPSTREAM_DIRTY
          Job:Script    MISSING_OUTPUT → INPUT_CHANGED
          Job:Shout[0]  MISSING_OUTPUT → INPUT_CHANGED
        artifacts
          Artifact:Echo.Text[0]   HASH… → HASH…
          Artifact:Join.All       HASH… → HASH…
          Artifact:Join.Lines     2 → 4
          Artifact:Script.Story   HASH… → HASH…
          Artifact:Shout.Loud[0]  HASH… → HASH…
        """)
    assert whyrun(folder, "diff", "r0002", "r0002").out == "r0002 and r0002: no differences\n"


def test_planned_in_one_and_not_in_the_other_as_json_and_a_changed_action(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    (folder / "helper.sh").write_text("echo 1\n")
    text = (folder / "workflow.yaml").read_text()
    (folder / "workflow.yaml").write_text(text.replace("  Join:\n", "  Join:\n    code: [helper.sh]\n"))
    run(folder)
    (folder / "helper.sh").write_text("echo 2\n")
    run(folder)
    found = whyrun(folder, "diff", "r0001", "r0002", "--json").json
    (action,) = found.pop("actions")
    assert action["id"] == "Job:Join"
    assert (action["old"]["name"], action["new"]["name"]) == ("shell", "shell")
    assert action["old"]["sha256"] != action["new"]["sha256"]
    assert found == {
        "old": "r0001",
        "new": "r0002",
        "same": False,
        "jobs": [
            {"id": "Job:Echo[0]", "old": "planned", "new": None},
            {"id": "Job:Echo[1]", "old": "planned", "new": "inactive"},
            {"id": "Job:Script", "old": "planned", "new": None},
            {"id": "Job:Shout[0]", "old": "planned", "new": None},
            {"id": "Job:Shout[1]", "old": "planned", "new": "inactive"},
        ],
        "reasons": [{"id": "Job:Join", "old": "MISSING_OUTPUT", "new": "INPUT_CHANGED"}],
        "inputs": [],
        "parameters": [],
        "artifacts": [],
    }


def test_a_run_without_a_plan_is_compared_by_its_artifacts(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    (folder / "out/all.txt").write_text("mine\n")
    assert whyrun(folder, "adopt", "Artifact:Join.All", "out/all.txt").code == 0
    found = whyrun(folder, "diff", "r0001", "r0002", "--json").json
    assert [artifact["id"] for artifact in found["artifacts"]] == ["Artifact:Join.All"]
    assert (found["reasons"], found["inputs"], found["actions"]) == ([], [], [])
    answer = whyrun(folder, "diff", "r0001", "r0009")
    assert (answer.code, answer.err.splitlines()[0]) == (3, "error[RUN_UNKNOWN]: there is no run `r0009` of `tale`")


def test_what_is_inactive_did_not_come_from_nothing(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    text = (folder / "workflow.yaml").read_text()
    run(folder)
    (folder / "workflow.yaml").write_text(text.replace("[true, false]", "[true, true]"))
    run(folder)
    (folder / "workflow.yaml").write_text(text)
    (folder / "words/a.txt").write_text("uno\n")
    run(folder)
    # In r0003 the second word is inactive again; what r0002 made of it is no difference to r0001.
    assert [d["id"] for d in whyrun(folder, "diff", "r0001", "r0003", "--json").json["artifacts"]] == [
        "Artifact:Echo.Text[0]", "Artifact:Join.All", "Artifact:Shout.Loud[0]",
    ]  # fmt: skip
    lines = plain(whyrun(folder, "diff", "r0002", "r0003").out).splitlines()
    assert lines[lines.index("artifacts") :] == [
        "artifacts",
        "  Artifact:Echo.Text[0]          HASH… → HASH…",
        "  Artifact:Echo.Text[1]          HASH… → inactive",
        "  Artifact:Join.All              HASH… → HASH…",
        "  Artifact:Join.Lines            4 → 2",
        "  Artifact:Script.Story          HASH… → HASH…",
        "  Artifact:Script.Story.Loud[1]  true → false",
        "  Artifact:Shout.Loud[0]         HASH… → HASH…",
        "  Artifact:Shout.Loud[1]         HASH… → inactive",
    ]
    lines = plain(whyrun(folder, "diff", "r0001", "r0002").out).splitlines()
    assert "  Artifact:Shout.Loud[1]         inactive → HASH…" in lines


def test_instances_are_reported_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "workflow.yaml").write_text("""\
workflow: twelve
inputs: {Mark: {type: string, default: a}}
loops: {i: {count: 12}}
jobs:
  Part:
    for: [i]
    uses: shell
    with: {mark: "${{ inputs.Mark }}", run: 'echo "$mark" > "$out_T"'}
    outputs: {T: {type: text}}
""")
    run(tmp_path)
    run(tmp_path, "--set", "Mark=b")
    found = whyrun(tmp_path, "diff", "r0001", "r0002", "--json").json
    assert [one["id"] for one in found["reasons"]] == [f"Job:Part[{i}]" for i in range(12)]
    assert [one["id"] for one in found["artifacts"]] == [f"Artifact:Part.T[{i}]" for i in range(12)]


def test_content_is_compared_as_by_compare(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    (folder / "words/a.txt").write_text("one\ntwo\n")
    run(folder, "--set", "Mark=?")
    lines = whyrun(folder, "diff", "r0001", "r0002", "--content").out.partition("contents\n")[2].splitlines()
    assert lines == [
        "  Artifact:Echo.Text[0]: 2 lines added",
        "    line 2 added: `TWO`",
        "    line 4 added: `TWO`",
        "  Artifact:Join.All: 2 lines added",
        "    line 2 added: `TWO`",
        "    line 4 added: `TWO`",
        "  Artifact:Script.Story: 1 value changed",
        '    $.Mark: "!" → "?"',
        "  Artifact:Shout.Loud[0]: 1 line added",
        "    line 2 added: `TWO`",
    ]
    contents = whyrun(folder, "diff", "r0001", "r0002", "--content", "--json").json["contents"]
    assert contents["Artifact:Script.Story"] == {
        "identical": False,
        "summary": "1 value changed",
        "details": ['$.Mark: "!" → "?"'],
    }
    assert "contents" not in whyrun(folder, "diff", "r0001", "r0002", "--json").json


def test_content_that_is_no_longer_stored(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    (folder / "words/a.txt").write_text("uno\n")
    run(folder)
    sha = whyrun(folder, "diff", "r0001", "r0002", "--json").json["artifacts"][0]["old"]["sha256"]
    (blob,) = (folder / ".whyrun").rglob(f"*{sha[2:]}*")
    blob.unlink()
    found = whyrun(folder, "diff", "r0001", "r0002", "--content").out.partition("contents\n")[2].splitlines()
    assert found[0] == "  Artifact:Echo.Text[0]: not compared: the old bytes are no longer stored"
