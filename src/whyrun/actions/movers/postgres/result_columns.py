"""Types of PostgreSQL as columns of a file: what a driver would bend, the server writes out instead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from whyrun.actions.builtin.data.problems import ValueNotConvertible
from whyrun.actions.builtin.movers.feed import MAX_DIGITS, Field
from whyrun.actions.builtin.movers.postgres import quoted

_AS_THEY_ARE = frozenset({
    "bool", "int2", "int4", "int8", "float4", "float8", "text", "varchar", "bpchar", "name", "bytea", "date", "time",
    "timestamp", "timestamptz",
})  # fmt: skip
_NUMBERED = frozenset({"oid", "xid", "cid", "regclass", "regtype", "regproc"})  # unsigned, or a number that has a name
_FIRST_DAY = -2_440_588  # 4713 BC, the earliest that PostgreSQL knows, in days before 1970
_FIRST_MOMENT = _FIRST_DAY * 86_400_000_000


@dataclass(frozen=True, slots=True)
class Fetched:
    """A column: how to ask for it, and what becomes of it."""

    sql: str
    field: Field


def fetched(schema: Any) -> list[Fetched]:
    return [_fetched(found) for found in schema]


def _fetched(found: Any) -> Fetched:
    import pyarrow as pa

    metadata = found.metadata or {}
    type_ = metadata.get(b"POSTGRESQL:type", b"").decode()
    column = quoted(found.name)
    if type_ in _AS_THEY_ARE:
        return Fetched(column, Field(found.name, found.type))
    if type_ == "numeric":
        declared = _declared(int(metadata.get(b"POSTGRESQL:typmod", b"-1")))
        if declared is None:
            return Fetched(column, Field(found.name, pa.string(), loose=True))
        return Fetched(column, Field(found.name, pa.decimal128(*declared)))
    if type_ in ("json", "jsonb"):
        return Fetched(column, Field(found.name, pa.string(), cast="JSON"))
    if type_ == "uuid":
        return Fetched(f"CAST({column} AS text)", Field(found.name, pa.string(), cast="UUID"))
    if type_ in _NUMBERED:
        return Fetched(f"CAST({column} AS oid)::int8", Field(found.name, pa.int64()))
    if type_.startswith("_"):
        # The driver would make one list of `{{1,2},{3,4}}`.
        return Fetched(f"CAST(to_json({column}) AS text)", Field(found.name, pa.string(), cast="JSON"))
    return Fetched(f"CAST({column} AS text)", Field(found.name, pa.string()))


def _declared(modifier: int) -> tuple[int, int] | None:
    """(digits, scale) of `numeric(12,2)`; None where there is none."""
    if modifier < 4:
        return None
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
    if scale >= 1024:  # below zero: `numeric(5,-2)`
        precision, scale = precision - (scale - 2048), 0
    if scale > MAX_DIGITS:
        return None
    return min(max(precision, scale, 1), MAX_DIGITS), scale


def batches(reader: Any, columns: Sequence[Fetched]) -> Iterator[Any]:
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
        f"the column `{field.name}` holds {held}, which is no {what} that a file can hold; change it in the query: "
        f"NULLIF({quoted(field.name)}, …), or CAST({quoted(field.name)} AS text)"
    )
