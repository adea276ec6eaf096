"""What makes a saved plan another than the one computed now, in words. Pure.

Both are compared as they are written, so that what is told is what the digest is over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from whyrun.planning.explain import particulars
from whyrun.planning.reasons import (
    Forced,
    InputChanged,
    MissingOutput,
    More,
    Reason,
    RetryPreviousFailure,
    UpstreamDirty,
    UpstreamFailed,
)

_KINDS: Mapping[str, type[Reason]] = {
    kind.code: kind
    for kind in (RetryPreviousFailure, MissingOutput, InputChanged, UpstreamFailed, UpstreamDirty, Forced)
}


def plan_differences(saved: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """One line for each difference, causes first: inputs, then jobs in one plan only, then what differs of a job."""
    return [*_inputs(saved, now), *_jobs(saved, now), *_rest(saved, now)]


def _inputs(saved: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Inputs that differ from the last run in one of the plans only."""
    before, after = _changed_inputs(saved), _changed_inputs(now)
    for id_ in sorted(before - after):
        yield f"{id_}: changed when it was saved, as the last run left it now"
    for id_ in sorted(after - before):
        yield f"{id_}: as the last run left it when it was saved, changed now"


def _changed_inputs(plan: Mapping[str, Any]) -> set[str]:
    changed = plan.get("snapshot", {}).get("inputs_changed", [])
    return set(changed) if isinstance(changed, list) else set()  # a long list stands as a digest


def _jobs(saved: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    before = {job["id"]: job for job in saved.get("jobs", [])}
    after = {job["id"]: job for job in now.get("jobs", [])}
    for id_ in [*before, *(id_ for id_ in after if id_ not in before)]:
        old, new = _state(before.get(id_)), _state(after.get(id_))
        if old != new:
            why = _first_reason(before.get(id_) or after[id_])
            yield f"{id_}: {old} when it was saved, {new} now" + (f"  ({why})" if why else "")
    for id_, old_job in before.items():
        new_job = after.get(id_)
        if new_job is not None and _state(old_job) == _state(new_job):
            yield from (f"{id_}: {difference}" for difference in _job_differences(id_, old_job, new_job))


def _state(job: Mapping[str, Any] | None) -> str:
    if job is None:
        return "up to date"
    return "reused" if job["state"] == "planned" and "reuse" in job else str(job["state"])


def _first_reason(job: Mapping[str, Any]) -> str:
    reasons = job.get("reasons", [])
    return _reason_text(reasons[0], job["id"]) if reasons else ""


def _job_differences(id_: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    gone = _texts(old.get("reasons", []), new.get("reasons", []), id_)
    come = _texts(new.get("reasons", []), old.get("reasons", []), id_)
    if gone and come:
        yield f"was {', '.join(gone)}; is {', '.join(come)}"
    elif gone or come:
        yield f"{'no longer' if gone else 'now also'} {', '.join(gone or come)}"
    for name in sorted({*old, *new} - {"id", "state", "reasons"}):
        if old.get(name) != new.get(name):
            yield f"its {'wiring' if name == 'bindings' else name} is another"


def _texts(reasons: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]], job: str) -> list[str]:
    return [_reason_text(reason, job) for reason in reasons if reason not in others]


def _reason_text(written: Mapping[str, Any], job: str) -> str:
    code = str(written["code"])
    if "more" in written:
        reason: Reason = More(code, written["more"])
    else:
        try:
            particular = {name: value for name, value in written.items() if name != "code"}
            reason = msgspec.convert(particular, _KINDS[code])
        except (KeyError, msgspec.ValidationError):
            return code  # of another version: its code still says the most
    return f"{code} {particulars(reason, job)}".rstrip()


def _rest(saved: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    old, new = saved.get("totals", {}).get("jobs"), now.get("totals", {}).get("jobs")
    if old != new:
        yield f"the workflow had {old} job instances when it was saved, and has {new} now"
    old, new = saved.get("snapshot", {}).get("available"), now.get("snapshot", {}).get("available")
    if old != new:
        yield f"{old} artifacts were available when it was saved, {new} are now"
