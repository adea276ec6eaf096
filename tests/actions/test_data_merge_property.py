"""`data/merge` against a plain computation: rows, their order and every count, on awkward data in every format."""

from __future__ import annotations

import csv
import datetime
import json
import tempfile
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from data_lab import EXAMPLES
from hypothesis import given, settings
from hypothesis import strategies as st

from whyrun.actions.data.engine import opened
from whyrun.actions.data.joining.join import Join, count_join, joined_table, write_join
from whyrun.actions.data.joining.keys import packing
from whyrun.actions.data.params import CardinalityViolated, ColumnsClash, DataParams, KeyNotExact, KeyTypesDiffer
from whyrun.actions.data.tables import open_table

# Close together, far apart, and as far as they can be: keys are packed into one number in other ways, or not at all.
INTEGERS = [
    st.sampled_from([0, 1, 2, -3]),
    st.sampled_from([0, 1, 2, -3, 2**31, 9007199254740993]),
    st.sampled_from([0, 1, -(2**63), 2**63 - 1]),
]
WORDS = st.sampled_from(["a", "ä", "A", "日本", "x,y", 'q"u', "two\nlines", "007", "NA", " b", "née"])
HOWS = st.sampled_from(["left", "inner", "right", "outer"])
FORMATS = st.sampled_from(["csv", "tsv", "parquet", "json", "ndjson"])


@dataclass(frozen=True)
class Data:
    columns: list[str]
    rows: list[tuple[Any, ...]]

    def values(self, column: str) -> list[Any]:
        at = self.columns.index(column)
        return [row[at] for row in self.rows if row[at] is not None]


@st.composite
def datasets(draw: st.DrawFn, keys: list[str], kinds: list[bool], others: list[str], apart: int = 1) -> Data:
    """`kinds`: whether a key is a number. A fifth of the time a key is of the other kind than it should be."""
    kinds = [kind != (draw(st.integers(0, 14)) == 0) for kind in kinds]
    cells = [st.none() | (INTEGERS[apart] if kind else WORDS) for kind in kinds]
    payload = st.none() | st.sampled_from([1.5, -2.25, 1e300])
    rows = draw(st.lists(st.tuples(*cells, *(payload for _ in others)), max_size=7))
    return Data([*keys, *others], rows)


def write(data: Data, folder: Path, stem: str, format_: str) -> Path:
    path = folder / f"{stem}.{format_}"
    records = [dict(zip(data.columns, row, strict=True)) for row in data.rows]
    if format_ in ("csv", "tsv"):
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter="\t" if format_ == "tsv" else ",")
            writer.writerow(data.columns)
            writer.writerows(data.rows)
    elif format_ == "json":
        path.write_text(json.dumps(records, ensure_ascii=False))
    elif format_ == "ndjson":
        path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))
    else:
        schema = pa.schema([(column, _arrow(data.values(column))) for column in data.columns])
        pq.write_table(pa.Table.from_pylist(records, schema=schema), path)
    return path


def _arrow(values: list[Any]) -> pa.DataType:
    if values and all(isinstance(value, int) for value in values):
        return pa.int64()
    return pa.float64() if values and all(isinstance(value, float) for value in values) else pa.string()


def kind(data: Data, column: str, typed: bool) -> str | None:
    """None: no value and no type."""
    values = data.values(column)
    if not values:
        return "text" if typed else None
    return "integer" if all(isinstance(value, int) for value in values) else "text"


def expected(left: Data, right: Data, keys: list[str], how: str) -> tuple[list[tuple[Any, ...]], dict[str, int], str]:
    """Rows in order, counts, and cardinality: nested loops, nothing clever."""
    width = len(keys)

    def key(row: tuple[Any, ...]) -> tuple[Any, ...] | None:
        return None if None in row[:width] else row[:width]

    matched_right: set[int] = set()
    out: list[tuple[Any, ...]] = []
    matched_left = 0
    for row in left.rows:
        partners = [n for n, other in enumerate(right.rows) if key(row) is not None and key(other) == key(row)]
        matched_right.update(partners)
        matched_left += bool(partners)
        out += [row + right.rows[n][width:] for n in partners]
        if not partners and how in ("left", "outer"):
            out.append(row + (None,) * (len(right.columns) - width))
    if how in ("right", "outer"):
        blank = (None,) * (len(left.columns) - width)
        out += [row[:width] + blank + row[width:] for n, row in enumerate(right.rows) if n not in matched_right]
    counts = {
        "left": len(left.rows),
        "right": len(right.rows),
        "matched_left": matched_left,
        "matched_right": len(matched_right),
        "unmatched_left": len(left.rows) - matched_left,
        "unmatched_right": len(right.rows) - len(matched_right),
        "null_key_left": sum(key(row) is None for row in left.rows),
        "null_key_right": sum(key(row) is None for row in right.rows),
        "out": len(out),
    }
    sides = []
    for data in (left, right):
        present = [key(row) for row in data.rows if key(row) is not None]
        sides.append("1" if len(set(present)) == len(present) else "m")
    return out, counts, ":".join(sides)


