"""The part of the fold for costs: what the result of an attempt cost. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whyrun.log.lean_events import CostRecorded
from whyrun.snapshot.records import Attempt, StepRecord

if TYPE_CHECKING:
    from whyrun.money import Totals


class CostsFold:
    """Of one run."""

    def __init__(self) -> None:
        self._open: dict[str, Totals] = {}

    def add(self, event: CostRecorded) -> None:
        from whyrun.money import Totals  # imported late: most logs have no costs, and decimals take time to import

        self._open.setdefault(event.step_id, Totals()).add(event.amount, event.currency)

    def ended(self, step: str, attempt: Attempt, record: StepRecord | None) -> None:
        """An attempt that resumed a request has the cost of the attempts before it, which had no result."""
        own = self._open.pop(step, None)
        if own is not None:
            attempt.costs = own.to_record()
        elif attempt.number and record is not None and not record.latest.ok:
            attempt.costs = record.latest.costs
