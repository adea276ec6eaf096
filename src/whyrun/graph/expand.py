"""MODEL + INPUTS → GRAPH: loops become rows, references become edges. All problems are reported together. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

from msgspec.structs import replace

from whyrun.errors import Diagnostic, InvalidError
from whyrun.graph.inputs import Scope
from whyrun.graph.layers import check_cycles
from whyrun.graph.loops import loop_values, rows_of
from whyrun.graph.paths import ArtifactSpec
from whyrun.graph.ragged import (
    NOT_NESTED,
    Nest,
    Ragged,
    Recorded,
    Results,
    is_open,
    levels_of,
    nested,
    nothing_recorded,
    texts_of,
)
from whyrun.graph.resolve import Resolver
from whyrun.graph.slots import fill, with_action
from whyrun.graph.tables import (
    AlignedArtifact,
    ArtifactAt,
    Column,
    Computed,
    Condition,
    EachTerm,
    FirstOf,
    Graph,
    InputAt,
    JobTable,
    Known,
    SameTerm,
    Slot,
)
from whyrun.ids import OPEN, Index, absolute, format_indices
from whyrun.workflow.inputs import InputValue
from whyrun.workflow.model import At, JobDecl, LeafDecl, Loop, OutputDecl, OutputRef, Workflow
from whyrun.workflow.values import MAX_INSTANCES

Check = Callable[[Graph], Iterable[Diagnostic]]


def expand(
    workflow: Workflow, inputs: Mapping[str, InputValue], *checks: Check, recorded: Recorded = nothing_recorded
) -> Graph:
    """The graph, or `InvalidError` with all problems.

    `checks` of other packages look at the finished tables, so that their problems are reported together with those
    found here. `recorded`: the results that loops go over, as far as they count.
    """
    diagnostics: list[Diagnostic] = []
    tables: dict[str, JobTable] = {}
    results = Results(recorded, levels=dict(levels_of(workflow)))
    scopes = list(_Scopes(inputs, tables, diagnostics, results, {}).of(workflow, "", NOT_NESTED, {}))
    # Tables are sorted by name, so that the number of a node, and every list that is sorted by node, does not depend on
    # the order in the file.
    jobs = [(scope.prefix + name, scope, decl) for scope, flow in scopes for name, decl in flow.jobs.items()]
    for _, scope, decl in sorted(jobs, key=lambda job: job[0]):
        _make_table(scope, with_action(decl, scope.prefix, inputs, diagnostics), tables)
    _stop_if(diagnostics)  # references can be resolved only if all loops are right
    filled: dict[str, JobTable] = {}
    for scope, flow in scopes:
        for name in flow.jobs:
            table = fill(scope, flow, tables[scope.prefix + name])
            filled[scope.prefix + name] = replace(table, gates=_gates(scope, flow, table)) if flow.loops else table
    graph = Graph(workflow, inputs, _with_short_first([filled[name] for name in tables]), results=results)
    for check in checks:
        diagnostics.extend(check(graph))
    try:
        check_cycles(graph)
    except InvalidError as circle:
        diagnostics.extend(circle.diagnostics)
    _stop_if(diagnostics)
    return graph


def _stop_if(diagnostics: list[Diagnostic]) -> None:
    if diagnostics:
        raise InvalidError(sorted(set(diagnostics), key=lambda d: (d.file or "", d.line or 0, d.column or 0, d.code)))


class _Scopes(NamedTuple):
    """Makes the scope of each file, as each import has it."""

    inputs: Mapping[str, InputValue]
    tables: dict[str, JobTable]
    diagnostics: list[Diagnostic]
    results: Results
    of_table: dict[str, Scope]

    def of(
        self, workflow: Workflow, prefix: str, nest: Nest, outer: Mapping[str, Sequence[Index]]
    ) -> Iterator[tuple[Scope, Workflow]]:
        """`outer`: the loops of the imports that lead to it."""
        loops = dict(outer)
        for loop in workflow.loops.values():
            loops[loop.name] = loop_values(loop, prefix, self.inputs, self.diagnostics, loops, self.results, nest)
        positions = {name: {value: i for i, value in enumerate(values)} for name, values in loops.items()}
        yield (
            Scope(prefix, loops, positions, self.tables, self.of_table, self.inputs, self.diagnostics, nest=nest),
            workflow,
        )
        for name, imported in workflow.imports.items():
            inner_nest, inner_outer = nested(nest, prefix, imported, loops)
            yield from self.of(imported.workflow, f"{prefix}{name}/", inner_nest, inner_outer)


def _make_table(scope: Scope, decl: JobDecl, tables: dict[str, JobTable]) -> None:
    """Only rows and artifacts: references need those of every table."""
    made = None if decl.exclude or decl.include else scope.rows.get(decl.loops)
    if made is None:
        rows = rows_of(scope, decl)
        made = (rows, texts_of(rows))
        if not decl.exclude and not decl.include:
            scope.rows[decl.loops] = made  # shared, so that aligned jobs are recognized by identity
    last = tables[next(reversed(tables))] if tables else None
    base = last.base + len(last) if last is not None else 0
    if base + len(made[0]) > MAX_INSTANCES:
        message = f"with job `{decl.name}` the workflow has more than {MAX_INSTANCES} job instances"
        scope.diagnostics.append(decl.place.diagnostic("WRONG_TYPE", message, "make its loops shorter"))
        made = ((), ())
    specs: list[ArtifactSpec] = []
    for output in decl.outputs.values():
        specs.append(ArtifactSpec(output.name, output.type))
        for leaf in output.leaves:
            specs.extend(_leaf_specs(scope, decl, output, leaf, made[0]))
    # Leaves that use the job's own loop have one text per row; sort by all of them, so that the order in the file does
    # not matter.
    artifacts = tuple(sorted(specs, key=lambda spec: (spec.output, spec.leaf, *(spec.leaf_by_row or ()))))
    name = scope.prefix + decl.name
    opens = any(is_open(scope.loops[loop]) for loop in decl.loops)
    open_rows = frozenset(p for p, row in enumerate(made[0]) if OPEN in row) if opens else frozenset[int]()
    levels = tuple(map(len, scope.nest.levels)) if scope.nest.repeats else ()
    tables[name] = JobTable(
        len(tables), name, decl, made[0], made[1], base, artifacts=artifacts, open_rows=open_rows, levels=levels
    )
    scope.of_table[name] = scope


def _leaf_specs(
    scope: Scope, decl: JobDecl, output: OutputDecl, leaf: LeafDecl, rows: Sequence[tuple[Index, ...]]
) -> Iterator[ArtifactSpec]:
    """A leaf over a loop that the job does not have is one artifact per value of that loop."""
    used = [s.loop for _, selectors in leaf.path for s in selectors if isinstance(s, Loop)]
    foreign = [loop for loop in dict.fromkeys(used) if loop not in decl.loops]
    own = [loop for loop in dict.fromkeys(used) if loop in decl.loops]
    if opens := [loop for loop in foreign if is_open(scope.loops[loop])]:
        message = f"a leaf of output `{output.name}` goes over `{opens[0]}`, whose values are known only in a run"
        hint = "declare one leaf of type `json` that holds the list, and give it to the jobs of the loop"
        scope.diagnostics.append(leaf.place.diagnostic("LOOP_MISMATCH", message, hint))
        return
    if any(isinstance(scope.loops[loop], Ragged) for loop in foreign):
        names = ", ".join(f"`{loop}`" for loop in foreign)
        message = f"a leaf of output `{output.name}` goes over {names}, which has other values for each index of others"
        hint = "run the job for these loops, or declare the leaf without them"
        scope.diagnostics.append(leaf.place.diagnostic("LOOP_MISMATCH", message, hint))
        return
    number_of_leaves = prod(len(scope.loops[loop]) for loop in foreign) * (len(rows) if own else 1)
    if number_of_leaves > MAX_INSTANCES:
        message = (
            f"a leaf of output `{output.name}` stands for {number_of_leaves} artifacts; the limit is {MAX_INSTANCES}"
        )
        scope.diagnostics.append(decl.place.diagnostic("WRONG_TYPE", message, "make its loops shorter"))
        return
    for values in product(*(scope.loops[loop] for loop in foreign)):
        fixed = dict(zip(foreign, values, strict=True))
        if not own:
            yield ArtifactSpec(output.name, leaf.type, _leaf_path(leaf, fixed))
            continue
        number = {loop: decl.loops.index(loop) for loop in own}
        by_row = [_leaf_path(leaf, {**fixed, **{loop: row[i] for loop, i in number.items()}}) for row in rows]
        yield ArtifactSpec(output.name, leaf.type, leaf_by_row=by_row)


def _gates(scope: Scope, flow: Workflow, table: JobTable) -> tuple[tuple[int, Column], ...]:
    """The results that loops of the job go over, the outer ones first."""
    gates: list[tuple[int, Column]] = []
    for number, name in enumerate(table.decl.loops):
        source = flow.loops[name].source if name in flow.loops else None  # else it is a loop of an import, over inputs
        if isinstance(source, OutputRef) and absolute(scope.prefix, source.job) in scope.tables:
            gates.append((number, Resolver(scope, table).operand(source, optional=True)))
    return tuple(gates)


def _leaf_path(leaf: LeafDecl, loops: Mapping[str, Index]) -> str:
    text = ""
    for name, selectors in leaf.path:
        indices = [loops[s.loop] if isinstance(s, Loop) else s.index for s in selectors if isinstance(s, Loop | At)]
        text += f".{name}{format_indices(indices)}"
    return text


# --- `first(…)` ------------------------------------------------------------------------------------------------------


def _with_short_first(tables: Sequence[JobTable]) -> tuple[JobTable, ...]:
    """Cut each `first(…)` after the first candidate that is surely active; one candidate becomes a plain source."""
    maybe_inactive = _may_be_inactive(tables)

    def sure(source: Any) -> bool:
        if isinstance(source, InputAt):
            return True
        return source.element is None and not maybe_inactive[source.table]  # an array may lack the element

    def shorten(term: Any) -> Any:
        if isinstance(term, FirstOf):
            kept = []
            for candidate in term.candidates:
                kept.append(candidate)
                if sure(candidate):
                    break
            return kept[0] if len(kept) == 1 else FirstOf(tuple(kept), term.absent)
        if isinstance(term, Computed):
            return term._replace(operands=tuple(shorten(o) for o in term.operands))
        return term

    def shorten_column(column: Any) -> Any:
        if isinstance(column, SameTerm):
            return SameTerm(shorten(column.term))
        if isinstance(column, EachTerm) and column.kinds & {FirstOf, Computed}:
            return EachTerm([shorten(t) for t in column.terms])
        return column

    def shorten_condition(condition: Condition | None) -> Condition | None:
        return condition and Condition(condition.expression, shorten_column(condition.operands))

    def shorten_slots(slots: Sequence[Slot]) -> tuple[Slot, ...]:
        return tuple(Slot(s.name, s.binding, s.path, s.area, shorten_column(s.column), s.place) for s in slots)

    return tuple(
        replace(table, slots=shorten_slots(table.slots), condition=shorten_condition(table.condition))
        for table in tables
    )


def _may_be_inactive(tables: Sequence[JobTable]) -> list[bool]:
    """By job: can an instance be inactive? It has a condition, or requires a job that can be; to the fixed point."""
    maybe = [table.condition is not None for table in tables]

    def may_be_absent(term: Any, *, optional: bool = False) -> bool:
        if isinstance(term, ArtifactAt):
            return not optional and maybe[term.table]
        if isinstance(term, FirstOf):
            absent = (isinstance(c, ArtifactAt) and (maybe[c.table] or c.element is not None) for c in term.candidates)
            return all(absent)
        if isinstance(term, Computed):
            return any(may_be_absent(o) for o in term.operands)
        return False

    changed = True
    while changed:
        changed = False
        for table in tables:
            if maybe[table.number]:
                continue
            for slot in table.slots:
                column = slot.column
                if isinstance(column, AlignedArtifact):
                    found = maybe[column.table]
                elif isinstance(column, EachTerm) and column.kinds <= {InputAt, Known}:
                    found = False
                else:
                    terms: Sequence[Any] = [column.term] if isinstance(column, SameTerm) else column.terms
                    found = any(map(may_be_absent, terms))
                if found:
                    maybe[table.number] = changed = True
                    break
    return maybe
