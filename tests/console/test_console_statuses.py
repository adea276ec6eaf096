"""Every status, in the modes that have it: the whole line, and the event behind it. (compare: `test_compare_*`.)"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from console_lab import Project
from console_lab import timeless as without_times

from project_lab import wait_until

COMMAND = [sys.executable, "-c", "from whyrun.cli.main import main; main()"]
WORKFLOW = """\
workflow: study
inputs:
  Data: {type: file, default: data/asia.csv}
  Alpha: {type: number, default: 0.05}
  Deep: {type: boolean, default: false}
jobs:
  learn:
    description: learn graph
    uses: learn/graph
    with: {data: "${{ inputs.Data }}", alpha: "${{ inputs.Alpha }}"}
    outputs: {graph: {type: file, path: results/graph.xml}}
  draw:
    uses: shell
    with: {graph: "${{ jobs.learn.outputs.graph }}", run: 'cat "$graph" "$graph" > "$out_picture"'}
    outputs: {picture: {type: file}}
  deeper:
    if: ${{ inputs.Deep }}
    uses: shell
    with: {run: 'echo deep > "$out_more"'}
    outputs: {more: {type: file}}
"""
ACTIONS = """\
import subprocess, time
from whyrun import action

@action("learn/graph", outputs={"graph": "file"})
def learn(data, alpha, context, logger):
    logger.log_task("learn/graph", "EXECUTES", "learn 1 of 2", runtime=1.25, inputs=data, outputs=["a", "b"])
    logger.log_task("learn/graph", "SKIPS", "learn 2 of 2")
    (context.output("graph")).write_text("half")
    if alpha == 1:
        open("missing.csv")
    if alpha == 2:
        time.sleep(600)
    context.output("graph").write_text(f"graph {alpha:.2f}")
"""


@dataclass
class Answer:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The status lines of stdout and stderr, without times."""
        return [timeless(line) for line in (self.out + self.err).splitlines() if re.match(r"\d{4}-\d\d-\d\d ", line)]

    @property
    def others(self) -> list[str]:
        return [line for line in (self.out + self.err).splitlines() if not re.match(r"\d{4}-\d\d-\d\d ", line)]


def timeless(line: str) -> str:
    line = re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", "", line)
    return re.sub(r"\b(in|after) (~?)\d+(\.\d+)?s", r"\1 \2T", line)


class Study:
    def __init__(self, root: Path) -> None:
        self.root = root
        for name, text in {
            "workflow.yaml": WORKFLOW,
            "actions/learn.py": ACTIONS,
            "data/asia.csv": "a,b\n" * 300,
            "data/missing.csv": None,
        }.items():
            if text is not None:
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)

    def __call__(self, *words: str) -> Answer:
        done = subprocess.run([*COMMAND, *words], cwd=self.root, capture_output=True, text=True, check=False)
        return Answer(done.returncode, done.stdout, done.stderr)

    def events(self, run: str, *kinds: str) -> list[dict[str, Any]]:
        path = self.root / f".whyrun/study/runs/{run}/events.jsonl"
        found = [json.loads(line) for line in path.read_text().splitlines()]
        return [event for event in found if event["event"] in kinds]

    def log(self, run: str) -> list[str]:
        return (self.root / f".whyrun/study/runs/{run}/whyrun.log").read_text().splitlines()

    def replace(self, old: str, new: str, name: str = "workflow.yaml") -> None:
        text = (self.root / name).read_text()
        assert old in text
        (self.root / name).write_text(text.replace(old, new))


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study(tmp_path)


EXECUTES = (
    "[learn/graph] EXECUTES Job:learn learn graph in T → inputs: data/asia.csv (1.2KB) "
    "→ outputs: results/graph.xml (10B)"
)