def read(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def shown(value: Any) -> str:
    return "" if value is None else str(value)


@settings(max_examples=EXAMPLES)
@given(st.data())
def test_rows_order_and_counts_are_those_of_a_plain_computation(draw: st.DataObject) -> None:
    keys = ["id", "jähr"][: draw.draw(st.integers(1, 2), "number of keys")]
    kinds = [draw.draw(st.booleans(), f"{key} is a number") for key in keys]
    apart = draw.draw(st.integers(0, 2), "how far apart numbers are")
    left = draw.draw(datasets(keys, kinds, ["sales", "x"], apart), "left")
    clash = draw.draw(st.booleans(), "clash")
    right = draw.draw(datasets(keys, kinds, ["size", "X" if clash else "y"], apart), "right")
    formats = [draw.draw(FORMATS, "format"), draw.draw(FORMATS, "format")]
    # JSON has no way to say that there are columns when there are no rows.
    formats = [
        "csv" if format_ in ("json", "ndjson") and not data.rows else format_
        for format_, data in zip(formats, (left, right), strict=True)
    ]
    how, suffix = draw.draw(HOWS, "how"), draw.draw(st.sampled_from([None, "_r"]), "suffix")
    asked = draw.draw(st.sampled_from([None, "1:1", "1:m", "m:1", "m:m"]), "cardinality")
    with tempfile.TemporaryDirectory() as folder:
        paths = [write(data, Path(folder), stem, f) for data, stem, f in zip((left, right), "lr", formats, strict=True)]
        params = DataParams(threads=draw.draw(st.sampled_from([1, 2]), "threads"))
        with opened(params, Path(folder)) as engine:
            tables = [open_table(engine, side, path, params) for side, path in zip("lr", paths, strict=True)]
            differ = [
                key
                for key in keys
                if len(
                    {kind(data, key, f == "parquet") for data, f in zip((left, right), formats, strict=True)} - {None}
                )
                > 1
            ]
            if differ:
                with pytest.raises(KeyTypesDiffer, match=f"the key `{differ[0]}` is (integer|text) in `l`"):
                    Join.of(engine, *tables, keys, keys, how, suffix)
                return
            if clash and suffix is None:
                with pytest.raises(ColumnsClash, match="`X`"):
                    Join.of(engine, *tables, keys, keys, how, suffix)
                return
            join = Join.of(engine, *tables, keys, keys, how, suffix)
            rows, counts, cardinality = expected(left, right, keys, how)
            assert join.counts.rows() == counts
            assert join.counts.cardinality == cardinality
            allowed = asked is None or all(a in ("m", f) for a, f in zip(asked[::2], cardinality[::2], strict=True))
            refused = join.match.cardinality_violation(engine, asked)
            assert (refused is None) == allowed
            assert refused is None or isinstance(refused, CardinalityViolated)
            path = Path(folder) / "out.csv"
            write_join(engine, join, path)
            header = [*keys, "sales", "x", "size", ("X_r" if clash else "y")]
            assert read(path) == [header, *([shown(value) for value in row] for row in rows)]
            again = joined_table(engine, join)
            assert (again.rows, again.names) == (len(rows), header)


@settings(max_examples=EXAMPLES)
@given(st.data())
def test_packed_keys_count_the_same(draw: st.DataObject) -> None:
    """One bit for each key, one number for each key, or the columns as they are: it is only a matter of time."""
    width = draw.draw(st.integers(1, 3), "number of keys")
    span = draw.draw(st.sampled_from([3, 1000, 10**12]), "how far apart")
    cells = st.none() | st.integers(-span, span)
    keys = [f"k{at}" for at in range(width)]
    sides = [Data(keys, draw.draw(st.lists(st.tuples(*[cells] * width), max_size=12), side)) for side in "lr"]
    how = draw.draw(HOWS, "how")
    with tempfile.TemporaryDirectory() as folder:
        params = DataParams(memory_limit=draw.draw(st.sampled_from(["1GB", "250MB"]), "memory"))
        with opened(params, Path(folder)) as engine:
            left, right = (
                open_table(engine, name, write(data, Path(folder), name, "csv"), params)
                for name, data in zip("lr", sides, strict=True)
            )
            columns = [[table.column(key, "keys") for key in keys] for table in (left, right)]
            packed = packing(engine, left, right, *columns)
            found = count_join(engine, left, right, *columns, packed, how)
            assert found == count_join(engine, left, right, *columns, None, how)
            _, counts, cardinality = expected(*sides, keys, how)
            assert (found.rows(), found.cardinality) == (counts, cardinality)
            if packed is None:
                assert any(not data.values(key) for key in keys for data in sides) or span == 10**12
            else:
                values = engine.rows(
                    f"SELECT {packed.number(columns[0])}, {', '.join(keys)} FROM {left.relation} ORDER BY __whyrun_row"
                )
                known = {number: row for number, *row in values if number is not None}
                assert [number is None for number, *_ in values] == [None in row for row in sides[0].rows]
                assert len(known) == len({row for row in sides[0].rows if None not in row})


NAN = float("nan")
DAYS = [datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 1, 10, 30), datetime.datetime(1900, 2, 28, 0, 0, 1)]
# By name: values, and the type in Parquet.
TYPED: dict[str, tuple[list[Any], pa.DataType]] = {
    "float": ([0.1, -0.0, 0.0, 1e300, NAN, 2.5], pa.float64()),
    "narrow float": ([0.5, 0.25, NAN, -3.0], pa.float32()),
    "unsigned": ([0, 2**63, 2**64 - 1, 9007199254740993], pa.uint64()),
    "timestamp": (DAYS, pa.timestamp("us")),
    "date": ([day.date() for day in DAYS], pa.date32()),
    "decimal": ([Decimal("10.1"), Decimal("10.20"), Decimal("0.00")], pa.decimal128(20, 2)),
}


