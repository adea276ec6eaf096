from __future__ import annotations

import errno
import hashlib
import json
import os
from datetime import UTC, datetime

import pytest

from whyrun import disk
from whyrun.artifacts.store import Store
from whyrun.evidence.composition.run_folder import finish_run
from whyrun.evidence.run_directory import Metric, RunDirectory, source_files, suffix_of
from whyrun.log.events import (
    ArtifactAvailable,
    PlanComputed,
    RunComplete,
    RunStart,
    StepComplete,
    StepFailed,
    StepStart,
)
from whyrun.log.lock import RunLock
from whyrun.log.repair import repair
from whyrun.log.runs import WorkflowState, create_run

MUST_EXIST = [
    "commands.jsonl", "debug.log", "events.jsonl", "manifest.yaml", "metrics.jsonl", "plan.json", "source",
    "status.json", "whyrun.log",
]  # fmt: skip


def clock():
    return datetime(2026, 6, 23, 12, 0, tzinfo=UTC)


@pytest.fixture
def state(tmp_path):
    return WorkflowState(tmp_path / ".whyrun", "wf")


@pytest.fixture
def store(state):
    return Store(state.store)


@pytest.fixture
def begun(state):
    """A run that has begun, with the files that it begins with."""

    def begin(mode="run"):
        start = RunStart(
            workflow="wf", workflow_sha256="", mode=mode, options={}, backend="local", engine_version="0", host="h",
            pid=1, previous_chain="",
        )  # fmt: skip
        files = {"manifest.yaml": b'{"jobs":{}}\n', **source_files({"workflow.yaml": "workflow: wf\n"})}
        if mode == "run":
            files["plan.json"] = b'{"version":1}\n'
        run, journal = create_run(state, start, clock, files)
        journal.append(PlanComputed(plan_sha256="", snapshot_sha256="", planned=3, layers=1, log_position=None))
        return run, journal

    return begin


def start(journal, step):
    journal.append(StepStart(step_id=step, driver="shell", attempt=1, fingerprint="f", bindings={}))


def make(journal, step, artifact, sha, type="file", path=None):
    journal.append(ArtifactAvailable(artifact=artifact, step_id=step, sha256=sha, size=1, type=type, path=path))


def complete(journal, step):
    journal.append(StepComplete(step_id=step, driver="shell", output_dir="artifacts", duration=1.0, status="EXECUTES"))


def test_a_finished_run_has_every_file_and_links_into_the_store(begun, store, state):
    run, journal = begun()
    image, story = store.put_bytes(b"image"), store.put_bytes(b'{"a":1}')
    for step, artifact, sha, type, path in (
        ("Job:Image[0]", "Artifact:Image.Picture[0]", image, "image", "out/picture-0.png"),
        ("Job:Intro/Script", "Artifact:Intro/Script.Story", story, "json", None),
    ):
        start(journal, step)
        make(journal, step, artifact, sha, type, path)
        complete(journal, step)
    make(journal, "Job:Intro/Script", "Artifact:Intro/Script.Story.a", hashlib.sha256(b"1").hexdigest(), "integer")
    journal.append(RunComplete(state="succeeded", counts={}, duration=1.0))
    journal.close()

    folder = RunDirectory(run.path)
    assert folder.missing_files() == ["commands.jsonl", "debug.log", "metrics.jsonl", "status.json", "whyrun.log"]
    status = finish_run(folder, store)
    assert folder.missing_files() == []
    assert sorted(os.listdir(run.path)) == sorted([*MUST_EXIST, "artifacts"])
    assert json.loads(folder.status.read_bytes()) == status
    assert (status["ok"], status["steps_completed"], status["steps_total"]) == (True, 2, 3)
    assert (run.path / "source" / "workflow.yaml").read_text() == "workflow: wf\n"

    links = {
        str(p.relative_to(folder.artifacts)): os.readlink(p) for p in folder.artifacts.rglob("*") if p.is_symlink()
    }
    assert links == {
        "Image%5B0%5D/Picture.png": f"../../../../../store/{image[:2]}/{image[2:]}",
        "Intro%2FScript/Story.json": f"../../../../../store/{story[:2]}/{story[2:]}",
    }
    assert (folder.artifacts / "Image%5B0%5D" / "Picture.png").read_bytes() == b"image"
    moved = state.state_dir.rename(state.state_dir.with_name("moved"))
    assert (moved / "wf/runs/r0001/artifacts/Intro%2FScript/Story.json").read_bytes() == b'{"a":1}'


