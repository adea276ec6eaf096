"""`whyrun parity RUN RUN`: options, output, exit codes and refusals."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from parity_lab import Talks, run

from project_lab import Lab

RUN = ".whyrun/talk/runs/r0001"


@pytest.fixture
def two(talks: Talks) -> tuple[Lab, Lab]:
    """Two projects, alike, each after one run from an empty state."""
    labs = talks.project(), talks.project()
    for lab in labs:
        lab.succeed()
    return labs


def path_to(lab: Lab, other: Lab) -> str:
    return f"../{other.root.name}/{RUN}" if other is not lab else RUN


def plain(text: str) -> str:
    """Without what is measured, and with hashes as one word."""
    text = re.sub(r"(duration|cpu|peak memory) +\S+ → \S+", r"\1 …", text)
    return re.sub(r"\b[0-9a-f]{8}…", "HASH", text)


MEASURED = """\
measured, but not compared
  backend      local → local
  duration …
  cpu …
  peak memory …
"""


def test_equal_runs(two: tuple[Lab, Lab]) -> None:
    here, there = two
    done = run(here.root, "parity", "r0001", path_to(here, there))
    assert (done.returncode, done.stderr) == (0, "")
    assert plain(done.stdout) == (
        "r0001 and ../project2/.whyrun/talk/runs/r0001 are equal: "
        "12 events, 1 cfg file, 1 command, 3 artifacts, 1 count, 13 files\n" + MEASURED
    )


def test_different_runs_have_a_headline_and_every_difference(talks: Talks) -> None:
    here, there = talks.project(), talks.project(table="id,word\n1,a\n2,c\n", rows=3, tasks=["bye"], print="sung")
    here.succeed()
    there.succeed()
    done = run(here.root, "parity", RUN + "/", path_to(here, there))
    assert (done.returncode, done.stderr) == (1, "")
    task = 'task Job:Talk: only in the second (message "bye ann", status "EXECUTES")'
    assert plain(done.stdout).splitlines(keepends=True) == [
        f".whyrun/talk/runs/r0001/ and ../project2/.whyrun/talk/runs/r0001 differ: {task}\n",
        "3 differences\n",
        f"  event     {task}\n",
        "  artifact  Artifact:Talk.Table: 1 cell changed\n",
        "            2 rows, 2 columns\n",
        "            row 2, `word`: b → c\n",
        "  metric    rows_written Job:Talk: value 2 → 3\n",
        "different, but not counted as differences\n",
        "  steps/Talk/stdout.log: HASH → HASH (printed text may contain times and paths)\n",
        *MEASURED.splitlines(keepends=True),
    ]


def test_json_holds_all_of_it(talks: Talks) -> None:
    here, there = talks.project(), talks.project(fail="no wine")
    here.succeed()
    there.run()
    done = run(here.root, "parity", "r0001", path_to(here, there), "--json")
    assert (done.returncode, done.stderr) == (1, "")
    found = json.loads(done.stdout)
    assert list(found) == ["compared", "differences", "equal", "headline", "measured", "new", "not_judged", "old"]
    assert (found["old"], found["new"], found["equal"]) == ("r0001", path_to(here, there), False)
    assert found["headline"] == found["differences"][0]
    headline = found["headline"]
    assert {**headline, "new": {**headline["new"], "traceback": ""}} == {
        "kind": "event",
        "name": "step_failed Job:Talk",
        "new": {
            "driver": "python",
            "error": "no wine",
            "error_type": "ValueError",
            "status": "FAILED",
            "traceback": "",
            "will_retry": False,
        },
    }
    assert headline["new"]["traceback"] == "ValueError: no wine"
    assert found["differences"][-1] == {
        "kind": "status", "name": "status.json", "field": "steps_failed", "old": 0, "new": 1,
    }  # fmt: skip
    assert len(found["differences"]) == 16
    assert found["compared"]["artifacts"] == [3, 0]
    for side in ("old", "new"):
        measured = found["measured"][side]
        assert (measured["run"], measured["backend"], list(measured["step_ms"])) == ("r0001", "local", ["Job:Talk"])
        assert measured["duration"] > 0


def test_runs_of_one_state_by_their_names_with_a_note(talks: Talks) -> None:
    lab = talks.project()
    lab.succeed()
    lab.succeed(force=["Job:Talk"])
    done = run(lab.root, "parity", "r0001", "r0002")
    assert done.returncode == 1
    assert done.stdout.splitlines()[0] == (
        'r0001 and r0002 differ: run_start: options.force [] → ["Job:Talk"]'
    )  # fmt: skip
    assert done.stderr == (
        "note: `r0002` did not start from an empty state; that alone makes plans and inputs differ\n"
    )


def test_another_workflow_file_and_state(talks: Talks) -> None:
    lab = talks.project()
    shutil.copy(lab.root / "workflow.yaml", lab.root / "flow.yaml")
    for state in ("one", "two"):
        assert run(lab.root, "run", "--quiet", "flow.yaml", "--state", state).returncode == 0
    done = run(lab.root, "parity", "r0001", "two/talk/runs/r0001", "flow.yaml", "--state", "one")
    assert (done.returncode, done.stderr) == (0, "")
    # Two paths need no workflow file at all.
    done = run(lab.root.parent, "parity", "project1/one/talk/runs/r0001", "project1/two/talk/runs/r0001")
    assert (done.returncode, done.stderr) == (0, "")


# --- refused: exit 2 ---------------------------------------------------------------------------------------------


def test_a_run_and_itself(two: tuple[Lab, Lab]) -> None:
    done = run(two[0].root, "parity", "r0001", RUN)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        f"error[USAGE]: `r0001` and `{RUN}` are the same run: comparing them proves nothing",
        "   hint: run the workflow twice, each time from an empty state (`--state DIR`), and compare these runs",
    ]


def test_a_run_and_its_copy(two: tuple[Lab, Lab]) -> None:
    """Also where one of them was changed afterwards: neither is a run of its own."""
    lab = two[0]
    shutil.copytree(lab.root / ".whyrun", lab.root / "copy", symlinks=True)
    (lab.root / "copy/talk/runs/r0001/debug.log").unlink()
    done = run(lab.root, "parity", "r0001", "copy/talk/runs/r0001")
    assert (done.returncode, done.stdout) == (2, "")
    assert "`r0001` and `copy/talk/runs/r0001` are one run and a copy of it" in done.stderr


def test_words_that_nobody_would_look_at(two: tuple[Lab, Lab]) -> None:
    """Two paths need neither a workflow file nor a state."""
    here, there = two
    for extra, named in ((["workflow.yaml"], "`workflow.yaml`"), (["--state", "here"], "`--state here`")):
        done = run(here.root, "parity", RUN, path_to(here, there), *extra)
        assert (done.returncode, done.stdout) == (2, "")
        said = f"error[USAGE]: both runs are paths of folders, so {named} has no effect"
        assert done.stderr.splitlines()[0] == said


def test_names_that_are_no_text(two: tuple[Lab, Lab]) -> None:
    """A step may leave anything in its scratch folder."""
    here, there = two
    folder = there.root / RUN / "steps/Talk/scratch/work"
    folder.mkdir(parents=True)
    Path(os.fsdecode(bytes(folder) + b"/a\nb\xff")).write_text("")
    done = run(here.root, "parity", "r0001", path_to(here, there))
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines()[2] == "  file      steps/Talk/scratch/work/a\\nb\\xff: only in the second"
    found = json.loads(run(here.root, "parity", "r0001", path_to(here, there), "--json").stdout)
    assert [d["name"] for d in found["differences"]] == ["steps/Talk/scratch/work/a\nb\\xff"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["r0001"], "error[USAGE]: missing argument `RUN`"),
        (["r0001", "nowhere"], "error[FILE_MISSING]: there is no run folder `nowhere`"),
        (["r0001", "out"], "error[FILE_MISSING]: `out` is not a run folder: it has no `events.jsonl`"),
        (["r0001", "r0001", "gone.yaml"], "error[FILE_MISSING]: there is no workflow file `gone.yaml`"),
        (["r0001", "r0001", "workflow.yaml", "more"], "error[USAGE]: got unexpected extra argument (more)"),
    ],
)
def test_words_that_make_no_sense(two: tuple[Lab, Lab], words: list[str], message: str) -> None:
    done = run(two[0].root, "parity", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[0] == message


# --- unfinished or damaged: exit 3 -------------------------------------------------------------------------------


def refused(two: tuple[Lab, Lab]) -> str:
    """Compare, from either side; the first line of what is said, with the second project's folder left out."""
    here, there = two
    said = []
    for words in (("r0001", path_to(here, there)), (path_to(here, there), "r0001")):
        done = run(here.root, "parity", *words)
        assert (done.returncode, done.stdout) == (3, "")
        said.append(done.stderr.splitlines()[0].replace(f"../{there.root.name}/{RUN}/", ""))
    assert said[0] == said[1]
    return said[0]


