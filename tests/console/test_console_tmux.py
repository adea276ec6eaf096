"""The progress display, looked at in a real terminal (tmux); and the same without one."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from console_lab import Project, timeless

from project_lab import wait_until

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs"))
import picture
import progress_capture
from progress_capture import Terminal

in_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not there, and make could not install it")

WORKFLOW = """
    workflow: portraits
    loops: {seed: {range: 0-5}}
    jobs:
      Draw:
        for: [seed]
        uses: shell
        with:
          seed: ${{ seed }}
          run: sleep 0.7; until [ -e "GATES/$seed" ]; do sleep 0.05; done; echo "portrait $seed" > "$out_Picture"
        outputs: {Picture: {type: text, path: "out/${{ seed }}.txt"}}
"""
AGAIN = "whyrun run --jobs 2 --force 'Job:Draw[*]'"
BAR = r"(?m)^{run} \d/6 [━╸╺]{{24}} \d:\d\d:\d\d{left} +Job:Draw\[\d\]"
PROMPT_AFTER = r"(?m)^evidence: .*\n\$"


@pytest.fixture
def portraits(tmp_path: Path) -> Project:
    """Its steps wait until the test lets them go on, so that nothing of the display is missed on a slow machine."""
    (tmp_path / "gates").mkdir()
    return Project(tmp_path, {"workflow.yaml": WORKFLOW.replace("GATES", str(tmp_path / "gates"))})


def let_go(project: Project, *seeds: int) -> None:
    for seed in seeds or range(6):
        (project.root / "gates" / str(seed)).touch()


def hold(project: Project) -> None:
    for gate in (project.root / "gates").iterdir():
        gate.unlink()


@pytest.fixture
def terminal(portraits: Project) -> Iterator[Terminal]:
    with Terminal(portraits.root) as opened:
        yield opened


def all_lines(run: str, headline: str) -> list[str]:
    """All that a run says, in the order of its jobs and without times."""
    return [
        headline,
        *(f"[shell] EXECUTES Job:Draw[{seed}] in T → outputs: out/{seed}.txt (11B)" for seed in range(6)),
        f"{run} succeeded in T: 6 executed",
        "  EXECUTES 6",
        "  USAGE",
        "  SLOWEST",
        f"evidence: .whyrun/portraits/runs/{run}",
    ]


def plain(lines: list[str]) -> list[str]:
    """Without times; jobs that ended at the same moment in their order."""
    head, steps, rest = lines[0], sorted(map(timeless, lines[1:7])), [timeless(line) for line in lines[7:]]
    rest = [re.sub(r"^  cpu \S+, peak memory \d\S+MB \(Job:Draw\[\d\]\)$", "  USAGE", line) for line in rest]
    rest = [re.sub(r"^  slowest: (Job:Draw\[\d\] [\d.]+s(, |$)){3}$", "  SLOWEST", line) for line in rest]
    return [re.sub(r"  \(~[\d.]+ \w+\)$", "  (~N s)", head), *steps, *rest]


@in_tmux
def test_a_bar_with_counts_and_the_time_left_that_is_gone_at_the_end(portraits: Project, terminal: Terminal) -> None:
    let_go(portraits)
    assert portraits("run", "--quiet").code == 0
    hold(portraits)
    terminal.type(f"clear; {AGAIN}")
    # Lines stand above the bar, which comes last on the screen.
    shown = terminal.wait_for(BAR.format(run="r0002", left=r" ~[\d.]+ \w+ left")).splitlines()
    assert re.match(BAR.format(run="r0002", left=".*"), shown[-1])
    assert re.fullmatch(r"portraits after r0001: 6 of 6 jobs to run  \(~[\d.]+ \w+\)", shown[0])
    let_go(portraits, 0, 1)
    terminal.wait_for(r"\d{4}-\d\d-\d\d \S+ \[shell\] EXECUTES Job:Draw\[\d\] .*\nr0002 [1-5]/6 [━╸╺]{24} ")
    let_go(portraits)
    screen = terminal.wait_for(PROMPT_AFTER).splitlines()
    assert plain(screen[:-1]) == all_lines("r0002", "portraits after r0001: 6 of 6 jobs to run  (~N s)")


@in_tmux
def test_without_known_durations_there_are_counts_alone(portraits: Project, terminal: Terminal) -> None:
    terminal.type("clear; whyrun run --jobs 2")
    shown = terminal.wait_for(BAR.format(run="r0001", left=""))
    assert "left" not in shown
    let_go(portraits)
    terminal.wait_for(PROMPT_AFTER)


@in_tmux
def test_colours_are_for_the_terminal_and_piped_lines_are_plain(portraits: Project, terminal: Terminal) -> None:
    let_go(portraits)
    terminal.type("clear; whyrun run --jobs 2")
    terminal.wait_for(PROMPT_AFTER)
    assert "\x1b[32mEXECUTES" in terminal.screen(colour=True)
    terminal.type(f"clear; {AGAIN} 2>&1 | cat > piped.txt; echo done")
    terminal.wait_for(r"(?m)^done$")
    piped = portraits.read("piped.txt")
    assert "\x1b" not in piped
    assert "\r" not in piped
    assert plain(piped.splitlines()) == all_lines("r0002", "portraits after r0001: 6 of 6 jobs to run  (~N s)")


@in_tmux
def test_ctrl_c_leaves_a_tidy_screen(terminal: Terminal) -> None:
    terminal.type("clear; whyrun run --jobs 2")
    terminal.wait_for(BAR.format(run="r0001", left=""))
    terminal.press("C-c")
    screen = terminal.wait_for(PROMPT_AFTER)
    assert "━" not in screen
    assert "  interrupted; to continue: whyrun run --jobs 2\n" in screen
    terminal.type("echo status $?")
    terminal.wait_for(r"(?m)^status 130$")


@in_tmux
def test_what_on_finish_prints_does_not_run_into_the_bar(portraits: Project, terminal: Terminal) -> None:
    let_go(portraits)
    portraits.write("whyrun.toml", 'on_finish = "echo one; sleep 1; echo two"\n')
    terminal.type("clear; whyrun run --jobs 2 --target 'Job:Draw[0]'")
    screen = terminal.wait_for(PROMPT_AFTER).splitlines()
    assert [timeless(line) for line in screen[1:5]] == [
        "[shell] EXECUTES Job:Draw[0] in T → outputs: out/0.txt (11B)",
        "one",
        "two",
        "r0001 succeeded in T: 1 executed, 5 deferred",
    ]


@in_tmux
def test_quiet_shows_no_bar(portraits: Project, terminal: Terminal) -> None:
    terminal.type("clear; whyrun run --jobs 2 --quiet; echo done")
    log = portraits.root / ".whyrun/portraits/runs/r0001/events.jsonl"
    wait_until(lambda: log.exists() and "step_start" in log.read_text())
    screens = []
    for _ in range(10):
        time.sleep(0.1)
        screens.append(terminal.screen())
    let_go(portraits)
    screens.append(terminal.wait_for(r"(?m)^done$"))
    assert [screen for screen in screens if re.search(r"━|EXECUTES|evidence", screen)] == []


@in_tmux
def test_a_narrow_terminal_keeps_the_bar_on_one_line(portraits: Project) -> None:
    with Terminal(portraits.root, columns=60) as narrow:
        narrow.type("clear; whyrun run --jobs 2")
        let_go(portraits, 0, 1)
        shown = narrow.wait_for(r"(?m)^r0001 [2-5]/6 ")
        assert shown.count("━") > 3
        assert len(re.findall(r"(?m)^r0001 ", shown)) == 1
        let_go(portraits)
        assert "━" not in narrow.wait_for(PROMPT_AFTER)


def test_a_pipe_gets_plain_lines_and_nothing_else(portraits: Project) -> None:
    let_go(portraits)
    answer = portraits("run", "--jobs", "2")
    assert (answer.code, answer.out) == (0, "")
    assert "\x1b" not in answer.err
    assert plain(answer.err.splitlines()) == all_lines("r0001", "portraits before its first run: 6 of 6 jobs to run")


def test_the_picture_in_the_docs_shows_such_a_screen() -> None:
    command, headline, *lines, bar = picture.described(progress_capture.PICTURE).splitlines()
    assert command == f"$ {progress_capture.COMMAND}"
    assert re.fullmatch(r"portraits after r0001: 11 of 11 jobs to run  \(~\d s\)", headline)
    assert {re.sub(r"\d", "N", timeless(line)) for line in lines} == {
        "[shell] EXECUTES Job:Draw[N] in T → outputs: out/N.txt (NNB)"
    }
    assert re.fullmatch(progress_capture.BAR.format(ended=r"\d+"), bar)
    assert progress_capture.workflow().startswith("workflow: portraits\n")