def test_run_executes(study: Study) -> None:
    answer = study("run")
    assert answer.code == 0
    assert answer.lines == [
        EXECUTES,
        "[shell] EXECUTES Job:draw in T → inputs: results/graph.xml (10B) → outputs: Artifact:draw.picture (20B)",
    ]
    (learned, drawn) = study.events("r0001", "step_complete")
    assert (learned["step_id"], learned["driver"], learned["status"]) == ("Job:learn", "learn/graph", "EXECUTES")
    assert (drawn["step_id"], drawn["driver"], drawn["status"]) == ("Job:draw", "shell", "EXECUTES")


def test_tasks_inside_an_action_have_their_own_lines_and_events(study: Study) -> None:
    answer = study("run", "--log-level", "all", "--target", "Job:learn")
    tasks = [
        "[learn/graph] EXECUTES learn 1 of 2 in T → inputs: inputs/data.csv (1.2KB) → outputs: a, b → Job:learn",
        "[learn/graph] SKIPS learn 2 of 2 → Job:learn",
    ]
    inactive = "[shell] SKIPS Job:deeper → condition is false"
    assert answer.lines == [inactive, *tasks, EXECUTES]
    assert [timeless(line) for line in study.log("r0001")] == [*tasks, EXECUTES]
    assert [(e["step_id"], e["status"], e["message"]) for e in study.events("r0001", "task")] == [
        ("Job:learn", "EXECUTES", "learn 1 of 2"),
        ("Job:learn", "SKIPS", "learn 2 of 2"),
    ]
    assert study.events("r0001", "task")[0]["details"] == {
        "action": "learn/graph",
        "runtime": 1.25,
        "inputs": ["inputs/data.csv (1.2KB)"],
        "outputs": ["a", "b"],
    }


def test_dry_run_would_execute_with_the_headline_reason(study: Study) -> None:
    first = study("run", "--dry-run")
    assert (first.code, first.err) == (0, "dry run: nothing was executed or recorded\n")
    assert first.lines == [
        "[shell] WOULD_SKIP Job:deeper → condition is false",
        "[learn/graph] WOULD_EXECUTE Job:learn learn graph → inputs: data/asia.csv (1.2KB) → outputs: "
        "results/graph.xml (estimated) → MISSING_OUTPUT Artifact:learn.graph",
        "[shell] WOULD_EXECUTE Job:draw → inputs: results/graph.xml → outputs: Artifact:draw.picture (estimated)"
        " → MISSING_OUTPUT Artifact:draw.picture",
    ]
    assert not (study.root / ".whyrun/study/runs").exists()
    assert study("run", "-q").code == 0
    second = study("run", "--dry-run", "--set", "Alpha=0.1")
    assert second.lines == [
        "[shell] WOULD_SKIP Job:deeper → condition is false",
        "[learn/graph] WOULD_EXECUTE Job:learn learn graph in ~T → inputs: data/asia.csv (1.2KB) → outputs: "
        "results/graph.xml (estimated) → INPUT_CHANGED alpha ← Input:Alpha  0.05 → 0.1",
        "[shell] WOULD_EXECUTE Job:draw in ~T → inputs: results/graph.xml (10B) → outputs: Artifact:draw.picture "
        "(estimated) → UPSTREAM_DIRTY Job:learn",
    ]


def test_dry_run_would_skip_and_up_to_date_jobs_have_lines_at_level_all(study: Study) -> None:
    assert study("run", "-q").code == 0
    quiet = study("run", "--dry-run")
    assert quiet.lines == ["[shell] WOULD_SKIP Job:deeper → condition is false"]
    assert quiet.others[0] == "study after r0001: nothing to do, 2 of 3 jobs up to date, 1 inactive"
    told = study("run", "--dry-run", "--log-level", "all")
    assert told.lines == [
        "[shell] WOULD_SKIP Job:deeper → condition is false",
        "[shell] WOULD_SKIP Job:draw → outputs: Artifact:draw.picture (exists, 20B)",
        "[learn/graph] WOULD_SKIP Job:learn learn graph → outputs: results/graph.xml (exists, 10B)",
    ]


