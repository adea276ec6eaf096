"""Reads Stata files (`.dta`) with pyreadstat, in batches. Codes stay codes; all kinds of missing values are missing.

The types are those of the file: byte, int and long are integers, float and double are numbers, `%td` are dates and
`%tc` timestamps. An empty text is missing, as in Stata. As in Stata, a float has 32 bits and is computed with in 64.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from whyrun.actions.data.engine import ROW, Engine, position
from whyrun.actions.data.kinds import TYPE_OF
from whyrun.actions.data.params import UnreadableTable
from whyrun.actions.data.tables import Column, Source, check_names

_BATCH = 50_000  # rows
_INTEGERS = frozenset({"int8", "int16", "int32"})


def read_metadata(path: Path) -> Any:
    """Column names, types and the number of rows."""
    import pyreadstat

    try:
        return pyreadstat.read_dta(path, metadataonly=True, output_format="dict")[1]
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError) as problem:
        raise UnreadableTable(f"it is not a Stata file: {problem}") from None


def load_stata(engine: Engine, path: Path) -> Source:
    import pyarrow as pa
    import pyreadstat

    metadata = read_metadata(path)
    names = list(metadata.column_names)
    check_names(None, names)
    kinds = [_kind(metadata, column) for column in names]
    arrow = {"integer": pa.int64(), "number": pa.float64(), "date": pa.date32(), "timestamp": pa.timestamp("us"),
             "text": pa.string()}  # fmt: skip
    schema = pa.schema([pa.field(column, arrow[kind]) for column, kind in zip(names, kinds, strict=True)])

    def batches() -> Iterator[Any]:
        for start in range(0, metadata.number_rows or 0, _BATCH):
            values, _ = pyreadstat.read_dta(path, row_offset=start, row_limit=_BATCH, output_format="dict")
            columns = [
                pa.array([_value(value, kind) for value in values[column]], type=field.type)
                for column, kind, field in zip(names, kinds, schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    reader = pa.RecordBatchReader.from_batches(schema, batches())
    incoming, table = engine.register("incoming", reader), engine.new_name("stata")
    engine.do(f"CREATE TABLE {table} AS SELECT * FROM {incoming}")
    view = engine.new_name("rows")
    engine.do(f"CREATE VIEW {view} AS SELECT *, {position(names)} AS {ROW} FROM {table}")
    single = {column for column in names if metadata.readstat_variable_types[column] == "float"}
    columns = tuple(
        Column(column, TYPE_OF[kind], kind == "number" and column in single)
        for column, kind in zip(names, kinds, strict=True)
    )
    return Source(view, columns, untyped=False)


def _kind(metadata: Any, column: str) -> str:
    display_format = metadata.original_variable_types.get(column, "")  # `%td`, `%9.0g`
    if display_format.startswith(("%td", "%d")):
        return "date"
    if display_format.startswith(("%tc", "%tC")):
        return "timestamp"
    stored = metadata.readstat_variable_types[column]
    if stored in _INTEGERS:
        return "integer"
    return "text" if stored == "string" else "number"


def _value(value: Any, kind: str) -> Any:
    if value is None or value == "" or value != value:  # the last test finds NaN
        return None
    if kind == "integer":
        return int(value)
    if kind == "number":
        return float(value)
    if kind == "date" and isinstance(value, datetime.datetime):
        return value.date()
    return value if kind != "text" else str(value)
