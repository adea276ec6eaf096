"""Random merges, appends and aggregates, and what five independent programs make of them: a plain computation, pandas,
polars, and DuckDB asked in SQL of its own.

The cases are made from a seed, so a case that fails can be made again. All of them are jobs of one workflow, which the
real engine runs.
"""

from __future__ import annotations

import csv
import datetime
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq

Row = tuple[Any, ...]
NAN = math.nan
DAY = datetime.date(2024, 2, 29)
MOMENT = datetime.datetime(2024, 2, 29, 12, 30)
# By kind: the type in Parquet, and values. In CSV only those of `CSV` are the same after a round trip.
KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "integer": (pa.int64(), [0, 1, 2, -3, 2**53 + 1, 7]),
    "text": (pa.string(), ["a", "ä", "A", "日本", "x,y", 'q"u', " b", "née"]),
    "number": (pa.float64(), [0.5, -2.25, 1e300, 0.1, NAN]),
    "date": (pa.date32(), [DAY + datetime.timedelta(days=n) for n in range(5)]),
    "timestamp": (pa.timestamp("us"), [MOMENT + datetime.timedelta(hours=n) for n in range(5)]),
    "decimal": (pa.decimal128(20, 2), [Decimal("10.10"), Decimal("10.20"), Decimal("0.00"), Decimal("-3.55")]),
    "boolean": (pa.bool_(), [True, False]),
}
CSV = ("integer", "text", "date")
HOWS = ("left", "inner", "right", "outer")


