"""The differences between a saved plan and the one computed now, as text. Pure.

It compares both plans as they are written, because the digests are computed from that form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from whyrun.ids import whole_input
from whyrun.planning.reasons import read_reason
from whyrun.snapshot.reads import ObservedReads

# --- what is told beside a plan, because it changes nothing in it -----------------------------------------------------
# What is told beside a plan, because it changes nothing in it: packages in other versions, and files to bind. Pure.


MOST = 20  # of each kind


def told(reads: ObservedReads) -> Iterator[str]:
    for read in reads.unbound[:MOST]:
        yield f"Job:{read.job} reads {read.path}, which Job:{read.maker} makes: bind it"
    if len(reads.unbound) > MOST:
        yield f"… and {len(reads.unbound) - MOST} more that read what others make (`whyrun reads` lists them)"
    if reads.counts_packages:
        return  # then they are reasons
    for one in reads.outdated[:MOST]:
        jobs = "1 job" if one.jobs == 1 else f"{one.jobs} jobs"
        now = f"now {one.new}" if one.new else "which is not installed now"
        yield f'{jobs} ran with {one.name} {one.old}, {now}: not counted (whyrun.toml: packages = "count")'
    if len(reads.outdated) > MOST:
        yield f"… and {len(reads.outdated) - MOST} more packages"


# --- the differences between two plans --------------------------------------------------------------------------------


def plan_differences(saved: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """One line for each difference, causes first: files, code and inputs, then jobs with another state, then other
    reasons."""
    return [*_parts(saved, now), *_inputs(saved, now), *_jobs(saved, now), *_rest(saved, now)]


_PART_WORDS = {"sources": "{}", "actions": "the code of Job:{}", "inputs": "{}"}


def _parts(saved: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Workflow files, actions and inputs with another content than when the plan was saved."""
    told = _changed_inputs(saved) ^ _changed_inputs(now)  # `_inputs` names them, element by element
    for kind, words in _PART_WORDS.items():
        before, after = (plan.get("snapshot_parts", {}).get(kind, {}) for plan in (saved, now))
        for name in sorted({*before, *after}):
            old, new = (str(part[name])[:8] if name in part else "absent" for part in (before, after))
            if before.get(name) != after.get(name) and not any(whole_input(id_) == name for id_ in told):
                yield f"{words.format(name)}: {old} when it was saved, {new} now"


def _inputs(saved: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Inputs that differ from the last run in only one of the plans."""
    before, after = _changed_inputs(saved), _changed_inputs(now)
    for id_ in sorted(before - after):
        yield f"{id_}: changed since the last run when the plan was saved, unchanged now"
    for id_ in sorted(after - before):
        yield f"{id_}: unchanged since the last run when the plan was saved, changed now"


def _changed_inputs(plan: Mapping[str, Any]) -> set[str]:
    changed = plan.get("snapshot", {}).get("inputs_changed", [])
    return set(changed) if isinstance(changed, list) else set()  # a plan writes a long list as a digest


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
            yield f"its `{name}` changed"


def _texts(reasons: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]], job: str) -> list[str]:
    return [_reason_text(reason, job) for reason in reasons if reason not in others]


def _reason_text(written: Mapping[str, Any], job: str) -> str:
    reason = read_reason(written)
    return str(written["code"]) if reason is None else f"{reason.code} {reason.text(job)}".rstrip()


def _rest(saved: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    old, new = saved.get("totals", {}).get("jobs"), now.get("totals", {}).get("jobs")
    if old != new:
        yield f"the workflow had {old} job instances when it was saved, and has {new} now"
    old, new = saved.get("snapshot", {}).get("available"), now.get("snapshot", {}).get("available")
    if old != new:
        yield f"{old} artifacts were available when it was saved, {new} are now"
