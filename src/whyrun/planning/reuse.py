"""Results that are taken instead of executing: earlier ones with the same fingerprint, or those of others. Pure."""

from __future__ import annotations

from collections.abc import Container, Mapping
from types import MappingProxyType

import msgspec
from msgspec import UNSET

from whyrun.artifacts.shared_result import SharedResult
from whyrun.graph.fingerprint import recorded_suffix
from whyrun.graph.graph import JobTable
from whyrun.ids import artifact_id, parse_id_of
from whyrun.snapshot.records import Attempt, Output, StepRecord, run_name
from whyrun.snapshot.snapshot import PlanningSnapshot
from whyrun.workflow.model import VALUE_TYPES

SHARED = "shared store"  # stands where else the run stands that a result is from


class Reuse(msgspec.Struct, frozen=True):
    """An earlier result with the same fingerprint, to be taken instead of executing."""

    run: str  # or `SHARED`
    step: str
    outputs: Mapping[str, Output]  # by key within the step: "Story", "Story.Segments[0].HasTransition"
    shared: SharedResult | None = None

    def told(self, step: str) -> str:
        """Where it is from, in words: the run, and the step if that was another."""
        return self.run if self.shared is not None or self.step == step else f"{self.run} ({self.step})"


def is_undone(snapshot: PlanningSnapshot, table: JobTable, record: StepRecord | None, fingerprint: str) -> bool:
    """Whether what was done with this fingerprint is no longer so: a table that was loaded with other rows since."""
    latest = None if record is None else record.latest.fingerprint
    return latest != fingerprint and snapshot.actions[table.name].effectful


def successes_by_fingerprint(steps: Mapping[str, StepRecord]) -> dict[str, tuple[str, Attempt]]:
    found: dict[str, tuple[str, Attempt]] = {}
    for step in sorted(steps):
        for attempt in steps[step].for_others():
            before = found.get(attempt.fingerprint)
            if before is None or (before[1].run, before[1].seq) < (attempt.run, attempt.seq):
                found[attempt.fingerprint] = (step, attempt)
    # The latest attempt with a fingerprint counts, whoever made it: where that failed, nothing is taken.
    return {print_: latest for print_, latest in found.items() if latest[1].has_result}


def reusable(
    table: JobTable,
    position: int,
    record: StepRecord | None,
    fingerprint: str,
    others: Mapping[str, tuple[str, Attempt]],
    lost: Container[str],
    shared: Mapping[str, SharedResult] = MappingProxyType({}),
) -> Reuse | None:
    """An earlier result of the same instance with this fingerprint, or of any (`others`) where it is deterministic;
    or one that somebody else made (`shared`, which has only results that may be taken).

    Not if the latest attempt with this fingerprint failed: what failed once is tried again, not papered over.
    """
    own = record.by_fingerprint(fingerprint) if record is not None else None
    if own is not None:
        found = _earlier_result(table, position, table.job_id(position), own, lost)
        if found is not None or not own.has_result:
            return found
    other = others.get(fingerprint)
    # Its own that an adoption has taken the place of is for others only: taken here, it would count as adopted.
    found = (
        None if other is None or other[0] == table.job_id(position) else _earlier_result(table, position, *other, lost)
    )
    return found or (_shared_result(table, position, shared[fingerprint]) if fingerprint in shared else None)


def _earlier_result(
    table: JobTable, position: int, from_step: str, attempt: Attempt, lost: Container[str]
) -> Reuse | None:
    """The reuse of an attempt, if it recorded every output and leaf declared now, with bytes still there."""
    if not attempt.has_result:
        return None
    job = parse_id_of("Job", from_step)
    own = from_step == table.job_id(position)
    by_id = {output.id: output for output in attempt.outputs}
    outputs: dict[str, Output] = {}
    for a, spec in enumerate(table.artifacts):
        leaf = spec.leaf_at(position)
        id_ = table.artifact_id(a, position) if own else artifact_id(job, spec.output, leaf)
        output = by_id.get(id_)
        if output is None or (output.type, output.suffix) != (spec.type, recorded_suffix(table, a)):
            return None
        if output.value is UNSET and output.bytes_key in lost:
            return None
        outputs[spec.key_at(position)] = output
    return Reuse(run_name(attempt.made_in), from_step, outputs)


def _shared_result(table: JobTable, position: int, result: SharedResult) -> Reuse | None:
    """The reuse of somebody else's result, if it has every output and leaf declared now."""
    by_key = {output.key: output for output in result.outputs}
    outputs: dict[str, Output] = {}
    for a, spec in enumerate(table.artifacts):
        key = spec.key_at(position)
        made = by_key.get(key)
        if made is None or (made.type, made.suffix) != (spec.type, recorded_suffix(table, a)):
            return None
        if (made.value is UNSET) == (spec.is_leaf or spec.type in VALUE_TYPES):
            return None  # of these the value itself is used; of others the bytes, for which no value may stand
        held = () if made.value is UNSET else (made.value,)
        outputs[key] = Output(
            table.artifact_id(a, position), made.sha256, made.size, made.type, None, held, made.suffix
        )
    return Reuse(SHARED, "", outputs, result)
