"""The values of each loop, and the rows that a job gets from its `for:`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from whyrun.errors import Diagnostic
from whyrun.graph.resolve import Scope
from whyrun.ids import Index, format_index
from whyrun.workflow.inputs import IndexProblem, InputValue, element
from whyrun.workflow.model import (
    At,
    InputRef,
    JobDecl,
    LoopDecl,
)
from whyrun.workflow.values import MAX_INSTANCES, TOO_LONG, not_an_array


def loop_values(
    loop: LoopDecl, prefix: str, inputs: Mapping[str, InputValue], diagnostics: list[Diagnostic]
) -> Sequence[Index]:
    def wrong(code: str, message: str, hint: str | None = None) -> Sequence[Index]:
        diagnostics.append(loop.place.diagnostic(code, message, hint))
        return ()

    source = loop.source
    if isinstance(source, InputRef):
        whole = inputs.get(f"Input:{prefix}{source.name}")
        if whole is None:
            return ()
        try:
            given = element(whole, tuple(s.index for s in source.selectors if isinstance(s, At)))
        except IndexProblem as problem:
            return wrong(problem.code, f"loop `{loop.name}`: {problem}")
        if loop.kind == "each":
            if given.elements is None:
                why = not_an_array(given, "what it ranges over")
                return wrong(why.code, f"loop `{loop.name}`: {why}")
            return range(len(given.elements))
        source = tuple(given.value) if loop.kind == "values" and isinstance(given.value, list) else given.value
    if loop.kind == "count":
        if isinstance(source, bool) or not isinstance(source, int) or source < 0:
            return wrong("WRONG_TYPE", f"loop `{loop.name}` counts to {source!r}, not to a whole number from 0")
        if source > MAX_INSTANCES:
            return wrong("WRONG_TYPE", f"loop `{loop.name}` is too long: it has {source} values", TOO_LONG)
        return range(source)
    if loop.kind == "range":
        first, last = source
        return range(first, last + 1)
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
    axes = [scope.loops[loop] for loop in decl.loops]
    total = 1
    for axis in axes:
        total *= len(axis)
    if total > MAX_INSTANCES:
        scope.diagnostics.append(
            decl.place.diagnostic(
                "WRONG_TYPE", f"job `{decl.name}` has {total} instances; the limit is {MAX_INSTANCES}"
            )
        )
        return ()
    rows = list(product(*axes))
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
                    message = (
                        f"`{format_index(value)}` is no index of loop `{loop}`: it is written `{format_index(known)}`"
                    )
                    place = decl.places.get(f"{kind}[{i}]", decl.place)
                    hint = "a whole number and a decimal are two indices"
                    scope.diagnostics.append(place.diagnostic("INDEX_FORMAT_INVALID", message, hint))
