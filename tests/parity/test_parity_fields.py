"""Every event type declares which of its fields are compared; fields that say where and when never are."""

from __future__ import annotations

import typing

import msgspec
import pytest

from whyrun.evidence.parity.fields import DECLARED, NEVER, THIS_RUN, compared_events, last_line
from whyrun.evidence.parity.parity import MEASURED, is_measured
from whyrun.execution.recording.recorder import UNITS
from whyrun.log import events as ev
from whyrun.log.reads import Read

TYPES = list(typing.get_args(ev.AnyEvent))


def test_the_table_has_every_event_type_and_no_other() -> None:
    assert len(TYPES) == 22
    assert set(DECLARED) == set(TYPES)


@pytest.mark.parametrize("type_", TYPES, ids=lambda type_: type_.__struct_config__.tag)
def test_every_field_is_compared_or_left_out_with_a_reason(type_: type[ev.Event]) -> None:
    declared = DECLARED[type_]
    decided = [*declared.named_by, *declared.compared, *declared.left_out]
    assert sorted(decided) == sorted(set(type_.__struct_fields__) - NEVER)
    assert all(len(reason) > 10 for reason in declared.left_out.values())


def test_where_and_when_never_count() -> None:
    assert {"seq", "ts", "chain", "session", "host", "pid", "backend", "duration"} <= NEVER


def test_a_run_of_another_name_place_and_time_is_the_same() -> None:
    def run(name: str, before: str, backend: str, pid: int) -> tuple[ev.AnyEvent, ...]:
        head = {"session": name, "ts": f"2026-01-01T00:00:{pid}"}
        options = {"up": None, "jobs": pid, "backend": backend}
        return (
            ev.RunStart(
                **head, workflow="w", workflow_sha256="a", mode="run", options=options, backend=backend,
                engine_version="1", host=f"host{pid}", pid=pid, previous_chain=before,
            ),
            ev.StepSkipped(**head, seq=pid, step_id="Job:A", why="reused", from_run=name),
            ev.StepSkipped(**head, seq=pid, step_id="Job:A", why="reused", from_run=before),
        )  # fmt: skip

    ours, theirs = run("r0002", "r0001", "local", 11), run("r0007", "r0006", "e2b", 22)
    first, second = ([event.fields for event in compared_events(side)] for side in (ours, theirs))
    assert first[:2] == second[:2]
    assert first[0]["options"] == {"up": None}
    assert first[1]["from_run"] == THIS_RUN
    assert (first[2]["from_run"], second[2]["from_run"]) == ("r0001", "r0006")


def failed(traceback: str, **more: typing.Any) -> ev.StepFailed:
    fields = {"step_id": "Job:A", "driver": "python", "error": "no", "error_type": "ValueError", "status": "FAILED"}
    return ev.StepFailed(**{**fields, **more}, traceback=traceback, duration=1.0, will_retry=False)


def test_of_a_traceback_the_type_and_message_count() -> None:
    here = failed('Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\nValueError: no\n')
    there = failed('Traceback (most recent call last):\n  File "/x/a.py", line 9, in f\n    g()\nValueError: no\n')
    lost = failed("")
    first, second, third = (event.fields for event in compared_events((here, there, lost)))
    assert first == second
    assert first["traceback"] == "ValueError: no"
    assert third["traceback"] == ""


def test_where_a_step_stood_when_it_was_stopped_does_not_count() -> None:
    stopped = failed("Traceback …\nStepCancelled: here", status="TIMED_OUT", error_type="TimedOut")
    died = failed("the worker was killed\nits last words", error_type="WorkerDied")
    assert [event.fields["traceback"] for event in compared_events((stopped, died))] == ["", ""]


def test_the_last_line_of_a_traceback() -> None:
    assert [last_line(text) for text in ("", "E: a\n", "T\n  F\nE: a\nb\n\n")] == ["", "E: a", "b"]


def test_all_that_the_worker_measures_is_measured_and_rows_are_not() -> None:
    assert set(UNITS) <= MEASURED
    assert [name for name, unit in UNITS.items() if not is_measured(name, unit)] == []
    judged = [("rows_read", "rows"), ("rows_written", "rows"), ("rows_out", "rows"), ("rows", ""), ("tables", "")]
    assert [metric for metric in judged if is_measured(*metric)] == []
    measured = [("waited", "s"), ("speed", "rows/s"), ("load_seconds", ""), ("size", "MB"), ("progress", "")]
    assert [metric for metric in measured if not is_measured(*metric)] == []


# --- each field of each type, changed ----------------------------------------------------------------------------

