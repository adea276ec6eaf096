"""Reuse: results that are taken instead of executing, from earlier runs or from a shared store. Pure."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec import UNSET

from whyrun.graph.fingerprint import recorded_suffix
from whyrun.graph.tables import JobTable
from whyrun.ids import artifact_id, parse_id_of
from whyrun.snapshot.records import Attempt, Output, StepRecord, run_name
from whyrun.snapshot.snapshot import PlanningSnapshot
from whyrun.workflow.arrays import elements_of, is_array, is_value_type

if TYPE_CHECKING:
    from whyrun.artifacts.shared.result import SharedResult

SHARED = "shared store"  # `Reuse.run` of a result from a shared store


class Reuse(msgspec.Struct, frozen=True):
    """An earlier result with the same fingerprint that is taken instead of executing."""

    run: str  # or `SHARED`
    step: str
    outputs: Mapping[str, Output]  # by key within the step: "Story", "Story.Segments[0].HasTransition"
    shared: SharedResult | None = None
    # The run whose record holds now, if that is not `run`: a kept result stands for other undeclared reads than before.
    recorded_in: str | None = None
    moved: bool = False  # it was that of another instance of the job, which does not have it any more

    def is_of(self, attempt: Attempt) -> bool:
        """Whether this attempt of its step is the one that it takes."""
        return (self.run, self.recorded_in or self.run) == (run_name(attempt.made_in), run_name(attempt.run))

    def written(self, step: str) -> str:
        """As plans have it."""
        return self.describe(step) if self.moved else self.run

    def describe(self, step: str) -> str:
        """The source as text: the run, and the step if that is another one."""
        return self.run if self.shared is not None or self.step == step else f"{self.run} ({self.step})"


Holds = Callable[[Attempt], bool]  # would the step of this attempt read the same undeclared files now?
Others = Mapping[str, list[tuple[str, Attempt]]]  # by fingerprint: attempts of any instance, the latest first


def is_undone(
    snapshot: PlanningSnapshot, table: JobTable, record: StepRecord | None, fingerprint: str, holds: Holds
) -> bool:
    """Whether the effect of an earlier result may have been replaced since: another load may have filled the table."""
    if not snapshot.actions[table.name].effectful:
        return False
    return record is None or record.latest.fingerprint != fingerprint or not holds(record.latest)


def attempts_by_fingerprint(steps: Mapping[str, StepRecord]) -> Others:
    found: dict[str, list[tuple[str, Attempt]]] = {}
    for step in sorted(steps):
        for attempt in steps[step].for_others():
            found.setdefault(attempt.fingerprint, []).append((step, attempt))
    for each in found.values():
        each.sort(key=lambda one: (-one[1].run, -one[1].seq, one[0]))
    return found


def latest_of_others(others: Others, fingerprint: str, holds: Holds) -> tuple[str, Attempt] | None:
    """The latest attempt counts, by any instance. If it failed, no result is taken."""
    latest = next((one for one in others.get(fingerprint, ()) if holds(one[1])), None)
    return latest if latest is not None and latest[1].has_result else None


class Candidate(msgspec.Struct, frozen=True):
    """An earlier result with the fingerprint of an instance. Either it can be taken, or `rejected` says why not."""

    source: str  # the run and step that made it, or `SHARED`
    reuse: Reuse | None = None
    rejected: str = ""
    result: tuple[int, str] | None = None  # see `Attempt.result`


class MayTake(Protocol):
    """What an instance may take of the results of its job: see `moved_results`."""

    def keeper(self, own: Attempt) -> str | None:
        """The instance that has this earlier result now."""

    def free(self, fingerprint: str) -> Iterable[tuple[str, Attempt]]:
        """Results that no instance has any more."""


def reusable(
    table: JobTable,
    position: int,
    record: StepRecord | None,
    fingerprint: str,
    others: Others,
    lost: Container[str],
    shared: Mapping[str, SharedResult] = MappingProxyType({}),
    holds: Holds = lambda _: True,
    moves: MayTake | None = None,
) -> Reuse | None:
    """The first candidate that can be taken."""
    for candidate in candidates(table, position, record, fingerprint, others, lost, shared, holds, moves):
        if candidate.reuse is not None:
            return candidate.reuse
    return None


def candidates(
    table: JobTable,
    position: int,
    record: StepRecord | None,
    fingerprint: str,
    others: Others,
    lost: Container[str],
    shared: Mapping[str, SharedResult] = MappingProxyType({}),
    holds: Holds = lambda _: True,
    moves: MayTake | None = None,
) -> Iterator[Candidate]:
    """Earlier results of the same instance, of any instance (`others`: only for deterministic jobs) and of other users
    (`shared`: only results that may be taken), in the order in which they are preferred.

    Attempts count for which `holds` is true. If the latest of the instance with this fingerprint failed, there is no
    other candidate: a failure is tried again, not hidden behind an older result.
    """
    job = table.job_id(position)
    own = record.by_fingerprint(fingerprint, holds) if record is not None else None
    any_own = record.by_fingerprint(fingerprint) if record is not None else None
    if own is None and any_own is not None:
        run = run_name(any_own.made_in)
        yield Candidate(run, rejected="it read undeclared files that are otherwise now (`observed`)")
    keeper = moves.keeper(own) if own is not None and own.has_result and moves is not None else None
    if own is not None and keeper is not None:
        yield Candidate(run_name(own.made_in), rejected=f"it is the result of {keeper} now")
    elif own is not None:
        yield _earlier_result(table, position, job, own, lost)
        if not own.has_result:
            return
    for step, attempt in moves.free(fingerprint) if moves is not None and (own is None or keeper is not None) else ():
        if step != job and holds(attempt):
            yield _earlier_result(table, position, step, attempt, lost, moved=True)
    other = latest_of_others(others, fingerprint, holds)
    # Not the instance itself: its own result that an adoption replaced is for other instances only.
    if other is not None and other[0] != job:
        yield _earlier_result(table, position, *other, lost)
    # The shared store knows only results of steps that read nothing undeclared. If this one does, it is another step.
    if fingerprint in shared and (any_own is None or not any_own.reads):
        yield _shared_result(table, position, shared[fingerprint])


def _earlier_result(
    table: JobTable, position: int, from_step: str, attempt: Attempt, lost: Container[str], *, moved: bool = False
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
        key = spec.key_at(position)
        for element in elements_of(output.value) if is_array(spec.type) else ():
            part = by_id.get(id_ + element.text)
            if part is None:
                return Candidate(source, rejected=f"it has no {id_}{element.text}")
            if part.value is UNSET and part.bytes_key in lost:
                return Candidate(source, rejected=f"the bytes of its {part.id} are gone")
            outputs[key + element.text] = part
        outputs[key] = output
    recorded_in = None if attempt.run == attempt.made_in else run_name(attempt.run)
    taken = Reuse(run, from_step, outputs, recorded_in=recorded_in, moved=moved)
    return Candidate(source, taken, result=attempt.result(from_step))


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
        if (made.value is UNSET) == (spec.is_leaf or is_value_type(spec.type)):
            # Of leaves and value outputs planning needs the value; of all others, the bytes and no value.
            return Candidate(SHARED, rejected=f"its {key} has a value instead of bytes, or the other way round")
        held = () if made.value is UNSET else (made.value,)
        whole = table.artifact_id(a, position)
        for element in elements_of(made.value) if is_array(spec.type) else ():
            part = by_key.get(key + element.text)
            if part is None:
                return Candidate(SHARED, rejected=f"it has no {key}{element.text}")
            own = () if part.value is UNSET else (part.value,)
            id_ = whole + element.text
            outputs[key + element.text] = Output(id_, part.sha256, part.size, part.type, None, own, part.suffix)
        outputs[key] = Output(whole, made.sha256, made.size, made.type, None, held, made.suffix)
    return Candidate(SHARED, Reuse(SHARED, "", outputs, result))
