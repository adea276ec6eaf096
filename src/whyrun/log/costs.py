"""The costs in the logs of a workflow. A log is searched for them as bytes, because few of its lines are costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from whyrun.log.decoding import decoded
from whyrun.log.events import UNREADABLE, CostRecorded
from whyrun.log.journal import read_blocks
from whyrun.log.lean_events import damaged
from whyrun.log.runs import RunRef

_MARK = b'"event":"cost_recorded"'


def costs_of(run: RunRef) -> Iterator[CostRecorded]:
    """The costs that a run has recorded, in their order. A broken line among them is LOG_DAMAGED."""
    decode = msgspec.json.Decoder(CostRecorded).decode
    first = 1
    for lines in read_blocks(run.events_path):
        if _MARK in lines:
            for offset, line in enumerate(lines.split(b"\n")):
                if _MARK not in line:
                    continue
                try:
                    event = decoded(decode, line)
                except UNREADABLE as problem:
                    # Text of another event may look like the mark.
                    if line.startswith(b'{"seq":') and line.find(_MARK) == _event_at(line):
                        raise damaged(run.events_path, first + offset, str(problem)) from None
                    continue
                yield event
        first += lines.count(b"\n")


def _event_at(line: bytes) -> int:
    """Where the name of the event stands in a line: its key is the first of that name."""
    return line.find(b'"event":')


def known_requests(runs: Iterable[RunRef]) -> set[tuple[str, str, str]]:
    """(step, request, item) of all costs that say which request they are for."""
    return {
        (cost.step_id, cost.request, cost.item) for run in runs for cost in costs_of(run) if cost.request is not None
    }
