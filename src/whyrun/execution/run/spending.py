"""What the steps of a run spend: each cost becomes an event before its step goes on."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from whyrun.execution.dispatch.dispatch import ActiveStep
from whyrun.execution.protocol.messages import CostReported
from whyrun.execution.recording.publisher import Publisher
from whyrun.execution.recording.totals import Usage
from whyrun.execution.run.budget import Budget, Reservations
from whyrun.log import events as ev
from whyrun.log.costs import known_requests
from whyrun.money import decimal, times, written
from whyrun.planning.answers.prices import prices_of

if TYPE_CHECKING:
    from whyrun.execution.run.stages import Work
    from whyrun.planning.plan import Plan
    from whyrun.snapshot.snapshot import PlanningSnapshot


class Spending:
    def __init__(self, work: Work, budget: Budget | None, publisher: Publisher, usage: Usage) -> None:
        self._snapshot, self._publisher, self._usage = work.snapshot, publisher, usage
        self._reservations = None
        if budget is not None:
            self._reservations = Reservations(budget, prices_of(work.plan, work.snapshot), usage.spent)
        self._in_this_run: set[tuple[str, str, str]] = set()  # (step, request, item)

    def look_at(self, snapshot: PlanningSnapshot, stage: Plan) -> None:
        """The jobs of a stage are planned."""
        self._snapshot = snapshot
        if self._reservations is not None:
            self._reservations.add(prices_of(stage, snapshot))

    @cached_property
    def _in_earlier_runs(self) -> set[tuple[str, str, str]]:
        """Read once, and only if a step names a request."""
        recorder = self._publisher.recorder
        return known_requests(run for run in self._publisher.state.runs() if run.name != recorder.journal.session)

    def allows(self, step: str) -> bool:
        """Whether the budget allows an attempt of a step now. Its price is then reserved until `ended`."""
        return self._reservations is None or self._reservations.reserve(step)

    def ended(self, step: str) -> None:
        if self._reservations is not None:
            self._reservations.release(step)

    def exceeding(self, active: Iterable[ActiveStep]) -> set[str]:
        """The queued steps that a cost has left no money for."""
        if self._reservations is None:
            return set()
        return self._reservations.exceeding([step.id for step in active if step.began is None])

    def record(self, message: CostReported) -> None:
        """Write a cost to the log, before its step goes on. A kill of this process loses no cost after that."""
        if not self._is_known(message):
            amount, currency = message.amount, message.currency
            if amount is None:
                amount, currency = self._listed(message)
            event = ev.CostRecorded(
                step_id=message.step_id,
                amount=amount,
                currency=currency,
                item=message.item,
                quantity=message.quantity,
                request=message.request,
            )
            self._publisher.recorder.event(event, ts=message.ts)
            self._publisher.recorder.flush()
            self._usage.spent.add(amount, currency)
            if self._reservations is not None:
                self._reservations.paid(message.step_id, amount, currency)

    def _listed(self, message: CostReported) -> tuple[str | None, str]:
        """The amount of a cost that the step does not know, by the price of its item in `prices.yaml`."""
        pricer = self._snapshot.pricer
        price = pricer().unit_price(message.item) if pricer is not None else None
        if price is None:
            return None, message.currency
        quantity = decimal("the quantity", message.quantity or 1)
        return written(times(price[0], quantity)), price[1]

    def _is_known(self, message: CostReported) -> bool:
        """Whether this request of the step was paid for before: an attempt that resumes it reports its cost again."""
        if message.request is None:
            return False
        bought = message.step_id, message.request, message.item
        if bought in self._in_this_run or bought in self._in_earlier_runs:
            return True
        self._in_this_run.add(bought)
        return False