def test_a_run_that_does_not_exist(two: tuple[Lab, Lab]) -> None:
    done = run(two[0].root, "parity", "r0001", "r0002")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.splitlines()[0] == "error[RUN_UNKNOWN]: there is no run `r0002` of `talk`"


def test_a_run_without_an_end(two: tuple[Lab, Lab]) -> None:
    log = two[1].root / RUN / "events.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:-1]))
    said = refused(two)
    assert said == (
        "error[LOG_INCOMPLETE] events.jsonl: `r0001` has no `run_complete`: it is still running, or was killed"
    )


def test_a_run_without_a_beginning(two: tuple[Lab, Lab]) -> None:
    (two[1].root / RUN / "events.jsonl").write_text("")
    assert refused(two) == "error[LOG_INCOMPLETE] events.jsonl: `r0001` has no `run_start`"


def test_an_event_that_was_changed_afterwards(two: tuple[Lab, Lab]) -> None:
    """Whoever makes the log say the same does not get it past the chain."""
    two[1].edit(f"{RUN}/events.jsonl", '"message":"hello ann"', '"message":"hallo ann"')
    changed = r"error\[LOG_DAMAGED\] events.jsonl:\d+: the line, or the one before it, was changed .*"
    assert re.fullmatch(changed, refused(two))


