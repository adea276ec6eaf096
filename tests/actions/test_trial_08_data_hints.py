"""The hints of merges, followed. Issue 17, number 8: a hint that matches nothing is not given."""

from __future__ import annotations

import datetime
import os
import re
import statistics
import tempfile
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from data_lab import EXAMPLES, Make, failure, flow, lab_of, made
from hypothesis import given, settings
from hypothesis import strategies as st

from fork_server import run_command
from whyrun.actions.data.engine import opened
from whyrun.actions.data.joining.join import Join
from whyrun.actions.data.params import DataError, DataParams, KeyNotExact, KeyTypesDiffer
from whyrun.actions.data.tables import open_table

pytestmark = pytest.mark.usefixtures("data_libraries")

DAY = datetime.datetime(2024, 1, 31)
UTC = datetime.UTC


def csv(folder: Path, name: str, *keys: str) -> Path:
    path = folder / f"{name}.csv"
    path.write_text(f"k,{name}\n" + "".join(f"{key},{at}\n" for at, key in enumerate(keys)))
    return path


def parquet(folder: Path, name: str, type_: pa.DataType, *keys: Any) -> Path:
    path = folder / f"{name}.parquet"
    pq.write_table(pa.table({"k": pa.array(keys, type_), name: pa.array(range(len(keys)), pa.int64())}), path)
    return path


def stata(folder: Path, name: str, dtype: str, *keys: float) -> Path:
    path = folder / f"{name}.dta"
    frame = pd.DataFrame({"k": pd.Series(keys, dtype=dtype), name: range(len(keys))})
    frame.to_stata(path, write_index=False, version=118)
    return path


def pairs(paths: Sequence[Path], types: dict[str, Any] | None = None) -> int:
    params = DataParams(types=types or {})
    with tempfile.TemporaryDirectory() as spill, opened(params, Path(spill)) as engine:
        tables = [open_table(engine, path.stem, path, params) for path in paths]
        return Join.of(engine, *tables, ["k"], ["k"], "left", None).counts.pairs


def hint(paths: Sequence[Path]) -> tuple[str, dict[str, Any] | None]:
    """The message, and the types that it names."""
    with pytest.raises(KeyTypesDiffer) as refused:
        pairs(paths)
    message = str(refused.value)
    named = re.search(r"`types: \{(.*)\}`", message)
    assert ("no type that you could declare makes any key match" in message) == (named is None)
    return message, named and dict(one.split(": ") for one in named[1].split(", "))


D20_2, D10_4 = pa.decimal128(20, 2), pa.decimal128(10, 4)
ZONED, NAIVE = pa.timestamp("us", "Europe/Berlin"), pa.timestamp("us")
EARLIER = DAY - datetime.timedelta(hours=1)


@pytest.mark.parametrize(
    ("left", "right", "kind", "matched"),
    [
        ((stata, "float32", 0.1, 0.5), (csv, "0.1", "0.5"), "text", 2),
        ((stata, "float32", 1, 2), (csv, "1", "2", "3"), "number", 2),
        ((stata, "float32", 1, 0.5), (parquet, pa.float64(), 1, 0.5), "text", 2),
        ((stata, "float32", 2**24, 5), (parquet, pa.int64(), 5, 2**53 + 1), "integer", 1),
        ((parquet, pa.float32(), 0.1), (csv, "0.1"), "text", 1),
        ((parquet, D20_2, Decimal("1.50"), Decimal(3)), (parquet, D10_4, Decimal("1.5"), Decimal(3)), "number", 2),
        ((parquet, D20_2, Decimal(3), Decimal(4)), (csv, "3", "4"), "integer", 2),
        ((parquet, D20_2, Decimal(3), Decimal("4.5")), (csv, "3", "4.5"), "number", 2),
        ((parquet, ZONED, DAY), (parquet, NAIVE, DAY), "timestamp", 1),
        ((csv, "001", "002"), (csv, "1", "2"), "integer", 2),
        ((csv, "1", "2"), (csv, "2", "n/a"), "text", 1),
        ((csv, "1", "2"), (csv, "1.5", "2"), "number", 1),
        ((csv, "2024-01-31"), (csv, "2024-01-31 00:00:00", "2024-01-31 10:30:00"), "timestamp", 1),
        ((csv, "true", "false"), (parquet, pa.string(), "true"), "boolean", 1),
        ((parquet, pa.string()), (csv, "1"), "text", 0),
    ],
)  # fmt: skip
def test_a_hint_that_is_followed_makes_keys_match(
    tmp_path: Path, left: tuple[Any, ...], right: tuple[Any, ...], kind: str, matched: int
) -> None:
    """Issue 17, number 8. In the last case one side has no rows, so that nothing can match."""
    paths = [make(tmp_path, name, *keys) for name, (make, *keys) in (("l", left), ("r", right))]
    message, types = hint(paths)
    assert types == {"k": kind}
    assert (", which gives times in UTC" in message) == (ZONED in left)
    assert pairs(paths, types) == matched


