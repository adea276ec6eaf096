"""The result of comparing two runs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

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
