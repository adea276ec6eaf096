"""The budget of a run: it refuses a plan that would cost more, and holds steps back that would exceed it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from whyrun.errors import WhyrunError, error
from whyrun.execution.backends.registry import RunOptions
from whyrun.money import DEFAULT_CURRENCY, Totals, add, check_currency, decimal, meant_amount, shown
from whyrun.planning.answers.prices import Prices, prices_of
from whyrun.planning.plan import Plan
from whyrun.project import Project
from whyrun.snapshot.snapshot import PlanningSnapshot

_NUMBER = re.compile(r"-?[0-9.]+")


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run may spend, in one currency."""

    amount: Decimal
    currency: str = DEFAULT_CURRENCY

    @classmethod
    def parse(cls, text: str) -> Budget:
        """`5`, `0.50 EUR`."""
        number, _, currency = text.strip().partition(" ")
        try:
            return cls(decimal("a budget", number), check_currency(currency.strip() or DEFAULT_CURRENCY))
        except ValueError as wrong:
            what = (
                str(wrong)
                if _NUMBER.fullmatch(number)
                else f"a budget is an amount, such as `5 EUR`, not `{text:.100}`"
            )
            meant = meant_amount(text)
            hint = "write an amount such as `--budget 5`, or `--budget '5 EUR'`"
            raise error(
                "USAGE", what, hint=hint if meant is None else f"write `--budget {shlex.quote(meant)}`"
            ) from None

    def __str__(self) -> str:
        return shown(self.amount, self.currency)

    def price(self, prices: Prices, job: str) -> Decimal | None:
        """The price of a job in the currency of the budget; None if nobody knows it."""
        price = prices.by_job.get(job)
        return None if price is None or price.costs is None else Decimal(price.costs.get(self.currency, 0))

    def check(self, prices: Prices) -> None:
        """Refuse a plan whose estimate is above the budget."""
        estimate = prices.total.sums.get(self.currency, Decimal(0))
        if estimate > self.amount:
            raise self._exceeded(estimate)

    def notes(self, prices: Prices) -> list[str]:
        """What the budget does not count."""
        notes = []
        if unknown := prices.unknown:
            jobs, they, are = ("job", "it", "is") if unknown == 1 else ("jobs", "they", "are")
            notes.append(
                f"{unknown} {jobs} of unknown price: what {they} will cost is not counted in the budget; "
                f"once {self} is spent, {they} {are} held back"
            )
        if others := sorted(set(prices.total.sums) - {self.currency}):
            notes.append(f"the budget is in {self.currency}: prices in {', '.join(others)} do not count")
        return notes

    def _exceeded(self, estimate: Decimal) -> WhyrunError:
        return error(
            "BUDGET_EXCEEDED",
            f"the plan would cost about {shown(estimate, self.currency)}, and the budget is {self}",
            hint="`whyrun explain` shows each price; choose jobs with `--target` or `--up`, or raise the budget",
        )


class BudgetOfRun(NamedTuple):
    budget: Budget | None
    notes: tuple[str, ...] = ()  # what it does not count


def told_budget(project: Project, options: RunOptions) -> Budget | None:
    """That of the command line, else of the workflow file, else of `whyrun.toml`."""
    text = next((b for b in (options.budget, project.workflow.budget, project.config.budget) if b is not None), None)
    return None if text is None else Budget.parse(text)


def budget_of(project: Project, options: RunOptions, plan: Plan, snapshot: PlanningSnapshot) -> BudgetOfRun:
    """The budget of a run. BUDGET_EXCEEDED if the plan would cost more."""
    budget = told_budget(project, options)
    if budget is None:
        return BudgetOfRun(None)
    prices = prices_of(plan, snapshot)
    budget.check(prices)
    return BudgetOfRun(budget, tuple(budget.notes(prices)))


class Reservations:
    """What a run has spent, and what its running steps may still spend. Steps start while both stay in the budget."""

    def __init__(self, budget: Budget, prices: Prices, spent: Totals) -> None:
        """`spent`: the totals of the run, which grow while it goes on."""
        self._budget, self._prices, self._spent = budget, prices, spent
        self._reserved: dict[str, Decimal] = {}  # by running step
        self.is_used_up = False

    def add(self, prices: Prices) -> None:
        """More jobs are planned."""
        self._prices = Prices({**self._prices.by_job, **prices.by_job})

    def reserve(self, step: str) -> bool:
        """Whether a step may start. The first that does not fit stops all steps that have a price; steps of unknown
        price stop when the budget is spent."""
        price = self._budget.price(self._prices, step)
        if price is None:
            return not self._is_spent
        if not price:
            return True
        if not self.is_used_up:
            self.is_used_up = add(self._so_far, price, *self._reserved.values()) > self._budget.amount
        if self.is_used_up:
            return False
        self._reserved[step] = price
        return True

    def exceeding(self, queued: Collection[str]) -> set[str]:
        """Which steps that have not begun must be asked again, because others have cost more than their prices."""
        over = add(self._so_far, *self._reserved.values()) > self._budget.amount
        unknown = {step for step in queued if self._budget.price(self._prices, step) is None} if self._is_spent else ()
        return {step for step in queued if over and step in self._reserved}.union(unknown)

    @property
    def _so_far(self) -> Decimal:
        return self._spent.sums.get(self._budget.currency, Decimal(0))

    @property
    def _is_spent(self) -> bool:
        return self._so_far >= self._budget.amount

    def paid(self, step: str, amount: str | None, currency: str) -> None:
        """A running step has spent a part of what is reserved for it."""
        if step in self._reserved and amount is not None and currency == self._budget.currency:
            self._reserved[step] = max(Decimal(0), self._reserved[step] - Decimal(amount))

    def release(self, step: str) -> None:
        self._reserved.pop(step, None)