def test_a_broken_line(two: tuple[Lab, Lab]) -> None:
    two[1].edit(f"{RUN}/events.jsonl", '"message":"hello ann"', '"message":hello')
    assert re.match(r"error\[LOG_DAMAGED\] events.jsonl:\d+: the line is broken", refused(two))


def test_a_cfg_that_was_changed_afterwards(two: tuple[Lab, Lab]) -> None:
    cfg = two[1].root / RUN / "cfg/Talk.json"
    cfg.write_text(cfg.read_text() + " ")
    assert re.match(r"error\[STORE_DAMAGED\] cfg/Talk.json: the file does not match line \d+ of the log", refused(two))


def test_artifact_bytes_that_are_not_what_the_log_says(two: tuple[Lab, Lab]) -> None:
    """The log alone would find them equal."""
    blob = (two[1].root / RUN / "artifacts/Talk/Table.csv").resolve()
    blob.chmod(0o644)
    blob.write_text("id,word\n1,a\n2,B\n")
    assert refused(two).startswith("error[STORE_DAMAGED]")


def test_metrics_and_a_status_that_cannot_be_read(two: tuple[Lab, Lab]) -> None:
    metrics = two[1].root / RUN / "metrics.jsonl"
    whole = metrics.read_text()
    metrics.write_text("{}\n" + whole)
    assert re.match(r"error\[LOG_DAMAGED\] metrics.jsonl:1: this line is not a metric", refused(two))
    metrics.write_text(whole)
    (two[1].root / RUN / "status.json").write_text("fine")
    assert re.match(r"error\[LOG_DAMAGED\] status.json: the file is not a status", refused(two))


def test_a_run_of_another_folder_is_found_from_anywhere(two: tuple[Lab, Lab], tmp_path: Path) -> None:
    words = [str(lab.root / RUN) for lab in two]
    assert run(tmp_path, "parity", *words).returncode == 0
