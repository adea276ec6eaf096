"""A merge of two large files: `python bench/data.py [--rows N] [--memory 500MB] [--repeats R] [--json FILE]`.

`whyrun run` with one job `data/merge` (keys checked and counted before, the result sorted and stored), beside plain
DuckDB and pandas doing the same join. Whole processes, in turns. DuckDB has the same memory limit inside all of them.

Two peers of DuckDB: as one would type it, where types follow from the first rows and the result has any order; and with
what `data/merge` guarantees, where types follow from all rows and the result has the order of the left file.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from measure import alternate

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent / ".bench"
LIMIT = 1.5  # times plain DuckDB
KEYS = ("firm_id", "year")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--memory", default="500MB")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--formats", nargs="+", default=["parquet", "csv"], choices=["parquet", "csv"])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--peer", choices=["duckdb", "guaranteed", "pandas"], help="be a peer, here: for this script")
    parser.add_argument("--share", type=int, help="bytes of the memory that are DuckDB's: for this script")
    given = parser.parse_args()
    if given.peer:
        be_peer(given.peer, given.formats[0], given.share)
        return 0
    ROOT.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="data-", dir=ROOT))
    make_files(folder, given.rows)
    results = [row for kind in given.formats for row in measure(folder, kind, given)]
    if given.json:
        given.json.write_text(json.dumps({"results": results}, indent=1))
    return 0 if all(row["met"] for row in results if "judged" in row) else 1


def measure(folder: Path, kind: str, given: argparse.Namespace) -> list[dict[str, Any]]:
    (folder / f"{kind}.yaml").write_text(workflow(kind, given.memory))
    from whyrun.actions.data.engine import duckdb_share

    share = str(duckdb_share(given.memory))  # told, so that a peer need not import Whyrun to know it
    this: list[str | Path] = [sys.executable, Path(__file__).resolve(), "--share", share, "--formats", kind]
    commands: dict[str, list[str | Path]] = {
        f"whyrun run, {kind}": [
            Path(sys.executable).with_name("whyrun"),
            "run",
            f"{kind}.yaml",
            "--force",
            "Job:Merge",
        ],
        f"DuckDB, {kind}": [*this, "--peer", "duckdb"],
        f"DuckDB with the same guarantees, {kind}": [*this, "--peer", "guaranteed"],
        f"pandas, {kind}": [*this, "--peer", "pandas"],
    }
    series = alternate(commands, dict.fromkeys(commands, folder), given.repeats, folder)
    check_same(folder, kind, given.rows)
    ours, plain, same, _ = series.values()
    figures = [{"benchmark": "data_merge", "n": given.rows, **found.to_json()} for found in series.values()]
    judged = [
        (f"whyrun run / DuckDB, {kind} (best)", ours.best / plain.best, LIMIT, "×"),
        (f"whyrun run / DuckDB with the same guarantees, {kind} (best)", ours.best / same.best, LIMIT, "×"),
        (f"peak memory of whyrun run, {kind}", ours.peak_mb, 500.0, " MB"),
    ]
    # On a machine that does other things too, processor time tells more than the clock.
    print(f"processor time of whyrun run / DuckDB, {kind}: {ours.cpu / plain.cpu:.2f}×", flush=True)
    for what, value, limit, unit in judged:
        print(f"{what}: {value:.2f}{unit} (limit {limit:g}{unit}) {'met' if value <= limit else 'OVER'}", flush=True)
        figures.append(
            {"benchmark": "data_merge", "judged": what, "value": value, "limit": limit, "unit": unit,
             "met": value <= limit}
        )  # fmt: skip
    for found in series.values():
        print(f"  {found.name:45} best {found.best:6.2f} s  cpu {found.cpu:6.2f} s  peak {found.peak_mb:5.0f} MB")
    return figures


def workflow(kind: str, memory: str) -> str:
    job = {
        "uses": "data/merge",
        "with": {
            "primary_dataset": "${{ inputs.Left }}",
            "secondary_dataset": "${{ inputs.Right }}",
            "keys": list(KEYS),
            "cardinality": "1:1",
            "memory_limit": memory,
        },
        "outputs": {"merged": {"type": "dataset", "path": f"ours-{kind}.parquet"}},
    }
    inputs = {name: {"type": "dataset", "default": f"{name.lower()}.{kind}"} for name in ("Left", "Right")}
    return json.dumps({"workflow": f"merge-{kind}", "inputs": inputs, "jobs": {"Merge": job}})


def make_files(folder: Path, rows: int) -> None:
    """A panel and its controls, each in an order of its own; nine in ten rows have a partner."""
    import duckdb

    firm, year = f"i % {rows} // 10", f"2000 + i % {rows} % 10"
    with duckdb.connect() as db:
        for name, step, columns, part in (
            ("left", 7919, "(i * 31 % 1000003) / 1000.0 AS sales, 'firm ' || i AS name", "i >= 0"),
            ("right", 104729, "(i * 17 % 1000003) / 1000.0 AS size, i % 97 AS industry", f"i < {rows} - {rows} // 10"),
        ):
            query = (
                f"SELECT {firm} AS firm_id, {year} AS year, {columns} "
                f"FROM (SELECT (n * {step}) % {rows} AS i FROM range({rows}) t(n)) WHERE {part}"
            )
            if name == "right":  # as many rows: those without a partner are other firms
                query += f" UNION ALL SELECT {rows} + n, 2000, 1.5, 0 FROM range({rows} // 10) t(n)"
            db.execute(f"COPY ({query}) TO '{folder}/{name}.parquet'")
            db.execute(f"COPY (FROM '{folder}/{name}.parquet') TO '{folder}/{name}.csv'")


def be_peer(peer: str, kind: str, share: int) -> None:
    if peer == "pandas":
        import pandas as pd

        read = pd.read_csv if kind == "csv" else pd.read_parquet
        left, right = read(f"left.{kind}"), read(f"right.{kind}")
        merged = left.merge(right, on=list(KEYS), how="left", validate="1:1")
        merged.to_parquet(f"pandas-{kind}.parquet", compression="zstd")
        return
    import duckdb

    exact = peer == "guaranteed"
    if kind == "csv":
        left, right = (f"read_csv('{side}.csv'{', sample_size = -1' if exact else ''})" for side in ("left", "right"))
    else:
        left, right = (f"read_parquet('{side}.parquet', file_row_number = true)" for side in ("left", "right"))
    order = "ORDER BY l.file_row_number" if exact else ""
    with duckdb.connect() as db:
        db.execute(f"SET memory_limit = '{share}B'")
        db.execute(f"SET temp_directory = 'spill-{peer}'")
        if exact and kind == "csv":
            db.execute(f"CREATE TABLE l AS SELECT *, row_number() OVER () AS file_row_number FROM {left}")
            left = "l"
        db.execute(
            f"COPY (SELECT l.firm_id, l.year, l.sales, l.name, r.size, r.industry FROM {left} l LEFT JOIN {right} r "
            f"ON l.firm_id = r.firm_id AND l.year = r.year {order}) TO '{peer}-{kind}.parquet' (COMPRESSION zstd)"
        )


def check_same(folder: Path, kind: str, rows: int) -> None:
    """All made the same rows; ours and those of the guaranteed peer in the same order too."""
    import duckdb

    with duckdb.connect() as db:
        facts = {
            peer: db.execute(
                f"SELECT count(*), count(size), sum(hash(firm_id, year, sales, name, size::DOUBLE, industry::BIGINT)) "
                f"FROM '{folder}/{peer}-{kind}.parquet'"
            ).fetchone()
            for peer in ("ours", "duckdb", "guaranteed", "pandas")
        }
        assert len(set(facts.values())) == 1, facts
        assert facts["ours"] is not None
        assert facts["ours"][0] == rows
        differ = db.execute(
            f"SELECT count(*) FROM read_parquet('{folder}/ours-{kind}.parquet', file_row_number = true) a "
            f"JOIN read_parquet('{folder}/guaranteed-{kind}.parquet', file_row_number = true) b "
            "USING (file_row_number) WHERE a.firm_id <> b.firm_id OR a.year <> b.year"
        ).fetchone()
        assert differ == (0,), differ


if __name__ == "__main__":
    sys.exit(main())