def test_run_skips_what_is_up_to_date_without_an_event(study: Study) -> None:
    assert study("run", "-q").code == 0
    again = study("run", "--log-level", "all")
    assert (again.code, again.lines) == (0, [
        "[shell] SKIPS Job:deeper → condition is false",
        "[shell] SKIPS Job:draw → outputs: Artifact:draw.picture (exists, 20B)",
        "[learn/graph] SKIPS Job:learn learn graph → outputs: results/graph.xml (exists, 10B)",
    ])  # fmt: skip
    assert sorted(path.name for path in (study.root / ".whyrun/study/runs").iterdir()) == ["r0001"]


def test_run_skips_what_is_reused_or_blocked_or_whose_condition_is_false(study: Study) -> None:
    assert study("run", "-q").code == 0
    (study.root / "results/graph.xml").unlink()
    reused = study("run")
    assert reused.lines == [
        "[learn/graph] SKIPS Job:learn learn graph → outputs: results/graph.xml (exists, 10B) → reused from r0001"
    ]
    (event,) = study.events("r0002", "step_skipped")
    assert (event["step_id"], event["why"], event["from_run"]) == ("Job:learn", "reused", "r0001")

    blocked = study("run", "--set", "Alpha=1")
    assert blocked.code == 1
    assert blocked.lines[1] == "[shell] SKIPS Job:draw → blocked by Job:learn"
    (event,) = study.events("r0003", "step_blocked")
    assert (event["step_id"], event["because"]) == ("Job:draw", ["Job:learn"])

    # A condition that is decided during the run has its event.
    study.replace("${{ inputs.Deep }}", "${{ jobs.learn.outputs.deep }}")
    study.replace("path: results/graph.xml}}", "path: results/graph.xml}, deep: {type: boolean}}")
    study.replace('{"graph": "file"}', '{"graph": "file", "deep": "boolean"}', "actions/learn.py")
    study.replace(
        'write_text(f"graph {alpha:.2f}")', 'write_text("graph")\n    return {"deep": False}', "actions/learn.py"
    )
    assert "[shell] SKIPS Job:deeper → condition is false" in study("run").lines
    (event,) = [e for e in study.events("r0004", "step_skipped") if e["step_id"] == "Job:deeper"]
    assert event["why"] == "condition_false"


def test_failed_points_to_the_line_of_the_traceback(study: Study) -> None:
    (study.root / "my.log").write_text("not ours\nat all\n")
    answer = study("run", "--set", "Alpha=1", "--log-file", "my.log", "--target", "Job:learn")
    assert answer.code == 1
    line = "[learn/graph] FAILED Job:learn learn graph after T → FileNotFoundError: [Errno 2] No such file or "
    assert answer.lines == [f"{line}directory: 'missing.csv' (see log line 4)"]
    (event,) = study.events("r0001", "step_failed")
    assert (event["step_id"], event["status"], event["error_type"]) == ("Job:learn", "FAILED", "FileNotFoundError")
    # The number is right in each log that a reader may have open.
    for log, at in ((study.log("r0001"), 4), ((study.root / "my.log").read_text().splitlines(), 5)):
        (failed,) = [text for text in log if "] FAILED " in text]
        assert f"(see log line {at})" in failed
        below = log[at - 1 : at - 1 + len(event["traceback"].splitlines())]
        assert below[0] == "    Traceback (most recent call last):"
        assert [text[4:] for text in below] == event["traceback"].splitlines()
    head = r"not ours\nat all\n\d{4}-\d\d-\d\d \d\d:\d\d:\d\d study before its first run"
    assert re.match(head, (study.root / "my.log").read_text())


