"""All runs are removed by hand: gc removes nothing if any trace of them is left."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from gc_lab import Past

from command_lab import CommandLab
from whyrun.errors import StateError
from whyrun.evidence.retention.gc import collectable, workflows_of
from whyrun.evidence.retention.prune import Selection, prune
from whyrun.log.journal import utc_now
from whyrun.log.runs import WorkflowState


def without_runs(past: Past, folder_too: bool) -> None:
    runs = past.opened().state.runs_dir
    shutil.rmtree(runs)
    if not folder_too:
        runs.mkdir()


def forget(state: WorkflowState) -> None:
    """All that tells of runs."""
    shutil.rmtree(state.index_dir, ignore_errors=True)
    state.lock_path.write_bytes(b"")


@pytest.mark.parametrize("folder_too", [False, True])
def test_gc_removes_nothing_and_verify_reports_the_same(past: Past, folder_too: bool) -> None:
    past.whyrun("plan")
    state = past.opened().state
    without_runs(past, folder_too)
    before = past.blobs()
    told = (
        f"error[LOG_DAMAGED] {state.runs_dir}: `past` had runs, but none of them exists any more\n"
        "   hint: restore them from a copy, or run it again. To discard all their results, delete the workflow's "
        f"folder, too: `{state.folder}`\n"
    )
    for words in (("gc",), ("gc", "--delete"), ("verify",)):
        answer = past.whyrun(*words)
        assert (answer.code, answer.out, answer.err) == (3, "", told), words
    assert past.blobs() == before
    shutil.rmtree(state.folder)  # the hint holds
    assert past.whyrun("gc", "--delete").code == 0
    assert past.blobs() == {}


@pytest.mark.parametrize("by", ["memo", "fold", "lock", "a tombstone"])
def test_each_trace_counts_for_itself(past: Past, by: str) -> None:
    state = past.opened().state
    if by == "a tombstone":
        prune(past.opened(), Selection(keep=2), utc_now)
    forget(state)
    if by in ("memo", "fold"):
        state.index_dir.mkdir()
        (state.index_dir / by).touch()
    elif by == "lock":
        state.lock_path.write_text('{"pid":1,"host":"h","started":"","synced":{"run":"r0005","seq":3}}\n')
    assert state.lost_all_runs() is False, "its runs are there"
    without_runs(past, folder_too=True)
    assert state.lost_all_runs()
    with pytest.raises(StateError) as refused:
        collectable(state.state_dir)
    (told,) = refused.value.diagnostics
    assert (told.code, told.file) == ("LOG_DAMAGED", str(state.runs_dir))
    assert [found.workflow for found in workflows_of(state.state_dir)] == ["past"]


def test_without_a_trace_the_workflow_counts_as_never_run(past: Past) -> None:
    state = past.opened().state
    forget(state)
    state.index_dir.mkdir()
    (state.index_dir / "sections").touch()  # made also before the first run
    without_runs(past, folder_too=False)
    assert not state.lost_all_runs()
    answer = past.whyrun("verify")
    assert (answer.code, answer.err) == (
        3,
        f"error[RUN_UNKNOWN] {state.state_dir}: there is nothing to verify: `past` has no runs in this folder\n"
        "   hint: run it first, or name the folder of its runs with `--state`\n",
    )
    assert past.whyrun("gc").code == 0
    Path(state.runs_dir).rmdir()
    assert workflows_of(state.state_dir) == []


def test_one_run_leaves_a_trace(tmp_path: Path) -> None:
    """Without a plan after it, which would leave an index."""
    (tmp_path / "workflow.yaml").write_text(
        "workflow: once\njobs: {A: {uses: shell, with: {run: 'echo paid > \"$out_T\"'}, outputs: {T: {type: text}}}}\n"
    )
    lab = CommandLab(tmp_path)
    assert lab.whyrun("run").code == 0
    state = tmp_path / ".whyrun"
    shutil.rmtree(state / "once" / "runs")
    shutil.rmtree(state / "once" / "index", ignore_errors=True)
    before = sorted((state / "store").glob("??/*"))
    answer = lab.whyrun("gc", "--delete")
    assert (answer.code, answer.err.splitlines()[0]) == (
        3,
        f"error[LOG_DAMAGED] {state}/once/runs: `once` had runs, but none of them exists any more",
    )
    assert sorted((state / "store").glob("??/*")) == before != []
