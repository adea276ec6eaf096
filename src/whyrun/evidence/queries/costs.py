"""What a workflow has spent, read from the logs of its runs: by job, action, run or item."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, Literal

import msgspec

from whyrun.ids import without_indices
from whyrun.log import events as ev
from whyrun.log.costs import costs_of
from whyrun.log.runs import RunRef
from whyrun.money import Totals, decimal, written

By = Literal["job", "action", "run", "item"]
GROUPS: tuple[By, ...] = ("job", "action", "run", "item")
_NO_ITEM = "(no item)"


class CostRow(msgspec.Struct):
    """One group of costs. `quantity`: of an item, where every cost of it has one."""

    name: str
    spent: Totals = msgspec.field(default_factory=Totals)
    costs: int = 0
    quantity: Decimal | None = Decimal(0)

    def add(self, cost: ev.CostRecorded) -> None:
        self.spent.add(cost.amount, cost.currency)
        self.costs += 1
        if self.quantity is not None:
            self.quantity = None if cost.quantity is None else self.quantity + decimal("a quantity", cost.quantity)

    def to_json(self, by: By) -> dict[str, Any]:
        body: dict[str, Any] = {by: self.name, **totals_json(self.spent), "costs": self.costs}
        if by == "item" and self.quantity is not None:
            body["quantity"] = written(self.quantity)
        return body


def totals_json(totals: Totals) -> dict[str, Any]:
    """`{"spent": {"USD": "0.48"}, "spent_unknown": 2}`; the second only where something is unknown."""
    unknown = {"spent_unknown": totals.unknown} if totals.unknown else {}
    return {"spent": totals.to_json(), **unknown}


def spent_in(run: RunRef) -> Totals:
    totals = Totals()
    for cost in costs_of(run):
        totals.add(cost.amount, cost.currency)
    return totals


def cost_rows(runs: Iterable[RunRef], by: By) -> list[CostRow]:
    """In the order of the runs; the others by name."""
    rows: dict[str, CostRow] = {}
    for run in runs:
        costs = list(costs_of(run))
        name_of = _names(run, by) if costs else None
        for cost in costs:
            assert name_of is not None
            name = name_of(cost)
            rows.setdefault(name, CostRow(name)).add(cost)
    return list(rows.values()) if by == "run" else [rows[name] for name in sorted(rows)]


def _names(run: RunRef, by: By) -> Callable[[ev.CostRecorded], str]:
    if by == "job":
        return lambda cost: without_indices(cost.step_id.removeprefix("Job:"))
    if by == "run":
        return lambda cost: run.name
    if by == "item":
        return lambda cost: cost.item or _NO_ITEM
    drivers: Mapping[str, str] = {e.step_id: e.driver for e in run.events() if isinstance(e, ev.StepStart)}
    return lambda cost: drivers[cost.step_id]
