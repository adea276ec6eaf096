"""`on_finish` of `whyrun.toml`: told how a run ended, whichever way, and unable to change it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from console_lab import COMMAND, ENVIRONMENT, Project

from project_lab import wait_until

WORKFLOW = """
    workflow: study
    inputs: {Word: {type: string, default: fine}}
    jobs:
      Say:
        uses: shell
        with:
          word: ${{ inputs.Word }}
          run: |
            if [ "$word" = bad ]; then echo "no such word" >&2; exit 4; fi
            if [ "$word" = slow ]; then sleep 600; fi
            echo "$word" > "$out_Text"
        outputs: {Text: {type: text}}
      Echo:
        uses: shell
        with: {text: "${{ jobs.Say.outputs.Text }}", run: 'cat "$text" "$text" > "$out_Twice"'}
        outputs: {Twice: {type: text}}
"""
KEEP = "cat > told.json; echo $WHYRUN_WORKFLOW $WHYRUN_RUN >> told.txt"


@pytest.fixture
def study(tmp_path: Path) -> Project:
    return Project(tmp_path, {"workflow.yaml": WORKFLOW})


def on_finish(study: Project, command: str | list[str]) -> None:
    study.write("whyrun.toml", f"on_finish = {json.dumps(command)}\n")


def test_it_gets_the_status_on_stdin_and_the_run_in_its_environment(study: Project) -> None:
    on_finish(study, KEEP)
    assert study("run").code == 0
    assert study.read("told.json") == study.evidence("r0001", "status.json")
    assert study.read("told.txt") == "study r0001\n"
    told = json.loads(study.read("told.json"))
    assert {key: value for key, value in told.items() if key not in ("started", "ended")} == {
        "ok": True,
        "state": "succeeded",
        "exit_code": 0,
        "steps_total": 2,
        "steps_completed": 2,
        "steps_failed": 0,
        "steps_skipped": 0,
        "steps_blocked": 0,
        "steps_interrupted": 0,
        "backend": "local",
        "error": None,
    }


def test_it_runs_in_the_project_folder_wherever_one_stands(study: Project) -> None:
    on_finish(study, KEEP)
    (study.root / "below").mkdir()
    done = subprocess.run(
        [*COMMAND, "run", "-q", "../workflow.yaml"], cwd=study.root / "below", env=ENVIRONMENT, check=False, timeout=300
    )
    assert done.returncode == 0
    assert study.read("told.txt") == "study r0001\n"


def test_not_where_there_was_nothing_to_do_nor_in_a_dry_run(study: Project) -> None:
    on_finish(study, KEEP)
    assert study("run", "--dry-run").code == 0
    assert not (study.root / "told.txt").exists()
    assert study("run").code == 0
    assert study("run").code == 0
    assert study.read("told.txt") == "study r0001\n"


def test_a_failed_run_is_told_with_its_error(study: Project) -> None:
    on_finish(study, KEEP)
    assert study("run", "--set", "Word=bad").code == 1
    told = json.loads(study.read("told.json"))
    assert (told["state"], told["exit_code"], told["steps_failed"], told["steps_blocked"]) == ("failed", 1, 1, 1)
    assert told["error"].startswith("Job:Say: ")
    assert "no such word" in told["error"]


def test_an_interrupted_run_is_told_too(study: Project) -> None:
    on_finish(study, KEEP)
    process = subprocess.Popen(
        [*COMMAND, "run", "--set", "Word=slow"], cwd=study.root, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True
    )
    events = study.root / ".whyrun/study/runs/r0001/events.jsonl"
    wait_until(lambda: events.exists() and '"step_start"' in events.read_text())
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=300)
    assert process.returncode == 130
    told = json.loads(study.read("told.json"))
    assert (told["state"], told["exit_code"], told["steps_interrupted"]) == ("interrupted", 130, 1)


def test_the_lock_is_free_so_that_it_may_start_another_run(study: Project) -> None:
    # Of the second run it is told as well, and then there is nothing to do.
    on_finish(study, KEEP + "; [ $WHYRUN_RUN = r0002 ] || whyrun run --quiet --set Word=other")
    answer = study("run")
    assert (answer.code, answer.notes) == (0, [])
    assert study.runs() == ["r0001", "r0002"]
    assert study.read("told.txt") == "study r0001\nstudy r0002\n"


def test_what_it_prints_does_not_mix_with_the_data_on_stdout(study: Project) -> None:
    on_finish(study, "echo to stdout; echo to stderr >&2")
    answer = study("run", "--json")
    assert answer.json["run"] == "r0001"
    assert "to stdout\nto stderr\n" in answer.err


def test_one_that_fails_is_a_note_and_the_run_is_what_it_was(study: Project) -> None:
    on_finish(study, "exit 7")
    note = "note: `on_finish` ended with status 7; the run itself is not affected"
    good = study("run")
    assert (good.code, good.notes) == (0, [note])
    bad = study("run", "--set", "Word=bad", "--quiet")  # notes are told all the same
    assert (bad.code, bad.notes) == (1, [note])


def test_a_program_that_is_not_there_is_a_note(study: Project) -> None:
    on_finish(study, ["./notify.py", "--loud"])
    answer = study("run")
    assert (answer.code, answer.notes) == (0, ["note: `on_finish` could not be started: No such file or directory"])
    assert study.runs() == ["r0001"]


def test_one_that_reads_nothing_harms_nothing(study: Project) -> None:
    on_finish(study, "true")
    answer = study("run")
    assert (answer.code, answer.notes) == (0, [])


def test_a_list_is_a_program_and_its_words_without_a_shell(study: Project) -> None:
    study.write("notify.py", "import sys\nopen('words.txt', 'w').write(repr(sys.argv[1:]))\n")
    on_finish(study, [sys.executable, "notify.py", "$HOME; echo *"])
    answer = study("run")
    assert (answer.code, answer.notes) == (0, [])
    assert study.read("words.txt") == "['$HOME; echo *']"


def test_a_comparison_ends_with_it_too(study: Project) -> None:
    assert study("run", "-q").code == 0
    on_finish(study, KEEP)
    assert study("compare").code == 0
    assert study.read("told.txt") == "study r0002\n"
    assert json.loads(study.read("told.json"))["state"] == "succeeded"


@pytest.mark.parametrize("value", ["3", "true", '""', '"  "', "[]", '["a", 1]', "{a = 1}"])
def test_what_is_no_command_is_refused_before_anything_runs(study: Project, value: str) -> None:
    study.write("whyrun.toml", f"on_finish = {value}\n")
    answer = study("run")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == (
        f"error[WRONG_TYPE] {study.root}/whyrun.toml:1: `on_finish` is a command: a string or a list of strings\n"
        '   hint: on_finish = "notify-send whyrun", or a list of words: ["./notify.py", "--quiet"]\n'
    )
    assert study.runs() == []


def test_a_misspelt_setting_is_refused_with_the_right_one(study: Project) -> None:
    study.write("whyrun.toml", 'on_finsh = "true"\n')
    answer = study("run")
    assert answer.code == 2
    assert answer.err == (
        f"error[UNKNOWN_KEY] {study.root}/whyrun.toml:1: there is no setting `on_finsh`\n"
        "   hint: did you mean `on_finish`?\n"
    )
