"""Reuse: results that are taken instead of executing, from earlier runs or from a shared store. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from whyrun.artifacts.shared.result import SharedResult
from whyrun.graph.fingerprint import recorded_suffix
from whyrun.graph.layers import compute_layers
from whyrun.graph.tables import JobTable
from whyrun.ids import artifact_id, parse_id_of
from whyrun.planning.judge import Judge
from whyrun.snapshot.records import Attempt, Output, StepRecord, run_name
from whyrun.snapshot.snapshot import PlanningSnapshot
from whyrun.workflow.model import VALUE_TYPES

# Which results of other users to ask the shared store for. Pure: the function that asks is passed in.
#
# The fingerprint of an instance is known only once everything that it consumes is known, and each result that the store
# has makes more of them known. So this goes through the graph layer by layer and asks once for each layer.


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


SHARED = "shared store"  # `Reuse.run` of a result from a shared store


class Reuse(msgspec.Struct, frozen=True):
    """An earlier result with the same fingerprint that is taken instead of executing."""

    run: str  # or `SHARED`
    step: str
    outputs: Mapping[str, Output]  # by key within the step: "Story", "Story.Segments[0].HasTransition"
    shared: SharedResult | None = None

    def describe(self, step: str) -> str:
        """The source as text: the run, and the step if that is another one."""
        return self.run if self.shared is not None or self.step == step else f"{self.run} ({self.step})"


def is_undone(snapshot: PlanningSnapshot, table: JobTable, record: StepRecord | None, fingerprint: str) -> bool:
    """Whether the effect of an earlier result may have been replaced since: another load may have filled the table."""
    latest = None if record is None else record.latest.fingerprint
    return latest != fingerprint and snapshot.actions[table.name].effectful


def successes_by_fingerprint(steps: Mapping[str, StepRecord]) -> dict[str, tuple[str, Attempt]]:
    latest_of: dict[str, tuple[str, Attempt]] = {}
    for step in sorted(steps):
        for attempt in steps[step].for_others():
            before = latest_of.get(attempt.fingerprint)
            if before is None or (before[1].run, before[1].seq) < (attempt.run, attempt.seq):
                latest_of[attempt.fingerprint] = (step, attempt)
    # The latest attempt with a fingerprint counts, by any instance. If it failed, no result is taken.
    return {print_: each for print_, each in latest_of.items() if each[1].has_result}


class Candidate(NamedTuple):
    """An earlier result with the fingerprint of an instance. Either it can be taken, or `rejected` says why not."""

    source: str  # the run and step that made it, or `SHARED`
    reuse: Reuse | None = None
    rejected: str = ""


def reusable(
    table: JobTable,
    position: int,
    record: StepRecord | None,
    fingerprint: str,
    others: Mapping[str, tuple[str, Attempt]],
    lost: Container[str],
    shared: Mapping[str, SharedResult] = MappingProxyType({}),
) -> Reuse | None:
    """The first candidate that can be taken."""
    for candidate in candidates(table, position, record, fingerprint, others, lost, shared):
        if candidate.reuse is not None:
            return candidate.reuse
    return None


def candidates(
    table: JobTable,
    position: int,
    record: StepRecord | None,
    fingerprint: str,
    others: Mapping[str, tuple[str, Attempt]],
    lost: Container[str],
    shared: Mapping[str, SharedResult] = MappingProxyType({}),
) -> Iterator[Candidate]:
    """Earlier results of the same instance, of any instance (`others`: only for deterministic jobs) and of other users
    (`shared`: only results that may be taken), in the order in which they are preferred.

    If the latest attempt of the instance with this fingerprint failed, there is no other candidate: a failure is tried
    again, not hidden behind an older result.
    """
    job = table.job_id(position)
    own = record.by_fingerprint(fingerprint) if record is not None else None
    if own is not None:
        yield _earlier_result(table, position, job, own, lost)
        if not own.has_result:
            return
    other = others.get(fingerprint)
    # Not the instance itself: its own result that an adoption replaced is for other instances only.
    if other is not None and other[0] != job:
        yield _earlier_result(table, position, *other, lost)
    if fingerprint in shared:
        yield _shared_result(table, position, shared[fingerprint])


def _earlier_result(
    table: JobTable, position: int, from_step: str, attempt: Attempt, lost: Container[str]
) -> Candidate:
    """An attempt can be taken if it recorded every output and leaf declared now, and their bytes still exist."""
    run = run_name(attempt.made_in)
    own = from_step == table.job_id(position)
    source = run if own else f"{run} ({from_step})"
    if not attempt.has_result:
        return Candidate(source, rejected=f"the attempt failed: {attempt.error_type or attempt.status}")
    job = parse_id_of("Job", from_step)
    by_id = {output.id: output for output in attempt.outputs}
    outputs: dict[str, Output] = {}
    for a, spec in enumerate(table.artifacts):
        leaf = spec.leaf_at(position)
        id_ = table.artifact_id(a, position) if own else artifact_id(job, spec.output, leaf)
        output = by_id.get(id_)
        if output is None:
            return Candidate(source, rejected=f"it has no {id_}")
        if (output.type, output.suffix) != (spec.type, recorded_suffix(table, a)):
            return Candidate(source, rejected=f"its {id_} has another type or suffix")
        if output.value is UNSET and output.bytes_key in lost:
            return Candidate(source, rejected=f"the bytes of its {id_} are gone")
        outputs[spec.key_at(position)] = output
    return Candidate(source, Reuse(run, from_step, outputs))


def _shared_result(table: JobTable, position: int, result: SharedResult) -> Candidate:
    """A shared result can be taken if it has every output and leaf declared now."""
    by_key = {output.key: output for output in result.outputs}
    outputs: dict[str, Output] = {}
    for a, spec in enumerate(table.artifacts):
        key = spec.key_at(position)
        made = by_key.get(key)
        if made is None:
            return Candidate(SHARED, rejected=f"it has no {key}")
        if (made.type, made.suffix) != (spec.type, recorded_suffix(table, a)):
            return Candidate(SHARED, rejected=f"its {key} has another type or suffix")
        if (made.value is UNSET) == (spec.is_leaf or spec.type in VALUE_TYPES):
            # Of leaves and value outputs planning needs the value; of all others, the bytes and no value.
            return Candidate(SHARED, rejected=f"its {key} has a value instead of bytes, or the other way round")
        held = () if made.value is UNSET else (made.value,)
        outputs[key] = Output(
            table.artifact_id(a, position), made.sha256, made.size, made.type, None, held, made.suffix
        )
    return Candidate(SHARED, Reuse(SHARED, "", outputs, result))
