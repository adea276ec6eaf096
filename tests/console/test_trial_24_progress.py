"""Progress with real names: count, bar and time left always fit, names are cut. Looked at in a real terminal (tmux)."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from console_lab import Project

from whyrun import LogLevel, TaskStatus, WorkflowLogger
from whyrun.console.lines import TaskLine
from whyrun.console.progress import EqualWork, Progress, Weights, layout, names_in
from whyrun.console.render import statuses_text

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs"))
from progress_capture import Terminal

in_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not there, and make could not install it")

# The names of a real workflow. Each step waits until the test lets it go on.
WORKFLOW = """
    workflow: traces
    loops:
      family: {values: [polymorphic]}
      series: {values: [TABU/STABLE3, TABU/STABLE4, TABU/STABLE5, TABU/STABLE6]}
    jobs:
      migrate_trace:
        for: [family, series]
        uses: shell
        with:
          series: ${{ series }}
          run: 'until [ -e "GATES/${series##*/}" ]; do sleep 0.05; done; sleep 1.2; echo "$series" > "$out_Trace"'
        outputs: {Trace: {type: text}}
"""
NAMES = [f'Job:migrate_trace[polymorphic]["TABU/STABLE{number}"]' for number in (3, 4, 5, 6)]
PROMPT_AFTER = r"(?m)^evidence: .*\n\$"


@pytest.fixture
def traces(tmp_path: Path) -> Project:
    (tmp_path / "gates").mkdir()
    return Project(tmp_path, {"workflow.yaml": WORKFLOW.replace("GATES", str(tmp_path / "gates"))})


def let_go(project: Project, *numbers: int) -> None:
    for number in numbers:
        (project.root / f"gates/STABLE{number}").touch()


@pytest.fixture
def terminal(traces: Project) -> Iterator[Terminal]:
    with Terminal(traces.root, columns=60) as opened:
        yield opened


@in_tmux
def test_count_bar_and_time_left_are_there_at_60_80_and_120_columns(traces: Project, terminal: Terminal) -> None:
    """Issue 17, number 24. With two such names the line showed nothing else.

    It is a first run without estimates: the first two jobs tell how long the others will take.
    """
    terminal.type("clear; whyrun run --jobs 2 --log-level progress")
    before = terminal.wait_for(r'(?m)^r0001 0/4 ━{12} \d:\d\d:\d\d Job:migrate_t…BU/STABLE3"\] \+1$')
    assert "left" not in before
    let_go(traces, 3, 4)
    bar = r"(?m)^r0001 2/4 [━╸╺]{%s} \d:\d\d:\d\d ~\d+ s left %s$"
    terminal.wait_for(bar % (12, r'Job:migr…ABLE5"\] \+1'))
    terminal.resize(80)
    terminal.wait_for(bar % (12, r'Job:migrate_trace\[…\]\["TABU/STABLE5"\] \+1'))
    terminal.resize(120)
    terminal.wait_for(bar % (24, re.escape(NAMES[2]) + r" \+1"))
    let_go(traces, 5, 6)
    # The level `progress` has no line for a job: the headline, the bar, and the summary at the end.
    lines = terminal.wait_for(PROMPT_AFTER).splitlines()
    assert lines[0] == "traces before its first run: 4 of 4 jobs to run"
    assert re.fullmatch(r"r0001 succeeded in [\d.]+s: 4 executed", lines[1])
    assert not [line for line in lines if " EXECUTES Job:" in line or "━" in line]


@pytest.mark.parametrize("columns", [30, 40, 60, 80, 99, 100, 120, 200])
@pytest.mark.parametrize(
    "names", [[], ["Job:A"], NAMES[:1], NAMES[:2], NAMES, ["Job:例え[例え例え例え例え例え例え例]"] * 9]
)
def test_the_line_fits_whatever_the_names_are(columns: int, names: list[str]) -> None:
    from rich.cells import cell_len

    texts = ["r0001 12/451", "0:00:12", "~40 s left"]
    bar, shown = layout(columns, texts, names)
    assert bar >= 4
    used = sum(len(text) + 1 for text in texts) + bar + (1 + cell_len(shown) if shown else 0)
    assert used <= max(columns, sum(len(text) + 1 for text in texts) + 4)
    if columns >= 80 and names:
        assert shown[:5] == names[0][:5], "there is room for a name"


def test_names_are_cut_in_the_middle_because_instances_differ_at_the_end() -> None:
    assert names_in(120, NAMES[:2]) == f"{NAMES[0]}, {NAMES[1]}"
    assert names_in(60, NAMES[:2]) == f"{NAMES[0]} +1"
    assert names_in(30, NAMES) == 'Job:migrate_t…ABU/STABLE3"] +3'
    assert names_in(9, NAMES) == ""
    assert names_in(40, ["a\x1b[2J\nb"]) == "a�[2J�b"


def test_identical_jobs_tell_the_time_left_of_a_first_run() -> None:
    now = [0.0]
    weights = Weights({**{f"Job:Draw[{i}]": None for i in range(10)}, "Job:Page": None}, clock=lambda: now[0])
    progress = Progress("r0001", 11, 2, weights)
    progress.update(0, ["Job:Draw[0]", "Job:Draw[1]"])
    assert progress.left == ""
    now[0] = 6.0
    weights.took("Job:Draw[0]", 6.0)
    weights.took("Job:Draw[1]", 6.0)
    progress.update(2, ["Job:Draw[2]", "Job:Draw[3]"])
    assert progress.left == "~27 s left"  # 8 × 6 s and Page, which may take as long, by 2 workers
    now[0] = 9.0
    progress.update(2, ["Job:Draw[2]", "Job:Draw[3]"])
    assert progress.left == "~24 s left"
    for i in range(2, 10):
        weights.took(f"Job:Draw[{i}]", 6.0)
    progress.update(10, ["Job:Page"])
    assert progress.left == "", "nothing is known about the only job that is left"


def test_a_few_known_jobs_say_nothing_about_many_others() -> None:
    weights = Weights({"Job:Prepare": 1.0, **{f"Job:Train[{i}]": None for i in range(4)}})
    progress = Progress("r0001", 5, 1, weights)
    progress.update(0, ["Job:Prepare"])
    assert progress.left == ""
    weights.took("Job:Prepare", 1.0)
    weights.took("Job:Train[0]", 3600.0)
    progress.update(2, [])
    assert progress.left == "~3 h left"


def test_the_time_left_is_there_until_the_last_job_has_ended() -> None:
    weights = Weights({"Job:A": 0.2, "Job:B": 0.2})
    progress = Progress("r0001", 2, 1, weights)
    progress.update(1, ["Job:B"])
    assert progress.left == "~1 s left"
    progress.update(2, [])
    assert progress.left == ""


def test_a_program_without_an_estimate_gets_the_time_left_from_what_is_done() -> None:
    now = [0.0]
    progress = Progress("", 10, 1, EqualWork(10, None, clock=lambda: now[0]))
    progress.update(0, [])
    assert progress.left == ""
    now[0] = 6.0
    progress.update(2, [])
    assert (progress.plain(), progress.completed / progress.work.total) == ("2/10, ~24 s left", pytest.approx(0.2))


@in_tmux
def test_ctrl_c_is_interrupted_for_people_and_failed_for_programs(traces: Project, terminal: Terminal) -> None:
    """Issue 17, number 24. The ten statuses stay as they are."""
    terminal.resize(120)
    terminal.type("clear; whyrun run --jobs 1 --log-file today.log")
    terminal.wait_for(r"(?m)^r0001 0/4 .* Job:migrate_trace")
    terminal.press("C-c")
    screen = terminal.wait_for(PROMPT_AFTER)
    assert "FAILED" not in screen
    assert re.search(r"(?m)^\S+ \S+ \[shell\] interrupted Job:\S+ after [\d.]+s$", screen)
    assert "\n  interrupted 1\n" in screen
    assert re.search(r"(?m)\[shell\] FAILED Job:\S+ after [\d.]+s → interrupted$", traces.read("today.log"))
    status = traces("status").out
    assert "jobs: 3 never run, 1 interrupted\n" in status
    assert len(re.findall(r"(?m)  interrupted +r0001 ", status)) == 1
    assert traces("status", "--json").json["jobs"]["failed"] == 1, "for programs it is one of four states"


def test_the_summary_counts_interrupted_steps_apart_from_failed_ones() -> None:
    counts = {"clean": 2, "reused": 0, "inactive": 0, "blocked": 1, "interrupted": 2}
    told = statuses_text({"EXECUTES": 4, "SKIPS": 3, "FAILED": 3}, counts)
    assert told == "EXECUTES 4, SKIPS 3 (2 up to date, 1 blocked), FAILED 1, interrupted 2"
    assert statuses_text({"FAILED": 2}, {"interrupted": 2}) == "interrupted 2"


@pytest.mark.parametrize(("level", "shown"), [("progress", ["A failed"]), ("summary", ["A failed", "B stopped", "C"])])
def test_the_level_progress_shows_failures_and_no_other_job(level: str, shown: list[str]) -> None:
    lines: list[str] = []
    logger = WorkflowLogger(terminal=False, log_level=LogLevel.named(level), capture=lines)
    now = datetime(2026, 6, 23, 12, 3, 23)
    logger.line(TaskLine(now, "a", TaskStatus.FAILED, "A failed"))
    logger.line(TaskLine(now, "a", TaskStatus.FAILED, "B stopped", interrupted=True))
    logger.line(TaskLine(now, "a", TaskStatus.EXECUTES, "C"))
    logger.say("the summary")
    assert [line.split("FAILED ")[-1].split("EXECUTES ")[-1] for line in lines] == [*shown, "the summary"]