@pytest.mark.parametrize(
    ("left", "right", "examples"),
    [
        ((csv, "31.12.2024"), (csv, "2024-12-31"), "such as `31.12.2024` in `l` and `2024-12-31` in `r`"),
        ((parquet, ZONED, DAY), (parquet, NAIVE, EARLIER), "such as `2024-01-31 00:00:00+00` in `l`"),
        ((stata, "float32", 0.1), (csv, "0.10"), "such as `0.10000000149011612` in `l` and `0.1` in `r`"),
        ((csv, "1"), (csv, "1.5"), "such as `1` in `l` and `1.5` in `r`"),
        ((csv, "7" * 50 + "x"), (csv, "1"), f"such as `{'7' * 39}…` in `l` and `1` in `r`"),
    ],
)
def test_no_hint_is_given_where_none_helps(
    tmp_path: Path, left: tuple[Any, ...], right: tuple[Any, ...], examples: str
) -> None:
    """Issue 17, number 8."""
    message, types = hint([make(tmp_path, name, *keys) for name, (make, *keys) in (("l", left), ("r", right))])
    assert types is None
    assert examples in message


def test_equal_floats_of_stata_and_parquet_match(tmp_path: Path) -> None:
    """Issue 17, number 8. Both have 32 bits. A `double` of Stata is one of Parquet and CSV."""
    paths = stata(tmp_path, "l", "float32", 0.1, 2.5), parquet(tmp_path, "r", pa.float32(), 2.5, 0.1)
    assert pairs(paths) == 2
    assert pairs([stata(tmp_path, "l", "float64", 0.1, 2.5), csv(tmp_path, "r", "0.1", "2.5")]) == 2


def test_a_float_of_stata_stays_one_in_a_chain_of_merges(project: Make, tmp_path: Path) -> None:
    """Issue 17, number 8. The result of the first join is compared with the second file as the first file was."""
    files = {
        "a.dta": stata(tmp_path, "a", "float32", 0.1).read_bytes(),
        "b.parquet": parquet(tmp_path, "b", pa.float32(), 0.1).read_bytes(),
        "c.csv": "k,c\n0.1,5\n",
    }
    with_ = {"primary_dataset": "@a", "secondary_dataset": ["@b", "@c"], "keys": ["k"]}
    (failed,) = lab_of(project, "data/merge", with_, files).run().failed.values()
    assert failed == ("FAILED", "KeyTypesDiffer")
    assert made(project, "data/merge", {**with_, "types": {"k": "text"}}, files)[1] == ["0.1", "0", "0", "5"]


def test_keys_with_two_names_are_both_declared(project: Make) -> None:
    """Issue 17, number 8."""
    files = {"a.csv": "firm,y\n001,2\n", "b.csv": "id,x\n1,3\n"}
    with_ = {"primary_dataset": "@a", "secondary_dataset": "@b", "keys": {"primary": ["firm"], "secondary": ["id"]}}
    assert failure(project, "data/merge", with_, files).endswith(
        "declare the type, as in `types: {firm: integer, id: integer}`"
    )
    assert made(project, "data/merge", {**with_, "types": {"firm": "integer", "id": "integer"}}, files)[1] == [
        "1", "2", "3",
    ]  # fmt: skip


