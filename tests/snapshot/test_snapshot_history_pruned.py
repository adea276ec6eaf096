"""A log whose runs are partly pruned, or folded up to one of them only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fold_lab import (
    END,
    ONE,
    OPEN,
    PAGE,
    PRINT,
    RUN,
    TWO,
    done,
    new_state,
    reading,
    start,
    stone,
    topic,
    write_run,
)

from whyrun.errors import StateError
from whyrun.log.runs import WorkflowState
from whyrun.log.tombstones import CarriedInput, add_tombstones
from whyrun.snapshot.history.reader import fold_runs
from whyrun.snapshot.records import InputRecord


@pytest.fixture
def state(tmp_path: Path) -> WorkflowState:
    return new_state(tmp_path)


def carried(sha256: str, **more: Any) -> CarriedInput:
    return CarriedInput("Input:Topic", sha256, **more)


def test_pruned_runs_are_folded_in_their_place(state: WorkflowState) -> None:
    add_tombstones(state.tombstones_path, [stone(1, [carried("0"), CarriedInput("Input:A", "a", value=None)])])
    write_run(state, 2, ONE)
    add_tombstones(state.tombstones_path, [stone(3, [carried("3", value="three")], events=7)])
    records = reading(state, 1 << 40).records
    assert records.inputs == {"Input:Topic": InputRecord("3", ("three",)), "Input:A": InputRecord("a", (None,))}
    assert (records.run, records.seq, records.inputs_of) == (3, 7, 3)
    assert [step.latest.run for step in records.steps.values()] == [2]
    write_run(state, 4, [RUN, topic("4"), END])
    records = reading(state, 1 << 40).records
    assert records.inputs["Input:Topic"] == InputRecord("4")
    assert (records.run, records.seq, records.inputs_of) == (4, 3, 4)


def test_two_pruned_runs_between_others_are_both_folded(state: WorkflowState) -> None:
    write_run(state, 1, ONE)
    add_tombstones(state.tombstones_path, [stone(2, [carried("2")]), stone(3, [CarriedInput("Input:A", "a")])])
    write_run(state, 4, [RUN, END])
    records = reading(state, 1 << 40).records
    assert records.inputs == {"Input:Topic": InputRecord("2"), "Input:A": InputRecord("a")}
    assert (records.run, records.seq) == (4, 2)


def test_a_pruned_run_that_compared_is_none_that_recorded_inputs(state: WorkflowState) -> None:
    write_run(state, 1, ONE)
    add_tombstones(state.tombstones_path, [stone(2, mode="compare", events=4)])
    records = reading(state).records
    assert (records.run, records.seq, records.inputs_of) == (2, 4, 1)
    assert records.inputs == {"Input:Topic": InputRecord("1")}


def test_pruned_runs_that_an_index_covers_are_not_folded_again(state: WorkflowState) -> None:
    add_tombstones(state.tombstones_path, [stone(1, [carried("0")])])
    write_run(state, 2, ONE)
    add_tombstones(state.tombstones_path, [stone(3, [carried("3")])])
    for _ in range(2):
        records = reading(state).records
        assert records.inputs == {"Input:Topic": InputRecord("3")}
        assert (records.run, records.seq, records.inputs_of) == (3, 9, 3)
    write_run(state, 4, [RUN, topic("4"), END])
    for _ in range(2):
        records = reading(state).records
        assert records.inputs == {"Input:Topic": InputRecord("4")}
        assert (records.run, records.seq, records.inputs_of) == (4, 3, 4)


def test_the_log_as_it_was_after_a_run(state: WorkflowState) -> None:
    write_run(state, 1, ONE)
    add_tombstones(state.tombstones_path, [stone(2, [carried("2")]), stone(4, [carried("4")])])
    write_run(state, 3, TWO)
    write_run(state, 5, OPEN)
    found = [reading(state, through=last) for last in (1, 2, 3, 4, 5)]
    assert [history.records.inputs["Input:Topic"].sha256 for history in found] == ["1", "2", "2", "4", "3"]
    assert [[run.number for run in history.runs] for history in found] == [[1], [1], [1, 3], [1, 3], [1, 3, 5]]
    assert [history.last_pruned for history in found] == [0, 2, 2, 4, 4]


def test_the_log_as_it_would_be_without_some_runs(state: WorkflowState) -> None:
    write_run(state, 1, ONE)
    add_tombstones(state.tombstones_path, [stone(3, [carried("3")])])
    write_run(state, 2, TWO)
    write_run(state, 4, [RUN, END])
    history = reading(state, without=[stone(2, [CarriedInput("Input:A", "a")])])
    assert [run.number for run in history.runs] == [1, 4]
    assert [one.number for one in history.tombstones] == [2, 3]
    assert history.records.inputs == {"Input:Topic": InputRecord("3"), "Input:A": InputRecord("a")}
    assert history.records.steps[PAGE].latest.run == 1


def test_what_a_step_had_made_by_an_earlier_run_may_not_be_known(state: WorkflowState) -> None:
    write_run(state, 1, ONE)
    add_tombstones(state.tombstones_path, [stone(2)])
    write_run(state, 3, [RUN, start("Job:Late", PRINT), done("Job:Late"), END])
    reading(state).check_known(PAGE)  # of the log as it is now all is known
    reading(state).check_known("Job:Never")
    reading(state, through=1).check_known(PAGE)
    reading(state, through=1).check_known("Job:Never")
    then = reading(state, through=3)
    then.check_known("Job:Late")
    for step in (PAGE, "Job:Never"):
        with pytest.raises(StateError) as stopped:
            then.check_known(step)
        (problem,) = stopped.value.diagnostics
        assert (problem.code, problem.message) == (
            "RUN_PRUNED",
            f"what `{step}` had made by r0003 is not known: a run that may have made it was pruned (r0002)",
        )


def test_what_a_step_without_a_record_had_made_is_not_known_if_only_the_first_run_was_pruned(
    state: WorkflowState,
) -> None:
    add_tombstones(state.tombstones_path, [stone(1)])
    write_run(state, 2, ONE)
    reading(state, through=2).check_known(PAGE)
    with pytest.raises(StateError, match="RUN_PRUNED"):
        reading(state, through=2).check_known("Job:Never")


def test_a_run_that_is_pruned_after_it_was_listed_is_folded_from_what_is_left(state: WorkflowState) -> None:
    path = write_run(state, 1, ONE)
    write_run(state, 2, TWO)
    history = reading(state)
    add_tombstones(state.tombstones_path, [stone(1, [CarriedInput("Input:A", "a")])])
    path.unlink()
    assert history.records.inputs == {"Input:Topic": InputRecord("2"), "Input:A": InputRecord("a")}
    assert [run.number for run in history.runs] == [2]
    assert history.records is history.records


@pytest.mark.parametrize("left", [b"", None], ids=["emptied", "deleted"])
def test_a_run_without_a_log_is_told_of(state: WorkflowState, left: bytes | None) -> None:
    path = write_run(state, 1, ONE)
    path.unlink() if left is None else path.write_bytes(left)
    with pytest.raises(StateError) as stopped:
        fold_runs(state.runs())
    (problem,) = stopped.value.diagnostics
    assert (problem.code, problem.message) == ("LOG_INCOMPLETE", "`r0001` has no `run_start`")
    with pytest.raises(StateError, match="LOG_INCOMPLETE"):
        reading(state).records  # noqa: B018