def test_timed_out_says_after_how_long_the_limit_and_where_the_rest_is(study: Study) -> None:
    study.replace("    uses: learn/graph\n", "    uses: learn/graph\n    timeout: 6s\n")
    answer = study("run", "--set", "Alpha=2", "--target", "Job:learn")
    assert answer.code == 1
    assert answer.lines == [
        "[learn/graph] TIMED_OUT Job:learn learn graph after T → timeout: 6s, partial outputs may exist: "
        "steps/learn/scratch"
    ]
    (event,) = study.events("r0001", "step_failed")
    assert (event["step_id"], event["status"]) == ("Job:learn", "TIMED_OUT")
    assert event["duration"] >= 3
    run = study.root / ".whyrun/study/runs/r0001"
    assert [p.read_text() for p in (run / "steps/learn/scratch").rglob("graph*") if p.is_file()] == ["half"]
    assert not (study.root / "results").exists()
    assert not (run / "artifacts").exists()


REFUSING = ("validate", "plan", "explain", "run", "run --dry-run", "compare")


@pytest.mark.parametrize("words", REFUSING)
def test_invalid_uses_in_every_mode_with_the_available_actions_nearest_first(study: Study, words: str) -> None:
    study.replace("uses: learn/graph", "uses: learn/graf")
    answer = study(*words.split())
    assert answer.code == 2
    if words in ("run", "run --dry-run", "compare"):
        (line,) = answer.lines
        assert line.startswith("[learn/graf] INVALID_USES learn/graf → Available: [learn/graph, ")
        assert line.endswith("]")
        assert {"python", "shell", "http/json", "file/copy"} <= set(line.split("[")[-1][:-1].split(", "))
    assert "error[INVALID_USES] workflow.yaml:9:11: there is no action `learn/graf`" in answer.out + answer.err
    assert not (study.root / ".whyrun/study/runs").exists()


@pytest.mark.parametrize("words", REFUSING)
def test_invalid_parameter_in_every_mode_with_every_problem(study: Study, words: str) -> None:
    study.replace('with: {data: "${{ inputs.Data }}", alpha:', "with: {dta: x, alfa:")
    answer = study(*words.split())
    assert answer.code == 2
    if words in ("run", "run --dry-run", "compare"):
        assert answer.lines == [
            "[learn/graph] INVALID_PARAMETER Job:learn → missing required: data, alpha, unknown: dta, alfa"
        ]
    assert (answer.out + answer.err).count("error[INVALID_PARAMETER]") == 4
    assert not (study.root / ".whyrun/study/runs").exists()


@pytest.mark.parametrize("words", ["run", "run --dry-run", "compare"])
def test_invalid_parameter_by_the_value_of_an_input(study: Study, words: str) -> None:
    (study.root / "actions/typed.py").write_text(
        "from typing import Annotated\nfrom whyrun import Action, File, Meta, Parameters\n"
        "class Typed(Action):\n    name = 'learn/typed'\n    outputs = {'graph': 'file'}\n"
        "    class Params(Parameters):\n        data: File\n        alpha: Annotated[float, Meta(gt=0, lt=1)] = 0.05\n"
        "    def run(self, inputs, mode='dry-run', context=None, logger=None):\n        return {}\n"
    )
    study.replace("uses: learn/graph", "uses: learn/typed")
    answer = study(*words.split(), "--set", "Alpha=-0.1")
    assert answer.code == 2
    assert answer.lines == ["[learn/typed] INVALID_PARAMETER Job:learn → invalid: alpha=-0.1"]
    assert "error[INVALID_PARAMETER] workflow.yaml:10:" in answer.err
    assert not (study.root / ".whyrun/study/runs").exists()