def test_a_folder_is_linked_file_by_file(begun, store, tmp_path):
    made = tmp_path / "made"
    (made / "sub" / "empty").mkdir(parents=True)
    (made / "a").write_bytes(b"A")
    (made / "sub" / "b").write_bytes(b"B")
    run, journal = begun()
    start(journal, "Job:D")
    make(journal, "Job:D", "Artifact:D.Out", store.put_tree(made)[0], "directory", "out/d.v1")
    complete(journal, "Job:D")
    journal.close()
    finish_run(RunDirectory(run.path), store)
    out = run.path / "artifacts" / "D" / "Out"
    assert (out / "a").is_symlink()
    assert (out / "a").read_bytes() == b"A"
    assert (out / "sub" / "b").read_bytes() == b"B"
    assert (out / "sub" / "empty").is_dir()


def test_what_failed_attempts_made_is_not_linked(begun, store):
    run, journal = begun()
    first, second = store.put_bytes(b"1"), store.put_bytes(b"2")
    for step, sha in (("Job:A", first), ("Job:A", second), ("Job:B", first)):
        start(journal, step)
        make(journal, step, f"Artifact:{step[4:]}.Out", sha)
        if sha == first:
            journal.append(
                StepFailed(
                    step_id=step,
                    driver="d",
                    error="",
                    error_type="E",
                    traceback="",
                    duration=0.0,
                    status="FAILED",
                    will_retry=step == "Job:A",
                )
            )
        else:
            complete(journal, step)
    start(journal, "Job:C")
    make(journal, "Job:C", "Artifact:C.Out", first)
    journal.close()
    finish_run(RunDirectory(run.path), store)
    assert os.listdir(run.path / "artifacts") == ["A"]
    assert (run.path / "artifacts" / "A" / "Out").read_bytes() == b"2"


def test_finishing_twice_gives_the_same_folder(begun, store):
    run, journal = begun()
    start(journal, "Job:A")
    make(journal, "Job:A", "Artifact:A.Out", store.put_bytes(b"1"))
    complete(journal, "Job:A")
    journal.close()

    def contents():
        return {
            str(p): os.readlink(p) if p.is_symlink() else p.read_bytes() for p in run.path.rglob("*") if not p.is_dir()
        }

    finish_run(RunDirectory(run.path), store)
    before = contents()
    (run.path / "artifacts" / "A" / "Out").unlink()
    (run.path / "artifacts" / "A" / "Out").symlink_to("wrong")
    (run.path / "status.json").unlink()
    finish_run(RunDirectory(run.path), store)
    assert contents() == before


@pytest.mark.parametrize("torn", [b"", b'{"seq":6,"ts"'])
def test_the_folder_of_a_killed_run_is_completed_by_the_repair(begun, store, state, torn):
    run, journal = begun()
    start(journal, "Job:A")
    make(journal, "Job:A", "Artifact:A.Out", store.put_bytes(b"1"))
    complete(journal, "Job:A")
    start(journal, "Job:B")
    journal.close()
    with open(run.events_path, "ab") as file:
        file.write(torn)
    with RunLock(state.lock_path, clock) as lock:
        report = repair(state, lock, clock, lambda found: finish_run(RunDirectory(found.path), store))
    assert (report.interrupted, report.cut_bytes) == (("Job:B",), len(torn))
    assert sorted(os.listdir(run.path)) == sorted([*MUST_EXIST, "artifacts"])
    assert (run.path / "artifacts" / "A" / "Out").read_bytes() == b"1"
    assert (run.path / "manifest.yaml").read_bytes() == b'{"jobs":{}}\n'
    assert json.loads((run.path / "status.json").read_bytes()) == {
        "ok": False,
        "state": "interrupted",
        "exit_code": 130,
        "steps_total": 3,
        "steps_completed": 1,
        "steps_failed": 0,
        "steps_skipped": 0,
        "steps_blocked": 0,
        "steps_interrupted": 1,
        "started": "2026-06-23T12:00:00.000000Z",
        "ended": "2026-06-23T12:00:00.000000Z",
        "backend": "local",
        "error": "Job:B: Interrupted: the run ended before this step did",
    }


