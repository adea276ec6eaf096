"""STATE + WHAT THE RUN HAS MADE → STAGE: the plan of the instances of a loop whose source the run has just made. Pure.

A stage belongs to one step, over whose results loops go. It is planned by the judge of all plans, from the log before
the run and what this step and the steps before it have made. Every other step of the run counts as not made, even if it
has ended. So a stage does not depend on how fast the steps were, and can be computed again from the log.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import product

import msgspec
from msgspec.structs import replace

from whyrun.errors import Diagnostic, WhyrunError
from whyrun.graph.layers import compute_layers
from whyrun.graph.tables import ArtifactAt, Computed, Graph, Group, JobTable, Operand, Term
from whyrun.ids import OPEN, Index, place_of
from whyrun.planning.judge import CLEAN, Judge, Verdict
from whyrun.planning.plan import FORCE_ALL, Plan, PlannedJob, PlanOptions, needed_by, planned_job
from whyrun.planning.reasons import Forced
from whyrun.planning.settling import Build, settle
from whyrun.snapshot.snapshot import PlanningSnapshot


class Stage(msgspec.Struct, frozen=True):
    plan: Plan  # of the new instances
    refused: Mapping[str, Diagnostic]  # artifact ID → why its value cannot be the values of a loop


# --- which steps a stage knows ---------------------------------------------------------------------------------------


def open_source(graph: Graph, table: JobTable, position: int) -> ArtifactAt | None:
    """The result that decides next what an entry `[?]` stands for; None for another row."""
    if position in table.open_rows:
        for place, column in table.gates:
            source = column.at(position)
            if table.rows[position][place] is OPEN and isinstance(source, ArtifactAt):
                return source
    return None


def steps_before(graph: Graph, source: int, of_run: Container[int]) -> set[int]:
    """The source of a stage and the steps of the run before it: those that have ended whenever the source has. A
    candidate of `first` may still be running then."""
    seen, stack = {source}, [source]
    while stack:
        table, position = graph.table_at(stack.pop())
        if position in table.open_rows:
            columns = [column for _, column in table.gates]
        else:
            columns = [column for _, column in table.operand_columns()]
        before = {graph.node(at) for column in columns for at in _required(column.at(position))}
        for number in table.needs:
            needed = graph.tables[number]
            before.update(range(needed.base, needed.base + len(needed)))
        for node in before - seen:
            if node in of_run:
                seen.add(node)
                stack.append(node)
    return seen


def _required(term: Term | Operand) -> Iterator[ArtifactAt]:
    if isinstance(term, ArtifactAt):
        yield term
    elif isinstance(term, Group):
        yield from (member for member in term.members if isinstance(member, ArtifactAt))
    elif isinstance(term, Computed):
        for operand in term.operands:
            yield from _required(operand)


# --- the plan of a stage ---------------------------------------------------------------------------------------------


def settled_stage(
    build: Build, options: PlanOptions, source: str, before: Mapping[str, PlannedJob], known: frozenset[str]
) -> PlanningSnapshot:
    """The snapshot of a stage: with the instances of the loops in its loops whose sources are up to date. `known`: the
    results that the plans before it know."""

    def judged(snapshot: PlanningSnapshot) -> Judge:
        graph = snapshot.dependency_graph
        new = _new_rows(graph, graph.node_of[source], before)
        # What `--force` names may be an instance that the next graph has.
        return _judged(snapshot, _forced(graph, options.force, new, strict=False), before, compute_layers(graph))

    return settle(build, judged, known)


def compute_stage(
    snapshot: PlanningSnapshot, options: PlanOptions, source: str, before: Mapping[str, PlannedJob]
) -> Stage:
    """`snapshot`: with what the run has made. `source`: the job. `before`: what the plans say that this one stands on,
    the first one and those of the stages of the steps before the source."""
    graph = snapshot.dependency_graph
    new = _new_rows(graph, graph.node_of[source], before)
    layers = compute_layers(graph)
    judge = _judged(snapshot, _forced(graph, options.force, new), before, layers)
    wanted = None
    if options.targets:
        wanted = needed_by(graph, [node for text in options.targets for node in _matching(graph, text)])
    jobs: list[PlannedJob] = []
    totals = dict.fromkeys(("jobs", "planned", "reused", "clean", "deferred", "inactive", "open"), 0)
    for node in sorted(new, key=lambda n: (layers[n], n)):
        verdict = judge.verdicts.get(node, CLEAN)
        totals["jobs"] += 1
        if verdict.state == "clean":
            totals["clean"] += 1
            continue
        runs = new[node].state == "open" and (wanted is None or node in wanted)
        job = planned_job(snapshot, node, verdict, layers[node], runs)
        totals["reused" if job.state == "planned" and job.reuse is not None else job.state] += 1
        jobs.append(job)
    plan = Plan(graph.workflow.name, snapshot.log_position, options, totals, None, tuple(jobs), source)
    return Stage(plan, judge.problems)


def _judged(
    snapshot: PlanningSnapshot, forced: Mapping[int, str], before: Mapping[str, PlannedJob], layers: Sequence[int]
) -> Judge:
    judge = Judge(snapshot, forced, standing=_standing(snapshot, before))
    judge.judge_all(layers)
    return judge


def _new_rows(graph: Graph, source: int, before: Mapping[str, PlannedJob]) -> dict[int, PlannedJob]:
    """The instances that the source decides about: node → the entry `[?]` that stood for it."""
    new: dict[int, PlannedJob] = {}
    for table in graph.tables:
        for place, column in table.gates:
            masks: tuple[bool, ...] | None = None  # the same for all rows: which indices were not known
            for position, row in enumerate(table.rows):
                at = column.at(position)
                if not isinstance(at, ArtifactAt) or graph.node(at) != source or row[place] is OPEN:
                    continue
                if masks is None:
                    masks = _mask(table, row, place, before)
                if masks is not None:
                    new[table.base + position] = before[_masked(table, row, masks)]
    return new


def _mask(
    table: JobTable, row: Sequence[Index], place: int, before: Mapping[str, PlannedJob]
) -> tuple[bool, ...] | None:
    for mask in product((True, False), repeat=len(row)):
        if mask[place] and (job := before.get(_masked(table, row, mask))) and job.state in ("open", "deferred"):
            return mask
    return None


def _masked(table: JobTable, row: Sequence[Index], mask: Sequence[bool]) -> str:
    indices = tuple(OPEN if hidden else index for hidden, index in zip(mask, row, strict=True))
    return f"Job:{''.join(place_of(table.name, table.levels, indices))}"


def _standing(snapshot: PlanningSnapshot, before: Mapping[str, PlannedJob]) -> dict[int, Verdict]:
    """What earlier plans run, and this stage does not know to be made."""
    nodes = snapshot.dependency_graph.node_of
    return {
        node: Verdict("dirty", job.reasons, job.reuse, job.conditional, job.conditional, job.bindings)
        for id_, job in before.items()
        if job.state == "planned" and id_ not in snapshot.made and (node := nodes.get(id_)) is not None
    }


def _forced(
    graph: Graph, force: Iterable[str], new: Mapping[int, PlannedJob], *, strict: bool = True
) -> dict[int, str]:
    """Layers are those of the first plan, in which an entry `[?]` is forced with all that it stands for."""
    forced: dict[int, str] = {}
    for text in sorted(set(force)):
        nodes: Iterable[int]
        if text.startswith("layer:"):
            nodes = [node for node, job in new.items() if Forced(text) in job.reasons]
        else:
            nodes = range(graph.size) if text == FORCE_ALL else _matching(graph, text, strict=strict)
        for node in nodes:
            forced.setdefault(node, text)
    return forced


def _matching(graph: Graph, text: str, *, strict: bool = True) -> list[int]:
    """What an option names. A pattern may match nothing any more: an empty list is no mistake. `strict`: an ID must
    exist."""
    from whyrun.planning.id_matching import match_nodes  # imported late: most plans have no such options

    try:
        return match_nodes(graph, text.replace("[?]", "[*]"))
    except WhyrunError:
        if not strict or "*" in text or "[?]" in text:
            return []
        raise


# --- all plans of a run together -------------------------------------------------------------------------------------


def with_stages(first: Plan, stages: Iterable[Plan], graph: Graph) -> Plan:
    """The first plan and its stages as one. `graph`: with all instances that they name."""
    nodes, jobs = graph.node_of, {job.id: job for job in first.jobs}
    totals = dict(first.totals)
    for stage in stages:
        jobs.update({job.id: job for job in stage.jobs})
        for name, number in stage.totals.items():
            totals[name] = totals.get(name, 0) + number
    # An entry `[?]` has no row any more, once its loop is known.
    placed = [replace(job, node=node) for job in jobs.values() if (node := nodes.get(job.id)) is not None]
    gone = [job for id_, job in jobs.items() if id_ not in nodes]
    totals["jobs"] -= len(gone)
    for job in gone:
        totals[job.state] -= 1
    placed.sort(key=lambda job: (job.layer, job.node))
    return Plan(first.workflow, first.log_position, first.options, totals, first.snapshot, tuple(placed))
