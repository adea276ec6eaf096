"""After all columns are there: `first(…)` cut to what can be needed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whyrun.graph.graph import (
    AlignedArtifact,
    ArtifactAt,
    Computed,
    Condition,
    EachTerm,
    FirstOf,
    Graph,
    InputAt,
    Known,
    SameTerm,
    Slot,
)


def settle_first(graph: Graph) -> None:
    """Cut each `first(…)` after its first candidate that is surely active; one that is left alone is a plain source."""
    maybe = _may_be_inactive(graph)

    def sure(source: Any) -> bool:
        return isinstance(source, InputAt) or not maybe[source.table]

    def settle(term: Any) -> Any:
        if isinstance(term, FirstOf):
            kept = []
            for candidate in term.candidates:
                kept.append(candidate)
                if sure(candidate):
                    break
            return kept[0] if len(kept) == 1 else FirstOf(tuple(kept))
        if isinstance(term, Computed):
            return term._replace(operands=tuple(settle(o) for o in term.operands))
        return term

    def settle_column(column: Any) -> Any:
        if isinstance(column, SameTerm):
            return SameTerm(settle(column.term))
        if isinstance(column, EachTerm) and column.kinds & {FirstOf, Computed}:
            return EachTerm([settle(t) for t in column.terms])
        return column

    for table in graph.tables:
        table.slots = tuple(
            Slot(s.name, s.binding, s.path, s.area, settle_column(s.column), s.place) for s in table.slots
        )
        if table.condition is not None:
            table.condition = Condition(table.condition.expression, settle_column(table.condition.operands))


def _may_be_inactive(graph: Graph) -> list[bool]:
    """By job: can an instance of it be inactive? A condition, or something required that can be; to the fixed point."""
    maybe = [table.condition is not None for table in graph.tables]

    def doubtful(term: Any, *, optional: bool = False) -> bool:
        if isinstance(term, ArtifactAt):
            return not optional and maybe[term.table]
        if isinstance(term, FirstOf):
            return all(isinstance(c, ArtifactAt) and maybe[c.table] for c in term.candidates)
        if isinstance(term, Computed):
            return any(doubtful(o) for o in term.operands)
        return False

    changed = True
    while changed:
        changed = False
        for table in graph.tables:
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
                    found = any(map(doubtful, terms))
                if found:
                    maybe[table.number] = changed = True
                    break
    return maybe
