"""Which runs the state of now rests on, and why. [pure]

A run may go only if nobody can tell from a plan that it is gone. What the fold says of a step's latest attempt and
success must stay to the byte. Older results may be lost (that is what pruning is for), but none may come back: where a
pruned run superseded a result of a kept one, that would count again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from whyrun.snapshot.records import Attempt, Records, StepRecord

_KINDS = {
    "attempt": "holds the latest attempt of {}",
    "success": "holds the latest success of {}",
    "adoption": "holds the adoption of {}",
    "made": "made what later runs reuse of {}",
    "request": "remembers a request that the next attempt picks up, of {}",
    "reuse": "the plan of now reuses its result of {}",
    "superseded": "without it an older result would count again, of {}",
    "rests": "what the log says now rests on it, of {}",
}


@dataclass
class Needs:
    """By run, what for. The first thing said of a run, in the order of `_KINDS`, is told."""

    _found: dict[int, dict[str, dict[str, None]]] = field(default_factory=dict)
    _others: dict[int, str] = field(default_factory=dict)

    def add(self, run: int, kind: str, subject: str) -> None:
        self._found.setdefault(run, {}).setdefault(kind, {})[subject] = None

    def say(self, run: int, why: str) -> None:
        """A reason that has nothing to do with a step."""
        self._others.setdefault(run, why)

    def __contains__(self, run: int) -> bool:
        return run in self._found or run in self._others

    def why(self, run: int) -> str:
        if run in self._others:
            return self._others[run]
        found = self._found[run]
        kind = next(kind for kind in _KINDS if kind in found)
        subjects = sorted(found[kind])
        more = f" and {len(subjects) - 1} more" if len(subjects) > 1 else ""
        return _KINDS[kind].format(f"{subjects[0]}{more}")


def add_held(needs: Needs, records: Records) -> None:
    """Runs that hold some step's latest attempt, success or adoption, or made what a later run reused."""
    for step, record in records.steps.items():
        needs.add(record.latest.run, "attempt", step)
        for attempt in {id(a): a for a in (record.latest, record.last_success()) if a is not None}.values():
            if attempt.ok:
                needs.add(attempt.run, "success", step)
            for artifact, (run, origin) in (attempt.apart or {}).items():
                needs.add(run, "adoption" if origin == "adopted" else "made", artifact)
            if attempt.made:
                needs.add(attempt.made, "made", step)


def add_remembered(needs: Needs, records: Records, requests: Mapping[int, Iterable[tuple[str, str, str]]]) -> None:
    """Runs that recorded a request that is still to be picked up. `requests`: by run, what it recorded."""
    for run, recorded in requests.items():
        for step, fingerprint, key in recorded:
            record = records.steps.get(step)
            if record is not None and key in (record.requests or {}).get(fingerprint, {}):
                needs.add(run, "request", step)


def add_lost(needs: Needs, before: Records, after: Records, steps: Mapping[int, frozenset[str]]) -> bool:
    """Compare the fold of all runs with that without the runs of `steps` (run → steps that it speaks of), and add the
    runs that make the difference. False: there is none that a plan could show."""
    same = before.inputs == after.inputs and (before.run, before.seq) == (after.run, after.seq)
    for step, record in before.steps.items():
        left = after.steps.get(step)
        if left is None or _standing(left) != _standing(record):
            _keep_all_of(needs, step, steps)
            same = False
            continue
        now = {attempt.fingerprint: attempt for attempt in record.attempts()}
        for attempt in left.attempts():
            same &= _is_latest(needs, step, attempt, now.get(attempt.fingerprint), steps)
    # Where a job is deterministic, the latest attempt of any step with its fingerprint counts.
    latest = _latest_by_fingerprint(before)
    for fingerprint, (step, attempt) in _latest_by_fingerprint(after).items():
        by = latest.get(fingerprint)
        same &= _is_latest(needs, step, attempt, None if by is None else by[1], steps)
    return not same


def _standing(record: StepRecord) -> tuple[object, ...]:
    return record.latest, record.last_success(), record.requests or None, record.remembered_by or None


def _is_latest(
    needs: Needs, step: str, left: Attempt, latest: Attempt | None, steps: Mapping[int, frozenset[str]]
) -> bool:
    """Is a result that is left still the latest of its kind? Else the run that superseded it stays, and that which made
    what it took; only where these are kept already, all that speak of the step."""
    if left == latest:
        return True
    if latest is not None and latest.run in steps:
        needs.add(latest.run, "superseded", step)
    elif latest is not None and latest.made in steps:
        needs.add(latest.made, "made", step)
    else:
        _keep_all_of(needs, step, steps)
    return False


def _keep_all_of(needs: Needs, step: str, steps: Mapping[int, frozenset[str]]) -> None:
    for run, spoken_of in steps.items():
        if step in spoken_of:
            needs.add(run, "rests", step)


def _latest_by_fingerprint(records: Records) -> dict[str, tuple[str, Attempt]]:
    found: dict[str, tuple[str, Attempt]] = {}
    for step, record in records.steps.items():
        for attempt in record.for_others():
            before = found.get(attempt.fingerprint)
            if before is None or (before[1].run, before[1].seq) < (attempt.run, attempt.seq):
                found[attempt.fingerprint] = (step, attempt)
    return found
