"""MODEL + INPUTS → GRAPH: loops become rows, references become edges. All problems are reported together. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from math import prod
from typing import Any

from msgspec.structs import replace

from whyrun.errors import Diagnostic, InvalidError
from whyrun.graph.inputs import Scope
from whyrun.graph.layers import check_cycles
from whyrun.graph.resolve import Resolver
from whyrun.graph.slots import fill, values_of, with_action
from whyrun.graph.tables import (
    AlignedArtifact,
    ArtifactAt,
    ArtifactSpec,
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
from whyrun.graph.template import inputs_of_loop
from whyrun.ids import Index, format_index, format_indices, format_words
from whyrun.workflow.expressions.expression import ABSENT
from whyrun.workflow.inputs import IndexProblem, InputValue, element
from whyrun.workflow.model import (
    At,
    InputRef,
    JobDecl,
    LeafDecl,
    Loop,
    LoopDecl,
    OutputDecl,
    Workflow,
)
from whyrun.workflow.values import MAX_INSTANCES, RANGE, TOO_LONG, not_an_array

Check = Callable[[Graph], Iterable[Diagnostic]]


def expand(workflow: Workflow, inputs: Mapping[str, InputValue], *checks: Check) -> Graph:
    """The graph, or `InvalidError` with all problems.

    `checks` of other packages look at the finished tables, so that their problems are reported together with those
    found here.
    """
    diagnostics: list[Diagnostic] = []
    tables: dict[str, JobTable] = {}
    scopes = list(_scopes(workflow, "", inputs, tables, {}, diagnostics))
    # Tables are sorted by name, so that the number of a node, and every list that is sorted by node, does not depend on
    # the order in the file.
    jobs = [(scope.prefix + name, scope, decl) for scope, flow in scopes for name, decl in flow.jobs.items()]
    for _, scope, decl in sorted(jobs, key=lambda job: job[0]):
        _make_table(scope, with_action(decl, scope.prefix, inputs, diagnostics), tables)
    _stop_if(diagnostics)  # references can be resolved only if all loops are right
    filled: dict[str, JobTable] = {}
    for scope, flow in scopes:
        for name in flow.jobs:
            filled[scope.prefix + name] = fill(scope, flow, tables[scope.prefix + name])
    graph = Graph(workflow, inputs, _with_short_first([filled[name] for name in tables]))
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


def _scopes(
    workflow: Workflow,
    prefix: str,
    inputs: Mapping[str, InputValue],
    tables: dict[str, JobTable],
    of_table: dict[str, Scope],
    diagnostics: list[Diagnostic],
) -> Iterator[tuple[Scope, Workflow]]:
    loops: dict[str, Sequence[Index]] = {}
    for loop in workflow.loops.values():
        loops[loop.name] = loop_values(loop, prefix, inputs, diagnostics, loops)
    positions = {name: {value: i for i, value in enumerate(values)} for name, values in loops.items()}
    yield Scope(prefix, loops, positions, tables, of_table, inputs, diagnostics), workflow
    for name, imported in workflow.imports.items():
        yield from _scopes(imported.workflow, f"{prefix}{name}/", inputs, tables, of_table, diagnostics)


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
    tables[name] = JobTable(len(tables), name, decl, made[0], made[1], base, artifacts=artifacts)
    scope.of_table[name] = scope


def texts_of(rows: Sequence[tuple[Index, ...]]) -> list[str]:
    """`[asia][7]` by row."""
    if set(map(type, chain.from_iterable(rows))) == {int}:  # the hot path
        pattern = "[%d]" * len(rows[0])
        return [pattern % row for row in rows]
    if set(map(len, rows)) == {1}:
        return list(map("[{}]".format, format_words([row[0] for row in rows])))
    return [format_indices(row) for row in rows]


def _leaf_specs(
    scope: Scope, decl: JobDecl, output: OutputDecl, leaf: LeafDecl, rows: Sequence[tuple[Index, ...]]
) -> Iterator[ArtifactSpec]:
    """A leaf over a loop that the job does not have is one artifact per value of that loop."""
    used = [s.loop for _, selectors in leaf.path for s in selectors if isinstance(s, Loop)]
    foreign = [loop for loop in dict.fromkeys(used) if loop not in decl.loops]
    own = [loop for loop in dict.fromkeys(used) if loop in decl.loops]
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


# --- The values of each loop, and the rows that a job gets from its for: ---------------------------------------------


class Ragged(tuple[Index, ...]):
    """The values of a loop that depends on others: of all of their indices together, and `of` each."""

    after: tuple[str, ...]
    of: Mapping[tuple[Index, ...], Sequence[Index]]

    @classmethod
    def made(cls, after: tuple[str, ...], of: Mapping[tuple[Index, ...], Sequence[Index]]) -> Ragged:
        whole = cls(dict.fromkeys(chain.from_iterable(of.values())))
        whole.after, whole.of = after, of
        return whole


def axis_at(name: str, row: Mapping[str, Index], loops: Mapping[str, Sequence[Index]]) -> Sequence[Index]:
    """The values of a loop, at these indices of the loops before it."""
    axis = loops[name]
    return axis.of.get(tuple(row[other] for other in axis.after), ()) if isinstance(axis, Ragged) else axis


def rows_over(names: Sequence[str], loops: Mapping[str, Sequence[Index]]) -> list[tuple[Index, ...]]:
    """Every combination of the values of these loops."""
    if not any(isinstance(loops[name], Ragged) for name in names):
        return list(product(*(loops[name] for name in names)))
    rows: list[tuple[Index, ...]] = [()]
    for number, name in enumerate(names):
        rows = [
            (*row, value) for row in rows for value in axis_at(name, dict(zip(names[:number], row, strict=True)), loops)
        ]
    return rows


def loop_values(
    loop: LoopDecl,
    prefix: str,
    inputs: Mapping[str, InputValue],
    diagnostics: list[Diagnostic],
    known: Mapping[str, Sequence[Index]],
) -> Sequence[Index]:
    """`known`: the loops that its source may use."""
    if any(f"Input:{prefix}{name}" not in inputs for name in inputs_of_loop(loop)):
        return ()  # reported: an input has no value
    before = len(diagnostics)
    rows = rows_over(loop.after, known)
    sources = _sources(loop, prefix, inputs, diagnostics, known, rows)
    if len(diagnostics) > before:
        return ()
    of = {}
    for row, source in zip(rows, sources, strict=False):
        where = f" (for {', '.join(map(format_index, row))})" if row else ""
        of[row] = _axis(loop, source, where, diagnostics)
        if len(diagnostics) > before:
            return ()
    return Ragged.made(loop.after, of) if loop.after else of.get((), ())


def _sources(
    loop: LoopDecl,
    prefix: str,
    inputs: Mapping[str, InputValue],
    diagnostics: list[Diagnostic],
    known: Mapping[str, Sequence[Index]],
    rows: Sequence[tuple[Index, ...]],
) -> Sequence[Any]:
    """By row of the loops that it depends on: an input, a number, the ends of a range, or values."""
    source = loop.source
    if isinstance(source, InputRef) and not source.fields and not loop.after:
        try:
            indices = tuple(s.index for s in source.selectors if isinstance(s, At))
            return [element(inputs[f"Input:{prefix}{source.name}"], indices)]
        except IndexProblem as problem:
            diagnostics.append(loop.place.diagnostic(problem.code, f"loop `{loop.name}`: {problem}"))
            return ()
    if not inputs_of_loop(loop) and not loop.after:
        return [source]
    position = {name: {value: i for i, value in enumerate(known[name])} for name in loop.after}
    scope = Scope(prefix, known, position, {}, {}, inputs, diagnostics)
    decl = JobDecl(name=loop.name, place=loop.place, loops=loop.after)
    table = JobTable(0, loop.name, decl, rows, texts_of(rows), 0)
    if isinstance(source, InputRef):
        column = Resolver(scope, table, "Loop").operand(source, optional=False)
        terms = [column.at(position) for position in range(len(rows))]
        return [term.value for term in terms if isinstance(term, InputAt)]
    parts = source if isinstance(source, tuple) else (source,)
    columns = [values_of(scope, table, part, loop.place, "Loop") for part in parts]
    return columns[0] if len(parts) == 1 else list(zip(*columns, strict=True))


def _axis(loop: LoopDecl, source: Any, where: str, diagnostics: list[Diagnostic]) -> Sequence[Index]:
    """The values of a loop with this source."""

    def wrong(code: str, message: str, hint: str | None = None) -> Sequence[Index]:
        diagnostics.append(loop.place.diagnostic(code, message + where, hint))
        return ()

    if source is ABSENT:
        return ()  # reported
    if isinstance(source, InputValue):
        if loop.kind == "each":
            if source.elements is not None:
                return source.indices
            if isinstance(source.value, list):
                return range(len(source.value))
            why = not_an_array(source, "what it ranges over")
            return wrong(why.code, f"loop `{loop.name}`: {why}")
        source = source.value
    if loop.kind == "count":
        if isinstance(source, bool) or not isinstance(source, int) or source < 0:
            return wrong("WRONG_TYPE", f"`count` of loop `{loop.name}` is {source!r}, not a whole number from 0")
        if source > MAX_INSTANCES:
            return wrong("WRONG_TYPE", f"loop `{loop.name}` is too long: it has {source} values", TOO_LONG)
        return range(source)
    if loop.kind == "range":
        found = RANGE.fullmatch(source) if isinstance(source, str) else None
        ends = (int(found[1]), int(found[2])) if found else source
        if isinstance(ends, str) or not all(type(end) is int for end in ends) or ends[0] > ends[1] + 1:
            shown = f"`{source}`" if isinstance(source, str) else f"from {source[0]!r} to {source[1]!r}"
            message = f"`range` of loop `{loop.name}` is {shown}, not two whole numbers in order"
            return wrong("WRONG_TYPE", message, "both ends count: `0-4` is 0, 1, 2, 3 and 4")
        if ends[1] - ends[0] >= MAX_INSTANCES:
            number = ends[1] - ends[0] + 1
            return wrong("WRONG_TYPE", f"loop `{loop.name}` is too long: it has {number} values", TOO_LONG)
        return range(ends[0], ends[1] + 1)
    if not isinstance(source, tuple | list):
        return wrong("WRONG_TYPE", f"loop `{loop.name}` needs a list of values")
    seen: dict[Index, str] = {}
    for value in source:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            return wrong("WRONG_TYPE", f"loop `{loop.name}`: {value!r} is neither text nor a number")
        text = format_index(value)
        if value in seen:
            # `1` and `1.0` are equal, so one could not be told from the other as a key.
            twice = (
                f"the value `{text}` twice" if seen[value] == text else f"the equal values `{seen[value]}` and `{text}`"
            )
            return wrong("NAME_TAKEN", f"loop `{loop.name}` has {twice}", "values are names: keep one")
        seen[value] = text
    return tuple(source)


def rows_of(scope: Scope, decl: JobDecl) -> Sequence[tuple[Index, ...]]:
    ragged = any(isinstance(scope.loops[loop], Ragged) for loop in decl.loops)
    rows = rows_over(decl.loops, scope.loops) if ragged else []
    total = len(rows) if ragged else prod(len(scope.loops[loop]) for loop in decl.loops)
    if total > MAX_INSTANCES:
        scope.diagnostics.append(
            decl.place.diagnostic(
                "WRONG_TYPE", f"job `{decl.name}` has {total} instances; the limit is {MAX_INSTANCES}"
            )
        )
        return ()
    rows = rows if ragged else rows_over(decl.loops, scope.loops)
    _check_spelling(scope, decl)
    if decl.exclude:
        number = {loop: i for i, loop in enumerate(decl.loops)}
        drops = [[(number[loop], value) for loop, value in entry.items()] for entry in decl.exclude]
        rows = [row for row in rows if not any(all(row[i] == value for i, value in drop) for drop in drops)]
    known = set(rows) if decl.include else set()
    for entry in decl.include:
        added = tuple(entry[loop] for loop in decl.loops)
        if added not in known:
            known.add(added)
            rows.append(added)
    return rows


def _check_spelling(scope: Scope, decl: JobDecl) -> None:
    """`exclude` and `include` must spell an index as the loop does: `2.0` is not `2`, though Python has them equal."""
    added: dict[tuple[str, Index], Index] = {}
    for kind, entries in (("exclude", decl.exclude), ("include", decl.include)):
        for i, entry in enumerate(entries):
            for loop, value in entry.items():
                position = scope.loop_position[loop].get(value)
                known = added.setdefault((loop, value), value) if position is None else scope.loops[loop][position]
                if format_index(known) != format_index(value):
                    message = f"`{format_index(value)}` is not an index of loop `{loop}`: write `{format_index(known)}`"
                    place = decl.places.get(f"{kind}[{i}]", decl.place)
                    hint = "a whole number and a decimal are two indices"
                    scope.diagnostics.append(place.diagnostic("INDEX_FORMAT_INVALID", message, hint))
