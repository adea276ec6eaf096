"""Which fields of each event are compared between two runs, one table for all event types; and the result. Pure.

Fields in `NEVER` say where and when, and are never compared. Any other field is compared, or left out with a reason. A
test fails if an event or a field is not in the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from whyrun.log import events as ev

# Where, when and by whom; `v` is the version of the line format.
NEVER = frozenset({"seq", "ts", "chain", "session", "host", "pid", "backend", "duration", "v"})
THIS_RUN = "(this run)"  # replaces a run's own name, which depends on the number of earlier runs


@dataclass(frozen=True, slots=True)
class Declared:
    """`named_by`: the fields that identify an event; events with the same name are paired. `compared`: the other fields
    that are compared. `left_out`: the rest, each with the reason."""

    named_by: tuple[str, ...] = ()
    compared: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)


_BYTES = "the bytes of the file are compared, after they were checked against the log"
_CONTENT = "the content is compared, after it was checked against the log"
_OBSERVED = {
    "observed": "what the host has of strace decides how much is seen: it is compared where both runs traced the step",
    "traced": "it says what the host has of strace",
    "outside": "paths outside the project are of the machine",
    "packages": "they are of the machine, as the Python version is",
}
_PERSON = "it names a person on a machine"
_NOW = {name: _OBSERVED[name] for name in ("observed", "packages")}

DECLARED: Mapping[type[ev.Event], Declared] = {
    ev.RunStart: Declared(
        (),
        ("workflow", "workflow_sha256", "mode", "options", "engine_version"),
        {"previous_chain": "it is the chain of the run before"},
    ),
    ev.InputRecorded: Declared(("id",), ("sha256", "size", "value")),
    ev.PlanComputed: Declared(
        ("source",),
        ("plan_sha256", "snapshot_sha256", "planned", "layers"),
        {
            "log_position": "it names a run and its chain",
            "stage": "which of two stages is planned first depends on how fast their sources are",
        },
    ),
    ev.ManifestMaterialized: Declared(("path",), (), {"size": _BYTES, "sha256": _BYTES}),
    ev.CfgMaterialized: Declared(("path",), (), {"size": _BYTES, "sha256": _BYTES}),
    ev.StepStart: Declared(("step_id", "attempt"), ("driver", "fingerprint", "bindings")),
    ev.ArtifactAvailable: Declared(
        ("artifact",),
        ("step_id", "type", "suffix", "path", "section", "reused_from"),
        {"sha256": _CONTENT, "size": _CONTENT, "value": _CONTENT},
    ),
    ev.StepComplete: Declared(("step_id",), ("driver", "output_dir", "status"), _OBSERVED),
    # Only type and message of the traceback: frames have paths of the machine. See `compared_value`.
    ev.StepFailed: Declared(
        ("step_id",), ("driver", "error_type", "error", "traceback", "status", "will_retry"), _OBSERVED
    ),
    ev.StepSkipped: Declared(
        ("step_id",),
        ("why", "fingerprint", "bindings", "from_run", "recorded_in", "from_step", "reason"),
        {"shared": "it names a person and a run on another machine"},
    ),
    ev.StepBlocked: Declared(("step_id",), ("because", "problem")),
    ev.ConditionEvaluated: Declared(("step_id",), ("expression", "inputs", "result")),
    ev.Task: Declared(("step_id",), ("status", "message", "details")),
    ev.RequestRecorded: Declared(
        ("step_id", "key"), ("fingerprint",), {"value": "it is the id that the service gave this request"}
    ),
    ev.CostRecorded: Declared(
        ("step_id", "item"),
        ("amount", "currency", "quantity"),
        {"request": "it is the id that the service gave this request"},
    ),
    ev.ArtifactAdopted: Declared(
        ("artifact",),
        ("step_id", "type", "fingerprint", "bindings", "suffix", "path", "section"),
        {"sha256": _CONTENT, "size": _CONTENT, "value": _CONTENT, "by": _PERSON, **_NOW},
    ),
    ev.ResultKept: Declared(
        ("step_id",),
        ("fingerprint", "old_fingerprint", "from_run", "because", "bindings"),
        {"by": _PERSON, **_NOW},
    ),
    ev.FileDisplaced: Declared(("path", "section"), ("sha256",)),
    ev.Comparison: Declared(
        ("artifact",), ("step_id", "status", "against", "summary", "details", "more", "adopted", "kept")
    ),
    ev.StatusContractViolation: Declared(
        ("step_id",),
        ("reason",),
        {"last_stderr": "how much of it was printed before the worker died is random"},
    ),
    ev.LogRepaired: Declared(
        (),
        ("interrupted",),
        {"cut_bytes": "where the kill cut the log is random", "cut_sha256": "where the kill cut the log is random"},
    ),
    ev.RunComplete: Declared((), ("state", "counts", "error", "exit_code")),
}

_SETS = frozenset({(ev.StepBlocked, "because"), (ev.LogRepaired, "interrupted")})  # their order has no meaning
_RUNS = frozenset({"reused_from", "from_run", "recorded_in", "against"})
_WHERE = frozenset({"backend", "jobs"})  # run options that say where, and how many at a time


@dataclass(frozen=True, slots=True)
class ComparedEvent:
    """An event as it is compared. `name`: the values of `named_by`; `fields`: the compared values."""

    type: str
    name: tuple[Any, ...]
    fields: Mapping[str, Any]
    seq: int
    step_id: str | None

    @property
    def title(self) -> str:
        """`step_failed Job:Clip[0]`; with the number of the attempt, if it has one."""
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
    """The value of a field without its random and machine-specific parts."""
    value = getattr(event, field_)
    if value is msgspec.UNSET:
        return None
    if isinstance(event, ev.StepFailed) and field_ == "traceback":
        return last_line(value) if _failed_by_itself(event) else ""
    if field_ in _RUNS and value == event.session:
        return THIS_RUN
    if (type(event), field_) in _SETS:
        return sorted(value)
    if field_ == "options":
        return {name: option for name, option in value.items() if name not in _WHERE}
    return value


def compared_command(record: dict[str, Any], session: str) -> dict[str, Any]:
    """A command (a new record of it) without hashes and without what depends on the service that a step asked: of what
    it recalls, the names count. Which steps are traced depends on how many run at a time."""
    for name in ("step_id", "attempt", "cfg_sha256", "trace"):
        del record[name]
    for given in (*record["inputs"].values(), *record["compare"].values()):
        for source in given if isinstance(given, list) else [given]:
            del source["sha256"]
            if source.get("from_run") == session:
                source["from_run"] = THIS_RUN
    for name in ("recalled", "recalled_elsewhere"):
        record[name] = sorted(record[name])
    return record


def _failed_by_itself(event: ev.StepFailed) -> bool:
    """Whether the step raised the error. A stopped or dead step has a random traceback."""
    return event.status == "FAILED" and event.error_type != "WorkerDied"


def last_line(traceback: str) -> str:
    """The last line: type and message of the error; empty if there is no traceback."""
    return traceback.rstrip().rsplit("\n", 1)[-1].strip()


# --- the result of comparing two runs. Pure ---------------------------------------------------------------------------


Kind = Literal["event", "command", "manifest", "cfg", "artifact", "metric", "file", "status"]


class _Absent:
    """Absent; None is a value."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that differs between the runs, or that only one of them has (the other is `ABSENT`).

    `name`: `step_failed Job:Clip[0]`, `cfg/Clip.json`, `Artifact:Clip.Frame[0]`. `field`: the part that differs; empty
    if only one run has it. `details`: a description for people. `step_id` and `seq` are for sorting.
    """

    kind: Kind
    name: str
    field: str
    old: Any
    new: Any
    details: tuple[str, ...] = ()
    step_id: str | None = None
    seq: int | None = None

    def to_json(self) -> dict[str, Any]:
        record: dict[str, Any] = {"kind": self.kind, "name": self.name}
        if self.field:
            record["field"] = self.field
        if self.old is not ABSENT:
            record["old"] = self.old
        if self.new is not ABSENT:
            record["new"] = self.new
        return {**record, "details": list(self.details)} if self.details else record


@dataclass(frozen=True, slots=True)
class Note:
    """A difference that does not count, and why."""

    name: str
    why: str
    old: Any
    new: Any

    def to_json(self) -> dict[str, Any]:
        sides = {name: side for name, side in (("old", self.old), ("new", self.new)) if side is not ABSENT}
        return {"name": self.name, "why": self.why, **sides}


@dataclass(frozen=True, slots=True)
class Parity:
    """`compared`: kind → how many each run has. `measured`: durations and other measured values of both runs."""

    old: str
    new: str
    differences: tuple[Difference, ...]
    not_judged: tuple[Note, ...]
    compared: Mapping[str, tuple[int, int]]
    measured: tuple[Mapping[str, Any], Mapping[str, Any]]

    @property
    def equal(self) -> bool:
        return not self.differences

    @property
    def headline(self) -> Difference | None:
        return self.differences[0] if self.differences else None

    def to_json(self) -> dict[str, Any]:
        return {
            "old": self.old,
            "new": self.new,
            "equal": self.equal,
            "headline": None if self.headline is None else self.headline.to_json(),
            "differences": [difference.to_json() for difference in self.differences],
            "compared": {name: list(counts) for name, counts in self.compared.items()},
            "not_judged": [note.to_json() for note in self.not_judged],
            "measured": {"old": dict(self.measured[0]), "new": dict(self.measured[1])},
        }


def leaf_differences(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(`counts.failed`, before, now) for each value that differs. Lists of equal length are compared by member."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in sorted({*old, *new}):
            inner = f"{path}.{name}" if path else str(name)
            yield from leaf_differences(old.get(name, ABSENT), new.get(name, ABSENT), inner)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for at, (was, now) in enumerate(zip(old, new, strict=True)):
            yield from leaf_differences(was, now, f"{path}[{at}]")
    elif repr(old) != repr(new):  # 1 and 1.0, 0.0 and -0.0 are written differently
        yield path, old, new
