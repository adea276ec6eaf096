"""Keys that are numbers, as they are written: two texts that are one number are not silently one key.

`10.1` and `10.10` may be a price, or two codes. As numbers they are the same, so where both occur the user says what
is meant. So it is with `0.1` and `0.10000000000000000001`, of which a floating-point number keeps only so much.
"""

from __future__ import annotations

from collections.abc import Iterable

from whyrun.actions.builtin.data.engine import ROW, Engine, name
from whyrun.actions.builtin.data.kinds import FLOATING, known, misfit, wider
from whyrun.actions.builtin.data.problems import KeyNotExact
from whyrun.actions.builtin.data.tables import Column, Table

_LONGEST_TEXT = 60  # characters of a value in a message


def check_written(engine: Engine, keys: Iterable[tuple[Table, Column]]) -> None:
    """`keys`: columns that are compared with each other, each in its dataset."""
    asked = [(table, column) for table, column in keys if column.name in table.texts]
    if not asked:
        return
    texts = " UNION ALL ".join(table.texts[column.name] for table, column in asked)
    found = engine.rows(
        f"SELECT min(t), max(t) FROM ({texts}) WHERE t IS NOT NULL GROUP BY CAST(t AS DOUBLE) "
        "HAVING min(t) <> max(t) ORDER BY 1 LIMIT 1"
    )
    if found:
        one, other = found[0]
        column = asked[0][1].name
        raise KeyNotExact(
            f"the key `{column}` is read as number, and then `{one}` and `{other}` are one; say what they are: "
            f"`types: {{{column}: text}}` for codes, `types: {{{column}: number}}` for numbers"
        )


def stray_texts(engine: Engine, columns: Iterable[tuple[Table, Column]]) -> str:
    """Words on the first text that keeps a column from being what the other is; empty where no text does."""
    members = list(columns)
    wanted = wider(*(column.kind for _, column in members if column.kind != "text"))
    for table, column in members:
        if column.kind != "text" or not table.untyped or wanted not in ("number", "timestamp"):
            continue
        value = name(column.name)
        found = engine.rows(
            f"SELECT {value}, {ROW} + 1 FROM {table.relation} WHERE {misfit(value, wanted)} ORDER BY {ROW} LIMIT 1"
        )
        if found:
            text, row = found[0]
            shown = text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"
            return f" (row {row:,} has `{shown}`)"
    return ""


def without_nan(engine: Engine, table: Table, keys: Iterable[Column]) -> Table:
    """The dataset with NaN in these columns as what it means: no value. A missing key matches nothing."""
    floating = [column for column in keys if column.type in FLOATING]
    if not floating or table.untyped:  # formats without types have no NaN
        return table
    view = engine.new_name("keyed")
    replaced = ", ".join(f"{known(name(column.name), column.type)} AS {name(column.name)}" for column in floating)
    engine.do(f"CREATE VIEW {view} AS SELECT * REPLACE ({replaced}) FROM {table.relation}")
    return Table(table.label, view, table.columns, table.rows, table.untyped, table.texts)
