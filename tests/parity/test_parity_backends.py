"""The same ten steps on every backend, from empty states: success, failure, time-out, a worker that dies. What a
`prepare` that fails leaves is compared with one and the same expectation in tests/backends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from parity_lab import BACKENDS, ENDINGS, pairs, parity

from whyrun.log import events as ev
from whyrun.log.journal import read_events

Made = Callable[[str, str, int], Path]


@pytest.mark.parametrize("ending", list(ENDINGS))
@pytest.mark.parametrize("backends", list(pairs(list(BACKENDS))), ids="-".join)
def test_two_backends_leave_the_same_evidence(made: Made, backends: tuple[str, str], ending: str) -> None:
    old = made(backends[0], ending, 1)
    new = made(backends[1], ending, 2 if backends[0] == backends[1] else 1)
    found = parity(old, new)
    assert [difference.to_json() for difference in found.differences] == []
    assert found.equal
    # What steps print is not judged; these steps print the same everywhere.
    assert [note.to_json() for note in found.not_judged] == []
    assert (found.measured[0]["backend"], found.measured[1]["backend"]) == backends


# Equal runs say little if nothing happened in them: what has to be in the evidence is asserted on its own.


@pytest.mark.parametrize("backend", list(BACKENDS))
def test_success_has_ten_steps_and_all_that_they_leave(made: Made, backend: str) -> None:
    folder = made(backend, "success", 1)
    events = list(read_events(folder / "events.jsonl"))
    assert sorted(e.step_id for e in events if isinstance(e, ev.StepComplete)) == [
        "Job:Check", "Job:Clean", "Job:Count", "Job:Lines", "Job:LongTale", "Job:Merge",
        'Job:Regional["south west"]', "Job:Regional[north]", "Job:Report", "Job:Risky",
    ]  # fmt: skip
    assert {e.step_id: e.why for e in events if isinstance(e, ev.StepSkipped)} == {"Job:ShortTale": "condition_false"}
    assert [(e.message, e.details) for e in events if isinstance(e, ev.Task) and e.step_id == "Job:Count"] == [
        ("found “the”", {"times": 4}), ("found “rain”", {"times": 2}), ("found “and”", {"times": 1}),
    ]  # fmt: skip
    assert (folder / "steps/Count/stdout.log").read_text() == "12 words → 7 that are long enough and different\n"
    assert (folder / "steps/Clean/stderr.log").read_text() == "nothing was left out\n"
    assert (folder / "artifacts/Report/Folder/index.txt").read_text() == "5 rows were fine\n3 firms\n"
    assert (folder / "artifacts/Report/Folder/raw.bin").read_bytes() == bytes(range(256))
    project = folder.parents[3]
    assert (project / "out/south west.csv").read_text() == "firm,sales\n2,\n3,12.25\n"
    assert (project / "out/notes.json").read_text().count('"by"') == 1


@pytest.mark.parametrize("backend", list(BACKENDS))
def test_a_failure_is_told_twice_with_its_cause(made: Made, backend: str) -> None:
    folder = made(backend, "failure", 1)
    events = list(read_events(folder / "events.jsonl"))
    failures = [e for e in events if isinstance(e, ev.StepFailed)]
    assert [(e.step_id, e.error_type, e.error, e.will_retry) for e in failures] == [
        ("Job:Risky", "ValueError", "cannot go on with 5 rows", True),
        ("Job:Risky", "ValueError", "cannot go on with 5 rows", False),
    ]
    assert all("KeyError: 'firm'" in e.traceback for e in failures)
    assert {e.step_id: e.because for e in events if isinstance(e, ev.StepBlocked)} == {"Job:Report": ["Job:Risky"]}
    assert (folder / "steps/Risky/stderr.log").read_text() == "about to fail\nabout to fail\n"
    assert (folder / "steps/Risky/scratch/work/half.txt").read_text() == "half of it\n"


@pytest.mark.parametrize("backend", list(BACKENDS))
def test_a_time_limit_ends_one_step_and_blocks_one(made: Made, backend: str) -> None:
    events = list(read_events(made(backend, "time-out", 1) / "events.jsonl"))
    failures = [(e.step_id, e.status, e.error) for e in events if isinstance(e, ev.StepFailed)]
    assert failures == [("Job:Wait", "TIMED_OUT", "timeout: 3s")]
    assert {e.step_id: e.because for e in events if isinstance(e, ev.StepBlocked)} == {"Job:Late": ["Job:Wait"]}
    assert sum(isinstance(e, ev.StepComplete) for e in events) == 10


@pytest.mark.parametrize("backend", list(BACKENDS))
def test_a_dead_worker_is_told_with_its_last_words(made: Made, backend: str) -> None:
    folder = made(backend, "death", 1)
    events = list(read_events(folder / "events.jsonl"))
    failures = [(e.step_id, e.error_type, e.error, e.will_retry) for e in events if isinstance(e, ev.StepFailed)]
    died = ("Job:Risky", "WorkerDied", "the worker was killed by SIGKILL")
    assert failures == [(*died, True), (*died, False)]
    violations = [e for e in events if isinstance(e, ev.StatusContractViolation)]
    assert [(e.step_id, e.reason, e.last_stderr) for e in violations] == [
        ("Job:Risky", "the worker was killed by SIGKILL", "about to die\n"),
        ("Job:Risky", "the worker was killed by SIGKILL", "about to die\n"),
    ]
    assert {e.step_id: e.because for e in events if isinstance(e, ev.StepBlocked)} == {"Job:Report": ["Job:Risky"]}
    assert sum(isinstance(e, ev.StepComplete) for e in events) == 8
    assert (folder / "steps/Risky/stderr.log").read_text() == "about to die\n" * 2


def test_one_ending_is_not_another(made: Made) -> None:
    """The comparison that finds equal runs equal finds these different."""
    found = parity(made("local", "success", 1), made("local", "failure", 1))
    assert found.headline is not None
    assert (found.headline.name, found.headline.old, found.headline.new) == ("input_recorded Input:Break", "", "step")