_HEAD = {"seq": 7, "ts": "2026-01-01T00:00:00.000000Z", "session": "r0001", "chain": "0" * 64}
_BYTES = {"sha256": "ab", "size": 3}
_BINDINGS = {"text": [{"id": "Input:Text", "sha256": "ab"}]}
_OBSERVED = {"observed": [Read("a.py", "file", "ab" * 32)], "traced": True, "outside": ["/a"], "packages": {"a": "1"}}
_NOW = {name: _OBSERVED[name] for name in ("observed", "packages")}
SAMPLES: list[ev.AnyEvent] = [
    ev.RunStart(**_HEAD, workflow="w", workflow_sha256="ab", mode="run", options={"up": None}, backend="local",
                engine_version="1", host="h", pid=1, previous_chain="0"),
    ev.InputRecorded(**_HEAD, **_BYTES, id="Input:Text", value=1),
    ev.PlanComputed(**_HEAD, plan_sha256="ab", snapshot_sha256="cd", planned=1, layers=1, log_position={"seq": 1},
                    stage=1, source="Job:A"),
    ev.ManifestMaterialized(**_HEAD, **_BYTES, path="manifest.yaml"),
    ev.CfgMaterialized(**_HEAD, **_BYTES, path="cfg/A.json"),
    ev.StepStart(**_HEAD, step_id="Job:A", driver="shell", attempt=1, fingerprint="ab", bindings=_BINDINGS),
    ev.ArtifactAvailable(**_HEAD, **_BYTES, artifact="Artifact:A.Out", step_id="Job:A", type="file", suffix=".txt",
                         path="out/a.txt", section="A", value=1, reused_from="r0000"),
    ev.StepComplete(**_HEAD, step_id="Job:A", driver="shell", output_dir="out/A", duration=1.0, status="EXECUTES",
                    **_OBSERVED),
    ev.StepFailed(**_HEAD, step_id="Job:A", driver="shell", error="no", error_type="E", traceback="E: no", duration=1.0,
                  status="FAILED", will_retry=False, **_OBSERVED),
    ev.StepSkipped(**_HEAD, step_id="Job:A", why="reused", fingerprint="ab", bindings=_BINDINGS, from_run="r0000",
                   recorded_in="r0000", from_step="Job:B", reason="none", shared={"run": "r0009"}),
    ev.StepBlocked(**_HEAD, step_id="Job:A", because=["Job:B"], problem="p"),
    ev.ConditionEvaluated(**_HEAD, step_id="Job:A", expression="inputs.X", inputs={"Input:X": True}, result=True),
    ev.Task(**_HEAD, step_id="Job:A", status="EXECUTES", message="m", details={"n": 1}),
    ev.RequestRecorded(**_HEAD, step_id="Job:A", fingerprint="ab", key="k", value="v"),
    ev.CostRecorded(**_HEAD, step_id="Job:A", amount="1", currency="USD", item="i", quantity="2", request="n1"),
    ev.ArtifactAdopted(**_HEAD, **_BYTES, artifact="Artifact:A.Out", step_id="Job:A", type="file", fingerprint="ab",
                       bindings=_BINDINGS, by="me", value=1, suffix=".txt", path="out/a.txt", section="A", **_NOW),
    ev.ResultKept(**_HEAD, step_id="Job:A", fingerprint="ab", old_fingerprint="cd", from_run="r0000", because="b",
                  by="me", bindings=_BINDINGS, **_NOW),
    ev.FileDisplaced(**_HEAD, path="out/a.txt", sha256="ab", section="A"),
    ev.Comparison(**_HEAD, artifact="Artifact:A.Out", status="DIFFERENT", against="r0000", summary="s", details=["d"],
                  more=1, adopted=False, kept=False, step_id="Job:A"),
    ev.StatusContractViolation(**_HEAD, step_id="Job:A", reason="gone", last_stderr="oh"),
    ev.LogRepaired(**_HEAD, cut_bytes=1, cut_sha256="ab", interrupted=["Job:A"]),
    ev.RunComplete(**_HEAD, state="failed", counts={"failed": 1}, duration=1.0, error="e", exit_code=3),
]  # fmt: skip
FIELDS = [(sample, name) for sample in SAMPLES for name in type(sample).__struct_fields__]


def changed(value: typing.Any) -> typing.Any:
    match value:
        case bool():
            return not value
        case int() | float() | str():
            return value * 2 if value else 1
        case list():
            return [*value, "more"]
        case dict():
            return {**value, "more": 1}
    raise AssertionError(f"the sample has no value to change: {value!r}")


def test_there_is_a_sample_of_every_type() -> None:
    assert {type(sample) for sample in SAMPLES} == set(TYPES)


@pytest.mark.parametrize(("sample", "name"), FIELDS, ids=lambda x: x if isinstance(x, str) else type(x).__name__)
def test_a_field_counts_exactly_if_the_table_says_so(sample: ev.AnyEvent, name: str) -> None:
    declared = DECLARED[type(sample)]
    other = msgspec.structs.replace(sample, **{name: changed(getattr(sample, name))})
    before, after = ((event.name, event.fields) for event in compared_events((sample, other)))
    assert (before != after) == (name in (*declared.named_by, *declared.compared))
