"""Required log records: a log that lacks one of them is LOG_INCOMPLETE. Whyrun never guesses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from scenarios.harness import Scenario, read_logs, write_logs
from whyrun.errors import Exit, StateError
from whyrun.log import events as ev

Load = Callable[[str], Scenario]
Log = list[Any]


def drop(log: Log, kind: type[ev.Event], step: str = "") -> None:
    before = len(log)
    log[:] = [e for e in log if not (isinstance(e, kind) and step in (getattr(e, "step_id", ""), ""))]
    assert len(log) < before


def change(log: Log, kind: type[ev.Event], step: str, **fields: Any) -> None:
    for i, event in enumerate(log):
        if isinstance(event, kind) and getattr(event, "step_id", "") == step:
            log[i] = msgspec.structs.replace(event, **fields)
            return
    raise AssertionError(f"no {kind.__name__} of {step}")


def no_run_start(logs: dict[str, Log]) -> None:
    drop(logs["r0001"], ev.RunStart)


def empty_log(logs: dict[str, Log]) -> None:
    logs["r0001"].clear()


def completion_without_start(logs: dict[str, Log]) -> None:
    drop(logs["r0001"], ev.StepStart, "Job:Montage")
    drop(logs["r0001"], ev.ArtifactAvailable, "Job:Montage")


def artifact_without_start(logs: dict[str, Log]) -> None:
    drop(logs["r0001"], ev.StepStart, "Job:Montage")


def failure_without_start(logs: dict[str, Log]) -> None:
    drop(logs["r0002"], ev.StepStart, "Job:ThenImage[0]")


def start_without_bindings(logs: dict[str, Log]) -> None:
    change(logs["r0001"], ev.StepStart, "Job:Montage", bindings=None)


def reuse_without_bindings(logs: dict[str, Log]) -> None:
    change(logs["r0003"], ev.StepSkipped, "Job:Montage", bindings=None)


def reuse_without_fingerprint(logs: dict[str, Log]) -> None:
    change(logs["r0003"], ev.StepSkipped, "Job:Montage", fingerprint=None)


def artifact_without_reuse_record(logs: dict[str, Log]) -> None:
    drop(logs["r0003"], ev.StepSkipped, "Job:Montage")


def adoption_without_bindings(logs: dict[str, Log]) -> None:
    adopted = ev.ArtifactAdopted(
        artifact="Artifact:Montage.Picture", step_id="Job:Montage", sha256="0" * 64, size=1, type="image",
        fingerprint="0" * 64,
    )  # fmt: skip
    start = next(e for e in logs["r0001"] if isinstance(e, ev.RunStart))
    end = next(e for e in logs["r0001"] if isinstance(e, ev.RunComplete))
    adoption: Log = [msgspec.structs.replace(start, mode="adopt"), adopted, end]
    logs[f"r{len(logs) + 1:04d}"] = [msgspec.structs.replace(e, ts=end.ts) for e in adoption]


def started_step_without_an_end(logs: dict[str, Log]) -> None:
    drop(logs["r0001"], ev.StepComplete, "Job:Montage")


def second_start_without_an_end_of_the_first(logs: dict[str, Log]) -> None:
    start = next(e for e in logs["r0002"] if isinstance(e, ev.StepStart) and e.step_id == "Job:ThenImage[0]")
    logs["r0002"].insert(logs["r0002"].index(start), msgspec.structs.replace(start))


@pytest.mark.parametrize(
    ("base", "omit", "named"),
    [
        ("then-and-now", no_run_start, "run_start"),
        ("then-and-now", empty_log, "run_start"),
        ("then-and-now", completion_without_start, "`Job:Montage` completed without a `step_start`"),
        ("then-and-now", artifact_without_start, "`Artifact:Montage.Picture` has no `step_start`"),
        ("failed-image", failure_without_start, "`Job:ThenImage[0]` failed without a `step_start`"),
        ("then-and-now", start_without_bindings, "the `step_start` of `Job:Montage` has no bindings"),
        ("reused", reuse_without_bindings, "the reuse of `Job:Montage` has no bindings"),
        ("reused", reuse_without_fingerprint, "the reuse of `Job:Montage` has no fingerprint"),
        ("reused", artifact_without_reuse_record, "`Artifact:Montage.Picture` has no `step_start`"),
        ("then-and-now", adoption_without_bindings, "the adoption of `Artifact:Montage.Picture` has no bindings"),
        ("then-and-now", started_step_without_an_end, "`Job:Montage` started, the run ended"),
        ("failed-image", second_start_without_an_end_of_the_first, "`Job:ThenImage[0]` starts again"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_log_without_a_needed_record(
    scenario: Load, base: str, omit: Callable[[dict[str, Log]], None], named: str
) -> None:
    story = scenario("reuse-certain" if base == "reused" else base).with_log()
    runs = story.opened.state.runs_dir
    logs: dict[str, Log] = read_logs(runs)  # type: ignore[assignment]
    if base == "reused":
        logs["r0003"] = reused_in_a_third_run(logs)
        write_logs(runs, logs)
        assert story.plan().headlines() == {}, "the log is good before the record is taken away"
    omit(logs)
    write_logs(runs, logs)
    with pytest.raises(StateError) as refused:
        story.plan()
    (diagnostic,) = refused.value.diagnostics
    assert diagnostic.code == "LOG_INCOMPLETE"
    assert refused.value.exit is Exit.STATE
    assert named in diagnostic.message
    assert diagnostic.hint
    assert diagnostic.file is not None
    assert diagnostic.file.startswith(str(runs))


def reused_in_a_third_run(logs: dict[str, Log]) -> Log:
    """r0003 as a run writes it that takes every result of r0001 again."""
    source = logs["r0001"]
    third: Log = [next(e for e in source if isinstance(e, ev.RunStart))]
    third.extend(e for e in source if isinstance(e, ev.InputRecorded))
    for start in [e for e in source if isinstance(e, ev.StepStart)]:
        third.append(
            ev.StepSkipped(
                step_id=start.step_id, why="reused", fingerprint=start.fingerprint, bindings=start.bindings,
                from_run="r0001", from_step=start.step_id,
            )
        )  # fmt: skip
        third.extend(
            msgspec.structs.replace(e, reused_from="r0001")
            for e in source
            if isinstance(e, ev.ArtifactAvailable) and e.step_id == start.step_id
        )
    third.append(next(e for e in source if isinstance(e, ev.RunComplete)))
    return [msgspec.structs.replace(e, ts=source[0].ts) for e in third]


def test_an_absent_artifact_is_not_log_damage(scenario: Load) -> None:
    story = scenario("then-and-now").with_log()
    runs = story.opened.state.runs_dir
    logs: dict[str, Log] = read_logs(runs)  # type: ignore[assignment]
    drop(logs["r0001"], ev.ArtifactAvailable, "Job:Montage")
    write_logs(runs, logs)
    plan = story.plan()
    assert [(j.id, [r.artifact for r in j.reasons]) for j in plan.planned] == [  # type: ignore[union-attr]
        ("Job:Montage", ["Artifact:Montage.Picture"])
    ]
