"""Compares what the steps of two runs read undeclared, where strace watched the step in both: else one run may have
seen more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from whyrun.evidence.parity.reading import RunEvidence
from whyrun.evidence.parity.result import ABSENT, Difference
from whyrun.log import events as ev
from whyrun.log.reads import LongReads


def reads_differences(old: RunEvidence, new: RunEvidence) -> Iterator[Difference]:
    ours, theirs = (
        {event.step_id: event for event in side.events if isinstance(event, ev.StepComplete) and event.traced}
        for side in (old, new)
    )
    for step in sorted(ours.keys() & theirs.keys()):
        was, now = (_contents(side[step]) for side in (ours, theirs))
        title, seq = f"step_complete {step}", min(ours[step].seq, theirs[step].seq)
        for path in sorted({*was, *now}):
            before, after = was.get(path, ABSENT), now.get(path, ABSENT)
            if before != after and "unknown" not in (before, after):
                yield Difference("event", title, f"observed.{path}", before, after, step_id=step, seq=seq)


def _contents(event: ev.StepComplete) -> dict[str, Any]:
    """Path → its content or kind. Of a long list, its digest stands for all."""
    if event.observed is None:
        return {}
    if isinstance(event.observed, LongReads):
        return {"": event.observed.digest}
    return {read.path: read.sha256 or read.kind for read in event.observed}
