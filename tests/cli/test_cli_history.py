"""`whyrun history`: all attempts of a job and all versions of an artifact, in all runs."""

from __future__ import annotations

from pathlib import Path

from cli_lab import whyrun
from question_lab import plain, run, tale


def test_every_attempt_of_a_job(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    assert whyrun(folder, "history", "Job:Shout[0]").out == "Job:Shout[0] has no history yet\n"
    run(folder)
    (folder / "words/a.txt").write_text("broken\n")
    run(folder, code=1)
    (folder / "words/a.txt").write_text("one\n")
    run(folder)
    (folder / "out/loud-0.txt").write_text("MINE\n")
    assert whyrun(folder, "adopt", "Artifact:Shout.Loud[0]", "out/loud-0.txt").code == 0
    answer = whyrun(folder, "history", "Job:Shout[0]")
    assert (answer.code, answer.err) == (0, "")
    lines = plain(answer.out).splitlines()
    assert lines[0] == "r0001  TIME  EXECUTES  0.0s  HASH…  Artifact:Shout.Loud[0]  HASH…  4B"
    assert lines[1] == "r0002  TIME  FAILED  0.0s  HASH…  CommandFailed: exit status 3: it is broken"
    assert lines[2] == "r0003  TIME  REUSED  HASH…  from r0001"
    assert lines[3].split() == ["Artifact:Shout.Loud[0]", "HASH…", "4B"]
    assert lines[4].startswith("r0004  TIME  ADOPTED  HASH…  by ")
    assert lines[5].split() == ["Artifact:Shout.Loud[0]", "HASH…", "5B"]
    assert len(lines) == 6


def test_every_version_of_an_artifact_as_json(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    (folder / "words/a.txt").write_text("broken\n")
    run(folder, code=1)
    (folder / "words/a.txt").write_text("uno\ndue\n")
    run(folder)
    found = whyrun(folder, "history", "Artifact:Join.Lines", "--json").json
    for entry in found["entries"]:
        entry.pop("ts"), entry.pop("duration"), entry.pop("fingerprint")
        entry["outputs"][0].pop("sha256")
    assert found == {
        "id": "Artifact:Join.Lines",
        "entries": [
            {
                "run": run_, "step_id": "Job:Join", "status": "EXECUTES", "attempt": 1,
                "outputs": [{"artifact": "Artifact:Join.Lines", "size": 1, "value": lines}],
            }
            for run_, lines in (("r0001", 2), ("r0003", 4))
        ],
    }  # fmt: skip
    blocked = whyrun(folder, "history", "Job:Join", "--json").json["entries"][1]
    blocked.pop("ts")
    assert blocked == {"run": "r0002", "step_id": "Job:Join", "status": "BLOCKED", "because": ["Job:Echo[0]"]}


def test_patterns_and_jobs_that_the_workflow_no_longer_has(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    skipped = whyrun(folder, "history", "Job:Shout[*]").out
    assert sorted(line.split()[1] for line in skipped.splitlines()) == ["Job:Shout[0]", "Job:Shout[1]"]
    assert "condition_false" in skipped
    (folder / "workflow.yaml").write_text((folder / "workflow.yaml").read_text().replace("Shout", "Cry"))
    assert len(whyrun(folder, "history", "Artifact:Shout.Loud[0]", "--json").json["entries"]) == 1
    for words, message in (
        ("Job:Nope", "error[UNKNOWN_REFERENCE]: `Job:Nope` names nothing in this workflow"),
        ("Shout", "error[NAME_INVALID]: `Shout` is not a canonical ID: it has no kind"),
        ("Input:Mark", "error[USAGE]: `Input:Mark`: inputs have no attempts"),
    ):
        answer = whyrun(folder, "history", words)
        assert (answer.code, answer.out, answer.err.splitlines()[0]) == (2, "", message)


def test_attempts_are_numbered_and_a_killed_run_is_interrupted(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    text = (folder / "workflow.yaml").read_text()
    (folder / "workflow.yaml").write_text(text.replace("  Echo:", "    retries: {max: 1}\n  Echo:"))
    (folder / "words/a.txt").write_text("broken\n")
    run(folder, code=1)
    log = folder / ".whyrun/tale/runs/r0001/events.jsonl"
    entries = whyrun(folder, "history", "Job:Shout[0]", "--json").json["entries"]
    assert [(e["attempt"], e["status"], e["error"].split("\n")[0]) for e in entries] == [
        (1, "FAILED", "CommandFailed: exit status 3: it is broken"),
        (2, "FAILED", "CommandFailed: exit status 3: it is broken"),
    ]
    lines = log.read_bytes().splitlines(keepends=True)
    second = max(i for i, line in enumerate(lines) if b'"step_start","step_id":"Job:Shout[0]"' in line)
    log.write_bytes(b"".join(lines[: second + 1]))
    entries = whyrun(folder, "history", "Job:Shout[0]", "--json").json["entries"]
    assert [(e["attempt"], e["status"], e["error"].split("\n")[0]) for e in entries] == [
        (1, "FAILED", "CommandFailed: exit status 3: it is broken"),
        (2, "INTERRUPTED", "Interrupted: the run ended before this step did"),
    ]
