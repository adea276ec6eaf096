"""What the jobs of a plan would cost, and what its results have cost. Pure. Prices are no part of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from whyrun.money import UNKNOWN, Totals, shown, written
from whyrun.planning.plan import Plan
from whyrun.snapshot.records import StepRecord
from whyrun.snapshot.snapshot import PlanningSnapshot, Price

_UNKNOWN = Price(None, "unknown")
_DIGITS = Decimal("0.000001")  # of a mean
_SOURCES = {"action": "its action", "prices": "prices.yaml", "history": "earlier runs"}


def logged_costs(record: StepRecord | None) -> dict[str, str] | None:
    """What the execution cost that made the present result, by this or another instance, as `Totals.to_record` gives
    it; None without one, and empty if it recorded no costs."""
    if record is None:
        return None
    for attempt in (record.latest, record.success, *reversed(list(record.attempts()))):
        if attempt is not None and attempt.ok and (attempt.costs is not None or not attempt.origin):
            return attempt.costs or {}
    return None


def saved_costs(plan: Plan, snapshot: PlanningSnapshot, reused: Sequence[str] = ()) -> Totals:
    """What the results cost that were not bought again: those of up-to-date jobs, and of the `reused` ones."""
    totals = Totals()
    busy = {job.id for job in plan.jobs}.difference(reused)
    for id_, record in snapshot.records.steps.items():
        if id_ not in busy and id_ in snapshot.dependency_graph.node_of:
            totals.add_all(logged_costs(record))
    return totals


class Prices(msgspec.Struct, frozen=True):
    """What would be executed, by job, in the order of the plan."""

    by_job: Mapping[str, Price]

    @property
    def total(self) -> Totals:
        totals = Totals()
        for price in self.by_job.values():
            totals.add_all(price.costs)
        return totals

    @property
    def unknown(self) -> int:
        """How many jobs have no known price."""
        return sum(price.costs is None for price in self.by_job.values())

    def text(self) -> str:
        """`~$0.48; 2 jobs of unknown price`."""
        total = self.total.text()
        unknown = f"{self.unknown} {'job' if self.unknown == 1 else 'jobs'} of unknown price" if self.unknown else ""
        return "; ".join(filter(None, (f"~{total}" if total else "", unknown))) or "free"

    def of_job(self, job: str, *, source: bool = True) -> str | None:
        """`~$0.04 (by its action)`; None for a job that is not executed or costs nothing."""
        price = self.by_job.get(job)
        if price is None or price.costs == {}:
            return None
        if price.costs is None:
            return "unknown price"
        text = " + ".join(shown(Decimal(amount), currency) for currency, amount in sorted(price.costs.items()))
        return f"~{text} (by {_SOURCES[price.source]})" if source else f"~{text}"

    def to_json(self) -> dict[str, Any]:
        return {"total": self.total.to_json(), "unknown_jobs": self.unknown}

    def job_json(self, job: str) -> dict[str, Any]:
        price = self.by_job.get(job)
        if price is None:
            return {}
        return {"price": {"costs": None if price.costs is None else dict(price.costs), "source": price.source}}


def expected_prices(plan: Plan, snapshot: PlanningSnapshot) -> Prices | None:
    """As `prices_of`; None where nothing says that any job of the plan costs something."""
    prices, says = _prices(plan, snapshot)
    return prices if says else None


def prices_of(plan: Plan, snapshot: PlanningSnapshot) -> Prices:
    """The price of each planned job: what its action or `prices.yaml` says, else what it cost in earlier runs, else
    what its other instances cost."""
    return _prices(plan, snapshot)[0]


def _prices(plan: Plan, snapshot: PlanningSnapshot) -> tuple[Prices, bool]:
    """With whether anything says that any job costs something."""
    planned = [job for job in plan.planned if job.reuse is None]
    told = snapshot.pricer()([job.node for job in planned]) if planned and snapshot.pricer is not None else {}
    others: dict[int, Price | None] = {}
    by_job: dict[str, Price] = {}
    for job in planned:
        price = told.get(job.node)
        if price is None or price.costs is None:
            number = snapshot.dependency_graph.table_at(job.node)[0].number
            price = _logged(logged_costs(snapshot.records.steps.get(job.id)))
            if price is None and number not in others:
                others[number] = _mean_of(number, snapshot)
            price = price or others[number]
        by_job[job.id] = price or _UNKNOWN
    asks = any(price.costs is None for price in told.values())
    says = asks or any(price.costs for price in by_job.values()) or any(p.source == "prices" for p in by_job.values())
    return Prices(by_job), says


def _logged(costs: Mapping[str, str] | None) -> Price | None:
    if costs is None:
        return None
    return _UNKNOWN if UNKNOWN in costs else Price(costs, "history")


def _mean_of(number: int, snapshot: PlanningSnapshot) -> Price | None:
    """What the instances of a job cost that have run, on average."""
    jobs = snapshot.dependency_graph.tables[number].job_ids()
    known = [costs for job in jobs if (costs := logged_costs(snapshot.records.steps.get(job))) is not None]
    if not known:
        return None
    totals = Totals()
    for costs in known:
        totals.add_all(costs)
    if totals.unknown:
        return _UNKNOWN
    means = {currency: (amount / len(known)).quantize(_DIGITS) for currency, amount in totals.sums.items()}
    return Price({currency: written(mean) for currency, mean in means.items()}, "history")