@dataclass
class Table:
    columns: dict[str, str]  # name → kind
    rows: list[Row]
    suffix: str = ".parquet"

    def write(self, path: Path) -> None:
        if self.suffix == ".csv":
            with path.open("w", encoding="utf-8", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows([list(self.columns), *self.rows])
        else:
            pq.write_table(self.arrow(), path)

    def arrow(self) -> pa.Table:
        types = [KINDS[kind][0] for kind in self.columns.values()]
        columns = [[row[at] for row in self.rows] for at in range(len(types))]
        arrays = [pa.array(column, type_, from_pandas=False) for column, type_ in zip(columns, types, strict=True)]
        return pa.table(arrays, names=list(self.columns))

    def pandas(self) -> pandas.DataFrame:
        """Python's own values: nothing is converted, as a missing value in a column of integers would be."""
        return pandas.DataFrame(
            {name: pandas.Series([row[at] for row in self.rows], dtype=object) for at, name in enumerate(self.columns)}
        )

    def polars(self) -> polars.DataFrame:
        found = polars.from_arrow(self.arrow())
        assert isinstance(found, polars.DataFrame)
        return found

    def without_nan(self, columns: Sequence[str]) -> Table:
        """With a missing value for NaN in these columns."""
        at = [list(self.columns).index(column) for column in columns]
        rows = [tuple(None if n in at and is_nan(v) else v for n, v in enumerate(row)) for row in self.rows]
        return Table(self.columns, rows, self.suffix)


@dataclass
class Case:
    """`expected`: the rows of a plain computation, in order. `oracles`: the rows of the others, in any order."""

    name: str
    uses: str
    with_: dict[str, Any]
    tables: dict[str, Table]  # input → table
    columns: list[str]
    expected: list[Row] | None  # None: it is refused
    oracles: dict[str, Callable[[], list[Row]]]
    ordered: tuple[str, ...] = ()  # oracles whose order is defined as well
    refused: str = ""  # the type of the error
    documented: set[str] = field(default_factory=set)  # differences that the case has and docs/data-actions.md names


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value


def table(chance: random.Random, columns: dict[str, str], most: int, suffix: str) -> Table:
    rows = []
    for _ in range(chance.choice([0, 1, chance.randint(2, most), most])):
        rows.append(tuple(None if chance.random() < 0.15 else chance.choice(KINDS[k][1]) for k in columns.values()))
    return Table(columns, rows, suffix)


def suffix_for(chance: random.Random, columns: dict[str, str]) -> str:
    return ".csv" if set(columns.values()) <= set(CSV) and chance.random() < 0.5 else ".parquet"


# --- merges ------------------------------------------------------------------------------------------------------


def merge_case(number: int, chance: random.Random) -> Case:
    keys = ["k", "jähr"][: chance.choice([1, 1, 2])]
    kinds = {key: chance.choice(list(KINDS)) for key in keys}
    payload = [chance.choice(["integer", "text", "number", "decimal"]) for _ in range(3)]
    left_columns = {**kinds, "a": payload[0], "rowid": payload[1]}  # a name that DuckDB has for a column of its own
    clash = chance.random() < 0.2
    right_columns = {**kinds, ("a" if clash else "c"): payload[2]}
    differ = chance.random() < 0.05
    if differ:
        right_columns["k"] = "text" if kinds["k"] != "text" else "integer"
    left = table(chance, left_columns, 12, suffix_for(chance, left_columns))
    right = table(chance, right_columns, 12, suffix_for(chance, right_columns))
    how, suffix = chance.choice(HOWS), chance.choice([None, "_r"]) if clash else None
    with_: dict[str, Any] = {"primary_dataset": "@l", "secondary_dataset": "@r", "keys": keys, "how": how}
    if suffix:
        with_["suffix"] = suffix
    case = Case(f"Merge{number}", "data/merge", with_, {"l": left, "r": right}, [], None, {})
    if differ:
        left.suffix = right.suffix = ".parquet"  # in CSV, a column without a value has no type
        case.refused, case.documented = "KeyTypesDiffer", {"keys of different types are refused"}
        return case
    if clash and suffix is None:
        case.refused, case.documented = "ColumnsClash", {"columns that clash are refused without `suffix`"}
        return case
    left, right = left.without_nan(keys), right.without_nan(keys)
    if left.rows != case.tables["l"].rows or right.rows != case.tables["r"].rows:
        case.documented.add("NaN in a key is a missing key")
    width = len(keys)
    keyless = [sum(None in row[:width] for row in side.rows) for side in (left, right)]
    if all(keyless):
        case.documented.add("a missing key matches nothing")
    last = "a_r" if clash else "c"
    case.columns = [*keys, "a", "rowid", last]
    case.expected = plain_join(left.rows, right.rows, width, how)
    case.oracles = {
        "pandas": lambda: pandas_join(left, right, keys, how, last),
        "polars": lambda: polars_join(left, right, keys, how, last),
        "duckdb": lambda: duckdb_join(left, right, keys, how, last),
    }
    return case


def plain_join(left: list[Row], right: list[Row], width: int, how: str) -> list[Row]:
    """Nested loops."""
    out, used = [], set()
    for row in left:
        partners = [n for n, other in enumerate(right) if None not in row[:width] and other[:width] == row[:width]]
        used.update(partners)
        out += [row + right[n][width:] for n in partners]
        if not partners and how in ("left", "outer"):
            out.append((*row, None))
    if how in ("right", "outer"):
        out += [(*row[:width], None, None, *row[width:]) for n, row in enumerate(right) if n not in used]
    return out


def pandas_join(left: Table, right: Table, keys: list[str], how: str, last: str) -> list[Row]:
    """pandas matches missing keys with each other, so they are kept out of its merge and added as unmatched rows."""
    one, other = left.pandas(), right.pandas().set_axis([*keys, last], axis=1)
    keyed = [frame[frame[keys].notna().all(axis=1)] for frame in (one, other)]
    without = [frame[frame[keys].isna().any(axis=1)] for frame in (one, other)]
    rows = rows_of(keyed[0].merge(keyed[1], how=how, on=keys), [*keys, "a", "rowid", last])
    if how in ("left", "outer"):
        rows += [(*row, None) for row in rows_of(without[0], [*keys, "a", "rowid"])]
    if how in ("right", "outer"):
        rows += [(*row[:-1], None, None, row[-1]) for row in rows_of(without[1], [*keys, last])]
    return rows


def rows_of(frame: pandas.DataFrame, columns: list[str]) -> list[Row]:
    """pandas has one missing value for what is not there and for NaN."""
    return [tuple(frame[column].iloc[n] for column in columns) for n in range(len(frame))]


def polars_join(left: Table, right: Table, keys: list[str], how: str, last: str) -> list[Row]:
    other = right.polars()
    other.columns = [*keys, last]
    joined = left.polars().join(other, on=keys, how="full" if how == "outer" else how, coalesce=True)  # type: ignore[arg-type]
    return joined.select([*keys, "a", "rowid", last]).rows()


def duckdb_join(left: Table, right: Table, keys: list[str], how: str, last: str) -> list[Row]:
    kind = {"left": "LEFT", "inner": "INNER", "right": "RIGHT", "outer": "FULL OUTER"}[how]
    using = ", ".join(f'"{key}"' for key in keys)
    with duckdb.connect() as connection:
        connection.register("l", left.arrow())
        connection.register("r", right.arrow().rename_columns([*keys, last]))
        return connection.sql(f'SELECT {using}, a, l.rowid, "{last}" FROM l {kind} JOIN r USING ({using})').fetchall()


# --- appends -----------------------------------------------------------------------------------------------------


def append_case(number: int, chance: random.Random) -> Case:
    columns = {name: chance.choice(list(KINDS)) for name in ("a", "rowid", "ü")}
    union = chance.random() < 0.4
    tables: dict[str, Table] = {}
    for part in range(chance.randint(2, 4)):
        names = chance.sample(list(columns), 3)
        own = {name: columns[name] for name in (names[: chance.randint(1, 3)] if union and part else names)}
        tables[f"t{part}"] = table(chance, own, 8, suffix_for(chance, own))
    first, *more = tables
    with_: dict[str, Any] = {
        "primary_dataset": f"@{first}", "secondary_dataset": [f"@{name}" for name in more], "source": "from",
        "labels": list(tables), "columns": "union" if union else "same",
    }  # fmt: skip
    case = Case(f"Append{number}", "data/append", with_, tables, [], None, {})
    if chance.random() < 0.06:
        other = tables[more[0]]
        wrong = next(iter(other.columns))
        kind = "text" if columns[wrong] != "text" else "integer"
        replaced = table(chance, {**other.columns, wrong: kind}, 8, ".parquet")
        tables[more[0]] = replaced
        valued = [
            any(row[list(each.columns).index(wrong)] is not None for row in each.rows)
            for each in (
                replaced,
                *(each for name, each in tables.items() if name != more[0] and wrong in each.columns),
            )
        ]
        if valued[0] and any(valued[1:]):
            case.refused, case.documented = "ColumnsDiffer", {"columns of different types are refused"}
            return case
        tables[more[0]] = other
    order = list(dict.fromkeys(name for each in tables.values() for name in each.columns))
    case.columns = ["from", *order]
    case.expected = [
        (label, *(row[list(each.columns).index(name)] if name in each.columns else None for name in order))
        for label, each in tables.items()
        for row in each.rows
    ]
    case.oracles = {
        "pandas": lambda: pandas_append(tables, order),
        "polars": lambda: polars_append(tables, order),
        "duckdb": lambda: duckdb_append(tables, order),
    }
    case.ordered = ("pandas", "polars")
    return case


def pandas_append(tables: dict[str, Table], order: list[str]) -> list[Row]:
    frames = [each.pandas().assign(**{"from": label}) for label, each in tables.items()]
    return rows_of(pandas.concat(frames, ignore_index=True).astype(object), ["from", *order])


def polars_append(tables: dict[str, Table], order: list[str]) -> list[Row]:
    frames = [each.polars().with_columns(polars.lit(label).alias("from")) for label, each in tables.items()]
    return polars.concat(frames, how="diagonal").select(["from", *order]).rows()


def duckdb_append(tables: dict[str, Table], order: list[str]) -> list[Row]:
    selected = ", ".join(f'"{name}"' for name in order)
    with duckdb.connect() as connection:
        for label, each in tables.items():
            connection.register(label, each.arrow())
        parts = " UNION ALL BY NAME ".join(f"SELECT '{label}' AS \"from\", * FROM {label}" for label in tables)
        return connection.sql(f'SELECT "from", {selected} FROM ({parts})').fetchall()


# --- aggregates --------------------------------------------------------------------------------------------------


FUNCTIONS = ("count", "sum", "mean", "min", "max", "median", "std")


def aggregate_case(number: int, chance: random.Random) -> Case:
    group_kind, value_kind = chance.choice(["text", "integer", "date"]), chance.choice(["integer", "number", "decimal"])
    columns = {"g": group_kind, "v": value_kind}
    tables = {
        f"t{part}": table(chance, columns, 9, suffix_for(chance, columns)) for part in range(chance.randint(2, 3))
    }
    groups = chance.choice([None, ["g"], ["g", "step"], []])
    chosen = sorted(chance.sample(FUNCTIONS, chance.randint(2, len(FUNCTIONS))))  # as `data/aggregate` orders them
    measures = {how: {"of": "v", "how": how} for how in chosen}
    with_: dict[str, Any] = {
        "products": {name: f"@{name}" for name in tables}, "operation": "summarise", "measures": measures,
    }  # fmt: skip
    if groups is not None:
        with_["group_by"] = groups
    case = Case(f"Aggregate{number}", "data/aggregate", with_, tables, [], None, {})
    if value_kind == "number":
        # Nothing that rounds: the order of additions is another in each program.
        for name, each in tables.items():
            rows = [(g, None if v is None else v if is_nan(v) else float(int(v) % 97)) for g, v in each.rows]
            tables[name] = Table(columns, rows, each.suffix)
        if any(is_nan(v) for each in tables.values() for _, v in each.rows):
            case.documented.add("NaN does not count")
    valued = any(v is not None for each in tables.values() for _, v in each.rows)
    if not valued and all(each.suffix == ".csv" for each in tables.values()):
        for each in tables.values():
            each.suffix = ".parquet"  # a column without a value has no type in CSV
    by = ["step"] if groups is None else groups
    clean = {name: each.without_nan(["v"]) for name, each in tables.items()}
    case.columns = [*by, *measures]
    case.expected = plain_aggregate(clean, by, list(measures))
    if value_kind == "decimal" and "median" in measures:
        case.documented.add("the median of decimals is exact")
    if any(row[len(by) + at] is None for row in case.expected for at, how in enumerate(measures) if how == "sum"):
        case.documented.add("the sum of no value is missing")
    case.oracles = {
        "pandas": lambda: pandas_aggregate(clean, by, list(measures)),
        "polars": lambda: polars_aggregate(clean, by, list(measures)),
        "duckdb": lambda: duckdb_aggregate(clean, by, list(measures)),
    }
    case.ordered = ("pandas", "polars")
    return case


def plain_aggregate(tables: dict[str, Table], by: list[str], measures: list[str]) -> list[Row]:
    groups: dict[Row, list[Any]] = {} if by else {(): []}
    for label, each in tables.items():
        for g, v in each.rows:
            groups.setdefault(tuple({"g": g, "step": label}[name] for name in by), []).append(v)
    return [
        (*group, *(measured(how, [value for value in values if value is not None]) for how in measures))
        for group, values in groups.items()
    ]


def measured(how: str, values: list[Any]) -> Any:
    match how:
        case "count":
            return len(values)
        case "sum":
            return sum(values) if values else None
        case "mean":
            return sum(map(float, values)) / len(values) if values else None
        case "min" | "max":
            return {"min": min, "max": max}[how](values) if values else None
        case "median":
            ordered, half = sorted(values), len(values) // 2
            if not values:
                return None
            return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2
        case "std":
            if len(values) < 2:
                return None
            exact = [Decimal(value) for value in values]
            mean = sum(exact) / len(exact)
            return float((sum((value - mean) ** 2 for value in exact) / (len(exact) - 1)).sqrt())
    raise AssertionError(how)


def pandas_aggregate(tables: dict[str, Table], by: list[str], measures: list[str]) -> list[Row]:
    frame = pandas.concat([each.pandas().assign(step=label) for label, each in tables.items()], ignore_index=True)
    if all(isinstance(g, int) for g in frame["g"].dropna()):
        frame["g"] = frame["g"].astype("Int64")  # else pandas groups integers as floats if one is missing
    integers = all(isinstance(v, int) for v in frame["v"].dropna())
    exact = frame["v"].astype("Int64") if integers else frame["v"]
    # What rounds is computed in floating point. Sums of objects stay exact.
    frame = frame.assign(v=exact, f=[None if v is None or v is pandas.NA else float(v) for v in frame["v"]], one=1)
    frame["f"] = frame["f"].astype(float)
    rows: list[Row] = []
    by_group = frame.groupby(by or ["one"], dropna=False, sort=False)
    groups = list(by_group) if len(frame) or by else [((), frame)]
    for group, members in groups:
        values, floats = members["v"].dropna(), members["f"]
        found = {
            "count": lambda values=values: len(values),
            "sum": lambda values=values: values.sum() if len(values) else None,
            "mean": lambda floats=floats: floats.mean(),
            "min": lambda values=values: values.min() if len(values) else None,
            "max": lambda values=values: values.max() if len(values) else None,
            "median": lambda floats=floats: floats.median(),
            "std": lambda floats=floats: floats.std(),
        }
        rows.append((*(tuple(group) if by else ()), *(found[how]() for how in measures)))
    return rows


def polars_aggregate(tables: dict[str, Table], by: list[str], measures: list[str]) -> list[Row]:
    frame = polars.concat([t.polars().with_columns(polars.lit(label).alias("step")) for label, t in tables.items()])
    v = polars.col("v")
    something = v.count() > 0
    found = {
        "count": v.count(),
        "sum": polars.when(something).then(v.sum()),
        "mean": v.cast(polars.Float64).mean(),
        "min": v.min(),
        "max": v.max(),
        "median": v.cast(polars.Float64).median(),
        "std": v.cast(polars.Float64).std(),
    }
    asked = [found[how].alias(how) for how in measures]
    return (frame.group_by(by, maintain_order=True).agg(asked) if by else frame.select(asked)).rows()


def duckdb_aggregate(tables: dict[str, Table], by: list[str], measures: list[str]) -> list[Row]:
    functions = {"mean": "avg", "std": "stddev_samp"}
    # DuckDB cuts the middle of two decimals off.
    arguments = {"median": "CAST(v AS DOUBLE)"}
    asked = ", ".join(f"{functions.get(how, how)}({arguments.get(how, 'v')})" for how in measures)
    with duckdb.connect() as connection:
        for label, each in tables.items():
            connection.register(label, each.arrow())
        parts = " UNION ALL ".join(f"SELECT *, '{label}' AS step FROM {label}" for label in tables)
        grouped = f" GROUP BY {', '.join(by)}" if by else ""
        return connection.sql(f"SELECT {', '.join([*by, asked])} FROM ({parts}){grouped}").fetchall()


# --- comparing ---------------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """A value as every program can say it: numbers as exact fractions of ten, moments as texts."""
    if value is None or value is pandas.NaT or value is pandas.NA or is_nan(value):
        return None
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None).isoformat()
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, int) or type(value).__name__.startswith(("int", "uint")):
        return Decimal(int(value))
    if isinstance(value, float):
        return Decimal(repr(float(f"{value:.12g}")))
    return value.normalize() + 0 if isinstance(value, Decimal) else value


def plain_rows(rows: Sequence[Row], ordered: bool) -> list[Row]:
    found = [tuple(map(plain, row)) for row in rows]
    return found if ordered else sorted(found, key=repr)


def rounded(rows: list[Row], measures: int) -> list[Row]:
    """The last columns, which are computed, with 12 digits: programs add in other orders."""
    return [
        (*row[:-measures], *(Decimal(f"{v:.12g}") if isinstance(v, Decimal) else v for v in row[-measures:]))
        for row in rows
    ]


def cases(merges: int, appends: int, aggregates: int, seed: int) -> Iterator[Case]:
    for make, number in ((merge_case, merges), (append_case, appends), (aggregate_case, aggregates)):
        for at in range(number):
            yield make(at, random.Random(f"{seed} {make.__name__} {at}"))