@pytest.mark.parametrize("values", [[0.5, NAN], [NAN, 0.5], [NAN], [0.5, NAN, None], [0.25, NAN, 0.5]], ids=str)
@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()], ids=str)
def test_nan_is_seen_where_the_statistics_of_the_file_do_not_know_of_it(values: list[Any], type_: pa.DataType) -> None:
    """DuckDB takes a column for constant whose least and greatest value are one; NaN counts in neither."""
    with tempfile.TemporaryDirectory() as folder, opened(DataParams(), Path(folder)) as engine:
        tables = []
        for side, column in (("l", values), ("r", [0.5])):
            path = Path(folder) / f"{side}.parquet"
            rows = pa.array(list(range(len(column))), pa.int64())
            pq.write_table(pa.table({"k": pa.array(column, type_), side: rows}), path)
            tables.append(open_table(engine, side, path, DataParams()))
        known = [None if value is None or value != value else value for value in values]
        for condition, wanted in (("k = 0.5", [0.5]), ("isnan(k)", [None]), ("k > 1", [None])):
            found = engine.rows(f"SELECT l FROM {tables[0].relation} WHERE {condition} ORDER BY l")
            assert found == [(at,) for at, value in enumerate(known) if value in wanted and values[at] is not None]
        join = Join.of(engine, *tables, ["k"], ["k"], "left", None)
        for format_ in ("parquet", "csv"):
            write_join(engine, join, Path(folder) / f"out.{format_}")
        back = pq.read_table(Path(folder) / "out.parquet").to_pylist()
        assert [(row["k"], row["l"], row["r"]) for row in back] == [
            (value, at, 0 if value == 0.5 else None) for at, value in enumerate(known)
        ]
        assert read(Path(folder) / "out.csv")[1:] == [
            [shown(value), str(at), "0" if value == 0.5 else ""] for at, value in enumerate(known)
        ]


