"""What a successful step printed is shown by `whyrun log --output`, and `whyrun show` names it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

from project_lab import Lab
from whyrun.cli.main import cli
from whyrun.errors import WhyrunError
from whyrun.facts.show import LOG_TAIL_LINES

FLOW = """
    workflow: w
    jobs:
      Talk:
        uses: shell
        with: {run: 'seq 1 40; printf "half\\rdone\\n"; printf "\\033[2Jloud" >&2; echo 1 > "$out_T"'}
        outputs: {T: {type: text}}
      Quiet: {uses: shell, with: {run: 'echo 1 > "$out_T"'}, outputs: {T: {type: text}}}
      Tries:
        uses: shell
        retries: 1
        with: {run: 'seq 1 30; echo again; exit 1'}
"""


@pytest.fixture
def lab(project: Callable[..., Lab], monkeypatch: pytest.MonkeyPatch) -> Lab:
    made = project(FLOW)
    assert made.run().exit_code == 1
    monkeypatch.chdir(made.root)
    return made


def said(*words: str) -> Any:
    return CliRunner().invoke(cli, words, catch_exceptions=False).stdout


def below(text: str, event: str) -> list[str]:
    """The indented lines below the last event of this kind."""
    lines = text.splitlines()
    start = max(number for number, line in enumerate(lines) if f"  {event} " in line) + 1
    end = next((number for number in range(start, len(lines)) if not lines[number].startswith(" ")), len(lines))
    return [line.removeprefix("    ") for line in lines[start:end]]


def test_log_output_prints_all_that_a_successful_step_printed(lab: Lab) -> None:
    """Issue 17, number 28. No command showed it."""
    folder = ".whyrun/w/runs/r0001/steps/Talk"
    numbers = [f"  {number}" for number in range(1, 41)]
    assert below(said("log", "--job", "Job:Talk", "--output"), "step_complete") == [
        f"{folder}/stdout.log", *numbers, "  half", "  done", f"{folder}/stderr.log", "  �[2Jloud",
    ]  # fmt: skip
    assert below(said("log", "--job", "Job:Quiet", "--output"), "step_complete") == []
    assert below(said("log", "--job", "Job:Talk"), "step_complete") == []


def test_a_failure_shows_the_last_lines_and_with_output_all_of_all_attempts_once(lab: Lab) -> None:
    head = ".whyrun/w/runs/r0001/steps/Tries/stdout.log"
    assert below(said("log", "--job", "Job:Tries"), "step_failed")[0] == f"{head} (the last {LOG_TAIL_LINES} lines)"
    whole = said("log", "--job", "Job:Tries", "--output")
    once = [*(f"  {number}" for number in range(1, 31)), "  again"]
    assert below(whole, "step_failed") == [head, *once, *once]
    assert whole.count(head) == 1


def test_show_names_the_logs_of_a_successful_step_and_the_command(lab: Lab) -> None:
    shown = said("show", "Job:Talk")
    assert "logs         .whyrun/w/runs/r0001/steps/Talk/stdout.log\n" in shown
    (command,) = [line.partition("see")[2].strip() for line in shown.splitlines() if line.strip().startswith("see ")]
    assert command == "whyrun log r0001 --job Job:Talk --output"
    assert "  40\n" in said(*command.split()[1:]), "the command shows it"
    assert "see " not in said("show", "Job:Quiet")


def test_output_is_for_people(lab: Lab) -> None:
    with pytest.raises(WhyrunError, match="`--json` prints the log unchanged"):
        said("log", "--output", "--json")
