"""`whyrun plan`: as text, as reproducible bytes, for earlier runs, and under assumptions."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from cli_lab import dedent, pairs, timeless, tree, whyrun


def test_the_short_form_has_each_job_with_its_first_reason(tmp_path: Path) -> None:
    answer = whyrun(pairs(tmp_path), "plan")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == dedent("""
        pairs before its first run: 3 of 3 jobs to run
        layer 0
          Job:Shout[0]   MISSING_OUTPUT
          Job:Shout[1]   MISSING_OUTPUT
        layer 1
          Job:Join       MISSING_OUTPUT (+2)
        """)


def test_planning_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = pairs(tmp_path)
    before = tree(folder)
    for words in (["plan"], ["plan", "--json"], ["explain"], ["plan", "--assume", "Input:Mark=?"]):
        assert whyrun(folder, *words).code == 0
    assert tree(folder) == before


def test_runs_that_a_new_project_folder_hides_are_named(tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    folder = pairs(tmp_path / "flows" / "pairs")
    assert whyrun(tmp_path, "run", "-q", "flows/pairs/workflow.yaml").code == 0
    (tmp_path / "whyrun.toml").write_text("")
    text = (folder / "workflow.yaml").read_text().replace("words/", "flows/pairs/words/")
    (folder / "workflow.yaml").write_text(text)
    note = (
        "note: `flows/pairs/.whyrun` has runs of this workflow, but is not used: because of `whyrun.toml`, the state "
        "is in `.whyrun`. To use these runs, move them there, or use `--state flows/pairs/.whyrun`\n"
    )
    for words in (["plan"], ["explain"], ["run", "--dry-run"]):
        answer = whyrun(tmp_path, *words, "flows/pairs/workflow.yaml")
        assert (answer.code, answer.err.splitlines(keepends=True)[0]) == (0, note), words
        assert answer.out.startswith("pairs before its first run: 3 of 3 jobs to run")
    own = whyrun(tmp_path, "plan", "flows/pairs/workflow.yaml", "--state", "elsewhere")
    assert (own.code, own.err) == (0, "")  # that is what was asked for
    with_them = whyrun(tmp_path, "plan", "flows/pairs/workflow.yaml", "--state", "flows/pairs/.whyrun")
    assert (with_them.code, with_them.err) == (0, "")
    # Other paths, the same content: nothing is paid for again.
    assert with_them.out.startswith("pairs after r0001: none of 3 jobs to run, 1 reused from earlier runs")
    assert note in whyrun(tmp_path, "run", "flows/pairs/workflow.yaml").err
    again = whyrun(tmp_path, "plan", "flows/pairs/workflow.yaml")  # it has runs of its own now
    assert (again.code, again.err) == (0, "")


def test_runs_are_looked_for_in_every_folder_between_the_file_and_the_project(tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    folder = pairs(tmp_path / "flows" / "pairs")
    text = (folder / "workflow.yaml").read_text()
    (tmp_path / "flows" / "whyrun.toml").write_text("")
    (folder / "workflow.yaml").write_text(text.replace("words/", "pairs/words/"))
    assert whyrun(tmp_path, "run", "-q", "flows/pairs/workflow.yaml").code == 0
    (tmp_path / "flows" / "whyrun.toml").rename(tmp_path / "whyrun.toml")
    (folder / "workflow.yaml").write_text(text.replace("words/", "flows/pairs/words/"))
    told = whyrun(tmp_path, "plan", "flows/pairs/workflow.yaml").err
    assert told.startswith("note: `flows/.whyrun` has runs of this workflow, but is not used")


def test_two_plans_of_the_same_state_are_the_same_bytes_in_another_folder_too(tmp_path: Path) -> None:
    folder = pairs(tmp_path / "one")
    assert whyrun(folder, "run", "-q").code == 0
    (folder / "words/a.txt").write_text("uno\n")
    first = whyrun(folder, "plan", "--json").out
    shutil.copytree(folder, tmp_path / "two", symlinks=True)
    assert whyrun(tmp_path / "two", "plan", "--json").out == first
    assert whyrun(tmp_path, "plan", "two/workflow.yaml", "--json").out == first


def test_the_plan_of_a_run_is_reproduced_to_the_byte_after_everything_changed(tmp_path: Path) -> None:
    folder = pairs(tmp_path)
    assert whyrun(folder, "run", "-q", "--up", "1").code == 0
    (folder / "words/a.txt").write_text("uno\n")
    assert whyrun(folder, "run", "-q", "--force", "Job:Shout[1]").code == 0
    (folder / "words/c.txt").write_text("three\n")
    (folder / "words/a.txt").unlink()
    text = (folder / "workflow.yaml").read_text()
    (folder / "workflow.yaml").write_text(text.replace("tr a-z A-Z", "rev"))
    assert whyrun(folder, "run", "-q").code == 0
    for run in ("r0001", "r0002", "r0003"):
        recorded = (folder / f".whyrun/pairs/runs/{run}/plan.json").read_text()
        again = whyrun(folder, "plan", "--at", run, "--json")
        assert (again.code, again.out, again.err) == (0, recorded, "")
    short = whyrun(folder, "plan", "--at", "r0002")
    assert (short.code, short.err) == (0, "")
    assert timeless(short.out) == dedent("""
        pairs after r0001: 3 of 3 jobs to run
        layer 0
          Job:Shout[0]   INPUT_CHANGED
          Job:Shout[1]   FORCED
        layer 1
          Job:Join       MISSING_OUTPUT (+2)
        """)


def test_a_past_plan_that_is_not_reproduced_is_damage(tmp_path: Path) -> None:
    folder = pairs(tmp_path)
    assert whyrun(folder, "run", "-q").code == 0
    (folder / "words/a.txt").write_text("uno\n")
    assert whyrun(folder, "run", "-q").code == 0
    log = folder / ".whyrun/pairs/runs/r0002/events.jsonl"
    sound = log.read_text()
    recorded = next(e["plan_sha256"] for e in map(json.loads, sound.splitlines()) if e["event"] == "plan_computed")
    log.write_text(sound.replace(recorded, "0" * 64))
    answer = whyrun(folder, "plan", "--at", "r0002")
    assert (answer.code, answer.out) == (3, "")
    assert answer.err.startswith("error[LOG_DAMAGED] ")
    assert f"the plan of r0002 is not reproduced: recorded is sha256:{'0' * 64}, computed sha256:" in answer.err
    log.write_text(sound)
    blob = next(e["snapshot_sha256"] for e in map(json.loads, sound.splitlines()) if e["event"] == "plan_computed")
    (folder / ".whyrun/store" / blob[:2] / blob[2:]).unlink()
    lost = whyrun(folder, "plan", "--at", "r0002")
    assert (lost.code, lost.out) == (3, "")
    assert lost.err.startswith("error[STORE_DAMAGED]")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--at", "r0009"], 3, "error[RUN_UNKNOWN]: there is no run `r0009` of `pairs`"),
        (
            ["--at", "r0001", "--up", "1"],
            2,
            "error[USAGE]: the plan of r0001 has the options of that run; other options have no effect on it",
        ),
        (
            ["--at", "r0001", "--set", "Mark=?"],
            2,
            "error[USAGE]: the plan of r0001 has the inputs of that run; `--set` and `--inputs` have no effect on it",
        ),
        (
            ["--at", "r0001", "--save", "x.json"],
            2,
            "error[USAGE]: the plan of an earlier run or of an assumption cannot be run, so it cannot be saved",
        ),
        (
            ["--assume", "Input:Mark=?", "--save", "x.json"],
            2,
            "error[USAGE]: the plan of an earlier run or of an assumption cannot be run, so it cannot be saved",
        ),
        (["--save", "no/such/folder.json"], 2, "error[FILE_MISSING]: `no/such/folder.json` cannot be written: "),
        (["--force", "Shout[0]"], 2, "error[NAME_INVALID]: `Shout[0]` is not a canonical ID: it has no kind"),
        (["--force", "Job:Shout"], 2, "error[UNKNOWN_REFERENCE]: `Job:Shout` names nothing in this workflow"),
    ],
)
def test_options_that_contradict_each_other_or_name_nothing_are_refused(
    tmp_path: Path, words: list[str], code: int, message: str
) -> None:
    folder = pairs(tmp_path)
    assert whyrun(folder, "run", "-q").code == 0
    answer = whyrun(folder, "plan", *words)
    assert (answer.code, answer.out) == (code, "")
    assert answer.err.startswith(message)
    assert not (folder / "x.json").exists()
