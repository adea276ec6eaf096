"""A log of several files and its index: when that is made, and when it is believed."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from fold_lab import (
    END,
    ONE,
    OPEN,
    PAGE,
    PRINT,
    RUN,
    SHA,
    TEXT,
    TWO,
    done,
    failed,
    folded,
    made,
    new_state,
    no_blob,
    reading,
    request,
    start,
    stone,
    topic,
    write_run,
)

from whyrun.artifacts.durable import checked, with_checksum
from whyrun.artifacts.hashing import value_sha256
from whyrun.errors import StateError
from whyrun.log.lean_events import scan
from whyrun.log.runs import WorkflowState
from whyrun.log.tombstones import CarriedInput, add_tombstones
from whyrun.snapshot.history import reader as module
from whyrun.snapshot.index import IndexedSteps
from whyrun.snapshot.records import InputRecord, Records

FORGED = {"Input:Forged": InputRecord("forged")}


@pytest.fixture
def state(tmp_path: Path) -> WorkflowState:
    return new_state(tmp_path)


def has_index(state: WorkflowState) -> bool:
    found = {path.name for path in state.index_dir.iterdir()} if state.index_dir.exists() else set()
    assert found in (set(), {"fold", "records"})
    return bool(found)


def forge(state: WorkflowState, **changes: Any) -> None:
    """Another index than the log has: who believes it tells what stands in it."""
    path = state.index_dir / "fold"
    index = msgspec.msgpack.decode(checked(path.read_bytes()), type=module._Index)
    changed = msgspec.structs.replace(index, **{"inputs": FORGED, **changes})
    path.write_bytes(with_checksum(msgspec.msgpack.encode(changed)))


def believes(state: WorkflowState) -> bool:
    return reading(state, 1 << 40).records.inputs == FORGED


# --- when an index is made ---------------------------------------------------------------------------------------


def test_an_index_is_made_of_as_many_events_as_it_is_worth(state: WorkflowState) -> None:
    write_run(state, 1, ONE)
    assert reading(state, 7).records == folded(ONE)
    assert not has_index(state)
    assert reading(state, 6).records == folded(ONE)
    assert has_index(state)


def test_only_events_that_are_folded_anew_count(state: WorkflowState) -> None:
    write_run(state, 1, ONE)
    assert reading(state).records == folded(ONE)
    written = (state.index_dir / "fold").read_bytes()
    write_run(state, 2, TWO)
    assert reading(state, 7).records == folded(ONE, TWO)
    assert (state.index_dir / "fold").read_bytes() == written
    assert reading(state, 6).records == folded(ONE, TWO)
    assert (state.index_dir / "fold").read_bytes() != written
    forge(state)
    assert believes(state)


def test_events_of_several_runs_count_together(state: WorkflowState) -> None:
    write_run(state, 1, ONE)
    write_run(state, 2, TWO)
    assert reading(state, 13).records == folded(ONE, TWO)
    assert not has_index(state)
    assert reading(state, 12).records == folded(ONE, TWO)
    assert has_index(state)


def test_a_run_that_has_not_ended_is_in_no_index(state: WorkflowState) -> None:
    write_run(state, 1, ONE)
    write_run(state, 2, OPEN)
    assert reading(state).records == folded(ONE, OPEN)
    assert not has_index(state)


def test_a_run_that_has_not_ended_is_damage_once_a_later_one_began(state: WorkflowState) -> None:
    """Also where there are no others: that one would have repaired it first."""
    path = write_run(state, 1, OPEN)
    assert reading(state).records == folded(OPEN)
    write_run(state, 2, TWO)
    with pytest.raises(StateError) as refused:
        _ = reading(state).records
    (told,) = refused.value.diagnostics
    assert (told.code, told.file, told.line) == ("LOG_DAMAGED", str(path), len(OPEN))


def test_a_log_of_this_moment_is_in_no_index(state: WorkflowState) -> None:
    write_run(state, 1, ONE)
    path = write_run(state, 2, TWO, old=False)
    soon = time.time() + 60
    os.utime(path, (soon, soon))
    assert reading(state).records == folded(ONE, TWO)
    assert not has_index(state)
    now = time.time()
    os.utime(path, (now - 1, now - 1))
    assert reading(state).records == folded(ONE, TWO)
    assert has_index(state)


def test_a_log_is_old_when_another_write_would_show_in_its_times(
    state: WorkflowState, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = write_run(state, 1, ONE).stat().st_mtime_ns
    for now, old in ((written, False), (written + module.TICK, False), (written + module.TICK + 1, True)):
        monkeypatch.setattr(module, "time", SimpleNamespace(time_ns=lambda now=now: now))
        assert reading(state).records == folded(ONE)
        assert has_index(state) == old


@pytest.mark.parametrize("touched", [1, 2])
def test_a_log_that_is_written_to_while_it_is_read_is_in_no_index(
    state: WorkflowState, monkeypatch: pytest.MonkeyPatch, touched: int
) -> None:
    write_run(state, 1, ONE)
    write_run(state, 2, TWO)

    def scan_and_touch(path: Path) -> Iterator[Any]:
        yield from scan(path)
        if path.parent.name == f"r000{touched}":
            os.utime(path, (2, 2))

    monkeypatch.setattr(module, "scan", scan_and_touch)
    assert reading(state).records == folded(ONE, TWO)
    assert not has_index(state)


@pytest.mark.parametrize("how", [{"through": 2}, {"without": [stone(1)]}], ids=["through", "without"])
def test_a_part_of_the_log_makes_no_index_and_takes_none(state: WorkflowState, how: dict[str, Any]) -> None:
    write_run(state, 1, ONE)
    write_run(state, 2, TWO)
    before = reading(state, **how).records
    assert before.inputs == {"Input:Topic": InputRecord("2")}
    assert not has_index(state)
    reading(state).records  # noqa: B018
    forge(state)
    assert reading(state, **how).records == before


def test_where_nothing_can_be_written_the_log_is_folded_all_the_same(state: WorkflowState) -> None:
    write_run(state, 1, ONE)
    state.index_dir.write_text("no folder")
    assert reading(state).records == folded(ONE)
    reading(state).save_memo({"a": "b"})
    assert state.index_dir.read_text() == "no folder"


def test_without_its_file_of_records_no_index_is_written(state: WorkflowState) -> None:
    write_run(state, 1, ONE)
    (state.index_dir / "records" / "in the way").mkdir(parents=True)
    assert reading(state).records == folded(ONE)
    assert [path.name for path in state.index_dir.iterdir()] == ["records"]


def test_after_much_new_the_records_are_those_of_the_index(
    state: WorkflowState, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(state, 1, ONE)
    monkeypatch.setattr(module, "MUCH", 7)
    assert isinstance(reading(state).records.steps, dict)
    (state.index_dir / "fold").unlink()
    monkeypatch.setattr(module, "MUCH", 6)
    records = reading(state).records
    assert isinstance(records.steps, IndexedSteps)
    assert facts_of(records) == facts_of(folded(ONE))


@pytest.mark.parametrize("value", [2**64, [{"n": -(2**70)}]], ids=str)
@pytest.mark.parametrize("where", ["an output", "a failed step", "an input"])
def test_what_the_index_cannot_hold_is_folded_without_one(state: WorkflowState, value: Any, where: str) -> None:
    """Older versions let steps make such values."""
    output = made(TEXT, value_sha256(value), type="integer", value=value)
    events = {
        "an output": [RUN, start(PAGE, PRINT), output, done(PAGE), END],
        "a failed step": [RUN, start(PAGE, PRINT), request(PAGE, PRINT, "id", value), failed(PAGE), END],
        "an input": [RUN, {**topic(SHA), "value": value}, END],
    }[where]
    write_run(state, 1, events)
    for _ in range(2):
        records = reading(state).records
        match where:
            case "an output":
                assert [output.value for output in records.steps[PAGE].latest.outputs] == [value]
            case "a failed step":
                assert records.steps[PAGE].requests == {PRINT: {"id": value}}
            case _:
                assert records.inputs == {"Input:Topic": InputRecord(SHA, (value,))}
    assert not (state.index_dir / "fold").exists()


def test_where_no_index_can_be_written_an_older_one_stands_for_its_own_runs_only(
    state: WorkflowState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where much was new, and the records would be let go for those of the index."""
    write_run(state, 1, ONE)
    before = reading(state).records
    monkeypatch.setattr(module, "MUCH", 1)
    output = made(TEXT, value_sha256(2**70), type="integer", value=2**70)
    write_run(state, 2, [RUN, start(PAGE, "2" * 64), output, done(PAGE), END])
    records = reading(state).records
    assert (before.run, records.run, records.steps[PAGE].latest.run) == (1, 2, 2)
    assert records.steps[PAGE].latest.outputs[0].value == 2**70