@pytest.mark.parametrize("mode", ["adopt", "compare"])
def test_runs_that_execute_no_plan_have_no_plan_file(begun, store, mode):
    run, journal = begun(mode)
    journal.append(RunComplete(state="succeeded", counts={}, duration=0.0))
    journal.close()
    folder = RunDirectory(run.path)
    finish_run(folder, store)
    assert sorted(os.listdir(run.path)) == [name for name in MUST_EXIST if name != "plan.json"]
    assert folder.missing_files(mode) == []


def test_what_is_lost_is_said_to_be_lost_and_not_made_up(begun, store):
    run, journal = begun()
    journal.close()
    (run.path / "plan.json").unlink()
    (run.path / "manifest.yaml").unlink()
    finish_run(RunDirectory(run.path), store)
    assert json.loads((run.path / "plan.json").read_bytes()) == {"lost": "this run has no stored plan"}
    assert json.loads((run.path / "manifest.yaml").read_bytes()) == {"lost": "this run has no manifest"}


def test_files_of_steps_are_named_after_their_ids(tmp_path):
    folder = RunDirectory(tmp_path)
    assert folder.write_cfg("learn[asia][7]", b"{}") == "cfg/learn%5Basia%5D%5B7%5D.json"
    assert folder.write_cfg("learn[asia][7]", b"[]") == "cfg/learn%5Basia%5D%5B7%5D.json"
    assert (tmp_path / "cfg" / "learn%5Basia%5D%5B7%5D.json").read_bytes() == b"[]"
    assert folder.step_dir("Intro/A") == tmp_path / "steps" / "Intro%2FA"
    assert not (tmp_path / "steps").exists()


def test_commands_and_metrics_are_appended_line_by_line(tmp_path):
    folder = RunDirectory(tmp_path)
    folder.append_commands([])
    assert not folder.commands.exists()
    folder.append_commands([{"cmd": "exec_step"}, {"cmd": "stop"}])
    folder.append_commands([{"cmd": "again"}])
    assert folder.commands.read_bytes() == b'{"cmd":"exec_step"}\n{"cmd":"stop"}\n{"cmd":"again"}\n'
    folder.append_metrics([Metric("2026-01-01T00:00:00.000000Z", "r0001", "rows_read", 3.0, "rows", "Job:A")])
    assert list(json.loads(folder.metrics.read_bytes())) == ["ts", "session", "metric", "value", "unit", "step_id"]


def test_half_a_line_that_could_not_be_removed_goes_before_the_next(tmp_path, monkeypatch):
    """A disk may refuse the rest of a line, and then to remove the half of it that it took."""
    folder = RunDirectory(tmp_path)
    folder.append_commands([{"cmd": "stop"}])

    def failing(point, call, *given):
        if point == "run.write":
            call(given[0], given[1][:5])
        if point in ("run.write", "run.cut"):
            raise OSError(errno.EIO, "it failed")
        return call(*given)

    with monkeypatch.context() as patched:
        patched.setattr(disk, "hook", failing)
        for _ in range(2):
            with pytest.raises(OSError, match="it failed"):
                folder.append_commands([{"cmd": "again"}])
            assert folder.commands.read_bytes() == b'{"cmd":"stop"}\n{"cmd'
    folder.append_commands([{"cmd": "again"}])
    assert folder.commands.read_bytes() == b'{"cmd":"stop"}\n{"cmd":"again"}\n'


def test_sources_stay_below_their_folder(tmp_path):
    assert source_files({"a/w.yaml": "ä", "./b.yaml": b"b", "../up.yaml": "u", "/abs.yaml": "x"}) == {
        "source/a/w.yaml": "ä".encode(),
        "source/b.yaml": b"b",
        "source/..%2Fup.yaml": b"u",
        "source/%2Fabs.yaml": b"x",
    }


def test_suffixes():
    assert suffix_of("image", "out/a.b/frame-1.png") == ".png"
    assert [suffix_of(t, None) for t in ("json", "text", "image", "file")] == [".json", ".txt", "", ""]
    assert suffix_of("directory", "out/d.v1") == ""
