"""The instances whose results others of their job may take: see `planning.moved_results`. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from whyrun.snapshot.index import IndexedSteps, block_name, split_step
from whyrun.snapshot.snapshot import PlanningSnapshot


def donors_of(
    snapshot: PlanningSnapshot, reach: Sequence[int], jobs: Collection[str], foreign: Sequence[str]
) -> Mapping[str, Sequence[str]]:
    """By job: the instances whose results others may take. Those that something may have changed, those that the
    workflow does not have any more, and those that have more results than the present one. Nearly all instances of a
    large job are none of these, so their records are not read. `foreign`: the steps that the workflow does not have."""
    graph, steps = snapshot.dependency_graph, snapshot.records.steps
    found: dict[str, set[str]] = {name: set() for name in jobs}
    names = {block_name(table.name, table.levels): table.name for table in graph.tables if table.name in found}
    for node in reach:
        name = graph.table_at(node)[0].name
        if name in found and snapshot.record(node) is not None:
            found[name].add(graph.job_id(node))
    if isinstance(steps, IndexedSteps):
        for block, name in names.items():
            found[name].update(steps.with_past(block))
    else:
        for step, record in steps.items():
            if record.has_past and (block := split_step(step)[0]) in names:
                found[names[block]].add(step)
    for step in foreign:
        if (block := split_step(step)[0]) in names:
            found[names[block]].add(step)
    return {name: sorted(donors) for name, donors in found.items() if donors}
