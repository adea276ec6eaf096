"""What planning is given cannot be changed by it, and what the index keeps has one form, to the last default."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from project_lab import Lab
from whyrun.actions.problem import Problem
from whyrun.artifacts.shared.result import SharedResult
from whyrun.snapshot.actions.known_inputs import InputReader, KnownInputs
from whyrun.snapshot.actions.lookup import LookedUp
from whyrun.snapshot.actions.parameter_checks import Misfit
from whyrun.snapshot.index import JobBlock
from whyrun.snapshot.records import Attempt, InputRecord, Output, StepRecord
from whyrun.snapshot.snapshot import (
    ActionFacts,
    ArtifactAvailabilityRecord,
    BlobCheck,
    InputStateRecord,
    PlanningSnapshot,
    Pricer,
    ProducerAttemptRecord,
)


@pytest.mark.parametrize(
    ("thing", "field"),
    [
        (KnownInputs({}, ()), "given"),
        (InputReader(Path(), lambda at: None), "project"),
        (LookedUp(None), "facts"),
        (Output("Artifact:J.A", "aa", 1, "file"), "sha256"),
        (InputRecord("aa"), "sha256"),
        (ArtifactAvailabilityRecord("Artifact:J.A", "aa", 1, "file", "r0001", 2, "Job:J"), "sha256"),
        (ProducerAttemptRecord("Job:J", "never_run"), "status"),
        (InputStateRecord("Input:A", "aa", None), "sha256"),
        (ActionFacts("shell", "aa"), "sha256"),
        (BlobCheck("aa", 1, "file", None, "aa"), "sha256"),
        (JobBlock("J", "", (), b"", (), (), b"", b"", b"", b"", b""), "lines"),
        (Misfit(None, 0, Problem(None, "no"), 0, None), "more"),  # type: ignore[arg-type]
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_what_is_known_cannot_be_changed(thing: Any, field: str) -> None:
    with pytest.raises(AttributeError):
        setattr(thing, field, "other")


@pytest.mark.parametrize(
    ("thing", "written"),
    [
        (Output("Artifact:J.A", "aa", 1, "file"), ["Artifact:J.A", "aa", 1, "file", None, [], ""]),
        (Attempt(1, 2, 3, "ff"), [1, 2, 3, "ff", False, [], 0.0, "", "", "", "", 0, None, None, 0, 0, None, ""]),
        (
            StepRecord(Attempt(1, 2, 3, "ff")),
            [
                [1, 2, 3, "ff", False, [], 0.0, "", "", "", "", 0, None, None, 0, 0, None, ""],
                None,
                None,
                None,
                None,
                None,
            ],
        ),
        (InputRecord("aa"), ["aa", []]),
        (
            JobBlock("J", "", (), b"", (), (), b"", b"", b"", b"", b""),
            ["J", "", [], b"", [], [], b"", b"", b"", b"", b""],
        ),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_records_are_written_as_lists(thing: Any, written: list[Any]) -> None:
    data = msgspec.msgpack.encode(thing)
    assert msgspec.msgpack.decode(data) == written
    assert msgspec.msgpack.decode(data, type=type(thing)) == thing


def test_of_an_action_nothing_is_believed_that_it_does_not_say() -> None:
    assert ActionFacts("shell", "aa") == ActionFacts("shell", "aa", False, {}, (), {}, False)


def test_a_snapshot_is_only_itself_and_shares_nothing(project: Callable[..., Lab]) -> None:
    found = project("workflow: w\njobs: {}\n").snapshot()
    first, second = (
        PlanningSnapshot(found.dependency_graph, found.records, {}, {}, frozenset()) for _ in range(2)
    )  # fmt: skip
    assert first != second
    assert (first.consumed, first.shas, first.shared) == ({}, (), {})
    assert first.shared is not second.shared


def pricer() -> Pricer:
    raise AssertionError("nobody asks for a price")


def test_a_snapshot_is_never_changed_and_learns_as_a_new_value(project: Callable[..., Lab]) -> None:
    first = project("workflow: w\njobs: {}\n").snapshot()
    with pytest.raises(AttributeError, match="immutable"):
        first.shared = {}  # type: ignore[misc]
    assert first.estimator is not None
    result = SharedResult(1, "1" * 64, "shell", "", ())
    second = first.with_shared({"1" * 64: result})
    assert (first.shared, second.shared) == ({}, {"1" * 64: result})
    assert (second.dependency_graph, second.records) == (first.dependency_graph, first.records)
    third = second.with_estimates(lambda nodes: dict.fromkeys(nodes, 1.0), pricer)
    assert third.estimator is not None
    assert third.estimator([2]) == {2: 1.0}
    assert (third.shared, third.pricer) == (second.shared, pricer)
    assert (second.estimator, second.pricer) == (first.estimator, first.pricer)