KEYS = st.sampled_from(["1", "2", "01", "1.0", "1.50", "1.5", "2024-01-31", "31.01.2024", "2024-01-31T00:00:00", "true",
                        "True", "1e2", "100", "x", "0.1", "0.10"])  # fmt: skip
TYPES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.float32(), [0.1, 1.0, 1.5]), (pa.float64(), [0.1, 1.0, 100.0]), (pa.int32(), [1, 2, 100]),
    (D20_2, [Decimal("1.50"), Decimal("1.00")]), (D10_4, [Decimal("1.5"), Decimal("0.1")]), (NAIVE, [DAY, EARLIER]),
    (ZONED, [DAY.replace(tzinfo=UTC), EARLIER.replace(tzinfo=UTC)]), (pa.date32(), [DAY.date()]),
    (pa.bool_(), [True, False]), (pa.string(), ["1", "1.5", "true", "2024-01-31", "0.1"]),
]  # fmt: skip


@settings(max_examples=EXAMPLES // 2)
@given(st.data())
def test_hints_followed_on_any_keys(draw: st.DataObject) -> None:
    """Issue 17, number 8."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name in "lr":
            if draw.draw(st.booleans(), "csv"):
                paths.append(csv(Path(folder), name, *draw.draw(st.lists(KEYS, min_size=1, max_size=3), name)))
            else:
                type_, values = draw.draw(st.sampled_from(TYPES), "type")
                keys = draw.draw(st.lists(st.sampled_from(values), min_size=1, max_size=3), name)
                paths.append(parquet(Path(folder), name, type_, *keys))
        try:
            pairs(paths)
        except KeyNotExact:
            return
        except KeyTypesDiffer:
            _, types = hint(paths)
            assert types is None or pairs(paths, types) > 0
        except DataError as problem:
            raise AssertionError(problem) from problem


# --- a merge in which nothing matches ------------------------------------------------------------------------------


def test_a_merge_in_which_nothing_matches_is_always_told(project: Make) -> None:
    """Issue 17, number 8. On the terminal too, with `--quiet` and by default."""
    with_ = {"primary_dataset": "@a", "secondary_dataset": "@b", "keys": ["k", "y"]}
    lab = lab_of(project, "data/merge", with_, {"a.csv": "k,y,v\nA,1,0\n", "b.csv": "k,y,w\na,1,0\n"})
    for more in (["--quiet"], ["--force", "Job:J"]):
        done = run_command(["run", *more], cwd=lab.root, env=os.environ, timeout=300)
        told = [line for line in done.stderr.decode().splitlines() if "NO KEY MATCHES" in line]
        assert [line.partition(" EXECUTES ")[2] for line in told] == [
            "merge `secondary_dataset` into `primary_dataset` on k, y: 1:1, 0 of 1 row matched, 1 of 1 unused, 1 out: "
            "NO KEY MATCHES, `primary_dataset` has (k=A, y=1) and `secondary_dataset` has (k=a, y=1); 1 key without a "
            "partner differs from one of the other side only in case, spaces or zeros, such as `A, 1` and `a, 1`"
            " → Job:J"
        ]
    lab.write({"b.csv": "k,y,w\n"})
    done = run_command(["run", "--quiet"], cwd=lab.root, env=os.environ, timeout=300)
    assert "NO KEY MATCHES, `primary_dataset` has (k=A, y=1) and `secondary_dataset` has no key" in done.stderr.decode()
    lab.write({"b.csv": "k,y,w\nA,1,0\n"})
    done = run_command(["run", "--quiet"], cwd=lab.root, env=os.environ, timeout=300)
    assert (done.returncode, done.stderr.decode()) == (0, "")


def test_keys_that_no_type_makes_match_are_made_alike_in_a_query(project: Make) -> None:
    """Issue 17, number 8. As the message says."""
    files = {"a.csv": "k,y\n31.12.2024,2\n", "b.csv": "k,x\n2024-12-31,3\n"}
    query = "SELECT * REPLACE (CAST(strptime(k, '%d.%m.%Y') AS DATE) AS k) FROM primary_dataset"
    lab = project(flow("data/sql", {"primary_dataset": "@a", "query": query}, {"a": "a.csv"}), files)
    lab.succeed()
    made_ = {"made.csv": lab.read("out/made.csv"), "b.csv": files["b.csv"]}
    with_ = {"primary_dataset": "@made", "secondary_dataset": "@b", "keys": ["k"]}
    assert made(project, "data/merge", with_, made_)[1] == ["2024-12-31", "2", "3"]


# --- values that were lost silently --------------------------------------------------------------------------------


def test_nan_is_a_missing_value_in_a_summary(project: Make, tmp_path: Path) -> None:
    """Issue 17, number 8. [1.0, NaN] has one value, and its mean is 1."""
    columns = {"a.parquet": [1.0, float("nan")], "b.parquet": [float("nan")]}
    files = {name: parquet(tmp_path, "v", pa.float64(), *keys).read_bytes() for name, keys in columns.items()}
    measures = {how: {"of": "k", "how": how} for how in ("count", "sum", "mean", "min", "max", "median")}
    with_ = {"products": {"a": "@a", "b": "@b"}, "operation": "summarise", "measures": measures}
    assert made(project, "data/aggregate", with_, files)[1:] == [
        ["a", "1", "1.0", "1.0", "1.0", "1.0", "1.0"], ["b", "0", "", "", "", "", ""],
    ]  # fmt: skip
    grouped = {**with_, "group_by": ["k"], "measures": {"rows": {"of": "v", "how": "count"}}}
    assert made(project, "data/aggregate", grouped, files)[1:] == [["1.0", "1"], ["", "2"]]


def test_the_median_of_decimals_is_not_cut_off(project: Make, tmp_path: Path) -> None:
    """Issue 17, number 8."""
    long = ["12345678901234567890.01", "12345678901234567890.02"]
    values = {
        "a": (10, ["1.01", "1.02"]),
        "b": (25, ["5.00", "1.01", "1.02"]),
        "c": (25, long),
        "d": (38, ["1.5", "2"]),
    }
    measures = {"median": {"of": "k", "how": "median"}}
    for name, (digits, column) in values.items():
        data = parquet(tmp_path, "v", pa.decimal128(digits, 2), *map(Decimal, column)).read_bytes()
        with_ = {"products": {"one": "@a", "two": "@b"}, "operation": "summarise", "measures": measures}
        (_, median), _ = made(project, "data/aggregate", with_, {"a.parquet": data, "b.parquet": data})[1:]
        assert Decimal(median) == statistics.median(map(Decimal, column)), name


def test_decimals_that_are_too_long_are_refused(tmp_path: Path) -> None:
    """Issue 17, number 8. DuckDB reads them as floating-point numbers."""
    path = parquet(tmp_path, "l", pa.decimal256(60, 3), Decimal("1.500"))
    message = "the column `k` is decimal(60, 3), and numbers of more than 38 digits are not read exactly"
    with pytest.raises(DataError, match=re.escape(message)):
        pairs([path, path])
    assert (
        pairs([parquet(tmp_path, "l", pa.decimal128(38, 3), Decimal(1)), csv(tmp_path, "r", "1")], {"k": "integer"})
        == 1
    )


def test_an_error_in_a_cell_of_excel_is_refused_until_it_is_declared_missing(tmp_path: Path) -> None:
    """Issue 17, number 8. One `#N/A` would make a column of numbers a text."""
    path = tmp_path / "l.xlsx"
    pd.DataFrame({"k": [1, "#N/A", 3], "l": [1, 2, 3]}).to_excel(path, index=False)
    params = DataParams(missing=["", "#N/A"])
    with opened(params, tmp_path) as engine:
        with pytest.raises(DataError, match=re.escape("the cell A3 has the error `#N/A`; ")) as refused:
            open_table(engine, "l", path, DataParams())
        assert '`missing: ["", "#N/A"]`' in str(refused.value)
        table = open_table(engine, "l", path, params)
        assert [column.kind for column in table.columns] == ["integer", "integer"]
        assert engine.rows(f"SELECT k FROM {table.relation} ORDER BY __whyrun_row") == [(1,), (None,), (3,)]
