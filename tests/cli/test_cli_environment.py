"""Unusual environments: a locale without UTF-8, a terminal without arrows, a folder or a state that was removed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from cli_lab import COMMAND, QUIET_ENVIRONMENT, pairs, whyrun

from command_lab import until

NO_UTF8 = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.parametrize("words", [("plan",), ("run",), ("validate",), ("status",), ("verify",)])
def test_where_names_of_files_are_not_utf8_nothing_is_begun(tmp_path: Path, words: tuple[str, ...]) -> None:
    folder = pairs(tmp_path)
    refused = whyrun(folder, *words, env=NO_UTF8)
    assert (refused.code, refused.err.splitlines()) == (
        2,
        [
            "error[NAME_INVALID]: this locale encodes file names as ascii, but workflows and logs use UTF-8",
            "   hint: set `PYTHONUTF8=1`, or a locale such as `LC_ALL=C.UTF-8`",
        ],
    )
    assert not (folder / ".whyrun").exists()
    assert whyrun(folder, *words, env={**NO_UTF8, "PYTHONUTF8": "1"}).code in (0, 3)  # 3: it has not run yet


def test_signs_that_a_terminal_does_not_have_are_written_otherwise(tmp_path: Path) -> None:
    folder = pairs(tmp_path)
    assert whyrun(folder, "run", "-q").code == 0
    words = [*COMMAND, "explain", "--set", "Mark=?"]
    shown = subprocess.run(
        words, cwd=folder, env={**QUIET_ENVIRONMENT, "PYTHONIOENCODING": "latin-1"}, capture_output=True, check=False
    )
    assert (shown.returncode, shown.stderr) == (0, b"")
    assert rb'mark \u2190 Input:Mark  "!" \u2192 "?"' in shown.stdout


def test_a_current_folder_that_is_gone_is_reported(tmp_path: Path) -> None:
    folder = pairs(tmp_path / "project")
    script = 'mkdir gone; cd gone; rmdir ../gone; exec "$@"'
    for command in ("explain", "run", "status"):
        refused = subprocess.run(
            ["sh", "-c", script, "sh", *COMMAND, command, str(folder / "workflow.yaml")],
            cwd=tmp_path,
            env=QUIET_ENVIRONMENT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Traceback" not in refused.stderr
        assert (refused.returncode, refused.stderr.splitlines()[-2:]) == (
            2,
            ["error[FILE_MISSING]: the current folder no longer exists", "   hint: change to an existing folder"],
        )


@pytest.mark.parametrize("whole", [True, False])
def test_a_state_that_is_removed_while_a_run_goes_on_is_reported(tmp_path: Path, whole: bool) -> None:
    """Wholly, or in part, as by a removal that meets what the run writes just then."""
    gate = tmp_path / "gate"
    (tmp_path / "workflow.yaml").write_text(f"""\
workflow: w
jobs:
  A:
    uses: shell
    with: {{gate: {gate}, run: 'while [ ! -e "$gate" ]; do sleep 0.02; done; echo 1 > "$out_T"'}}
    outputs: {{T: {{type: text}}}}
""")
    running = subprocess.Popen(
        [*COMMAND, "run", "-q"], cwd=tmp_path, env=QUIET_ENVIRONMENT, stderr=subprocess.PIPE, text=True
    )
    log = tmp_path / ".whyrun/w/runs/r0001/events.jsonl"
    until(lambda: log.exists() and '"event":"step_start"' in log.read_text())
    if whole:
        shutil.rmtree(tmp_path / ".whyrun", ignore_errors=True)
    else:
        log.unlink()
    gate.touch()
    _, err = running.communicate(timeout=300)
    assert (running.returncode, [line for line in err.splitlines() if line.startswith(("error", "   hint"))]) == (
        3,
        [
            f"error[DISK_FAILED]: `{log.parent}` was removed or moved away while r0001 was running",
            "   hint: put it back; or remove the rest of it, and run again",
        ],
    )
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("file", "command"),
    [("pruned.jsonl", "plan"), ("runs/r0001/events.jsonl", "diff"), ("lock", "run"), ("pruned.jsonl", "verify")],
)
def test_a_folder_in_place_of_a_file_of_the_state_is_reported(tmp_path: Path, file: str, command: str) -> None:
    folder = pairs(tmp_path)
    assert whyrun(folder, "run", "-q").code == 0
    place = next(folder.glob(".whyrun/*/runs")).parent / file
    place.unlink(missing_ok=True)
    place.mkdir()
    refused = whyrun(folder, command, *(("r0001", "r0001") if command == "diff" else ()))
    assert (refused.code, "Traceback" in refused.err) == (3, False)
    assert str(place.relative_to(folder)) in refused.err
