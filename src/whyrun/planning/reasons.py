"""The six reasons, each with its particulars. A job instance is in the plan because of these objects; explain only
renders them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import merge
from itertools import islice
from typing import Any

import msgspec

LISTED = 20  # particulars of one code that are listed; the rest is counted


class RetryPreviousFailure(msgspec.Struct, frozen=True):
    """Its latest attempt failed, timed out or was interrupted."""

    run: str
    attempt: int
    error_type: str
    error: str

    code = "RETRY_PREVIOUS_FAILURE"


class MissingOutput(msgspec.Struct, frozen=True):
    """A declared output or leaf is not available, or (without an artifact) the instance never succeeded."""

    artifact: str | None = None
    change: str | None = None  # deleted changed unpublished lost …; None: never made
    path: str | None = None

    code = "MISSING_OUTPUT"


class InputChanged(msgspec.Struct, frozen=True):
    """What it would consume differs from what its last success consumed. `old` is None for an addition, `new` for a
    removal. Small values stand beside the hashes."""

    binding: str
    source: str | None = None
    old_source: str | None = None
    old: str | None = None
    new: str | None = None
    old_value: Any = None
    new_value: Any = None
    old_as: str | None = None  # where the content is the same: the form it is handed over in (`f.csv`, `t.txt`, `v[]`)
    new_as: str | None = None
    problem: str | None = None  # it cannot be computed
    files: tuple[str, ...] | None = None  # of an action: those that changed, came or went
    versions: tuple[str, ...] | None = None  # of an action: `whyrun-text-actions 0.1.0 → 9.9`

    code = "INPUT_CHANGED"


class UpstreamFailed(msgspec.Struct, frozen=True):
    artifact: str

    code = "UPSTREAM_FAILED"


class UpstreamDirty(msgspec.Struct, frozen=True):
    job: str

    code = "UPSTREAM_DIRTY"


class Forced(msgspec.Struct, frozen=True):
    by: str  # the option's text: `Job:ThenImage[*]`, `layer:0`

    code = "FORCED"


class More(msgspec.Struct, frozen=True):
    """So many further particulars of a code."""

    code: str
    more: int


Reason = RetryPreviousFailure | MissingOutput | InputChanged | UpstreamFailed | UpstreamDirty | Forced | More
CODES = ("RETRY_PREVIOUS_FAILURE", "MISSING_OUTPUT", "INPUT_CHANGED", "UPSTREAM_FAILED", "UPSTREAM_DIRTY", "FORCED")


def bounded(reasons: Sequence[Reason], most: int | None = LISTED) -> list[Reason]:
    """At most 20 of one code, and a count of the rest. `most`: None for all of them."""
    if most is None or len(reasons) <= most:
        return list(reasons)
    return [*reasons[:most], More(reasons[0].code, len(reasons) - most)]


def listed_reasons(
    code: str, shared: Sequence[Any], own: Sequence[Any], make: Callable[[Any], Reason], most: int | None = LISTED
) -> list[Reason]:
    """The same for two sorted, disjoint lists of particulars: only those that are listed are made into reasons."""
    first = list(islice(merge(shared, own), most))
    rest = len(shared) + len(own) - len(first)
    return [*map(make, first), *([More(code, rest)] if rest else [])]


def version_changes(was: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...] | None:
    """What of an action and its package has another version; None where that is not recorded, or not it."""
    changed = [name for name in sorted({*was, *now}) if was.get(name) != now.get(name)]
    texts = [f"{name} {was.get(name) or 'none'} → {now.get(name) or 'none'}" for name in changed]
    return tuple(texts) if was and texts else None


def reason_json(reason: Reason) -> dict[str, Any]:
    found: dict[str, Any] = {"code": reason.code}
    for name in reason.__struct_fields__:
        value = getattr(reason, name)
        if value is not None and name != "code":
            found[name] = list(value) if isinstance(value, tuple) else value
    return found
