"""What the results of a plan cost. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from whyrun.money import Totals
from whyrun.planning.plan import Plan
from whyrun.snapshot.records import StepRecord
from whyrun.snapshot.snapshot import PlanningSnapshot


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
