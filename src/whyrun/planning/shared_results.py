"""Which results of other users to ask the shared store for. Pure: the function that asks is passed in.

The fingerprint of an instance is known only once everything that it consumes is known, and each result that the store
has makes more of them known. So this goes through the graph layer by layer and asks once for each layer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

from whyrun.artifacts.shared.result import SharedResult
from whyrun.graph.layers import compute_layers
from whyrun.graph.tables import JobTable
from whyrun.planning.judge import Judge
from whyrun.snapshot.snapshot import PlanningSnapshot

# Fingerprints, each with a step that has it → the results that the store has.
Ask = Callable[[Mapping[str, str]], Mapping[str, SharedResult]]


def is_shareable(snapshot: PlanningSnapshot, table: JobTable) -> bool:
    """Whether other users may take results of this job, and this project theirs.

    Only if the fingerprint covers everything: the job or action is `deterministic`, has no effect outside the project,
    and receives no secret and no connection, because no fingerprint contains their values.
    """
    action = snapshot.actions[table.name]
    apart = table.decl.secrets or table.name in snapshot.dependency_graph.connected
    return action.deterministic and not action.effectful and not apart


def with_shared_results(snapshot: PlanningSnapshot, ask: Ask) -> PlanningSnapshot:
    """The snapshot with the shared results that planning can use."""
    graph = snapshot.dependency_graph
    if not any(is_shareable(snapshot, table) for table in graph.tables):
        return snapshot
    results: dict[str, SharedResult] = {}
    layers = compute_layers(graph)
    judge = Judge(snapshot, {}, results)
    waiting: defaultdict[int, set[int]] = defaultdict(set)  # by layer
    for node in snapshot.suspects:
        waiting[layers[node]].add(node)
    asked: set[str] = set()
    while waiting:
        nodes = sorted(waiting.pop(min(waiting)))
        wanted: dict[int, str] = {}
        for node in nodes:
            verdict = judge.verdicts[node] = judge.judge(node)
            if verdict.state == "dirty" and verdict.reuse is None and not verdict.maybe:
                fingerprint = _wanted_fingerprint(snapshot, judge, node)
                if fingerprint is not None:
                    wanted[node] = fingerprint
        new: dict[str, str] = {}
        for node, fingerprint in wanted.items():
            if fingerprint not in asked:
                new.setdefault(fingerprint, graph.job_id(node))
        if new:
            asked.update(new)
            results.update(ask(new))
        for node, fingerprint in wanted.items():
            if fingerprint in results:
                judge.verdicts[node] = judge.judge(node)  # now it reuses the shared result
        for node in nodes:
            if judge.verdicts[node].state != "clean":
                for base, rows in graph.dependent_rows(node):
                    for row in rows:
                        waiting[layers[base + row]].add(base + row)
    return snapshot.with_shared(results)


def _wanted_fingerprint(snapshot: PlanningSnapshot, judge: Judge, node: int) -> str | None:
    """The fingerprint of an instance, if it is known and planning would take a shared result with it."""
    table, position = snapshot.dependency_graph.table_at(node)
    if not is_shareable(snapshot, table):
        return None
    consumption = judge.consumer.consume(table, position)
    if not consumption.known:
        return None
    record, fingerprint = snapshot.record(node), judge.fingerprint(table, position, consumption)
    own = record.by_fingerprint(fingerprint) if record is not None else None
    return None if own is not None and not own.has_result else fingerprint
