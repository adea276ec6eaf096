"""Describes one table before anybody plans with it: rows, columns, types, nulls, distinct values, ranges, keys, labels.

Nulls, minimum and maximum come from all rows. No value of a text is shown, and no row, unless a sample is asked for.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from whyrun.actions.data.engine import ROW, Engine, name, opened
from whyrun.actions.data.kinds import FLOATING, known
from whyrun.actions.data.params import DataParams
from whyrun.actions.data.tables import Column, Table, format_of, open_table

EXACT_ROWS = 5_000_000  # in a longer table, distinct values are estimated
_PAIRED = 6  # columns whose pairs are tried as keys
_RANGED = ("integer", "number", "date", "timestamp")
_LARGEST = 2**63 - 1


def describe_table(
    path: Path,
    params: DataParams,
    spill: Path,
    *,
    full: bool = False,
    sample: int = 0,
    label: str = "data",
    exact_rows: int = EXACT_ROWS,
) -> dict[str, Any]:
    """The description as JSON. `full`: also count duplicate rows. `sample`: how many of the first rows to show."""
    with opened(params, spill) as engine:
        table = open_table(engine, label, path, params)
        variables, values = _labels(path)
        counted = {column.name: _counts(engine, table, column, exact_rows) for column in table.columns}
        described: dict[str, Any] = {
            "format": format_of(path),
            "rows": table.rows,
            "columns": [
                {
                    "name": column.name,
                    "type": column.kind,
                    "stored": column.type,
                    **counted[column.name],
                    **({"label": variables[column.name]} if variables.get(column.name) else {}),
                    **({"value_labels": values[column.name]} if column.name in values else {}),
                }
                for column in table.columns
            ],
            "key_candidates": _keys(engine, table, counted),
        }
        if full:
            described["duplicate_rows"] = table.rows - _groups(engine, table, table.columns)
        if sample:
            described["sample"] = _rows(engine, table, sample)
    return described


def _counts(engine: Engine, table: Table, column: Column, exact_rows: int) -> dict[str, Any]:
    value = known(name(column.name), column.type)
    exact = table.rows <= exact_rows
    # A struct or a list is compared as the text that it is written as.
    distinct = f"count(DISTINCT {value})" if exact else f"approx_count_distinct({value})"
    asked = [f"count({value})", distinct]
    ranged = column.kind in _RANGED or column.type.startswith("DECIMAL")
    if ranged:
        asked += [f"min({value})", f"max({value})"]
    elif column.kind == "text":
        asked += [f"min(length({value}))", f"max(length({value}))"]
    present, number, *bounds = engine.row(f"SELECT {', '.join(asked)} FROM {table.relation}")
    counts: dict[str, Any] = {"missing": table.rows - present, "distinct": min(number, present)}
    if not exact:
        counts["distinct_is_estimated"] = True
    if bounds and bounds[0] is not None:
        names = ("minimum", "maximum") if ranged else ("shortest", "longest")
        counts |= zip(names, map(as_json, bounds), strict=True)
    return counts


def _keys(engine: Engine, table: Table, counts: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """Columns without missing values that tell all rows apart: single ones, then pairs of those with most values.

    A measurement is no key, even if all its values differ, so floating-point numbers are left out.
    """
    if not table.rows:
        return []
    usable = [c for c in table.columns if not counts[c.name]["missing"] and c.type not in FLOATING]
    single = [c for c in usable if _may_be_key(counts, (c,), table.rows) and _is_key(engine, table, counts, (c,))]
    others = [column for column in usable if column not in single and counts[column.name]["distinct"] > 1]
    most = sorted(others, key=lambda column: -counts[column.name]["distinct"])[:_PAIRED]
    tried = [column for column in others if column in most]
    pairs = [
        pair
        for pair in combinations(tried, 2)
        if _may_be_key(counts, pair, table.rows) and _groups(engine, table, pair) == table.rows
    ]
    return [[column.name for column in key] for key in (*((c,) for c in single), *pairs)]


def _may_be_key(counts: Mapping[str, Mapping[str, Any]], columns: Sequence[Column], rows: int) -> bool:
    """Whether there are enough values. Estimates are within a few per cent, so they get room."""
    estimated = any(counts[column.name].get("distinct_is_estimated") for column in columns)
    most = math.prod(counts[column.name]["distinct"] for column in columns)
    return bool(most >= rows * (0.8 if estimated else 1))


def _is_key(engine: Engine, table: Table, counts: Mapping[str, Mapping[str, Any]], columns: Sequence[Column]) -> bool:
    if not any(counts[column.name].get("distinct_is_estimated") for column in columns):
        return True  # counted already
    return _groups(engine, table, columns) == table.rows


def _groups(engine: Engine, table: Table, columns: Sequence[Column]) -> int:
    """How many different rows these columns have. A missing value is a value of its own here."""
    values = ", ".join(known(name(column.name), column.type) for column in columns)
    (number,) = engine.row(f"SELECT count(*) FROM (SELECT DISTINCT {values} FROM {table.relation})")
    return int(number)


def _rows(engine: Engine, table: Table, number: int) -> list[dict[str, Any]]:
    values = ", ".join(known(name(column.name), column.type) for column in table.columns)
    rows = engine.rows(f"SELECT {values} FROM {table.relation} ORDER BY {ROW} LIMIT {number}")
    return [dict(zip(table.names, map(as_json, row), strict=True)) for row in rows]


def _labels(path: Path) -> tuple[Mapping[str, str], Mapping[str, Mapping[str, str]]]:
    """The labels of variables, and of their values. Of the formats that are read, only Stata's has them."""
    if format_of(path) != "stata":
        return {}, {}
    from whyrun.actions.data.files.stata_files import read_metadata

    metadata = read_metadata(path)
    values = {
        column: {str(code): str(text) for code, text in labels.items()}
        for column, labels in (metadata.variable_value_labels or {}).items()
    }
    return dict(metadata.column_names_to_labels or {}), values


def as_json(value: Any) -> Any:
    """The value as JSON has it. What JSON has no exact form for becomes its text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, int):
        return value if abs(value) <= _LARGEST else str(value)
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list):
        return [as_json(member) for member in value]
    if isinstance(value, dict):
        return {str(key): as_json(member) for key, member in value.items()}
    return format(value, "f") if isinstance(value, decimal.Decimal) else str(value)
