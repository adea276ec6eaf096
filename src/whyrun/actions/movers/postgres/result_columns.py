"""Maps the columns of a PostgreSQL result to columns of a file. The server casts types that the driver would change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from whyrun.actions.data.problems import ValueNotConvertible
from whyrun.actions.movers.batch_writer import MAX_DIGITS, Field
from whyrun.actions.movers.postgres.client import quoted

_AS_THEY_ARE = frozenset({
    "bool", "int2", "int4", "int8", "float4", "float8", "text", "varchar", "bpchar", "name", "bytea", "date", "time",
    "timestamp", "timestamptz",
})  # fmt: skip
_OID_TYPES = frozenset({"oid", "xid", "cid", "regclass", "regtype", "regproc"})  # unsigned numbers, some with a name
_FIRST_DAY = -2_440_588  # 4713 BC, the earliest date of PostgreSQL, in days before 1970
_FIRST_MOMENT = _FIRST_DAY * 86_400_000_000


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A column of the result: the SQL that selects it, and the field of the file."""

    sql: str
    field: Field


def result_columns(schema: Any) -> list[ResultColumn]:
    return [_result_column(field) for field in schema]


def _result_column(found: Any) -> ResultColumn:
    import pyarrow as pa

    metadata = found.metadata or {}
    type_ = metadata.get(b"POSTGRESQL:type", b"").decode()
    column = quoted(found.name)
    if type_ in _AS_THEY_ARE:
        return ResultColumn(column, Field(found.name, found.type))
    if type_ == "numeric":
        declared = _declared(int(metadata.get(b"POSTGRESQL:typmod", b"-1")))
        if declared is None:
            return ResultColumn(column, Field(found.name, pa.string(), undeclared_scale=True))
        return ResultColumn(column, Field(found.name, pa.decimal128(*declared)))
    if type_ in ("json", "jsonb"):
        return ResultColumn(column, Field(found.name, pa.string(), cast="JSON"))
    if type_ == "uuid":
        return ResultColumn(f"CAST({column} AS text)", Field(found.name, pa.string(), cast="UUID"))
    if type_ in _OID_TYPES:
        return ResultColumn(f"CAST({column} AS oid)::int8", Field(found.name, pa.int64()))
    if type_.startswith("_"):
        # The driver would flatten `{{1,2},{3,4}}` to one list.
        return ResultColumn(f"CAST(to_json({column}) AS text)", Field(found.name, pa.string(), cast="JSON"))
    return ResultColumn(f"CAST({column} AS text)", Field(found.name, pa.string()))


def _declared(modifier: int) -> tuple[int, int] | None:
    """(digits, scale) of `numeric(12,2)`; None for a plain `numeric`."""
    if modifier < 4:
        return None
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
    if scale >= 1024:  # a negative scale: `numeric(5,-2)`
        precision, scale = precision - (scale - 2048), 0
    if scale > MAX_DIGITS:
        return None
    return min(max(precision, scale, 1), MAX_DIGITS), scale


def batches(reader: Any, columns: Sequence[ResultColumn]) -> Iterator[Any]:
    import pyarrow as pa

    schema = pa.schema([(column.field.name, column.field.arrow) for column in columns])
    for batch in reader:
        arrays = [_array(array, column.field) for array, column in zip(batch.columns, columns, strict=True)]
        yield pa.record_batch(arrays, schema=schema)


def _array(array: Any, field: Field) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_date(field.arrow) or pa.types.is_timestamp(field.arrow):
        days = pa.types.is_date(field.arrow)
        first = pc.min(array.cast(pa.int32() if days else pa.int64())).as_py()
        if first is not None and first < (_FIRST_DAY if days else _FIRST_MOMENT):
            raise _misfit(field, "`infinity`", "date" if days else "timestamp")
    if array.type == field.arrow:
        return array
    try:
        return array.cast(field.arrow)
    except pa.ArrowInvalid:
        raise _misfit(field, _first_misfit(array, field.arrow), f"decimal of {MAX_DIGITS} digits") from None


def _first_misfit(array: Any, type_: Any) -> str:
    import pyarrow as pa

    for at in range(len(array)):
        try:
            array.slice(at, 1).cast(type_)
        except pa.ArrowInvalid:
            return f"`{array[at].as_py()}`"
    return "a value"


def _misfit(field: Field, held: str, what: str) -> ValueNotConvertible:
    return ValueNotConvertible(
        f"the column `{field.name}` holds {held}, which is not a {what} that a file can hold; change it in the query: "
        f"NULLIF({quoted(field.name)}, …), or CAST({quoted(field.name)} AS text)"
    )