@settings(max_examples=EXAMPLES)
@given(st.data())
def test_keys_of_every_type_match_as_plain_values_do(draw: st.DataObject) -> None:
    """Parquet, with a number of rows on each side. NaN is a missing key: it matches nothing, also no other."""
    values, type_ = TYPED[draw.draw(st.sampled_from(list(TYPED)), "type")]
    drawn = [draw.draw(st.lists(st.none() | st.sampled_from(values), max_size=8), side) for side in "lr"]
    how = draw.draw(HOWS, "how")
    with tempfile.TemporaryDirectory() as folder, opened(DataParams(), Path(folder)) as engine:
        sides, tables = [], []
        for name, column in zip("lr", drawn, strict=True):
            path = Path(folder) / f"{name}.parquet"
            numbers = list(range(len(column)))
            pq.write_table(pa.table({"k": pa.array(column, type_), name: pa.array(numbers, pa.int64())}), path)
            tables.append(open_table(engine, name, path, DataParams()))
            keys = [None if value is None or value != value else value for value in column]
            sides.append(Data(["k", name], list(zip(keys, numbers, strict=True))))
        join = Join.of(engine, *tables, ["k"], ["k"], how, None)
        rows, counts, cardinality = expected(*sides, ["k"], how)
        assert (join.counts.rows(), join.counts.cardinality) == (counts, cardinality)
        write_join(engine, join, Path(folder) / "out.parquet")
        back = pq.read_table(Path(folder) / "out.parquet").to_pylist()
        assert [(row["k"], row["l"], row["r"]) for row in back] == rows


DECIMALS = ["10.1", "10.10", "2.5", "0.1", "0.10000000000000000001", "3", "3.0", "1e2", "100.5", ""]


@settings(max_examples=EXAMPLES)
@given(st.lists(st.sampled_from(DECIMALS), max_size=5), st.lists(st.sampled_from(DECIMALS), max_size=5))
def test_keys_of_csv_are_one_only_where_they_are_written_so(left: list[str], right: list[str]) -> None:
    """Either the counts are those of the texts, or the user is asked what they are."""
    sides = [Data(["k"], [(text or None,) for text in column]) for column in (left, right)]
    with tempfile.TemporaryDirectory() as folder, opened(DataParams(), Path(folder)) as engine:
        tables = []
        for name, data in zip("lr", sides, strict=True):
            # A second column: a line that is empty is no row.
            path = write(Data(["k", name], [(*row, 1) for row in data.rows]), Path(folder), name, "csv")
            tables.append(open_table(engine, name, path, DataParams()))
        try:
            join = Join.of(engine, *tables, ["k"], ["k"], "outer", None)
        except KeyTypesDiffer:
            assert {table.columns[0].kind for table in tables} == {"integer", "number"}
            return
        except KeyNotExact:
            texts = {text for text in (*left, *right) if text}
            assert len({float(text) for text in texts}) < len(texts)
            return
        _, counts, cardinality = expected(*sides, ["k"], "outer")
        assert (join.counts.rows(), join.counts.cardinality) == (counts, cardinality)


ODD = ["007", "1e5", "-0", "+1", " 1", "1_000", "0x1", "inf", "nan", "1.", ".5", "2020-1-1", "TRUE", "yes", "9" * 23]
CELLS = st.one_of(
    st.none(), st.integers(-(2**70), 2**70), st.floats(), st.booleans(), st.text(max_size=6), st.dates(),
    st.datetimes(), st.sampled_from(ODD),
)  # fmt: skip


@settings(max_examples=EXAMPLES)
@given(st.lists(CELLS, max_size=8), st.randoms())
def test_a_type_is_decided_by_all_values_and_loses_nothing(values: list[Any], shuffle: Any) -> None:
    """Whatever type is found, the values as texts come back as they were written; and order plays no part."""
    texts = ["" if value is None else str(value) for value in values]
    texts = [text for text in texts if not any(ord(c) < 32 or 0xD800 <= ord(c) < 0xE000 for c in text)]
    found = []
    for _ in range(2):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "t.csv"
            with path.open("w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows([["n", "v"], *([str(n), text] for n, text in enumerate(texts))])
            params = DataParams()
            with opened(params, Path(folder)) as engine:
                table = open_table(engine, "t", path, params)
                column = table.columns[1]
                back = [row[0] for row in engine.rows(f"SELECT v FROM {table.relation} ORDER BY __whyrun_row")]
        present = [text for text in texts if text]
        assert [value is None for value in back] == [not text for text in texts]
        match column.kind:
            case "integer":
                assert [str(value) for value in back if value is not None] == present
            case "number":
                assert [value for value in back if value is not None] == [float(text) for text in present]
                assert not any(text.lstrip("-").startswith("0") and text.lstrip("-")[1:2].isdigit() for text in present)
            case "text":
                assert [value for value in back if value is not None] == present
            case "boolean":
                assert {text.lower() for text in present} <= {"true", "false"}
            case _:
                assert [str(value) for value in back if value is not None] == [t.replace("T", " ") for t in present]
        found.append(column.kind)
        shuffle.shuffle(texts)
    assert found[0] == found[1]
