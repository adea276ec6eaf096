"""Which fields of each event count when two runs are compared: one table, complete for every type. [pure]

What never counts is where and when: `NEVER`. Any other field is compared, or left out with the reason beside it. A test
walks all types of the log, so that a new event or field has to be decided on here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from whyrun.log import events as ev

# Where, when and by whom; `v` is how a line is written.
NEVER = frozenset({"seq", "ts", "chain", "session", "host", "pid", "backend", "duration", "v"})
THIS_RUN = "(this run)"  # stands for a run's own name: that is a matter of how many runs its state had before


@dataclass(frozen=True, slots=True)
class Declared:
    """`named_by`: what the event is about; two events of one name are paired, and what differs in them is told.
    `compared`: the further fields that count. `left_out`: the others, each with the reason."""

    named_by: tuple[str, ...] = ()
    compared: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)


_BYTES = "the bytes of the file itself are compared, and that they are those of the log is checked"
_CONTENT = "the content itself is compared, and that it is what the log says is checked"

DECLARED: Mapping[type[ev.Event], Declared] = {
    ev.RunStart: Declared(
        (),
        ("workflow", "workflow_sha256", "mode", "options", "engine_version"),
        {"previous_chain": "it is the chain of the run before"},
    ),
    ev.InputRecorded: Declared(("id",), ("sha256", "size", "value")),
    ev.PlanComputed: Declared(
        (),
        ("plan_sha256", "snapshot_sha256", "planned", "layers"),
        {"log_position": "it names a run and its chain"},
    ),
    ev.ManifestMaterialized: Declared(("path",), (), {"size": _BYTES, "sha256": _BYTES}),
    ev.CfgMaterialized: Declared(("path",), (), {"size": _BYTES, "sha256": _BYTES}),
    ev.StepStart: Declared(("step_id", "attempt"), ("driver", "fingerprint", "bindings")),
    ev.ArtifactAvailable: Declared(
        ("artifact",),
        ("step_id", "type", "suffix", "path", "section", "reused_from"),
        {"sha256": _CONTENT, "size": _CONTENT, "value": _CONTENT},
    ),
    ev.StepComplete: Declared(("step_id",), ("driver", "output_dir", "status")),
    # Of the traceback the type and message: frames hold paths and lines of the place. See `compared_value`.
    ev.StepFailed: Declared(("step_id",), ("driver", "error_type", "error", "traceback", "status", "will_retry")),
    ev.StepSkipped: Declared(
        ("step_id",),
        ("why", "fingerprint", "bindings", "from_run", "from_step", "reason"),
        {"shared": "it names a person and a run on another machine"},
    ),
    ev.StepBlocked: Declared(("step_id",), ("because",)),
    ev.ConditionEvaluated: Declared(("step_id",), ("expression", "inputs", "result")),
    ev.Task: Declared(("step_id",), ("status", "message", "details")),
    ev.RequestRecorded: Declared(
        ("step_id", "key"), ("fingerprint",), {"value": "it is the other side's number for this one request"}
    ),
    ev.ArtifactAdopted: Declared(
        ("artifact",),
        ("step_id", "type", "fingerprint", "bindings", "suffix", "path", "section"),
        {"sha256": _CONTENT, "size": _CONTENT, "value": _CONTENT, "by": "it names a person on a machine"},
    ),
    ev.FileDisplaced: Declared(("path", "section"), ("sha256",)),
    ev.Comparison: Declared(("artifact",), ("status", "against", "summary", "details", "more", "adopted")),
    ev.StatusContractViolation: Declared(
        ("step_id",),
        ("reason",),
        {"last_stderr": "how much of it came out before the worker was gone is chance"},
    ),
    ev.LogRepaired: Declared(
        (),
        ("interrupted",),
        {"cut_bytes": "where the kill cut the log is chance", "cut_sha256": "where the kill cut the log is chance"},
    ),
    ev.RunComplete: Declared((), ("state", "counts", "error")),
}

_SETS = frozenset({(ev.StepBlocked, "because"), (ev.LogRepaired, "interrupted")})  # their order says nothing
_RUNS = frozenset({"reused_from", "from_run", "against"})
_PLACE = frozenset({"backend", "jobs"})  # of a run's options: where, and how many at a time


@dataclass(frozen=True, slots=True)
class ComparedEvent:
    """An event as it is compared. `name`: what it is about; `fields`: what counts."""

    type: str
    name: tuple[Any, ...]
    fields: Mapping[str, Any]
    seq: int
    step_id: str | None

    @property
    def title(self) -> str:
        """`step_failed Job:Clip[0]`; of an attempt also its number."""
        parts = [f"(attempt {part})" if isinstance(part, int) else part for part in self.name if part is not None]
        return " ".join([self.type, *parts])


def compared_events(events: tuple[ev.AnyEvent, ...]) -> Iterator[ComparedEvent]:
    for event in events:
        declared = DECLARED[type(event)]
        name = tuple(getattr(event, field_) for field_ in declared.named_by)
        fields = {field_: compared_value(event, field_) for field_ in declared.compared}
        type_ = event.__struct_config__.tag
        assert isinstance(type_, str)
        yield ComparedEvent(type_, name, fields, event.seq, getattr(event, "step_id", None))


def compared_value(event: ev.Event, field_: str) -> Any:
    """A field as it counts: without what is chance or a matter of the place."""
    value = getattr(event, field_)
    if value is msgspec.UNSET:
        return None
    if isinstance(event, ev.StepFailed) and field_ == "traceback":
        return last_line(value) if _broke_by_itself(event) else ""
    if field_ in _RUNS and value == event.session:
        return THIS_RUN
    if (type(event), field_) in _SETS:
        return sorted(value)
    if field_ == "options":
        return {name: option for name, option in value.items() if name not in _PLACE}
    return value


def _broke_by_itself(event: ev.StepFailed) -> bool:
    """A step that was stopped from outside has a traceback of wherever it stood, and a dead one what it last wrote."""
    return event.status == "FAILED" and event.error_type != "WorkerDied"


def last_line(traceback: str) -> str:
    """The type and message at its end (of a message of several lines, the last); empty where there is no traceback."""
    return traceback.rstrip().rsplit("\n", 1)[-1].strip()
