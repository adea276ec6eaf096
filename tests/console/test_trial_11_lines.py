"""Status lines where they were missing: files of reused results, tasks, times in a log file, refused workflows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from console_lab import timeless

from project_lab import Lab
from whyrun import LogLevel, TaskStatus, WorkflowLogger
from whyrun.cli.main import cli
from whyrun.errors import WhyrunError

FLOW = """
    workflow: study
    inputs: {Alpha: {type: number, default: 1}}
    jobs:
      Learn:
        uses: learn
        with: {alpha: "${{ inputs.Alpha }}"}
        outputs: {graph: {type: file, path: out/graph.xml}, notes: {type: text}, size: {type: integer}}
"""
ACTIONS = """
    from whyrun import action

    @action("learn", outputs={"graph": "file", "notes": "text", "size": "integer"})
    def learn(alpha, context, logger):
        logger.log_task("learn", "EXECUTES", "one")
        logger.log_task("learn", "FAILED", "two", job_info="no convergence")
        logger.log_task("learn", "EXECUTES", "three")
        return {"graph": b"<graph/>", "notes": "four", "size": 4}
"""
TIMED = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d "
LINE = TIMED + r"\[[^\[\]]+\] [A-Z_]+ "


@pytest.fixture
def lab(project: Callable[..., Lab], monkeypatch: pytest.MonkeyPatch) -> Lab:
    made = project(FLOW, {"actions/learn.py": ACTIONS})
    monkeypatch.chdir(made.root)
    return made


def whyrun(*words: str) -> Any:
    return CliRunner().invoke(cli, words, catch_exceptions=False)


# --- reused results ----------------------------------------------------------------------------------------------


def test_a_reused_result_names_its_files(lab: Lab) -> None:
    """Issue 17, number 11. `SKIPS … reused from r0001` named no file."""
    lab.succeed()
    lab.write({"out/graph.xml": None})
    files = "out/graph.xml ({0}8B), Artifact:Learn.notes ({0}4B), Artifact:Learn.size ({0}1B)"
    (dry,) = [line for line in whyrun("run", "--dry-run").stdout.splitlines() if "WOULD_SKIP" in line]
    assert timeless(dry) == f"[learn] WOULD_SKIP Job:Learn → outputs: {files.format('')} → reused from r0001"
    ((_, line),) = lab.succeed().heard.lines
    assert timeless(line) == f"[learn] SKIPS Job:Learn → outputs: {files.format('exists, ')} → reused from r0001"
    assert lab.read("out/graph.xml") == "<graph/>", "it does exist"


# --- tasks -------------------------------------------------------------------------------------------------------


def test_tasks_that_an_action_reports_are_in_the_summary(lab: Lab) -> None:
    """Issue 17, number 11."""
    answer = whyrun("run", "--json")
    assert json.loads(answer.stdout)["tasks"] == {"EXECUTES": 2, "FAILED": 1}
    assert json.loads(answer.stdout)["statuses"] == {"EXECUTES": 1}, "jobs are counted apart"
    summary = answer.stderr[answer.stderr.index("r0001 succeeded") :].splitlines()
    assert summary[1:3] == ["  EXECUTES 1", "  tasks of the actions: EXECUTES 2, FAILED 1"]
    compared = whyrun("compare", "--json")
    assert json.loads(compared.stdout)["tasks"] == {"EXECUTES": 2, "FAILED": 1}
    assert "  tasks of the actions: EXECUTES 2, FAILED 1\n" in compared.stderr


@pytest.mark.parametrize(
    ("status", "messages"), [("FAILED", ["two"]), ("EXECUTES", ["one", "three"]), ("WOULD_SKIP", [])]
)
def test_log_finds_tasks_by_their_status(lab: Lab, status: str, messages: list[str]) -> None:
    """Issue 17, number 11."""
    lab.succeed()
    found = [json.loads(line) for line in whyrun("log", "--status", status, "--json").stdout.splitlines()]
    assert [event["message"] for event in found if event["event"] == "task"] == messages
    assert [event["step_id"] for event in found] == ["Job:Learn"] * len(found)


# --- log files ---------------------------------------------------------------------------------------------------


def test_every_line_of_a_log_file_has_a_time_or_belongs_to_the_one_above(lab: Lab) -> None:
    """Issue 17, number 11. Headline, notes and summary had none."""
    lab.edit("actions/learn.py", 'return {"graph"', 'raise ValueError("first\\nsecond")\n    return {"graph"')
    assert cli.main(["run", "--log-file", "today.log", "--log-level", "all"], standalone_mode=False) == 1
    text = lab.read("today.log")
    assert [line for line in text.splitlines() if not re.match(f"{TIMED}|    |  ", line)] == []
    timed = [re.sub(f"^{TIMED}", "", line) for line in text.splitlines() if re.match(TIMED, line)]
    assert timed[0].startswith("study before its first run")
    assert timed[-2].startswith("r0001 failed in ")
    assert timed[-1].startswith("evidence: ")


def test_what_a_program_logs_has_times_too(tmp_path: Path) -> None:
    lines: list[str] = []
    noon = datetime(2026, 6, 23, 12, 3, 23)
    file = tmp_path / "a.log"
    logger = WorkflowLogger(False, file, LogLevel.DEBUG, capture=lines, clock=lambda: noon)
    logger.log_task("a", TaskStatus.EXECUTES, "one")
    logger.note("two\nthree")
    logger.debug("four")
    logger.say("five\n  six\nseven")
    at = "2026-06-23 12:03:23"
    assert file.read_text().splitlines() == [
        f"{at} [a] EXECUTES one", f"{at} note: two", "    three", f"{at} debug: four", f"{at} five", "  six",
        f"{at} seven",
    ]  # fmt: skip
    assert lines[1:] == ["note: two", "    three", "debug: four", "five", "  six", "seven"], "elsewhere without"


# --- refused workflows -------------------------------------------------------------------------------------------


def refused(*words: str) -> tuple[list[str], list[str]]:
    """The status lines and the errors of a command that is refused."""
    runner = CliRunner()
    with runner.isolation() as streams:
        with pytest.raises(WhyrunError) as caught:
            cli.main([*words], standalone_mode=False)
        told = streams[1].getvalue().decode().splitlines()
    assert all(re.match(LINE, line) for line in told)
    return [timeless(line) for line in told], [problem.code for problem in caught.value.diagnostics]


@pytest.mark.parametrize(
    ("words", "old", "new", "line"),
    [
        ("run", "inputs.Alpha }}", "inputs.Alhpa }}", "7:31 → UNKNOWN_REFERENCE: the workflow has no input `Alhpa`"),
        ("run --dry-run", "default: 1}", "default: x}", "3:41 → INPUT_TYPE: "),
        ("compare", "type: text}", "type: tekst}", "8:71 → WRONG_TYPE: there is no type `tekst`"),
        ("run", "jobs:", "jobs: }", "4:7 → YAML_SYNTAX: "),
    ],
)
def test_a_refused_workflow_has_a_status_line(lab: Lab, words: str, old: str, new: str, line: str) -> None:
    """Issue 17, number 11. Only problems of an action had one, so that a log file stayed empty."""
    lab.edit("workflow.yaml", old, new)
    (told,), _ = refused(*words.split(), "--log-file", "today.log")
    assert told.startswith(f"[whyrun] INVALID_PARAMETER workflow.yaml:{line}")
    assert timeless(lab.read("today.log").rstrip("\n")) == told


def test_problems_of_actions_keep_their_lines_and_the_others_come_after(lab: Lab) -> None:
    lab.edit("workflow.yaml", "uses: learn", "uses: lern")
    lab.edit("workflow.yaml", "inputs.Alpha }}", "inputs.Alhpa }}")
    first, second = refused("run")[0]
    assert first.startswith("[lern] INVALID_USES lern → Available: [learn, ")
    what = "UNKNOWN_REFERENCE: the workflow has no input `Alhpa`"
    assert second == f"[whyrun] INVALID_PARAMETER workflow.yaml:7:31 → {what}"
    assert refused("run", "--log-level", "none")[0] == []


def test_a_wrong_command_line_is_no_refused_workflow(lab: Lab) -> None:
    assert refused("run", "--target", "Job:Never") == ([], ["UNKNOWN_REFERENCE"])
    assert refused("run", "--limit", "gpu=1") == ([], ["USAGE"])


def test_many_problems_are_counted(lab: Lab) -> None:
    jobs = "".join(f'\n  J{n}: {{uses: shell, with: {{run: "true", x: "${{{{ inputs.N{n} }}}}"}}}}' for n in range(15))
    lab.write({"workflow.yaml": f"workflow: w\njobs:{jobs}\n"})
    lines, codes = refused("run")
    assert (len(lines), len(codes)) == (11, 15)
    assert lines[-1] == "[whyrun] INVALID_PARAMETER and 5 more problems"
