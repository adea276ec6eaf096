"""How a run begins and which runs there are, down to the order in which it reaches the disk."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from whyrun import disk
from whyrun.errors import InvalidError, StateError
from whyrun.log.events import DAMAGE_HINT, RunStart
from whyrun.log.journal import FIRST_CHAIN, Clock
from whyrun.log.runs import (
    LAST_LOST_HINT,
    RunRef,
    WorkflowState,
    create_run,
    log_without_start,
    missing_run,
    run_name,
)


@pytest.fixture
def hooked() -> Iterator[Callable[[Any], None]]:
    def put(hook: Any) -> None:
        disk.hook = hook

    yield put
    disk.hook = None


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def diagnosed(refused: pytest.ExceptionInfo[Any]) -> tuple[str, str, str | None, str | None]:
    (told,) = refused.value.diagnostics
    return told.code, told.message, told.file, told.hint


# --- where things stand ------------------------------------------------------------------------------------------


def test_the_places_of_a_workflow(tmp_path: Path) -> None:
    state = WorkflowState(tmp_path, "wf")
    assert {name: str(getattr(state, name).relative_to(tmp_path)) for name in (
        "folder", "runs_dir", "lock_path", "index_dir", "store", "tombstones_path", "store_lock", "tmp",
        "scratch", "pruned_folders",
    )} == {
        "folder": "wf", "runs_dir": "wf/runs", "lock_path": "wf/lock", "index_dir": "wf/index", "store": "store",
        "tombstones_path": "wf/pruned.jsonl", "store_lock": "store.lock", "tmp": "tmp",
        "scratch": "tmp/wf.scratch", "pruned_folders": "tmp/wf.pruned",
    }  # fmt: skip
    assert list(tmp_path.iterdir()) == [], "nothing is created by asking"
    run = RunRef("r0001", str(tmp_path), 1)
    assert (run.path, run.events_path) == (tmp_path, tmp_path / "events.jsonl")
    run.events_path.write_bytes(b"12345")
    assert run.status().st_size == 5


@pytest.mark.parametrize("name", ["store", "stat-cache", "tmp", "", ".", "..", "a/b", "/"])
def test_a_name_that_would_stand_elsewhere_is_refused_with_those_that_are_taken(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidError) as refused:
        WorkflowState(tmp_path, name)
    assert diagnosed(refused) == (
        "NAME_INVALID",
        f"a workflow cannot be called `{name}`: whyrun uses this name for its own state",
        None,
        "choose another name; not `actions-cache`, `environments`, `stat-cache`, `store`, `tmp`",
    )


# --- which runs there are ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["r1", "r0000", "r00001", "r01000", "r000"])
def test_what_only_looks_like_a_run_is_named(state: WorkflowState, name: str) -> None:
    for each in ("r0001", name):
        (state.runs_dir / each).mkdir(parents=True)
    with pytest.raises(StateError) as refused:
        state.runs()
    assert diagnosed(refused) == (
        "LOG_DAMAGED",
        f"`{name}` looks like the name of a run, but is not a valid one",
        str(state.runs_dir / name),
        "runs are r0001, r0002, …; rename it back, or move it away",
    )


def test_what_does_not_look_like_a_run_is_none(state: WorkflowState) -> None:
    for name in ("r", "rx", "r0002x", "x0002", "0002", "R0002", "r-1", "r0001"):
        (state.runs_dir / name).mkdir(parents=True)
    assert state.runs() == [RunRef("r0001", f"{state.runs_dir}/r0001", 1)]


def test_before_the_first_run_there_is_nothing_to_continue(state: WorkflowState) -> None:
    assert (state.runs_and_tombstones(), state.next_run_name(), state.last_chain()) == (([], []), "r0001", FIRST_CHAIN)
    with pytest.raises(StateError) as refused:
        state.run("r0001")
    assert diagnosed(refused) == (
        "RUN_UNKNOWN", "there is no run `r0001` of `then-and-now`", None, "this workflow has not run yet"
    )  # fmt: skip


def runs(*numbers: int) -> list[RunRef]:
    return [RunRef(run_name(number), "", number) for number in numbers]


@pytest.mark.parametrize(
    ("numbers", "through", "missing"),
    [
        ((), None, None),
        ((), 3, None),
        ((1,), None, None),
        ((2,), None, 1),
        ((1, 2, 3), None, None),
        ((1, 3), None, 2),
        ((1, 3), 1, None),
        ((1, 3), 2, 2),
        ((1, 3), 9, 2),
        ((1, 2, 9), 3, 3),
        ((4, 5), 2, 1),
        ((4, 5), 0, None),
    ],
)
def test_the_first_number_that_no_run_has(numbers: tuple[int, ...], through: int | None, missing: int | None) -> None:
    assert missing_run(runs(*numbers), [], through) == missing


def test_a_run_that_is_made_while_the_folder_is_listed_is_not_missed(
    state: WorkflowState, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("r0001", "r0003"):
        (state.runs_dir / name).mkdir(parents=True)
    listdir = os.listdir

    def listed(folder: Any) -> list[str]:
        found = listdir(folder)
        (state.runs_dir / "r0002").mkdir(exist_ok=True)
        return found

    monkeypatch.setattr(os, "listdir", listed)
    assert [run.name for run in state.checked_runs_and_tombstones()[0]] == ["r0001", "r0002", "r0003"]


def lock_names(state: WorkflowState, run: str | None) -> None:
    state.folder.mkdir(parents=True, exist_ok=True)
    synced = None if run is None else {"run": run, "seq": 3}
    state.lock_path.write_text(json.dumps({"pid": 1, "host": "here", "started": "now", "synced": synced}))


@pytest.mark.parametrize(
    ("named", "there", "lost"),
    [
        (None, (), None),
        ("r0003", (), "r0003"),
        ("r0003", (1, 2), "r0003"),
        ("r0003", (1, 2, 3), None),
        ("r0003", (4,), None),
        ("r10000", (9999,), "r10000"),
        ("../r0003", (), None),
        ("r3", (), None),
    ],
)
def test_the_last_run_is_lost_where_the_lock_names_it_and_none_so_late_is_there(
    state: WorkflowState, named: str | None, there: tuple[int, ...], lost: str | None
) -> None:
    for number in there:
        (state.runs_dir / run_name(number)).mkdir(parents=True)
    lock_names(state, named)
    assert state.lost_last_run() == lost


def test_without_a_lock_no_run_is_lost(state: WorkflowState) -> None:
    assert state.lost_last_run() is None
    state.check_last_run()


def test_a_lost_run_is_said_with_the_place_where_it_stood(state: WorkflowState) -> None:
    lock_names(state, "r0003")
    with pytest.raises(StateError) as refused:
        state.check_last_run()
    what = "`r0003` of `then-and-now` is missing, but the lock names it as the last run"
    assert diagnosed(refused) == ("LOG_DAMAGED", what, str(state.runs_dir / "r0003"), LAST_LOST_HINT)
    (state.runs_dir / "r0003").mkdir(parents=True)
    state.check_last_run()


def test_a_log_without_start_is_said_with_its_file(state: WorkflowState) -> None:
    (state.runs_dir / "r0001").mkdir(parents=True)
    (run,) = state.runs()
    (told,) = log_without_start(run).diagnostics  # type: ignore[attr-defined]
    assert (told.code, told.message, told.file, told.hint) == (
        "LOG_INCOMPLETE", "`r0001` has no `run_start`", str(run.events_path), DAMAGE_HINT
    )  # fmt: skip
    for left in (None, b"", b'{"seq":1'):
        if left is not None:
            run.events_path.write_bytes(left)
        with pytest.raises(StateError) as refused:
            state.last_chain()
        assert diagnosed(refused)[:3] == ("LOG_INCOMPLETE", "`r0001` has no `run_start`", str(run.events_path))


# --- beginning one -----------------------------------------------------------------------------------------------


def test_a_run_is_on_the_disk_before_it_has_its_name(
    state: WorkflowState, clock: Clock, run_start: RunStart, hooked: Callable[[Any], None]
) -> None:
    calls: list[tuple[str, str]] = []

    def hook(point: str, call: Any, *given: Any) -> Any:
        last = given[-1] if point.endswith("rename") else given[0]
        name = os.readlink(f"/proc/self/fd/{last}") if isinstance(last, int) else os.fspath(last)
        calls.append((point, os.path.relpath(name, state.state_dir)))
        return call(*given)

    hooked(hook)
    run, journal = create_run(state, run_start, clock, {"manifest.yaml": b"{}", "source/a.yaml": b"x"})
    journal.close()
    draft = "tmp/then-and-now-r0001"
    assert [call for call in calls if call[0] != "draft.mkdir" and ".gitignore" not in call[1]
            and ".tmp-" not in call[1]] == [
        ("draft.open", f"{draft}/manifest.yaml"), ("draft.write", f"{draft}/manifest.yaml"),
        ("draft.open", f"{draft}/source/a.yaml"), ("draft.write", f"{draft}/source/a.yaml"),
        ("log.open", f"{draft}/events.jsonl"), ("log.write", f"{draft}/events.jsonl"),
        ("draft.sync_filesystem", draft),
        ("draft.rename", "then-and-now/runs/r0001"),
        ("draft.sync_folder", "then-and-now/runs"),
    ]  # fmt: skip
    assert run == RunRef("r0001", str(state.runs_dir / "r0001"), 1)
    assert (journal.session, journal.seq) == ("r0001", 1)


def test_a_gitignore_keeps_the_state_out_of_git_unless_the_user_wants_otherwise(
    state: WorkflowState, clock: Clock, run_start: RunStart
) -> None:
    create_run(state, run_start, clock)[1].close()
    ignore = state.state_dir / ".gitignore"
    assert ignore.read_bytes() == b"*\n"
    ignore.write_bytes(b"tmp\n")
    create_run(state, run_start, clock)[1].close()
    assert ignore.read_bytes() == b"tmp\n"


@pytest.mark.parametrize("point", ["draft.write", "log.write", "draft.sync_filesystem", "draft.rename"])
def test_a_run_that_cannot_begin_leaves_no_run_and_nothing_open(
    state: WorkflowState, clock: Clock, run_start: RunStart, hooked: Callable[[Any], None], point: str
) -> None:
    before = descriptors()

    def hook(at: str, call: Any, *given: Any) -> Any:
        if at == point:
            raise OSError(errno.EIO, "Input/output error")
        return call(*given)

    hooked(hook)
    with pytest.raises(OSError, match="Input/output error"):
        create_run(state, run_start, clock, {"manifest.yaml": b"{}"})
    assert descriptors() == before
    hooked(None)
    assert state.runs() == []
    run, journal = create_run(state, run_start, clock, {"plan.json": b"{}"})
    journal.close()
    assert sorted(os.listdir(run.path)) == ["events.jsonl", "plan.json"], "and nothing of the first attempt"
    assert descriptors() == before
