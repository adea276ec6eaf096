"""Which results of others are worth asking for, and for whom. Pure: whoever can ask is handed in.

The fingerprint of an instance is known once all that it consumes is, and a result that is found makes more known. So
the graph is gone through layer by layer, and each layer is asked for at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

from whyrun.artifacts.shared_result import SharedResult
from whyrun.graph.graph import JobTable
from whyrun.graph.layers import compute_layers
from whyrun.planning.dirty import Judge
from whyrun.snapshot.snapshot import PlanningSnapshot

# Fingerprints, each with a step that has it → those of them that others have results of.
Ask = Callable[[Mapping[str, str]], Mapping[str, SharedResult]]


def is_shareable(snapshot: PlanningSnapshot, table: JobTable) -> bool:
    """May results of this job be given to others, and theirs be taken?

    Only where the fingerprint says all: the job or action is `deterministic`, does nothing outside of the project, and
    is given no secret and no connection, whose values are in no fingerprint.
    """
    action = snapshot.actions[table.name]
    apart = table.decl.secrets or table.name in snapshot.dependency_graph.connected
    return action.deterministic and not action.effectful and not apart


def find_shared_results(snapshot: PlanningSnapshot, ask: Ask) -> None:
    """Put into the snapshot what others have of the results that planning would have use for."""
    graph = snapshot.dependency_graph
    if not any(is_shareable(snapshot, table) for table in graph.tables):
        return
    found: dict[str, SharedResult] = {}
    snapshot.shared = found
    layers = compute_layers(graph)
    judge = Judge(snapshot, {})
    waiting: defaultdict[int, set[int]] = defaultdict(set)
    for node in snapshot.suspects:
        waiting[layers[node]].add(node)
    asked: set[str] = set()
    while waiting:
        nodes = sorted(waiting.pop(min(waiting)))
        wanted: dict[int, str] = {}
        for node in nodes:
            verdict = judge.verdicts[node] = judge.judge(node)
            if verdict.state == "dirty" and verdict.reuse is None and not verdict.maybe:
                fingerprint = _takable(snapshot, judge, node)
                if fingerprint is not None:
                    wanted[node] = fingerprint
        new: dict[str, str] = {}
        for node, fingerprint in wanted.items():
            if fingerprint not in asked:
                new.setdefault(fingerprint, graph.job_id(node))
        if new:
            asked.update(new)
            found.update(ask(new))
        for node, fingerprint in wanted.items():
            if fingerprint in found:
                judge.verdicts[node] = judge.judge(node)
        for node in nodes:
            if judge.verdicts[node].state != "clean":
                for base, rows in graph.dependent_rows(node):
                    for row in rows:
                        waiting[layers[base + row]].add(base + row)


def _takable(snapshot: PlanningSnapshot, judge: Judge, node: int) -> str | None:
    """The fingerprint of an instance, if all that it consumes is known and a result of others would be taken."""
    table, position = snapshot.dependency_graph.table_at(node)
    if not is_shareable(snapshot, table):
        return None
    found = judge.consumer.consume(table, position)
    if not found.known:
        return None
    record, fingerprint = snapshot.record(node), judge.fingerprint(table, position, found)
    own = record.by_fingerprint(fingerprint) if record is not None else None
    return None if own is not None and not own.has_result else fingerprint
