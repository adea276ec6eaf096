"""`whyrun log`: the events of a run, filtered, and followed during the run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from cli_lab import COMMAND, QUIET_ENVIRONMENT, dedent, whyrun
from question_lab import plain, run, tale

from whyrun.cli.commands import log
from whyrun.project import Project


def test_one_line_an_event(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    (folder / "words/a.txt").write_text("broken\n")
    run(folder, code=1)
    answer = whyrun(folder, "log", "--job", "Job:Shout[*]")
    assert (answer.code, answer.err) == (0, "")
    assert plain(answer.out) == dedent(r"""
        TIME  step_start  Job:Shout[0]  driver=shell attempt=1
        TIME  step_failed  Job:Shout[0]  driver=shell error="exit status 3: it is broken" error_type=CommandFailed duration=0.0 status=FAILED will_retry=false
            .whyrun/tale/runs/r0002/steps/Shout%5B0%5D/stderr.log
              it is broken
        """)  # noqa: E501  # lines as they are printed
    for words, whose in ((["r0001"], "r0001"), (["--all"], "any run")):
        nothing = whyrun(folder, "log", *words, "--text", "zzz")
        assert (nothing.code, nothing.out, nothing.err) == (0, "", f"note: no event of {whose} is like this\n")
    assert plain(whyrun(folder, "log", "r0001", "--event", "condition_evaluated").out) == dedent("""
        TIME  condition_evaluated  Job:Shout[0]  expression=jobs.Script.outputs.Story.Loud[word] inputs={"Artifact:Script.Story.Loud[0]": true} result=true
        TIME  condition_evaluated  Job:Shout[1]  expression=jobs.Script.outputs.Story.Loud[word] inputs={"Artifact:Script.Story.Loud[1]": false} result=false
        """)  # noqa: E501  # lines as they are printed


def test_json_is_the_log_itself_and_statuses_choose(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    log = (folder / ".whyrun/tale/runs/r0001/events.jsonl").read_text()
    assert whyrun(folder, "log", "--json").out == log
    assert whyrun(tmp_path, "log", "r0001", "workflow.yaml", "--json").out == log
    skips = [json.loads(line) for line in whyrun(folder, "log", "--status", "SKIPS", "--json").out.splitlines()]
    assert sorted((e["step_id"], e["why"]) for e in skips) == [
        ("Job:Echo[1]", "source_inactive"),
        ("Job:Shout[1]", "condition_false"),
    ]
    assert len(whyrun(folder, "log", "--status", "EXECUTES").out.splitlines()) == 4
    assert whyrun(folder, "log", "--status", "FAILED").out == ""


def test_mistakes_are_not_answered_with_nothing(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    answer = whyrun(folder, "log")
    assert (answer.code, answer.out) == (3, "")
    assert answer.err == dedent("""
        error[RUN_UNKNOWN]: `tale` has not run yet
           hint: start the first run with `whyrun run`
        """)
    run(folder)
    for words, message in (
        (["--job", "Job:Nope"], "error[UNKNOWN_REFERENCE]: `Job:Nope` names nothing in this workflow"),
        (["--job", "Artifact:Join.All"], "error[USAGE]: `--job Artifact:Join.All` is not the ID of a job"),
        (["--event", "step_fail"], "error[USAGE]: there is no event `step_fail`"),
        (["r0001", "r0002"], "error[USAGE]: `log` shows one run at a time"),
    ):
        answer = whyrun(folder, "log", *words)
        assert (answer.code, answer.out, answer.err.splitlines()[0]) == (2, "", message)


def test_a_torn_tail_is_left_out_and_a_broken_line_is_damage(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    path = folder / ".whyrun/tale/runs/r0001/events.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"seq":99,"ts"')
    assert whyrun(folder, "log", "--json").out == whole.decode()
    path.write_bytes(whole.replace(b'"event":"run_complete"', b'"event:"run_complete"'))
    answer = whyrun(folder, "log", "--json")
    assert (answer.code, answer.err.startswith("error[LOG_DAMAGED] ")) == (3, True)


def test_follow_ends_with_the_run(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    text = (folder / "workflow.yaml").read_text()
    (folder / "workflow.yaml").write_text(text.replace('cat "${parts[@]}" >', 'sleep 2; cat "${parts[@]}" >'))
    process = subprocess.Popen([*COMMAND, "run", "-q"], cwd=folder, env=QUIET_ENVIRONMENT, start_new_session=True)
    log = folder / ".whyrun/tale/runs/r0001/events.jsonl"
    try:
        _wait(process, log.exists)
        followed = whyrun(folder, "log", "--follow", "--json")
        assert process.wait() == 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, 9)
            process.wait()
    assert followed.code == 0
    assert followed.out == log.read_text()
    assert whyrun(folder, "log", "--follow", "--json").out == log.read_text()


def test_follow_ends_when_the_run_is_killed(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    text = (folder / "workflow.yaml").read_text()
    (folder / "workflow.yaml").write_text(text.replace('cat "${parts[@]}" >', 'sleep 600; cat "${parts[@]}" >'))
    process = subprocess.Popen([*COMMAND, "run", "-q"], cwd=folder, env=QUIET_ENVIRONMENT, start_new_session=True)
    log = folder / ".whyrun/tale/runs/r0001/events.jsonl"
    follower = None
    try:
        _wait(process, lambda: log.exists() and b'"step_start","step_id":"Job:Join"' in log.read_bytes())
        words = [*COMMAND, "log", "--follow", "--json"]
        follower = subprocess.Popen(words, cwd=folder, env=QUIET_ENVIRONMENT, stdout=subprocess.PIPE)
        assert follower.stdout is not None
        assert b'"run_start"' in follower.stdout.readline()
        assert follower.poll() is None
    finally:
        os.killpg(process.pid, 9)
        process.wait()
    assert follower.wait(timeout=300) == 0
    follower.stdout.close()


def _wait(process: subprocess.Popen[bytes], condition: Callable[[], bool]) -> None:
    """Until it holds; a run that ended before that is a failure, not a reason to wait for ever."""
    deadline = time.monotonic() + 300
    while not condition():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda lines: [*lines[:4], *lines[5:]], "the line has seq 6, not 5: lines are lost or duplicated"),
        (lambda lines: [*lines[:5], *lines[4:]], "the line has seq 5, not 6: lines are lost or duplicated"),
        (
            lambda lines: [*lines[:4], lines[4].replace(b'"session":"r0001"', b'"session":"r0009"'), *lines[5:]],
            "the line belongs to `r0009`, not to `r0001`",
        ),
    ],
)
def test_lines_that_are_lost_doubled_or_of_another_run_are_damage(
    tmp_path: Path, damage: Callable[[list[bytes]], list[bytes]], why: str
) -> None:
    folder = tale(tmp_path)
    run(folder)
    path = folder / ".whyrun/tale/runs/r0001/events.jsonl"
    path.write_bytes(b"".join(damage(path.read_bytes().splitlines(keepends=True))))
    answer = whyrun(folder, "log")
    assert answer.code == 3
    assert answer.err.splitlines()[0].endswith(why)


def test_a_file_that_was_written_over_is_named_where_it_is_kept(tmp_path: Path) -> None:
    folder = tale(tmp_path / "project")
    run(folder)
    (folder / "out/all.txt").write_text("mine\n")
    told = whyrun(tmp_path, "run", "project/workflow.yaml").err
    (kept,) = re.findall(r"its previous content is kept: (\S+)", told)
    assert (tmp_path / kept).read_text() == "mine\n"
    (line,) = whyrun(tmp_path, "log", "r0002", "project/workflow.yaml", "--event", "file_displaced").out.splitlines()
    assert line.endswith(f" kept={kept}")
    log = folder / ".whyrun/tale/runs/r0002/events.jsonl"
    whole = log.read_bytes()
    for other in (b"", b',"sha256":"../../../etc"'):  # of a newer version, perhaps, or damage
        log.write_bytes(re.sub(rb'("event":"file_displaced"[^\n]*?),"sha256":"[^"]*"', rb"\1" + other, whole))
        words = ("log", "r0002", "project/workflow.yaml", "--event", "file_displaced")
        (line,) = whyrun(tmp_path, *words).out.splitlines()
        assert "kept=" not in line
    log.write_bytes(whole)
    adopted = whyrun(tmp_path, "adopt", "Artifact:Join.All", kept, "project/workflow.yaml")
    assert (adopted.code, (folder / "out/all.txt").read_text()) == (0, "mine\n")


def test_the_log_of_a_run_that_has_none_is_reported_as_incomplete(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    (folder / ".whyrun/tale/runs/r0001/events.jsonl").unlink()
    refused = whyrun(folder, "log", "r0001")
    assert (refused.code, refused.err.splitlines()[0].partition(": ")[2]) == (3, "`r0001` has no `run_start`")


def test_all_runs_by_time_and_text(tmp_path: Path) -> None:
    folder = tale(tmp_path)
    run(folder)
    (folder / "words/a.txt").write_text("broken\n")
    run(folder, code=1)
    logs = [(folder / f".whyrun/tale/runs/{name}/events.jsonl").read_text() for name in ("r0001", "r0002")]
    assert whyrun(folder, "log", "--all", "--json").out == "".join(logs)
    failed = whyrun(folder, "log", "--all", "--event", "step_failed").out.splitlines()
    assert failed[0].startswith("r0002  ")
    assert plain(failed[0].removeprefix("r0002  ") + "\n").startswith("TIME  step_failed  Job:Shout[0]  driver=shell")
    found = whyrun(folder, "log", "--all", "--text", "IT IS BROKEN", "--json").out.splitlines()
    assert [json.loads(line)["event"] for line in found] == ["step_failed"]
    second = json.loads(logs[1].splitlines()[0])["ts"]
    assert whyrun(folder, "log", "--all", "--since", second, "--json").out == logs[1]
    earlier = whyrun(folder, "log", "--all", "--until", second, "--json").out
    assert earlier == logs[0] + logs[1].splitlines(keepends=True)[0]
    refused = whyrun(folder, "log", "--all", "r0001")
    assert (refused.code, refused.err.splitlines()[0]) == (
        2, "error[USAGE]: `--all` shows all runs, not only r0001",
    )  # fmt: skip


def test_all_runs_are_followed_into_runs_that_begin_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of waiting, the test runs: then it interrupts, as a user does."""
    folder = tale(tmp_path)
    shown = []

    def wait(seconds: float) -> None:
        if len(shown) == 2:
            raise KeyboardInterrupt
        shown.append(seconds)
        run(folder) if len(shown) == 1 else run(folder, "--force", "Job:Join")

    monkeypatch.setattr(log, "time", SimpleNamespace(sleep=wait))  # only that of the command
    project = Project.open(folder / "workflow.yaml")
    followed = log._all_runs(project, follow=True)
    assert [next(followed).name, next(followed).name] == ["r0001", "r0002"]
    with pytest.raises(KeyboardInterrupt):
        next(followed)
