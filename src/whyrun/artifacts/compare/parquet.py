"""Parquet tables, through whichever of pyarrow and duckdb is installed."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from whyrun.artifacts.compare.result import CompareSettings, Comparison, Unreadable
from whyrun.artifacts.compare.tables import Table, compare_tables


def compare_parquet(old: Path, new: Path, settings: CompareSettings) -> Comparison:
    read = _reader()
    return compare_tables(read(old, "before"), read(new, "now"), settings)


def _reader() -> Callable[[Path, str], Table]:
    if find_spec("pyarrow") is not None:
        return _with_pyarrow
    if find_spec("duckdb") is not None:
        return _with_duckdb
    raise Unreadable("neither pyarrow nor duckdb is installed")


def _with_pyarrow(path: Path, which: str) -> Table:
    parquet, arrow = import_module("pyarrow.parquet"), import_module("pyarrow")
    try:
        table = parquet.read_table(str(path), memory_map=False)
    except (arrow.ArrowException, OSError) as problem:
        raise Unreadable(f"the version {which} is no Parquet file: {_why(problem, path)}") from None
    names = tuple(table.column_names)
    columns = [column.to_pylist() for column in table.columns]
    types = {name: str(kind) for name, kind in zip(names, table.schema.types, strict=True)}
    return Table(names, list(zip(*columns, strict=True)) if columns else [], types)


def _with_duckdb(path: Path, which: str) -> Table:
    duckdb = import_module("duckdb")
    try:
        with duckdb.connect() as connection:
            found = connection.execute("select * from read_parquet(?)", [str(path)])
            names = tuple(column[0] for column in found.description)
            types = {column[0]: str(column[1]) for column in found.description}
            return Table(names, found.fetchall(), types)
    except duckdb.Error as problem:
        raise Unreadable(f"the version {which} is no Parquet file: {_why(problem, path)}") from None


def _why(problem: BaseException, path: Path) -> str:
    """In one line, and without the place of the file on this machine."""
    return str(problem).split("\n", 1)[0].replace(str(path), "it")
