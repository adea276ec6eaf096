"""`whyrun status`: jobs, changed inputs, current artifacts, unfinished runs, leftover files."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import pytest
from cli_lab import COMMAND, QUIET_ENVIRONMENT, dedent, whyrun
from question_lab import plain, run, tale

from project_lab import wait_until
from whyrun.facts.status import current_status
from whyrun.project import Project
from whyrun.snapshot.snapshot import PlanningSnapshot


def test_before_the_first_run_everything_is_missing_and_nothing_is_left_behind(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    answer = whyrun(folder, "status", "Job:Join", "Job:Shout[*]")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == dedent("""
        tale before its first run: 6 of 6 jobs to run
        jobs: 6 never run
        artifacts
          Artifact:Join.All       missing  out/all.txt     MISSING_OUTPUT
          Artifact:Join.Lines     missing                  MISSING_OUTPUT
          Artifact:Shout.Loud[0]  missing  out/loud-0.txt  MISSING_OUTPUT
          Artifact:Shout.Loud[1]  missing  out/loud-1.txt  MISSING_OUTPUT
        """)
    assert not (folder / ".whyrun").exists()


def test_the_list_of_current_artifacts(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    assert whyrun(folder, "status").out == dedent("""
        tale after r0001: nothing to do, 4 of 6 jobs up to date, 2 inactive
        jobs: 4 succeeded, 2 never run
        artifacts
          Artifact:Echo.Text[0]          available  r0001  8B
          Artifact:Echo.Text[1]          inactive
          Artifact:Join.All              available  r0001  8B     out/all.txt
          Artifact:Join.Lines            available  r0001  2
          Artifact:Script.Story          available  r0001  36B    out/story.json
          Artifact:Script.Story.Loud[0]  available  r0001  true
          Artifact:Script.Story.Loud[1]  available  r0001  false
          Artifact:Shout.Loud[0]         available  r0001  4B     out/loud-0.txt
          Artifact:Shout.Loud[1]         inactive
        """)


def test_failures_changed_inputs_and_edited_files_are_reported(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    (folder / "words/a.txt").write_text("broken\n")
    run(folder, code=1)
    (folder / "words/a.txt").write_text("uno\n")
    (folder / "out/all.txt").write_text("mine\n")
    (folder / "out/story.json").unlink()
    assert whyrun(folder, "status").out == dedent("""
        tale after r0002: 3 of 6 jobs to run, 1 reused from earlier runs, 2 inactive
        jobs: 3 succeeded, 1 failed, 2 never run
        inputs that changed since the last run
          Input:Words[0]
        artifacts
          Artifact:Echo.Text[0]          available          r0001  8B                     UPSTREAM_FAILED
          Artifact:Echo.Text[1]          inactive
          Artifact:Join.All              missing (changed)  r0001  8B     out/all.txt     MISSING_OUTPUT
          Artifact:Join.Lines            available          r0001  2                      MISSING_OUTPUT
          Artifact:Script.Story          missing (deleted)  r0001  36B    out/story.json  MISSING_OUTPUT
          Artifact:Script.Story.Loud[0]  available          r0001  true                   MISSING_OUTPUT
          Artifact:Script.Story.Loud[1]  available          r0001  false                  MISSING_OUTPUT
          Artifact:Shout.Loud[0]         failed             r0002         out/loud-0.txt  RETRY_PREVIOUS_FAILURE
          Artifact:Shout.Loud[1]         inactive
        """)


def test_files_of_inactive_and_removed_jobs_are_listed_as_long_as_they_stand(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    text = (folder / "workflow.yaml").read_text()
    (folder / "workflow.yaml").write_text(text.replace("[true, false]", "[true, true]").replace("out/all", "out/whole"))
    run(folder)
    (folder / "workflow.yaml").write_text(text)
    run(folder)
    assert whyrun(folder, "status", "--json").json["stale_files"] == [
        {
            "path": "out/loud-1.txt", "artifact": "Artifact:Shout.Loud[1]", "run": "r0001", "why": "inactive",
            "edited": False,
        },
        {"path": "out/whole.txt", "artifact": "Artifact:Join.All", "run": "r0001", "why": "removed", "edited": False},
    ]  # fmt: skip
    (folder / "out/whole.txt").write_text("mine\n")
    (folder / "out/loud-1.txt").unlink()
    assert whyrun(folder, "status", "Artifact:Join.All").out == dedent("""
        tale after r0002: nothing to do, 4 of 6 jobs up to date, 2 inactive
        jobs: 6 succeeded
        artifacts
          Artifact:Join.All  available  r0002  8B  out/all.txt
        leftover published files: keep them, or delete them yourself
          out/whole.txt  Artifact:Join.All from r0001; no job makes it any more; edited since
        """)


def test_the_state_as_json(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    found = whyrun(folder, "status", "Artifact:Join.*", "--json").json
    sha256 = {a["id"]: a.pop("sha256") for a in found["artifacts"]}
    assert all(re.fullmatch("[0-9a-f]{64}", sha) for sha in sha256.values())
    assert found == {
        "workflow": "tale",
        "log_position": {"run": "r0001", "seq": found["log_position"]["seq"]},
        "unfinished": None,
        "jobs": {"succeeded": 4, "failed": 0, "never_run": 2, "running": 0},
        "plan": {"jobs": 6, "planned": 0, "reused": 0, "clean": 4, "deferred": 0, "inactive": 2},
        "inputs_changed": [],
        "artifacts": [
            {
                "id": "Artifact:Join.All", "state": "available", "type": "text", "job": "Job:Join",
                "job_state": "clean", "run": "r0001", "size": 8, "path": "out/all.txt",
            },
            {
                "id": "Artifact:Join.Lines", "state": "available", "type": "integer", "job": "Job:Join",
                "job_state": "clean", "run": "r0001", "size": 1, "value": 2,
            },
        ],
        "stale_files": [],
    }  # fmt: skip


def test_an_id_that_names_nothing_is_an_error_and_two_files_are_too_many(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    answer = whyrun(folder, "status", "Job:Shout")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == dedent("""
        error[UNKNOWN_REFERENCE]: `Job:Shout` names nothing in this workflow
           hint: it has instances: name one, such as `Job:Shout[0]`, or all with `Job:Shout[*]`
        """)
    answer = whyrun(folder, "status", "workflow.yaml", "Join")
    assert (answer.code, answer.err) == (2, dedent("""
        error[USAGE]: `Join` is one argument too many
           hint: the arguments are [ID]... [FILE]
        """))  # fmt: skip


def test_an_unfinished_run_is_running_while_the_lock_is_held_and_interrupted_after(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    text = (folder / "workflow.yaml").read_text()
    (folder / "workflow.yaml").write_text(text.replace('cat "${parts[@]}" >', 'sleep 600; cat "${parts[@]}" >'))
    process = subprocess.Popen([*COMMAND, "run", "-q"], cwd=folder, env=QUIET_ENVIRONMENT, start_new_session=True)
    try:
        _wait_for_step(folder, "r0002", "Job:Join")
        found = whyrun(folder, "status", "--json").json
        by = found["unfinished"].pop("by")
        assert by["pid"] == process.pid
        assert found["unfinished"] == {"run": "r0002", "state": "running", "open_steps": ["Job:Join"]}
        assert found["jobs"] == {"succeeded": 3, "failed": 0, "never_run": 2, "running": 1}
        line = whyrun(folder, "status").out.splitlines()[2]
        assert plain(line) == f"r0002 is running by process {process.pid} on {by['host']} since TIME, 1 step open\n"
        assert whyrun(folder, "status", "Job:Join").out.splitlines()[4:] == [
            "  Artifact:Join.All    running  r0002  out/all.txt",
            "  Artifact:Join.Lines  running  r0002",
        ]
        note = f"note: r0002 is running (pid {process.pid}), so the answer changes until it ends\n"
        for words in (["plan"], ["explain"], ["why", "Job:Join"], ["run", "--dry-run"]):
            answer = whyrun(folder, *words)
            assert (answer.code, answer.err.startswith(note)) == (0, True)
        assert whyrun(folder, "plan", "--at", "r0001").err == ""
        assert whyrun(folder, "runs", "--json").json["runs"][1]["state"] == "running"
    finally:
        os.killpg(process.pid, 9)
        process.wait()
    answer = whyrun(folder, "status")
    assert answer.out.splitlines()[1:3] == ["jobs: 3 succeeded, 2 never run, 1 interrupted", "artifacts"]
    assert answer.err == "note: r0002 was cut short; its log was repaired (1 open step counted as interrupted)\n"
    assert whyrun(folder, "runs", "--json").json["runs"][1]["state"] == "interrupted"


CHAIN = """\
workflow: chain
jobs:
  First:
    uses: shell
    with: {run: "until [ -e %(go)s ]; do sleep 0.05; done; echo 1 > $out_N"}
    outputs: {N: {type: integer}}
  Second:
    needs: [First]
    uses: shell
    with: {run: "sleep 600; echo 2 > $out_N"}
    outputs: {N: {type: integer}}
