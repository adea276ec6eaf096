"""The values of each loop, and the rows that a job gets from its `for:`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from whyrun.errors import Diagnostic
from whyrun.graph.inputs import Scope
from whyrun.graph.ragged import NOT_NESTED, Nest, Ragged, Refused, Results, is_open, rows_over, texts_of
from whyrun.graph.resolve import Resolver
from whyrun.graph.slots import values_of
from whyrun.graph.tables import InputAt, JobTable
from whyrun.graph.template import inputs_of_loop
from whyrun.ids import OPEN, Index, absolute, format_index, format_indices, job_of, own_name, place_of
from whyrun.workflow.expressions.expression import ABSENT
from whyrun.workflow.inputs import IndexProblem, InputValue, element
from whyrun.workflow.model import At, InputRef, JobDecl, Loop, LoopDecl, OutputRef, Selector
from whyrun.workflow.values import MAX_INSTANCES, RANGE, TOO_LONG, not_an_array

NO_LEVELS: Mapping[str, tuple[int, ...]] = {}


def loop_values(
    loop: LoopDecl,
    prefix: str,
    inputs: Mapping[str, InputValue],
    diagnostics: list[Diagnostic],
    known: Mapping[str, Sequence[Index]],
    results: Results,
    nest: Nest = NOT_NESTED,
) -> Sequence[Index]:
    """`known`: the loops that its source may use."""
    if isinstance(loop.source, OutputRef):
        return _result_axis(loop, loop.source, prefix, known, results)
    folder = nest.first_folder(prefix)
    if folder is None or any(f"Input:{folder}{name}" not in inputs for name in inputs_of_loop(loop)):
        return ()  # reported: an input has no value
    before = len(diagnostics)
    rows = [row for row in rows_over(loop.after, known) if OPEN not in row]
    sources = _sources(loop, prefix, inputs, diagnostics, known, rows, nest)
    if len(diagnostics) > before:
        return ()
    of = {}
    for row, source in zip(rows, sources, strict=False):
        where = f" (for {', '.join(map(format_index, row))})" if row else ""
        of[row] = _axis(loop, source, where, diagnostics)
        if len(diagnostics) > before:
            return ()
    opens = any(is_open(known[other]) for other in loop.after)
    return Ragged.made(loop.after, of, is_open=opens) if loop.after else of.get((), ())


def _result_axis(
    loop: LoopDecl, source: OutputRef, prefix: str, known: Mapping[str, Sequence[Index]], results: Results
) -> Ragged:
    """Its values; `[?]` where they are not known."""
    of: dict[tuple[Index, ...], Sequence[Index]] = {}
    for row in rows_over(loop.after, known):
        if OPEN in row:
            continue
        of[row] = (OPEN,)
        id_ = result_id(source, prefix, dict(zip(loop.after, row, strict=True)), results.levels)
        made = results.recorded(id_)
        if made is None:
            continue
        problems: list[Diagnostic] = []
        values = made.keys if loop.kind == "each" else _axis(loop, made.value, f" ({id_})", problems)
        if not problems and len(values) > loop.max:
            message = f"loop `{loop.name}` would have {len(values):,} values, and its `max` is {loop.max:,} ({id_})"
            problems.append(loop.place.diagnostic("LOOP_TOO_LONG", message, f"raise it: `max: {len(values)}`"))
        if problems:
            from shlex import quote  # imported late: most plans have no such problem

            job = quote(job_of(id_))
            again = f"make the result again: `whyrun run --target {job} --force {job}`"
            hint = f"{problems[0].hint}; or {again}" if problems[0].hint else again
            results.refused[id_] = Refused(made.sha256, replace(problems[0], hint=hint))
        else:
            of[row] = values
            results.taken.add(id_)
    return Ragged.made(loop.after, of, is_open=True)


def result_id(
    source: OutputRef, prefix: str, at: Mapping[str, Index], levels: Mapping[str, tuple[int, ...]] = NO_LEVELS
) -> str:
    """The artifact that a loop goes over, at these indices of the loops before it."""

    def indices(selectors: Sequence[Selector]) -> str:
        return format_indices([at[selector.loop] for selector in selectors if isinstance(selector, Loop)])

    leaf = "".join(f".{name}{indices(selectors)}" for name, selectors in source.leaf)
    job = absolute(prefix, source.job)
    of_imports = levels.get(job[: len(job) - len(own_name(job))], ())
    row = [at[selector.loop] for selector in source.selectors if isinstance(selector, Loop)]
    before, after = place_of(job, of_imports, row)
    return f"Artifact:{before}.{source.output}{after}{leaf}"


def _sources(
    loop: LoopDecl,
    prefix: str,
    inputs: Mapping[str, InputValue],
    diagnostics: list[Diagnostic],
    known: Mapping[str, Sequence[Index]],
    rows: Sequence[tuple[Index, ...]],
    nest: Nest,
) -> Sequence[Any]:
    """By row of the loops that it depends on: an input, a number, the ends of a range, or values."""
    source = loop.source
    if isinstance(source, InputRef) and not source.fields and not loop.after:
        try:
            indices = tuple(s.index for s in source.selectors if isinstance(s, At))
            return [element(inputs[f"Input:{nest.first_folder(prefix)}{source.name}"], indices)]
        except IndexProblem as problem:
            diagnostics.append(loop.place.diagnostic(problem.code, f"loop `{loop.name}`: {problem}"))
            return ()
    if not inputs_of_loop(loop) and not loop.after:
        return [source]
    position = {name: {value: i for i, value in enumerate(known[name])} for name in loop.after}
    scope = Scope(prefix, known, position, {}, {}, inputs, diagnostics, nest=nest)
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
    outer = [loop for loop in decl.loops if loop.startswith("/")]  # of imports, which `include:` does not know
    for entry in decl.include:
        for before in rows_over(outer, scope.loops):
            added = (*before, *(entry[loop] for loop in decl.loops[len(outer) :]))
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
