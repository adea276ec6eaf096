"""The six reasons, each with its particulars. A job instance is in the plan because of these objects; explain only
renders them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from heapq import merge
from itertools import islice
from typing import Any

LISTED = 20  # particulars of one code that are listed; the rest is counted


@dataclass(frozen=True, slots=True)
class RetryPreviousFailure:
    """Its latest attempt failed, timed out or was interrupted."""

    run: str
    attempt: int
    error_type: str
    error: str

    code = "RETRY_PREVIOUS_FAILURE"


@dataclass(frozen=True, slots=True)
class MissingOutput:
    """A declared output or leaf is not available, or (without an artifact) the instance never succeeded."""

    artifact: str | None = None
    change: str | None = None  # deleted changed lost; None: never made
    path: str | None = None

    code = "MISSING_OUTPUT"


@dataclass(frozen=True, slots=True)
class InputChanged:
    """What it would consume differs from what its last success consumed. `old` is None for an addition, `new` for a
    removal. Small values stand beside the hashes."""

    binding: str
    source: str | None = None
    old_source: str | None = None
    old: str | None = None
    new: str | None = None
    old_value: Any = None
    new_value: Any = None
    old_as: str | None = None  # where the content is the same: the form it is handed over in (`f.csv`, `v`, `f.csv[]`)
    new_as: str | None = None
    problem: str | None = None  # it cannot be computed
    files: tuple[str, ...] | None = None  # of an action: those that changed, came or went
    versions: tuple[str, ...] | None = None  # of an action: `whyrun-text-actions 0.1.0 → 9.9`

    code = "INPUT_CHANGED"


@dataclass(frozen=True, slots=True)
class UpstreamFailed:
    artifact: str

    code = "UPSTREAM_FAILED"


@dataclass(frozen=True, slots=True)
class UpstreamDirty:
    job: str

    code = "UPSTREAM_DIRTY"


@dataclass(frozen=True, slots=True)
class Forced:
    by: str  # the option's text: `Job:ThenImage[*]`, `layer:0`

    code = "FORCED"


@dataclass(frozen=True, slots=True)
class More:
    """So many further particulars of a code."""

    code: str
    more: int


Reason = RetryPreviousFailure | MissingOutput | InputChanged | UpstreamFailed | UpstreamDirty | Forced | More
CODES = ("RETRY_PREVIOUS_FAILURE", "MISSING_OUTPUT", "INPUT_CHANGED", "UPSTREAM_FAILED", "UPSTREAM_DIRTY", "FORCED")


def bounded(reasons: Sequence[Reason]) -> list[Reason]:
    """At most 20 of one code, and a count of the rest."""
    if len(reasons) <= LISTED:
        return list(reasons)
    return [*reasons[:LISTED], More(reasons[0].code, len(reasons) - LISTED)]


def listed_reasons(code: str, shared: Sequence[Any], own: Sequence[Any], make: Callable[[Any], Reason]) -> list[Reason]:
    """The same for two sorted, disjoint lists of particulars: only those that are listed are made into reasons."""
    first = list(islice(merge(shared, own), LISTED))
    rest = len(shared) + len(own) - len(first)
    return [*map(make, first), *([More(code, rest)] if rest else [])]


def version_changes(was: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...] | None:
    """What of an action and its package has another version; None where that is not recorded, or not it."""
    changed = [name for name in sorted({*was, *now}) if was.get(name) != now.get(name)]
    texts = [f"{name} {was.get(name) or 'none'} → {now.get(name) or 'none'}" for name in changed]
    return tuple(texts) if was and texts else None


def reason_json(reason: Reason) -> dict[str, Any]:
    found: dict[str, Any] = {"code": reason.code}
    for field in fields(reason):
        value = getattr(reason, field.name)
        if value is not None and field.name != "code":
            found[field.name] = list(value) if isinstance(value, tuple) else value
    return found
