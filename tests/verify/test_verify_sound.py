"""Sound workflows: runs of every kind, the traces of a kill, a running run; and replays of plans."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from verify_lab import Tales, kill, whyrun

from forging import forge
from whyrun.evidence.verify.report import KEPT
from whyrun.evidence.verify.verify import verify
from whyrun.log.runs import WorkflowState

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
from fold import make_log  # bench/ is no package


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_runs_of_every_kind_are_sound_and_their_plans_are_reproduced(tales: Tales) -> None:
    before = contents(tales.root)
    answer = tales.verify("--replay", "all", "--json")
    found = answer.json
    checked = found.pop("checked")
    assert (answer.code, answer.err) == (0, "")
    assert found == {
        "ok": True,
        "workflow": "tales",
        "chain": tales.chain(),
        "problem_count": 0,
        "problems": [],
        "notes": [],
    }
    events = sum(len(tales.lines(f"r{number:04d}")) for number in range(1, 8))
    assert (checked["runs"], checked["events"], checked["plans"]) == (7, events, 5)
    assert contents(tales.root) == before, "verifying writes nothing"


def test_the_output_for_a_sound_workflow(tales: Tales) -> None:
    lines = tales.verify("r0004").out.splitlines()
    assert lines[0].startswith("tales is sound: 1 run, ")
    assert lines[1:] == [f"last chain: {json.loads(tales.lines('r0004')[-1])['chain']}"]


@pytest.mark.parametrize("run", ["r0001", "r0002", "r0003", "r0006", "r0007"])
def test_the_plan_of_one_run_is_recomputed(tales: Tales, run: str) -> None:
    answer = tales.verify(run)
    assert answer.code == 0
    assert answer.out.splitlines()[0].endswith(", 1 plan computed again")


def test_the_traces_of_a_kill_are_noted_and_are_not_damage(killed: Tales) -> None:
    answer = killed.verify()
    note = "note: r0006 was interrupted: as after a kill; the next run repairs it"
    assert (answer.code, answer.out.splitlines()[-1]) == (0, note)
    with killed.log("r0006").open("ab") as file:
        file.write(b'{"seq":7,"ts')
    answer = killed.verify()
    note = (
        "note: r0006 was interrupted, and its log ends in half a line (12 bytes): as after a kill; the next run "
        "repairs it"
    )
    assert (answer.code, answer.out.splitlines()[-1]) == (0, note)
    killed.word(1, "quick\n")
    assert whyrun(killed.root, "run", "--quiet").code == 0
    answer = killed.verify("--replay", "all", "--json")
    assert (answer.code, answer.json["notes"]) == (0, [])


def test_the_traces_of_a_killed_repair_are_not_damage(tales: Tales) -> None:
    """The lines of the repair are written over the half line; a kill right then leaves the rest of a longer one."""
    with tales.log("r0006").open("ab") as file:
        file.write(b'"a longer one"}')
    answer = tales.verify()
    note = "note: 15 bytes that a kill left follow the end of r0006; they are ignored"
    assert (answer.code, answer.out.splitlines()[-1]) == (0, note)


def test_a_running_run_is_noted_and_is_not_damage(tales: Tales) -> None:
    tales.word(1, "slow again\n")
    process = tales.start_slow_run()
    try:
        answer = tales.verify()
    finally:
        kill(process)
    note = f"note: r0008 is running (pid {process.pid}): its events so far are checked, its files are not"
    assert (answer.code, answer.out.splitlines()[-1]) == (0, note)


def test_nothing_to_verify_is_an_error(tmp_path: Path, tales: Tales) -> None:
    """A check in CI with a wrong path, or after the workflow was renamed, must not be green."""
    nothing = "there is nothing to verify: `{}` has no runs in this folder\n   hint: {}\n"
    answer = tales.verify("--state", str(tmp_path / "typo"))
    hint = "run it first, or name the folder of its runs with `--state`"
    told = f"error[RUN_UNKNOWN] {tmp_path / 'typo'}: {nothing.format('tales', hint)}"
    assert (answer.code, answer.out, answer.err) == (3, "", told)
    workflow = tales.root / "workflow.yaml"
    workflow.write_text(workflow.read_text().replace("workflow: tales", "workflow: stories", 1))
    answer = tales.verify()
    hint = "the folder has runs of `tales`"
    told = f"error[RUN_UNKNOWN] {tales.root / '.whyrun'}: {nothing.format('stories', hint)}"
    assert (answer.code, answer.out, answer.err) == (3, "", told)


def test_invalid_options_are_refused(tales: Tales) -> None:
    answer = tales.verify("r0001", "r0002")
    assert (answer.code, answer.err.splitlines()[0]) == (
        2, "error[USAGE]: `r0002` is one run too many: `verify` checks one run, or all"
    )  # fmt: skip
    answer = tales.verify("r0001", "--replay", "all")
    assert (answer.code, answer.err.splitlines()[0]) == (
        2, "error[USAGE]: with r0001, only the plan of that run is computed again"
    )  # fmt: skip
    answer = tales.verify("r0042")
    assert (answer.code, answer.err.splitlines()[0]) == (3, "error[RUN_UNKNOWN]: there is no run `r0042` of `tales`")


def test_a_plan_that_cannot_be_reproduced(tales: Tales) -> None:
    """Its snapshot is a sound blob, but another than the one it was made from: the chain is forged to say so."""
    other = tales.event("r0001", "plan_computed")["snapshot_sha256"]
    mine = tales.event("r0007", "plan_computed")["snapshot_sha256"]
    forge(tales.log("r0007"), mine, other)
    assert tales.verify().code == 0, "each part is as the log says"
    answer = tales.verify("r0007", "--json")
    assert answer.code == 3
    (problem,) = answer.json["problems"]
    computed = tales.event("r0007", "plan_computed")["plan_sha256"]
    start = f"the plan of r0007 is not reproduced: recorded is sha256:{computed}, computed sha256:"
    assert (problem["kind"], problem["run"], problem["event"]) == ("plan", "r0007", "plan_computed")
    assert problem["what"].startswith(start)


def test_the_damage_of_an_earlier_run_is_reported_for_that_run(tales: Tales) -> None:
    tales.rewrite("r0003", lambda lines: [*lines[:4], *lines[5:]])
    (problem,) = tales.verify("r0007", "--json").json["problems"]
    assert (problem["kind"], problem["run"], problem["line"]) == ("log", "r0003", 5)
    assert problem["what"] == "line 5 should be event 5 of r0003, and is event 6 of r0003"
    assert "hint: a damaged log, or a missing run: restore it from a copy" in tales.verify("r0007").out


def test_no_plan_is_computed_from_a_damaged_log(tales: Tales) -> None:
    tales.rewrite("r0003", lambda lines: [*lines[:4], *lines[5:]])
    found = tales.verify("--replay", "all", "--json").json
    assert found["checked"]["plans"] == 2
    assert found["notes"] == [
        f"the plan of {run} is not computed again: the log that it was made from is damaged"
        for run in ("r0003", "r0006", "r0007")
    ]


def test_a_long_log_is_read_in_blocks_and_its_problems_are_limited(tmp_path: Path) -> None:
    """Nothing that this log speaks of is there: one problem an artifact and one a cfg, beside those of plan, snapshot
    and manifest; the first thousand are kept."""
    steps = 12_500
    make_log(tmp_path / ".whyrun/chains", steps)
    found = verify(WorkflowState(tmp_path / ".whyrun", "chains"), tmp_path, lambda run: None)
    assert (found.checked.events, found.count, len(found.problems)) == (4 * steps + 4, 2 * steps + 3, KEPT)
    assert {problem.kind for problem in found.problems} == {"blob", "file"}
    assert found.chain is not None


def test_the_hint_holds_for_a_damaged_blob(tales: Tales) -> None:
    sha = tales.event("r0001", "artifact_available", "Artifact:Shout.Loud[7]")["sha256"]
    tales.spoil(sha)
    assert tales.verify().code == 3
    tales.blob(sha).unlink()
    assert whyrun(tales.root, "run", "--quiet").code == 0
    assert tales.event("r0008", "artifact_available", "Artifact:Shout.Loud[7]")["sha256"] == sha
    assert tales.verify("--replay", "all").code == 0


def test_the_hint_holds_for_a_damaged_run(tales: Tales) -> None:
    tales.rewrite("r0003", lambda lines: [*lines[:2], *lines[3:]])
    assert tales.verify().code == 3
    for run in ("r0003", "r0004", "r0005", "r0006", "r0007"):
        (tales.runs / run).rename(tales.root / run)
    assert whyrun(tales.root, "run", "--quiet").code == 0
    assert sorted(run.name for run in tales.runs.iterdir()) == ["r0001", "r0002", "r0003"]
    assert tales.verify("--replay", "all").code == 0
