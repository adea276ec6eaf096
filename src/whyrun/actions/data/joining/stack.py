"""Datasets on top of each other: in the order they are bound, with or without a column that tells them apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from whyrun.actions.builtin.data.engine import ROW, Engine, literal, name
from whyrun.actions.builtin.data.kinds import wider
from whyrun.actions.builtin.data.problems import ColumnsClash, ColumnsDiffer, counted, listed
from whyrun.actions.builtin.data.tables import Column, Table, has_value
from whyrun.actions.builtin.data.written_keys import stray_texts

PART = "__whyrun_part"
_SHOWN = 8  # columns in a message


@dataclass(frozen=True, slots=True)
class Stack:
    query: str  # with `PART` and `ROW`, which are its order
    columns: tuple[Column, ...]
    rows: int

    order: ClassVar[tuple[str, ...]] = (PART, ROW)

    def selected(self) -> str:
        """Without what is only for the order."""
        return f"SELECT * EXCLUDE ({PART}, {ROW}) FROM ({self.query})"


def stacked(engine: Engine, tables: Sequence[Table], columns: str, label: str | None, labels: Sequence[str]) -> Stack:
    """`columns`: "same" or "union". `label`: the name of a column that holds, for each row, the one of `labels`."""
    found = _common_columns(engine, tables, columns)
    names = [column.name for column in found]
    if label is not None and label.casefold() in {column.casefold() for column in names}:
        raise ColumnsClash(f"the datasets have a column `{label}` already; choose another name for the added one")
    parts = []
    for number, table in enumerate(tables):
        own = {column.name: column for column in table.columns}
        selected = [] if label is None else [f"{literal(labels[number])} AS {name(label)}"]
        for column in found:
            # Also a cast between widths of one kind, and of columns without values: nothing is lost by either.
            value = name(column.name) if column.name in own else "NULL"
            selected.append(f"CAST({value} AS {column.type}) AS {name(column.name)}")
        parts.append(f"SELECT {', '.join(selected)}, {number} AS {PART}, {ROW} FROM {table.relation}")
    added = () if label is None else (Column(label, "VARCHAR"),)
    return Stack(" UNION ALL ".join(parts), (*added, *found), sum(table.rows for table in tables))


def _common_columns(engine: Engine, tables: Sequence[Table], columns: str) -> list[Column]:
    """In the order of the first dataset that has them."""
    holders: dict[str, list[tuple[Table, Column]]] = {}
    for table in tables:
        for column in table.columns:
            holders.setdefault(column.name, []).append((table, column))
    by_case: dict[str, str] = {}
    for column_name in holders:
        other = by_case.setdefault(column_name.casefold(), column_name)
        if other != column_name:
            raise ColumnsDiffer(f"`{other}` and `{column_name}` differ only in case; rename one")
    if columns == "same":
        _check_same(tables)
    columns_found, differing = [], []
    for column_name, found in holders.items():
        try:
            columns_found.append(Column(column_name, _type(engine, column_name, found)))
        except _Differs as problem:
            differing.append(problem)
    if differing:
        more = f"; and {counted(len(differing) - _SHOWN, 'column')} more" if len(differing) > _SHOWN else ""
        told = "; ".join(found.told for found in differing[:_SHOWN])
        advice = ", ".join(found.advice for found in differing[:_SHOWN])
        raise ColumnsDiffer(
            f"the column{'s' if len(differing) > 1 else ''} {told}{more}; "
            f"nothing is cast silently: say what it is, as in `types: {{{advice}}}`"
        )
    return columns_found


class _Differs(Exception):
    """One column that is of several kinds."""

    def __init__(self, told: str, advice: str) -> None:
        super().__init__(told)
        self.told, self.advice = told, advice


def _check_same(tables: Sequence[Table]) -> None:
    first = tables[0]
    problems = []
    for table in tables[1:]:
        lacks = [column for column in first.names if column not in table.names]
        beyond = [column for column in table.names if column not in first.names]
        parts = [f"lacks {listed(lacks)}"] if lacks else []
        parts += [f"has {listed(beyond)} beyond"] if beyond else []
        if parts:
            problems.append(f"`{table.label}` {' and '.join(parts)}")
    if problems:
        raise ColumnsDiffer(
            f"the datasets do not have the columns of `{first.label}`: {'; '.join(problems)}; "
            "correct the data, or write `columns: union`, which leaves empty what a dataset lacks"
        )


def _type(engine: Engine, column: str, found: Sequence[tuple[Table, Column]]) -> str:
    """The one kind of all; the widest type of it."""
    kinds: dict[str, list[tuple[Table, Column]]] = {}
    for table, own in found:
        kinds.setdefault(own.kind, []).append((table, own))
    if len(kinds) > 1:
        kinds = {
            kind: holding
            for kind, members in kinds.items()
            if (holding := [(table, own) for table, own in members if has_value(engine, table, own)])
        }
    if not kinds:
        return found[0][1].type
    if len(kinds) > 1:
        told = ", ".join(f"{kind} in {listed(table.label for table, _ in held)}" for kind, held in kinds.items())
        strays = stray_texts(engine, [member for held in kinds.values() for member in held])
        raise _Differs(f"`{column}` is {told}{strays}", f"{column}: {wider(*kinds)}")
    (members,) = kinds.values()
    types = sorted({own.type for _, own in members})
    if len(types) == 1:
        return types[0]
    union = " UNION ALL ".join(f"SELECT CAST(NULL AS {type_}) AS c" for type_ in types)
    return engine.columns(union)[0][1]
