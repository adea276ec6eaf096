"""What a comparison of two runs found. [pure]"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["event", "manifest", "cfg", "artifact", "metric", "file", "status"]


class _Absent:
    """Not there at all; None is a value."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is other in the two runs, or is only in one of them (`ABSENT`).

    `name`: `step_failed Job:Clip[0]`, `cfg/Clip.json`, `Artifact:Clip.Frame[0]`. `field`: what of it differs; empty: it
    is there in one run only. `details`: what differs inside, in words. The rest is for the order.
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
        found: dict[str, Any] = {"kind": self.kind, "name": self.name}
        if self.field:
            found["field"] = self.field
        if self.old is not ABSENT:
            found["old"] = self.old
        if self.new is not ABSENT:
            found["new"] = self.new
        return {**found, "details": list(self.details)} if self.details else found


@dataclass(frozen=True, slots=True)
class Note:
    """Something that differs and is not judged, with the reason why not."""

    name: str
    why: str
    old: Any
    new: Any

    def to_json(self) -> dict[str, Any]:
        sides = {name: side for name, side in (("old", self.old), ("new", self.new)) if side is not ABSENT}
        return {"name": self.name, "why": self.why, **sides}


@dataclass(frozen=True, slots=True)
class Parity:
    """`compared`: how many there were of each kind, in the one and in the other run. `measured`: durations and the
    like, of both."""

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
    """(`counts.failed`, before, now) for each value that differs. Lists of one length are looked into."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in sorted({*old, *new}):
            inner = f"{path}.{name}" if path else str(name)
            yield from leaf_differences(old.get(name, ABSENT), new.get(name, ABSENT), inner)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for at, (was, now) in enumerate(zip(old, new, strict=True)):
            yield from leaf_differences(was, now, f"{path}[{at}]")
    elif repr(old) != repr(new):  # 1 and 1.0, 0.0 and -0.0 are written differently
        yield path, old, new
