"""`data/check`: computes named diagnostics of datasets as JSON, for people and for conditions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Struct

from whyrun.actions.base import Action
from whyrun.actions.data.engine import Engine, name, opened
from whyrun.actions.data.joining.keys import check_spellings, without_nan
from whyrun.actions.data.kinds import known
from whyrun.actions.data.output import only_output, report
from whyrun.actions.data.params import Identifier, Name, QueryFailed, SqlParams, counted
from whyrun.actions.data.sql import checked_query, create_views, run_query, table_name
from whyrun.actions.data.tables import Column, Table, open_tables
from whyrun.actions.parameters import Meta
from whyrun.errors import did_you_mean

Columns = Annotated[list[Name], Meta(min_length=1)] | Literal["*"]


class Measure(Struct, forbid_unknown_fields=True, frozen=True):
    """Exactly one of the first four fields; `of` is the dataset, if it is not the first one."""

    missing_share: Columns | None = None  # the share of missing values in these columns: 0 to 1
    missing: Columns | None = None  # the number of missing values
    duplicates: Columns | None = None  # the number of rows whose key an earlier row has
    sql: Name | None = None  # a query with one row and one column
    of: Name | None = None

    def __post_init__(self) -> None:
        given = [field for field in ("missing_share", "missing", "duplicates", "sql") if getattr(self, field)]
        if len(given) != 1:
            raise ValueError("a diagnostic is one of `missing_share`, `missing`, `duplicates`, `sql`")
        if self.sql is not None and self.of is not None:
            raise ValueError("`of` has no effect with `sql`, whose query names its tables; remove it")


class Params(SqlParams, kw_only=True):
    diagnostics: Annotated[
        dict[Identifier, Literal["rows", "columns"] | Measure],
        Meta(min_length=1, description="name → rows, columns, {missing_share: […]}, {duplicates: […]} or {sql: …}"),
    ]


class DataCheck(Action):
    """Compute named diagnostics of datasets, as JSON whose leaves conditions can read."""

    name = "data/check"
    version = "1"
    Params: ClassVar[type[Any] | None] = Params
    example = """\
jobs:
  Diagnose:
    uses: data/check
    with:
      primary_dataset: ${{ inputs.Panel }}
      diagnostics:
        rows: rows
        missing_share: {missing_share: [sales, assets]}
        repeated: {duplicates: [firm_id, year]}
        spread: {sql: SELECT stddev_samp(sales) / avg(sales) FROM primary_dataset}
    outputs: {report: {type: json, leaves: {missing_share: number, repeated: integer}}}
"""

    def run(
        self, inputs: dict[str, Any], mode: str = "dry-run", context: Any = None, logger: Any = None
    ) -> dict[str, Any] | None:
        del inputs, mode, logger
        params: Params = self.params
        output = only_output(context, self.name)
        with opened(params, context.work_dir, lambda: context.cancelled) as engine:
            tables = open_tables(engine, params)
            create_views(engine, tables, list(params.files().values()))
            by_name = {table_name(table.label): table for table in tables}
            values = {title: _value(engine, title, wanted, by_name) for title, wanted in params.diagnostics.items()}
        for title, value in values.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                context.metric(title, value)
        message = f"checked {counted(len(tables), 'dataset')}: "
        message += ", ".join(f"{title} = {_shown(value)}" for title, value in values.items())
        report(context, message, tables, output, {"diagnostics": len(values)}, {"decision": "check"})
        return {output: values}


def _value(engine: Engine, title: str, wanted: str | Measure, tables: Mapping[str, Table]) -> Any:
    where = f"diagnostics.{title}"
    first = next(iter(tables.values()))
    if wanted == "rows":
        return first.rows
    if wanted == "columns":
        return len(first.columns)
    assert isinstance(wanted, Measure)
    if wanted.sql is not None:
        return _scalar(engine, where, wanted.sql, list(tables.values()))
    table = first if wanted.of is None else _named(where, wanted.of, tables)
    if wanted.duplicates is not None:
        return _duplicates(engine, table, _columns(where, wanted.duplicates, table), wanted.duplicates == "*")
    names = wanted.missing or wanted.missing_share
    assert names is not None
    columns = _columns(where, names, table)
    counts = " + ".join(f"count({known(name(column.name), column.type)})" for column in columns)
    (present,) = engine.row(f"SELECT {counts} FROM {table.relation}")
    cells = table.rows * len(columns)
    if wanted.missing is not None:
        return cells - present
    return (cells - present) / cells if cells else 0.0


def _named(where: str, wanted: str, tables: Mapping[str, Table]) -> Table:
    if wanted not in tables:
        hint = did_you_mean(wanted, list(tables))
        raise QueryFailed(f"`{where}.of` names `{wanted}`, which is not a dataset here; {hint}")
    return tables[wanted]


def _columns(where: str, wanted: list[str] | str, table: Table) -> list[Column]:
    return list(table.columns) if isinstance(wanted, str) else [table.column(column, where) for column in wanted]


def _duplicates(engine: Engine, table: Table, columns: list[Column], whole: bool) -> int:
    """The rows after the first of each key. A row with a missing key part is not counted; if whole rows are compared,
    missing values are equal."""
    for column in () if whole else columns:
        check_spellings(engine, [(table, column)])
    table = without_nan(engine, table, columns)
    grouped = ", ".join(name(column.name) for column in columns)
    present = "" if whole else " WHERE " + " AND ".join(f"{name(column.name)} IS NOT NULL" for column in columns)
    (number,) = engine.row(
        f"SELECT coalesce(sum(n - 1), 0)::BIGINT FROM "
        f"(SELECT count(*) AS n FROM {table.relation}{present} GROUP BY {grouped})"
    )
    return int(number)


def _scalar(engine: Engine, where: str, query: str, tables: list[Table]) -> Any:
    text = checked_query(engine, query, {}, where)
    # Two rows are enough to see that there is more than one.
    rows = run_query(engine, f"SELECT * FROM ({text}) LIMIT 2", {}, tables, where)
    if len(rows) != 1 or len(rows[0]) != 1:
        width = len(rows[0]) if rows else 0
        raise QueryFailed(
            f"`{where}` gives {_number(len(rows))} and {counted(width, 'column')}; a diagnostic is one value"
        )
    value = rows[0][0]
    if isinstance(value, Decimal):
        value = int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise QueryFailed(f"`{where}` gives {value}, which JSON cannot hold as a number")
    if value is not None and not isinstance(value, bool | int | float | str):
        raise QueryFailed(f"`{where}` gives a {type(value).__name__}; cast it to a number, boolean or text")
    return value


def _number(rows: int) -> str:
    return "no row" if not rows else counted(rows, "row") if rows == 1 else "more than one row"


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
