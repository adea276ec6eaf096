"""Each kind of problem has a hint. Each test follows the hint: then all is sound, and only the jobs run again that the
hint names."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from verify_lab import Tales, whyrun

from whyrun.evidence.verify.report import SOURCE_GONE
from whyrun.log.runs import LAST_LOST_HINT

LOG = (
    "a damaged log, or a missing run: restore it from a copy; without one, move the run's folder and all later "
    "ones away, and their jobs run again"
)
LOST_END = (
    "restore `events.jsonl` from a copy; without one, delete the run's `status.json`: the run then counts as "
    "interrupted where its log ends now, and what followed runs again"
)
TAIL = "bytes after the end of a log: cut them off, for example with `truncate`; no event is lost"
STATUS = "`status.json`: delete it, and the next run writes it again from the log. No job runs again"
NOT_WHOLE = (
    "a missing file of a run folder: restore it from a copy; without one, delete the run's `status.json`, and the next "
    "run creates an empty file. No job runs again"
)
FILE = (
    "`manifest.yaml` and `cfg/`: restore them from a copy. They cannot be made again, and no job needs them: without "
    "a copy it is reported until the run is pruned (`whyrun runs prune`), and nothing else is affected"
)
PLAN = "`plan.json`: `whyrun plan --at RUN --json` prints it again, to the byte, for that run"
BLOB = (
    "snapshots, long lists and saved files: restore the blob from a copy. It cannot be made again, and no job needs "
    "it: without a copy, that past plan or file cannot be shown, and nothing else is affected"
)
ARTIFACT = (
    "artifacts: restore the blob from a copy; without one, delete it if it has other bytes: the next run takes the "
    "published file, or runs the job again"
)
NOTHING_TO_DO = 7  # runs: no job runs again, so no run is made


def hints(tales: Tales) -> list[str]:
    answer = tales.verify()
    assert answer.code == 3
    return [line.removeprefix("hint: ") for line in answer.out.splitlines() if line.startswith("hint: ")]


def runs_after_a_run(tales: Tales) -> int:
    assert whyrun(tales.root, "run", "--quiet").code == 0
    return len(list(tales.runs.iterdir()))


@pytest.mark.parametrize("run", ["r0002", "r0007"])
def test_a_broken_status(tales: Tales, run: str) -> None:
    status = tales.runs / run / "status.json"
    whole = status.read_bytes()
    status.write_text("{")
    assert hints(tales) == [STATUS]
    status.unlink()
    assert runs_after_a_run(tales) == NOTHING_TO_DO
    assert status.read_bytes() == whole
    assert tales.verify().code == 0


@pytest.mark.parametrize("name", ["whyrun.log", "debug.log", "metrics.jsonl", "commands.jsonl"])
def test_a_file_of_a_run_folder_that_is_gone(tales: Tales, name: str) -> None:
    path = tales.runs / "r0003" / name
    path.unlink()
    assert hints(tales) == [NOT_WHOLE]
    (tales.runs / "r0003/status.json").unlink()
    assert runs_after_a_run(tales) == NOTHING_TO_DO
    assert path.exists()
    assert tales.verify().code == 0


def test_lost_workflow_files_of_a_run_affect_nothing_else(tales: Tales) -> None:
    shutil.rmtree(tales.runs / "r0003" / "source")
    assert hints(tales) == [SOURCE_GONE]
    (tales.runs / "r0003/status.json").unlink()
    assert runs_after_a_run(tales) == NOTHING_TO_DO
    assert hints(tales) == [SOURCE_GONE]


def test_a_lost_manifest_and_cfg_affect_nothing_else(tales: Tales) -> None:
    (tales.runs / "r0001/cfg/Join.json").unlink()
    (tales.runs / "r0003/manifest.yaml").write_text("{}")
    assert hints(tales) == [FILE]
    assert runs_after_a_run(tales) == NOTHING_TO_DO
    assert hints(tales) == [FILE]


@pytest.mark.parametrize("damage", ["gone", "changed"])
def test_a_plan_is_printed_again(tales: Tales, damage: str) -> None:
    path = tales.runs / "r0003/plan.json"
    whole = path.read_bytes()
    path.unlink() if damage == "gone" else path.write_text("{}")
    assert hints(tales) == [PLAN]
    printed = whyrun(tales.root, "plan", "--at", "r0003", "--json").out
    assert printed.encode() == whole
    path.write_text(printed)
    assert tales.verify().code == 0


@pytest.mark.parametrize("run", ["r0003", "r0007"])
def test_bytes_after_the_end_of_a_log(tales: Tales, run: str) -> None:
    whole = tales.log(run).read_bytes()
    tales.log(run).write_bytes(whole + b'{"seq":')
    assert hints(tales) == [TAIL]
    with tales.log(run).open("r+b") as file:
        file.truncate(len(whole))
    assert tales.verify().code == 0
    assert runs_after_a_run(tales) == NOTHING_TO_DO


def test_lost_blobs_of_snapshots_and_lists_stop_no_job(tales: Tales) -> None:
    for sha in (
        tales.event("r0003", "file_displaced")["sha256"],
        tales.event("r0001", "step_start", "Job:Join")["bindings"]["parts"]["blob"],
        tales.event("r0007", "plan_computed")["snapshot_sha256"],
    ):
        tales.blob(sha).unlink()
    assert hints(tales) == [BLOB]
    assert runs_after_a_run(tales) == NOTHING_TO_DO
    tales.word(5, "other\n")
    assert runs_after_a_run(tales) == NOTHING_TO_DO + 1


def test_problems_of_several_kinds_have_a_hint_each_once_and_in_their_order(tales: Tales) -> None:
    for number in (7, 8):
        tales.spoil(tales.event("r0001", "artifact_available", f"Artifact:Shout.Loud[{number}]")["sha256"])
    tales.rewrite("r0003", lambda lines: [*lines[:2], *lines[3:]])
    (tales.runs / "r0004/status.json").write_text("{}")
    shutil.rmtree(tales.runs / "r0005")
    assert hints(tales) == [ARTIFACT, LOG, STATUS]
    assert "hint" not in str(tales.verify("--json").json["problems"])


def test_a_log_whose_end_was_cut_off_costs_only_what_was_cut_off(tales: Tales) -> None:
    (tales.runs / "r0007").rename(tales.root / "r0007")
    before = tales.event("r0006", "run_complete")["seq"]
    tales.rewrite("r0006", lambda lines: lines[: before - 1])
    assert hints(tales) == [LOST_END, LAST_LOST_HINT]
    (tales.runs / "r0006/status.json").unlink()
    assert runs_after_a_run(tales) == NOTHING_TO_DO
    assert [event["step_id"] for event in tales.events("r0007", "step_start")] == ["Job:Shout[1]", "Job:Join"]
    assert tales.verify("--replay", "all").code == 0


# --- the same, by the run ----------------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


COMMANDS = (("run", "--quiet"), ("compare", "Job:Shout[2]"), ("adopt", "Artifact:Join.All", "mine.txt"))


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_a_run_that_had_ended_is_not_taken_for_a_killed_one(tales: Tales, words: tuple[str, ...]) -> None:
    """The proof of the damage stays, and nothing is paid for again."""
    (tales.root / "mine.txt").write_text("another\n")
    tales.rewrite("r0007", lambda lines: lines[:6])
    before = contents(tales.runs)
    assert whyrun(tales.root, "plan").code == 0, "plans are made from the log alone"
    answer = whyrun(tales.root, *words)
    assert (answer.code, answer.out) == (3, "")
    assert answer.err == (
        f"error[LOG_DAMAGED] {tales.log('r0007')}:6: the log has no `run_complete`, although `status.json`, which is "
        f"written after it, exists: its end was cut off\n   hint: {LOST_END}\n"
    )
    assert contents(tales.runs) == before
    assert tales.verify().code == 3
    assert whyrun(tales.root, "gc", "--delete").code == 3