def test_an_interrupted_step_is_failed_interrupted(study: Study) -> None:
    import signal

    process = subprocess.Popen(
        [*COMMAND, "run", "--set", "Alpha=2", "--log-level", "all"],
        cwd=study.root,
        stderr=subprocess.PIPE,
        text=True,
    )
    events = study.root / ".whyrun/study/runs/r0001/events.jsonl"
    wait_until(lambda: events.exists() and '"learn 2 of 2"' in events.read_text())
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert Answer(0, "", err).lines[-1] == "[learn/graph] FAILED Job:learn learn graph after T → interrupted"
    (event,) = study.events("r0001", "step_failed")
    assert (event["step_id"], event["status"]) == ("Job:learn", "INTERRUPTED")


def test_levels_and_quiet(study: Study) -> None:
    silent = study("run", "--log-level", "none", "--log-file", "none.log")
    assert (silent.code, silent.out, silent.err) == (0, "", "")
    assert (study.root / "none.log").read_text() == ""
    failing = study("run", "--quiet", "--log-file", "all.log", "--log-level", "all", "--set", "Alpha=1")
    assert [line.split(" ")[1] for line in failing.lines] == ["FAILED"]
    assert failing.others == []
    logged = (study.root / "all.log").read_text()
    assert "[learn/graph] EXECUTES learn 1 of 2" in logged  # quiet is about the terminal alone
    assert "r0002 failed in" in logged
    debug = study("run", "--log-level", "debug", "--set", "Alpha=1")
    assert "    Traceback (most recent call last):" in debug.others


def test_a_log_file_that_cannot_be_written_is_refused_before_anything_runs(study: Study) -> None:
    answer = study("run", "--log-file", "no/such/folder/x.log")
    assert answer.code == 2
    assert answer.err == (
        "error[USAGE]: the log file `no/such/folder/x.log` cannot be written: No such file or directory\n"
        "   hint: choose a file in an existing folder that you may write to\n"
    )
    assert not (study.root / ".whyrun/study/runs").exists()


def test_the_traceback_stands_in_the_log_while_the_run_goes_on(tmp_path: Path) -> None:
    """Who is told `see log line 2` looks there at once, and not after the hours that the rest takes."""
    project = Project(
        tmp_path,
        {
            "workflow.yaml": """
            workflow: w
            jobs:
              Bad: {uses: shell, with: {run: "exit 3"}}
              Long: {uses: python, timeout: 60s, with: {call: "steps:watch"}, outputs: {Log: {type: text, path: seen}}}
            """,
            "steps.py": """
            import time
            from pathlib import Path

            LOG = Path(__file__).parent / ".whyrun/w/runs/r0001/whyrun.log"

            def watch():
                while "FAILED Job:Bad" not in LOG.read_text():
                    time.sleep(0.05)
                return {"Log": LOG.read_text()}
            """,
        },
    )
    answer = project("run", "--jobs", "2")
    assert answer.code == 1
    first, *below = project.read("seen").splitlines()
    assert without_times(first) == (
        "[shell] FAILED Job:Bad after T → CommandFailed: exit status 3 → a script stops at the first command that "
        "fails, also in a pipe; `set -x` at its beginning shows which (see log line 2)"
    )
    assert below
    assert all(line.startswith("    ") for line in below)
    assert below[0].strip() == project.evidence("r0001", "whyrun.log").splitlines()[1].strip()


def test_after_an_interruption_the_command_to_go_on_forces_what_was_forced(study: Study) -> None:
    """Without it the earlier result would be taken: an interruption says nothing against that."""
    import signal

    assert study("run", "-q").code == 0
    study.replace("if alpha == 1:", "time.sleep(0 if alpha == 1 else 600)\n    if alpha == 1:", "actions/learn.py")
    words = ["run", "--force", "Job:learn", "--jobs", "1"]
    process = subprocess.Popen([*COMMAND, *words], cwd=study.root, stderr=subprocess.PIPE, text=True)
    events = study.root / ".whyrun/study/runs/r0002/events.jsonl"
    wait_until(lambda: events.exists() and '"learn 2 of 2"' in events.read_text())
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "  interrupted; to continue: whyrun run --force Job:learn --jobs 1\n" in err
