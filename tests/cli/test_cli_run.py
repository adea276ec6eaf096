"""`whyrun run`: executes exactly the plan; lines, exit statuses, dry runs and saved plans."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
from pathlib import Path

import pytest
from cli_lab import COMMAND, QUIET_ENVIRONMENT, dedent, other_lines, pairs, step_lines, tree, whyrun

from project_lab import wait_until
from whyrun.console.progress import Weights


def test_a_first_run_tells_the_headline_each_step_and_where_the_evidence_is(tmp_path: Path) -> None:
    answer = whyrun(pairs(tmp_path), "run")
    assert (answer.code, answer.out) == (0, "")
    assert other_lines(answer.err) == [
        "pairs before its first run: 3 of 3 jobs to run",
        "r0001 succeeded in T: 3 executed",
        "  EXECUTES 3",
        "  USAGE",
        "evidence: .whyrun/pairs/runs/r0001",
    ]
    assert step_lines(answer.err) == [
        "TIME [shell] EXECUTES Job:Join in T → inputs: Artifact:Shout.Loud[0] (6B), Artifact:Shout.Loud[1] (6B)"
        " → outputs: out/all.txt (12B)",
        "TIME [shell] EXECUTES Job:Shout[0] in T → inputs: words/a.txt (4B) → outputs: Artifact:Shout.Loud[0] (6B)",
        "TIME [shell] EXECUTES Job:Shout[1] in T → inputs: words/b.txt (4B) → outputs: Artifact:Shout.Loud[1] (6B)",
    ]
    assert (tmp_path / "out/all.txt").read_text() == "ONE\n!\nTWO\n!\n"


def test_nothing_to_do_is_said_and_leaves_no_run(tmp_path: Path) -> None:
    folder = pairs(tmp_path)
    whyrun(folder, "run", "-q")
    answer = whyrun(folder, "run")
    assert (answer.code, answer.out) == (0, "")
    assert answer.err == "pairs after r0001: nothing to do, 3 of 3 jobs up to date\n"
    assert os.listdir(folder / ".whyrun/pairs/runs") == ["r0001"]
    quiet = whyrun(folder, "run", "--quiet", "--json")
    assert (quiet.code, quiet.err) == (0, "")
    result = quiet.json
    assert result.pop("plan_digest").startswith("sha256:")
    saved = result["saved_seconds"]
    assert saved > 0
    assert result == {
        "run": None,
        "state": "nothing",
        "exit_code": 0,
        "counts": dict.fromkeys(
            ("completed", "reused", "inactive", "failed", "timed_out", "interrupted", "blocked", "not_started"), 0
        ),
        "totals": {"jobs": 3, "planned": 0, "reused": 0, "clean": 3, "deferred": 0, "inactive": 0},
        "statuses": {"SKIPS": 3},
        "duration": 0.0,
        "saved_seconds": saved,
        "cpu_seconds": 0.0,
        "peak_memory_bytes": 0,
        "peak_memory_step": None,
        "slowest": [],
        "tasks": {},
        "failed": [],
    }


def test_a_failed_job_exits_1_and_names_itself_the_error_and_where_to_look(tmp_path: Path) -> None:
    folder = pairs(tmp_path)
    (folder / "words/b.txt").write_text("broken\n")
    answer = whyrun(folder, "run")
    assert (answer.code, answer.out) == (1, "")
    assert other_lines(answer.err) == [
        "pairs before its first run: 3 of 3 jobs to run",
        "r0001 failed in T: 1 executed, 1 failed, 1 blocked",
        "  EXECUTES 1, SKIPS 1 (1 blocked), FAILED 1",
        "  USAGE",
        "  Job:Shout[1]  CommandFailed: exit status 3: it is broken",
        "  look closer: whyrun log r0001 --job 'Job:Shout[1]'",
        "               whyrun why 'Job:Shout[1]'",
        "evidence: .whyrun/pairs/runs/r0001 (tracebacks are in its whyrun.log)",
    ]
    again = whyrun(folder, "run", "--quiet", "--json")
    assert again.code == 1
    assert again.json["exit_code"] == 1
    assert again.json["failed"] == [
        {
            "id": "Job:Shout[1]",
            "status": "FAILED",
            "error_type": "CommandFailed",
            "error": "exit status 3: it is broken",
        }
    ]
    # Quiet is not silent about failures.
    assert [line.split(" → ")[0] for line in step_lines(again.err)] == ["TIME [shell] FAILED Job:Shout[1] after T"]
    explained = whyrun(folder, "explain")
    assert explained.out == dedent("""
        pairs after r0002: 2 of 3 jobs to run, 1 up to date
        layer 0
          Job:Shout[1]   RETRY_PREVIOUS_FAILURE  r0002 attempt 1: CommandFailed: exit status 3: it is broken
                         MISSING_OUTPUT          Artifact:Shout.Loud[1]
        layer 1
          Job:Join       MISSING_OUTPUT          Artifact:Join.All
                         UPSTREAM_FAILED         Artifact:Shout.Loud[1]
                         UPSTREAM_DIRTY          Job:Shout[1]
        """)


def test_hints_of_a_named_file_and_state_name_them_again(tmp_path: Path) -> None:
    folder = pairs(tmp_path)
    (folder / "workflow.yaml").rename(folder / "other.yaml")
    (folder / "words/a.txt").write_text("broken\n")
    answer = whyrun(folder, "run", "other.yaml", "--state", "elsewhere")
    assert answer.code == 1
    assert other_lines(answer.err)[5:] == [
        "  look closer: whyrun log r0001 other.yaml --state elsewhere --job 'Job:Shout[0]'",
        "               whyrun why 'Job:Shout[0]' other.yaml --state elsewhere",
        "evidence: elsewhere/pairs/runs/r0001 (tracebacks are in its whyrun.log)",
    ]


def test_lesson_29_a_dry_run_executes_and_records_nothing(tmp_path: Path) -> None:
    folder = pairs(tmp_path)
    before = tree(folder)
    first = whyrun(folder, "run", "--dry-run")
    assert first.code == 0
    assert first.err == "dry run: nothing was executed or recorded\n"
    assert other_lines(first.out) == [
        "pairs before its first run: 3 of 3 jobs to run",
        "expected time not known yet, peak memory not known yet",
    ]
    assert step_lines(first.out) == [
        "TIME [shell] WOULD_EXECUTE Job:Join → inputs: Artifact:Shout.Loud[0], Artifact:Shout.Loud[1] → outputs: "
        "out/all.txt (estimated) → MISSING_OUTPUT Artifact:Join.All",
        "TIME [shell] WOULD_EXECUTE Job:Shout[0] → inputs: words/a.txt (4B) → outputs: Artifact:Shout.Loud[0] "
        "(estimated) → MISSING_OUTPUT Artifact:Shout.Loud[0]",
        "TIME [shell] WOULD_EXECUTE Job:Shout[1] → inputs: words/b.txt (4B) → outputs: Artifact:Shout.Loud[1] "
        "(estimated) → MISSING_OUTPUT Artifact:Shout.Loud[1]",
    ]
    assert tree(folder) == before
    assert whyrun(folder, "run", "-q").code == 0
    (folder / "out/all.txt").unlink()
    (folder / "words/b.txt").write_text("three\n")
    logged = tree(folder / ".whyrun/pairs/runs")
    second = whyrun(folder, "run", "--dry-run", "--up", "1")
    assert step_lines(second.out) == [
        "TIME [shell] WOULD_EXECUTE Job:Shout[1] in T → inputs: words/b.txt (6B) → outputs: Artifact:Shout.Loud[1] "
        "(estimated) → INPUT_CHANGED text ← Input:Words[1]  27dd… → f693…"
    ]
    (folder / "words/b.txt").write_text("two\n")
    third = whyrun(folder, "run", "--dry-run")
    assert step_lines(third.out) == [
        "TIME [shell] WOULD_SKIP Job:Join → outputs: out/all.txt (12B) → reused from r0001"
    ]
    as_json = whyrun(folder, "run", "--dry-run", "--json").json
    assert (as_json["dry_run"], as_json["plan"]["totals"]["reused"]) == (True, 1)
    assert tree(folder / ".whyrun/pairs/runs") == logged
    assert not (folder / "out/all.txt").exists()


def test_a_saved_plan_is_run_as_it_is_or_refused(tmp_path: Path) -> None:
    folder = pairs(tmp_path)
    saved = whyrun(folder, "plan", "--up", "1", "--save", "saved.json")
    assert saved.err == "saved; run exactly this plan with `whyrun run --plan saved.json`\n"
    stale_later = folder / "stale.json"
    stale_later.write_bytes((folder / "saved.json").read_bytes())
    ran = whyrun(folder, "run", "--plan", "saved.json", "--json", "-q")
    assert ran.code == 0
    assert (ran.json["counts"]["completed"], ran.json["totals"]["deferred"]) == (2, 1)
    assert ran.json["plan_digest"] == json.loads((folder / "saved.json").read_text())["digest"]
    for words in (["run", "--plan", "stale.json"], ["run", "--plan", "stale.json", "--dry-run"]):
        refused = whyrun(folder, *words)
        assert (refused.code, refused.out) == (3, "")
        head, *rest = refused.err.splitlines()
        assert head.startswith("error[PLAN_STALE]: the saved plan is sha256:")
        assert rest == [
            "   Job:Shout[0]: planned when it was saved, up to date now  (MISSING_OUTPUT Artifact:Shout.Loud[0])",
            "   Job:Shout[1]: planned when it was saved, up to date now  (MISSING_OUTPUT Artifact:Shout.Loud[1])",
            "   Job:Join: deferred when it was saved, planned now  (MISSING_OUTPUT Artifact:Join.All)",
            "   0 artifacts were available when it was saved, 2 are now",
            "   hint: repeat `--set` and `--inputs` as they were when it was saved; or see `whyrun explain`, "
            "and save it again",
        ]
    assert os.listdir(folder / ".whyrun/pairs/runs") == ["r0001"]


@pytest.mark.parametrize("part", ["jobs", "layers", "totals", "options", "snapshot", "more"])
def test_a_saved_plan_that_was_edited_is_refused(tmp_path: Path, part: str) -> None:
    """What would run is not what is left of it."""
    folder = pairs(tmp_path)
    whyrun(folder, "plan", "--save", "saved.json")
    plan = json.loads((folder / "saved.json").read_text())
    edited = {
        "jobs": [job for job in plan["jobs"] if job["id"] != "Job:Join"],
        "layers": plan["layers"][:1],
        "totals": {**plan["totals"], "planned": 2},
        "options": {**plan["options"], "up": 1},
        "snapshot": {**plan["snapshot"], "available": float("nan")},
        "more": 1,
    }
    (folder / "saved.json").write_text(json.dumps({**plan, part: edited[part]}))
    refused = whyrun(folder, "run", "--plan", "saved.json")
    assert (refused.code, refused.out, refused.err.splitlines()) == (2, "", [
        "error[USAGE]: `saved.json` was changed after it was saved: its content does not match its digest",
        "   hint: save it again with `whyrun plan --save FILE`; `--target` and `--up` save a plan of fewer jobs",
    ])  # fmt: skip
    assert not (folder / ".whyrun/pairs/runs").exists()


def test_a_saved_plan_may_be_laid_out_otherwise_and_have_long_lists(tmp_path: Path) -> None:
    """Those stand beside it, and a digest of each in it."""
    folder = pairs(tmp_path)
    for number in range(70):
        (folder / f"words/n{number}.txt").write_text(f"{number}\n")
    assert whyrun(folder, "run", "-q").code == 0
    for number in range(70):
        (folder / f"words/n{number}.txt").write_text(f"again {number}\n")
    assert whyrun(folder, "plan", "--up", "1", "--save", "saved.json").code == 0
    plan = json.loads((folder / "saved.json").read_text())
    assert plan["snapshot"]["inputs_changed"]["count"] == 70
    (folder / "saved.json").write_text(json.dumps(dict(reversed(plan.items())), indent=4))
    ran = whyrun(folder, "run", "--plan", "saved.json", "--json", "-q")
    assert (ran.code, ran.json["plan_digest"]) == (0, plan["digest"])


def test_the_command_for_a_saved_plan_is_complete_and_a_stale_one_says_what_differs(tmp_path: Path) -> None:
    folder = pairs(tmp_path)
    assert whyrun(folder, "run", "-q").code == 0
    (folder / "workflow.yaml").rename(folder / "my flow.yaml")
    (folder / "in.yaml").write_text('Mark: "."\n')
    words = ["my flow.yaml", "--inputs", "in.yaml", "--set", "Mark=so what?", "--state", ".whyrun"]
    saved = whyrun(folder, "plan", *words, "--save", "a plan.json")
    assert saved.err == (
        "saved; run exactly this plan with `whyrun run --plan 'a plan.json' 'my flow.yaml' --inputs in.yaml "
        "--set 'Mark=so what?' --state .whyrun`\n"
    )
    refused = whyrun(folder, "run", "--plan", "a plan.json", "my flow.yaml")
    assert (refused.code, refused.err.splitlines()[1:4]) == (3, [
        "   Input:Mark: changed since the last run when the plan was saved, unchanged now",
        "   Job:Shout[0]: planned when it was saved, up to date now  "
        '(INPUT_CHANGED mark ← Input:Mark  "!" → "so what?")',
        "   Job:Shout[1]: planned when it was saved, up to date now  "
        '(INPUT_CHANGED mark ← Input:Mark  "!" → "so what?")',
    ])  # fmt: skip
    other = whyrun(folder, "run", "--plan", "a plan.json", "my flow.yaml", "--set", "Mark=?")
    assert (other.code, other.err.splitlines()[1:4]) == (3, [
        "   Input:Mark: 6c85e356 when it was saved, 15c5e748 now",
        '   Job:Shout[0]: was INPUT_CHANGED mark ← Input:Mark  "!" → "so what?"; '
        'is INPUT_CHANGED mark ← Input:Mark  "!" → "?"',
        '   Job:Shout[1]: was INPUT_CHANGED mark ← Input:Mark  "!" → "so what?"; '
        'is INPUT_CHANGED mark ← Input:Mark  "!" → "?"',
    ])  # fmt: skip
    assert whyrun(folder, "run", "-q", "--plan", "a plan.json", *words).code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--plan", "saved.json", "--up", "1"], "error[USAGE]: a saved plan has its own options"),
        (
            ["--plan", "nope.json"],
            "error[FILE_MISSING]: the plan `nope.json` cannot be read: No such file or directory",
        ),
        (["--plan", "workflow.yaml"], "error[USAGE]: `workflow.yaml` is not a saved plan"),
        (["--plan", "list.json"], "error[USAGE]: `list.json` is not a saved plan"),
        (["--plan", "foreign.json"], "error[USAGE]: `foreign.json` is a plan of `other`, but this workflow is `pairs`"),
        (["--limit", "gpu"], "error[USAGE]: `--limit gpu` is not NAME=N with N at least 0"),
        (["--limit", "gpu=nan"], "error[USAGE]: `--limit gpu=nan` is not NAME=N with N at least 0"),
        (["--limit", "gpu=1", "--limit", "gpu=2"], "error[USAGE]: `--limit gpu=…` is given twice"),
        (["--up", "0"], "error[USAGE]: `--up 0`: it takes the number of layers to run, from 1"),
        (["--target", "Job:Nope"], "error[UNKNOWN_REFERENCE]: `Job:Nope` names nothing in this workflow"),
        (["--set", "Mrak=x"], "error[INPUT_UNKNOWN]: `--set Mrak`: the workflow has no input `Mrak`"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_runs(tmp_path: Path, words: list[str], message: str) -> None:
    folder = pairs(tmp_path)
    whyrun(folder, "plan", "--save", "saved.json")
    (folder / "list.json").write_text("[]")
    (folder / "foreign.json").write_text((folder / "saved.json").read_text().replace('"pairs"', '"other"'))
    answer = whyrun(folder, "run", *words)
    assert (answer.code, answer.out, answer.err.splitlines()[0]) == (2, "", message)
    assert "\n   hint: " in answer.err
    assert not (folder / ".whyrun/pairs/runs").exists()


def test_limits_are_obeyed(tmp_path: Path) -> None:
    folder = pairs(tmp_path)
    text = (folder / "workflow.yaml").read_text()
    (folder / "workflow.yaml").write_text(
        text.replace("    for: [word]\n", "    for: [word]\n    resources: {slot: 1}\n").replace(
            "if grep", "sleep 0.2; if grep"
        )
    )
    # One slot for jobs of one slot each: they must not overlap in the log.
    assert whyrun(folder, "run", "--jobs", "2", "--limit", "slot=1", "-q").code == 0
    lines = (folder / ".whyrun/pairs/runs/r0001/events.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    order = [e["event"] for e in events if e["event"] in ("step_start", "step_complete")]
    assert order == ["step_start", "step_complete"] * 3


def test_ctrl_c_exits_130_and_the_evidence_is_complete(tmp_path: Path) -> None:
    folder = pairs(tmp_path)
    text = (folder / "workflow.yaml").read_text()
    (folder / "workflow.yaml").write_text(text.replace("if grep", 'touch "$out_Loud"; sleep 600; if grep'))
    process = subprocess.Popen(
        [*COMMAND, "run"], cwd=folder, env=QUIET_ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    events = folder / ".whyrun/pairs/runs/r0001/events.jsonl"
    wait_until(lambda: events.exists() and '"step_start"' in events.read_text())
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130
    note, head, *rest = other_lines(err)[1:]
    waiting = r"note: stopping: waiting for (1 step|\d steps), 10 s at most; Ctrl-C again ends (it|them) now"
    assert re.fullmatch(waiting, note)
    assert head.startswith("r0001 interrupted in T: ")
    assert re.fullmatch(r"  interrupted \d", rest[0])
    assert rest[1:-2] == ["  USAGE"]
    assert rest[-2:] == ["  interrupted; to continue: whyrun run", "evidence: .whyrun/pairs/runs/r0001"]
    status = json.loads((folder / ".whyrun/pairs/runs/r0001/status.json").read_text())
    assert (status["state"], status["exit_code"]) == ("interrupted", 130)


def test_colour_and_a_bar_on_a_terminal_only_and_no_colour_where_it_is_not_wanted(tmp_path: Path) -> None:
    def on_terminal(number: int, **env: str) -> str:
        folder = tmp_path / f"p{number}"
        host, guest = pty.openpty()
        process = subprocess.Popen(
            [*COMMAND, "run"],
            cwd=pairs(folder),
            env={**QUIET_ENVIRONMENT, "TERM": "xterm", "COLUMNS": "200", **env},
            stdin=subprocess.DEVNULL,
            stdout=guest,
            stderr=guest,
        )
        os.close(guest)
        heard = b""
        while select.select([host], [], [], 60)[0]:
            try:
                data = os.read(host, 65536)
            except OSError:  # the other side has gone: that is how a terminal ends
                break
            if not data:
                break
            heard += data
        os.close(host)
        assert process.wait(timeout=300) == 0
        return heard.decode()

    seen = on_terminal(1)
    assert "\x1b[32mEXECUTES\x1b[0m Job:Shout[0] in " in seen
    assert "r0001 0/3" in seen
    assert "r0001 3/3" in seen
    plain = on_terminal(2, NO_COLOR="1")
    assert "] EXECUTES Job:Shout[0] in " in plain
    assert "\x1b[32m" not in plain
    assert "\x1b" not in on_terminal(3, TERM="dumb")


def test_a_machine_that_does_not_allow_it_is_reported_without_a_traceback_and_exits_3(tmp_path: Path) -> None:
    folder = pairs(tmp_path)
    (folder / ".whyrun").write_text("a file where a folder is due\n")
    answer = whyrun(folder, "run")
    assert (answer.code, answer.out) == (3, "")
    assert answer.err == dedent(f"""
        error[DISK_FAILED]: `{folder}/.whyrun/pairs`: Not a directory
           hint: a file is where a folder is expected, or a folder where a file is expected: restore the original
        """)


def test_scratch_on_another_file_system_is_reported_with_what_to_do(tmp_path: Path, elsewhere: Path) -> None:
    folder = pairs(tmp_path)
    (folder / ".whyrun").mkdir()
    (folder / ".whyrun" / "tmp").symlink_to(elsewhere)
    answer = whyrun(folder, "run")
    assert (answer.code, answer.out) == (3, "")
    assert answer.err.splitlines()[-2:] == [
        f"error[DISK_FAILED]: `{folder}/.whyrun/tmp/pairs-r0001`: Invalid cross-device link",
        "   hint: `.whyrun/tmp` and the runs must be on one file system; you can move `.whyrun` as a whole",
    ]


def test_progress_is_weighted_by_expected_durations() -> None:
    now = [0.0]
    weights = Weights({"Job:Long": 9.0, "Job:Short": 1.0, "Job:New": None}, clock=lambda: now[0])
    assert (weights.total, weights.timed) == (15.0, True)  # one that was never timed counts as the mean
    assert weights.done(0, ["Job:Long"]) == 0.0
    now[0] = 3.0
    assert weights.done(0, ["Job:Long", "Job:Short"]) == 3.0
    now[0] = 20.0
    # Late steps are nearly done; one that is seen no more has ended.
    assert weights.done(1, ["Job:Long"]) == pytest.approx(0.95 * 9 + 1)
    # The third ended too quickly to be seen running.
    assert weights.done(3, []) == 15.0
    assert not Weights({"Job:A": None}).timed


def test_a_reader_that_goes_away_breaks_nothing(tmp_path: Path) -> None:
    folder = pairs(tmp_path)
    command = " ".join(COMMAND)
    status = "echo ${PIPESTATUS[0]}"
    script = f"{command} run 2>&1 | true; {status}; {command} plan --force layer:0 | true; {status}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=QUIET_ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("0\n0\n", "")
    status = json.loads((folder / ".whyrun/pairs/runs/r0001/status.json").read_text())
    assert (status["state"], status["steps_completed"]) == ("succeeded", 3)