def test_an_index_of_fewer_runs_that_comes_in_between_stands_for_its_own_runs_only(
    state: WorkflowState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may put its own in place of the one that was just written."""
    write_run(state, 1, ONE)
    reading(state).records  # noqa: B018
    older = {path: path.read_bytes() for path in state.index_dir.iterdir()}

    class Overtaken(module.History):
        def _save(self, runs: list[module._Covered], records: Records) -> bool:
            saved = super()._save(runs, records)
            for path, data in older.items():
                path.write_bytes(data)
            return saved

    write_run(state, 2, TWO)
    monkeypatch.setattr(module, "MUCH", 1)
    assert facts_of(Overtaken(state, no_blob, worth_indexing=1).records) == facts_of(folded(ONE, TWO))


def at_depth(levels: int, call: Callable[[], Any]) -> Any:
    return call() if levels == 0 else at_depth(levels - 1, call)


def test_a_log_and_its_index_say_the_same_from_any_depth_of_the_stack(state: WorkflowState) -> None:
    """A program that plans may be deep in its own work: that says nothing about the log."""
    value = json.loads("[" * 700 + "]" * 700)
    leaf = made(f"{TEXT}.Deep", value_sha256(value), type="json", value=value)
    others = [made(f"{TEXT}.D{i}", value_sha256([]), type="json", value=[]) for i in range(2)]
    write_run(state, 1, [RUN, start(PAGE, PRINT), made(TEXT, SHA), leaf, *others, done(PAGE), END])

    def outputs(worth: int) -> list[Any]:
        return [output.value for output in reading(state, worth).records.steps[PAGE].latest.outputs[1:]]

    expected = [value, [], []]
    assert [at_depth(levels, lambda: outputs(1000)) == expected for levels in (0, 300, 500)] == [True] * 3
    assert at_depth(500, lambda: outputs(1)) == expected
    assert not has_index(state), "from there it could not be written"
    assert outputs(1) == expected
    assert has_index(state)
    assert [at_depth(levels, lambda: outputs(1)) == expected for levels in (0, 300, 500)] == [True] * 3


def facts_of(records: Records) -> object:
    return dict(records.steps.items()), records.inputs, records.inputs_of, records.run, records.seq


# --- when it is believed -----------------------------------------------------------------------------------------


@pytest.fixture
def indexed(state: WorkflowState) -> WorkflowState:
    """Two runs and their index."""
    write_run(state, 1, ONE)
    write_run(state, 2, TWO)
    reading(state).records  # noqa: B018
    return state


def test_the_index_says_what_the_log_says(indexed: WorkflowState) -> None:
    records = reading(indexed).records
    assert isinstance(records.steps, IndexedSteps)
    assert facts_of(records) == facts_of(folded(ONE, TWO))


def test_an_index_that_fits_is_believed(indexed: WorkflowState) -> None:
    forge(indexed)
    assert believes(indexed)
    write_run(indexed, 3, OPEN[:1])
    assert believes(indexed)


def covered(state: WorkflowState) -> list[Any]:
    path = state.index_dir / "fold"
    return msgspec.msgpack.decode(checked(path.read_bytes()), type=module._Index).runs


@pytest.mark.parametrize("field", ["number", "inode", "size", "mtime_ns", "ctime_ns"])
@pytest.mark.parametrize("run", [0, 1])
def test_an_index_of_another_file_is_not_believed(indexed: WorkflowState, field: str, run: int) -> None:
    runs = covered(indexed)
    runs[run] = msgspec.structs.replace(runs[run], **{field: getattr(runs[run], field) + 1})
    forge(indexed, runs=runs)
    assert not believes(indexed)


def test_what_is_covered_is_told_by_the_file(indexed: WorkflowState) -> None:
    for run, number in zip(covered(indexed), (1, 2), strict=True):
        path = indexed.runs_dir / f"r{number:04}" / "events.jsonl"
        status = path.stat()
        assert run == module._Covered(
            number, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, run.marks
        )


@pytest.mark.parametrize(
    "changes",
    [{"version": module.VERSION - 1}, {"byteorder": "other"}, {"pruned": "other"}],
    ids=["version", "byteorder", "pruned"],
)
def test_an_index_of_another_kind_is_not_believed(indexed: WorkflowState, changes: dict[str, Any]) -> None:
    forge(indexed, **changes)
    assert not believes(indexed)


def test_an_index_of_runs_that_are_gone_is_not_believed(indexed: WorkflowState) -> None:
    runs = covered(indexed)
    forge(indexed, runs=[*runs, msgspec.structs.replace(runs[-1], number=3)])
    assert not believes(indexed)
    forge(indexed, runs=runs)
    (indexed.runs_dir / "r0002/events.jsonl").unlink()
    with pytest.raises(StateError, match="LOG_INCOMPLETE"):
        reading(indexed).records  # noqa: B018


@pytest.mark.parametrize("data", [b"", b"\x00", with_checksum(b"\xc1"), with_checksum(b"\x93\x01\x02\x03")])
def test_an_index_that_is_none_is_not_believed(indexed: WorkflowState, data: bytes) -> None:
    (indexed.index_dir / "fold").write_bytes(data)
    assert facts_of(reading(indexed, 1 << 40).records) == facts_of(folded(ONE, TWO))


def test_an_index_with_a_changed_byte_is_not_believed(indexed: WorkflowState) -> None:
    path = indexed.index_dir / "fold"
    data = path.read_bytes()
    path.write_bytes(data.replace(b"Input:Topic", b"Input:Tepic"))
    assert list(reading(indexed, 1 << 40).records.inputs) == ["Input:Topic"]


@pytest.mark.parametrize("lost", [True, False])
def test_records_come_from_their_file_or_else_from_the_log(indexed: WorkflowState, lost: bool) -> None:
    if lost:
        (indexed.index_dir / "records").unlink()
    steps = reading(indexed).records.steps
    assert isinstance(steps, IndexedSteps)
    assert steps[PAGE] == folded(ONE, TWO).steps[PAGE]


def test_records_are_read_from_their_file_and_not_from_the_log(state: WorkflowState) -> None:
    steps = [f"Job:Page[{number}]" for number in range(5)] + ["Job:Cover"]
    run = [RUN, *(event for step in steps for event in (start(step, PRINT), done(step))), END]
    path = write_run(state, 1, run)
    reading(state).records  # noqa: B018
    found = {step: reading(state).records.steps for step in steps}
    path.unlink()
    assert {step: found[step][step] for step in steps} == folded(run).steps


def test_an_index_knows_which_runs_were_pruned_before_its_last(state: WorkflowState) -> None:
    add_tombstones(state.tombstones_path, [stone(1, [CarriedInput("Input:Topic", "0")])])
    write_run(state, 2, ONE)
    reading(state).records  # noqa: B018
    forge(state)
    assert believes(state)
    add_tombstones(state.tombstones_path, [stone(3)])
    assert believes(state), "one that was pruned after all that it covers changes nothing in it"
    state.tombstones_path.unlink()
    add_tombstones(state.tombstones_path, [stone(1, [CarriedInput("Input:Topic", "other")])])
    assert not believes(state)
