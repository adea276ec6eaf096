"""Stacks datasets in the order in which they are bound, optionally with a column that labels them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from whyrun.actions.data.engine import ROW, Engine, literal, name
from whyrun.actions.data.joining.keys import stray_text
from whyrun.actions.data.kinds import wider
from whyrun.actions.data.params import ColumnsClash, ColumnsDiffer, counted, listed
from whyrun.actions.data.tables import Column, Table, has_value

PART = "__whyrun_part"
_SHOWN = 8  # columns in a message


@dataclass(frozen=True, slots=True)
class Stack:
    query: str  # includes `PART` and `ROW` for the order
    columns: tuple[Column, ...]
    rows: int

    order: ClassVar[tuple[str, ...]] = (PART, ROW)

    def selected(self) -> str:
        """The query without the columns for the order."""
        return f"SELECT * EXCLUDE ({PART}, {ROW}) FROM ({self.query})"


def stacked(engine: Engine, tables: Sequence[Table], columns: str, label: str | None, labels: Sequence[str]) -> Stack:
    """`columns`: "same" or "union". `label`: the name of an added column that holds the dataset's entry of `labels`."""
    common = _common_columns(engine, tables, columns)
    names = [column.name for column in common]
    if label is not None and label.casefold() in {column.casefold() for column in names}:
        raise ColumnsClash(f"the datasets already have a column `{label}`; choose another name for the added one")
    parts = []
    for number, table in enumerate(tables):
        own = {column.name: column for column in table.columns}
        selected = [] if label is None else [f"{literal(labels[number])} AS {name(label)}"]
        for column in common:
            # This also casts between widths of one kind, and columns without values; both casts are exact.
            value = name(column.name) if column.name in own else "NULL"
            selected.append(f"CAST({value} AS {column.type}) AS {name(column.name)}")
        parts.append(f"SELECT {', '.join(selected)}, {number} AS {PART}, {ROW} FROM {table.relation}")
    added = () if label is None else (Column(label, "VARCHAR"),)
    return Stack(" UNION ALL ".join(parts), (*added, *common), sum(table.rows for table in tables))


def _common_columns(engine: Engine, tables: Sequence[Table], columns: str) -> list[Column]:
    """The columns in the order of the first dataset that has them."""
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
    common, differing = [], []
    for column_name, members in holders.items():
        try:
            common.append(Column(column_name, _type(engine, column_name, members)))
        except _KindsDiffer as problem:
            differing.append(problem)
    if differing:
        more = f"; and {counted(len(differing) - _SHOWN, 'column')} more" if len(differing) > _SHOWN else ""
        messages = "; ".join(problem.message for problem in differing[:_SHOWN])
        advice = ", ".join(problem.advice for problem in differing[:_SHOWN])
        raise ColumnsDiffer(
            f"the column{'s' if len(differing) > 1 else ''} {messages}{more}; "
            f"nothing is cast silently: declare the type, as in `types: {{{advice}}}`"
        )
    return common


class _KindsDiffer(Exception):
    """One column has different kinds in different datasets."""

    def __init__(self, message: str, advice: str) -> None:
        super().__init__(message)
        self.message, self.advice = message, advice


def _check_same(tables: Sequence[Table]) -> None:
    first = tables[0]
    problems = []
    for table in tables[1:]:
        missing = [column for column in first.names if column not in table.names]
        extra = [column for column in table.names if column not in first.names]
        parts = [f"lacks {listed(missing)}"] if missing else []
        parts += [f"has {listed(extra)} in addition"] if extra else []
        if parts:
            problems.append(f"`{table.label}` {' and '.join(parts)}")
    if problems:
        raise ColumnsDiffer(
            f"the datasets do not have the columns of `{first.label}`: {'; '.join(problems)}; "
            "correct the data, or write `columns: union`, which leaves missing columns empty"
        )


def _type(engine: Engine, column: str, holders: Sequence[tuple[Table, Column]]) -> str:
    """The widest type of a column that has the same kind in all datasets."""
    kinds: dict[str, list[tuple[Table, Column]]] = {}
    for table, own in holders:
        kinds.setdefault(own.kind, []).append((table, own))
    if len(kinds) > 1:
        kinds = {
            kind: holding
            for kind, members in kinds.items()
            if (holding := [(table, own) for table, own in members if has_value(engine, table, own)])
        }
    if not kinds:
        return holders[0][1].type
    if len(kinds) > 1:
        shown = ", ".join(f"{kind} in {listed(table.label for table, _ in where)}" for kind, where in kinds.items())
        stray = stray_text(engine, [member for where in kinds.values() for member in where])
        raise _KindsDiffer(f"`{column}` is {shown}{stray}", f"{column}: {wider(*kinds)}")
    (members,) = kinds.values()
    types = sorted({own.type for _, own in members})
    if len(types) == 1:
        return types[0]
    union = " UNION ALL ".join(f"SELECT CAST(NULL AS {type_}) AS c" for type_ in types)
    return engine.columns(union)[0][1]
