"""Which jobs of a plan are to be traced: what only a trace sees of them may have changed. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from whyrun.planning.input_changes import InputChanged
from whyrun.planning.plan import PlannedJob
from whyrun.snapshot.reads import package_changes
from whyrun.snapshot.snapshot import PlanningSnapshot


def jobs_to_trace(snapshot: PlanningSnapshot, planned: Iterable[PlannedJob]) -> frozenset[str]:
    """The jobs of which no instance was traced, or whose script, action, packages or undeclared reads have changed
    since the last success of a planned instance. (A script may be an input, so every changed input counts.)"""
    found: set[str] = set()
    for job in planned:
        table, _ = snapshot.dependency_graph.table_at(job.node)
        if table.name in found or job.reuse is not None:
            continue
        changed = any(isinstance(reason, InputChanged) for reason in job.reasons)
        if changed or not snapshot.reads.is_traced(table.name) or _packages_changed(snapshot, job.node):
            found.add(table.name)
    return frozenset(found)


def _packages_changed(snapshot: PlanningSnapshot, node: int) -> bool:
    record = snapshot.record(node)
    success = record.last_success() if record is not None else None
    return success is not None and bool(package_changes(snapshot, node, success))