"""


def test_what_was_open_when_the_log_was_read_has_not_failed_though_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a run goes on, its log is longer a moment later: `First` ends, and `Second` begins, after the snapshot."""
    folder, go = tmp_path / "project", tmp_path / "go"
    folder.mkdir()
    (folder / "workflow.yaml").write_text(CHAIN % {"go": go})
    log = folder / ".whyrun/chain/runs/r0001/events.jsonl"
    process = subprocess.Popen([*COMMAND, "run", "-q"], cwd=folder, env=QUIET_ENVIRONMENT, start_new_session=True)
    take = Project.snapshot

    def then_goes_on(opened: Project) -> PlanningSnapshot:
        snapshot = take(opened)
        go.touch()
        wait_until(lambda: '"event":"step_start","step_id":"Job:Second"' in log.read_text())
        return snapshot

    monkeypatch.setattr(Project, "snapshot", then_goes_on)
    try:
        wait_until(lambda: log.exists() and '"event":"step_start","step_id":"Job:First"' in log.read_text())
        found = current_status(Project.open(folder / "workflow.yaml"), ())
    finally:
        os.killpg(process.pid, 9)
        process.wait()
    assert found.jobs == {"succeeded": 0, "failed": 0, "never_run": 1, "running": 1}
    assert found.unfinished is not None
    assert (found.unfinished.run, found.unfinished.open_steps) == ("r0001", ("Job:First",))
    assert [(a.id, a.state) for a in found.artifacts] == [
        ("Artifact:First.N", "running"),
        ("Artifact:Second.N", "missing"),
    ]


def _wait_for_step(folder: Path, name: str, step: str) -> None:
    log = folder / f".whyrun/tale/runs/{name}/events.jsonl"
    for _ in range(1200):
        if log.exists() and f'"event":"step_start","step_id":"{step}"' in log.read_text():
            return
        time.sleep(0.05)
    raise AssertionError(f"{step} did not start")
