"""`sqlite/extract` and `sqlite/load`: rows out of a SQLite database file, and into it in one transaction.

SQLite has types of values, not of columns. An extract finds the type that all values of a column have; a load checks
that the affinity of a column changes no value.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Annotated, Any, ClassVar

from whyrun.actions.base import Action, WorkerContext
from whyrun.actions.data.engine import ROW, Engine, name, opened
from whyrun.actions.data.output import dataset_path
from whyrun.actions.data.params import QueryFailed, UnreadableTable, ValueNotConvertible, counted, listed
from whyrun.actions.data.tables import Column, Table, open_tables
from whyrun.actions.movers.connections import SqliteConnection
from whyrun.actions.movers.extracting import (
    ExtractParams,
    Field,
    as_text,
    keep_sql,
    report_extract,
    stopping,
    write_batches,
)
from whyrun.actions.movers.loading import (
    FileLoadParams,
    LoadFailed,
    LoadRefused,
    check_columns,
    check_keys,
    check_unique,
    database_file,
    report_load,
)
from whyrun.actions.movers.statement import SQLITE, Dialect
from whyrun.actions.parameters import Meta
from whyrun.errors import did_you_mean

_BATCH = 20_000  # rows
_EXACT = 2**53  # integers up to this are exact as floating-point numbers
_LARGEST = 2**63 - 1

# --- extract -----------------------------------------------------------------------------------------------------


class Params(ExtractParams, kw_only=True):
    dialect: ClassVar[Dialect] = SQLITE

    connection: Annotated[SqliteConnection, Meta(description="`path` of the database file")]


class SqliteExtract(Action):
    """Read a query or a table of a SQLite file into a dataset."""

    name = "sqlite/extract"
    version = "1"
    Params: ClassVar[type[Any] | None] = Params
    example = """\
jobs:
  Orders:
    uses: sqlite/extract
    with:
      connection: "@sqlite.shop"
      query: SELECT id, customer, total FROM orders WHERE total >= $least ORDER BY id
      values: {least: 10}
    outputs: {orders: {type: dataset, path: out/orders.parquet}}
"""

    def run(
        self, inputs: dict[str, Any], mode: str = "dry-run", context: Any = None, logger: Any = None
    ) -> dict[str, Any] | None:
        del inputs, mode, logger
        params: Params = self.params
        output, path = dataset_path(context, self.name)
        file = context.project / params.connection.file()
        if not file.is_file():
            raise UnreadableTable(f"there is no database file `{params.connection.file()}`; correct `path`")
        sql = (params.query or params.select(name)).strip().rstrip(";")
        keep_sql(context, sql)
        with (
            closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, check_same_thread=False)) as source,
            stopping(context, source.interrupt),
        ):
            try:
                source.execute("BEGIN")  # both passes see the same rows
                fields = _fields(source, sql, params.values)
                with opened(params.engine(), context.work_dir, lambda: context.cancelled) as engine:
                    rows = _batches(source.execute(sql, params.values), fields)
                    written = write_batches(engine, fields, rows, params.order(), path)
            except sqlite3.Error as problem:
                raise QueryFailed(f"{params.what} cannot be answered: {problem}") from None
        report_extract(context, output, path, "SQLite", written)
        return None


def _fields(source: sqlite3.Connection, sql: str, values: Mapping[str, Any]) -> list[Field]:
    """The columns with the type that all their values have."""
    import pyarrow as pa

    names = [str(column[0]) for column in source.execute(f"SELECT * FROM ({sql}) LIMIT 0", values).description or ()]
    aliases = [f"c{at}" for at in range(len(names))]
    kinds = ("integer", "real", "text", "blob")
    asked = [f"max(typeof({alias}) = '{kind}')" for alias in aliases for kind in kinds]
    asked += [f"max(typeof({c}) = 'integer' AND {c} NOT BETWEEN -{_EXACT} AND {_EXACT})" for c in aliases]
    listed_aliases = ", ".join(aliases)
    (found,) = source.execute(
        f"WITH q({listed_aliases}) AS ({sql}) SELECT {', '.join(asked)} FROM q", values
    ).fetchall()
    types = {"integer": pa.int64(), "real": pa.float64(), "text": pa.string(), "blob": pa.binary()}
    fields = []
    for at, column in enumerate(names):
        present = [kind for kind, is_there in zip(kinds, found[4 * at : 4 * at + 4], strict=True) if is_there]
        if present == ["integer", "real"] and not found[4 * len(names) + at]:
            present = ["real"]
        if len(present) > 1:
            raise ValueNotConvertible(
                f"the column `{column}` has values of the types {listed(present)}; make them alike in the query: "
                f"CAST({name(column)} AS TEXT)"
            )
        fields.append(Field(column, types[present[0]] if present else pa.string()))
    return fields


def _batches(cursor: sqlite3.Cursor, fields: Sequence[Field]) -> Iterator[Any]:
    import pyarrow as pa

    schema = pa.schema([(field.name, field.arrow) for field in fields])
    while rows := cursor.fetchmany(_BATCH):
        columns = zip(*rows, strict=True)
        arrays = [
            pa.array([float(v) if v is not None and pa.types.is_floating(f.arrow) else v for v in values], f.arrow)
            for values, f in zip(columns, fields, strict=True)
        ]
        yield pa.record_batch(arrays, schema=schema)


# --- load --------------------------------------------------------------------------------------------------------


class LoadParams(FileLoadParams, kw_only=True):
    connection: Annotated[SqliteConnection, Meta(description="`path` of the database file; created if it is not there")]


class SqliteLoad(Action):
    """Load a dataset into a table of a SQLite file: all of it or nothing."""

    name = "sqlite/load"
    version = "1"
    outputs: ClassVar[Mapping[str, str]] = {"report": "json"}
    Params: ClassVar[type[Any] | None] = LoadParams
    example = """\
jobs:
  Publish:
    uses: sqlite/load
    with:
      connection: "@sqlite.shop"
      data: ${{ jobs.Sales.outputs.sales }}
      table: sales
      mode: append
      create_if_missing: true
    outputs: {report: {type: json}}
"""

    def run(
        self, inputs: dict[str, Any], mode: str = "dry-run", context: Any = None, logger: Any = None
    ) -> dict[str, Any] | None:
        del inputs, mode, logger
        params: LoadParams = self.params
        with opened(params, context.work_dir, lambda: context.cancelled) as engine:
            (table,) = open_tables(engine, params)
            check_columns(params, table)
            check_keys(engine, table, params.keys)
            file = database_file(context, params.connection.file(), may_be_new=True)
            with (
                closing(sqlite3.connect(file, isolation_level=None, check_same_thread=False)) as target,
                stopping(context, target.interrupt),
            ):
                rows, columns = _Load(params, engine, table, target).run(context)
        return report_load(context, params, table, rows, columns)


class _Load:
    def __init__(self, params: LoadParams, engine: Engine, table: Table, target: sqlite3.Connection) -> None:
        self.params, self.engine, self.table, self.target = params, engine, table, target
        self.sent: list[str] = []

    def run(self, context: WorkerContext) -> tuple[int, dict[str, str]]:
        params = self.params
        try:
            self.target.execute("BEGIN IMMEDIATE")
            rows = self._into()
            self.target.execute("COMMIT")
        except (sqlite3.Error, LoadRefused, ValueNotConvertible) as problem:
            if self.target.in_transaction:
                self.target.execute("ROLLBACK")
            if isinstance(problem, sqlite3.Error):
                text = f"`{params.table}` was not loaded, and nothing was changed: {problem}"
                raise LoadFailed(text) from None
            raise
        finally:
            keep_sql(context, ";\n".join(self.sent))
        return rows, {row[1]: row[2] for row in self._info()}

    def _do(self, sql: str) -> None:
        self.sent.append(sql)
        self.target.execute(sql)

    def _info(self) -> list[Any]:
        return self.target.execute(f"PRAGMA table_info({name(self.params.table)})").fetchall()

    def _into(self) -> int:
        params = self.params
        query = "SELECT type FROM sqlite_master WHERE lower(name) = lower(?) AND type IN ('table', 'view')"
        kinds = [kind for (kind,) in self.target.execute(query, [params.table])]
        if kinds == ["view"]:
            raise LoadRefused(f"`{params.table}` is a view, not a table; name a table")
        creates = params.creates(bool(kinds))
        if creates and kinds:
            self._do(f"DROP TABLE {name(params.table)}")
        if creates:
            declared = [f"{name(c.name)} {params.column_types.get(c.name, _new_type(c))}" for c in self.table.columns]
            if params.keys:
                declared.append(f"PRIMARY KEY ({', '.join(map(name, params.keys))})")
            self._do(f"CREATE TABLE {name(params.table)} ({', '.join(declared)})")
        elif params.mode == "truncate":
            self._do(f"DELETE FROM {name(params.table)}")
        affinities = {row[1].casefold(): (row[2], _affinity(row[2])) for row in self._info()}
        selected = [self._value(column, affinities) for column in self.table.columns]
        if params.mode == "upsert":
            self._check_upsert()
        return self._insert(selected)

    def _value(self, column: Column, affinities: Mapping[str, tuple[str, str]]) -> str:
        """SQL (of DuckDB) of the value that SQLite stores. Raises if its column would change it."""
        declared, affinity = affinities.get(column.name.casefold(), ("", ""))
        if not affinity:
            known = [row[1] for row in self._info()]
            hint = did_you_mean(column.name, known) or f"it has {listed(known)}"
            raise LoadRefused(f"`{self.params.table}` does not fit `data`: it has no column `{column.name}` ({hint})")
        kind, value = column.kind, name(column.name)
        if kind in ("integer", "number", "boolean"):
            fits = affinity != "TEXT"
        else:
            as_number = affinity in ("INTEGER", "REAL") or (affinity == "NUMERIC" and kind not in ("date", "timestamp"))
            fits = not as_number or kind == "blob"
        if not fits:
            raise LoadRefused(
                f"`{self.params.table}` does not fit `data`: `{column.name}` is {declared} in the table and {kind} in "
                "`data`, and SQLite would convert it; declare the type with `types`"
            )
        largest = _EXACT if affinity == "REAL" else _LARGEST
        if kind == "integer":
            self._check(column, f"abs(CAST({value} AS HUGEINT)) > {largest}", declared or "a number of 64 bits")
        return {"integer": f"CAST({value} AS BIGINT)", "number": f"CAST({value} AS DOUBLE)", "blob": value,
                "boolean": f"CAST({value} AS BIGINT)"}.get(kind, f"CAST({as_text(column)} AS VARCHAR)")  # fmt: skip

    def _check(self, column: Column, lossy: str, as_type: str) -> None:
        value = name(column.name)
        lost, example = self.engine.row(
            f"SELECT count(*), min(CAST({value} AS VARCHAR)) FROM {self.table.relation} WHERE {lossy}"
        )
        if lost:
            raise ValueNotConvertible(
                f"{counted(lost, 'value')} of `{column.name}` would change as {as_type}: `{example}`"
            )

    def _check_upsert(self) -> None:
        unique = []
        for _, index, is_unique, *_ in self.target.execute(f"PRAGMA index_list({name(self.params.table)})").fetchall():
            if is_unique:
                columns = self.target.execute(f"PRAGMA index_info({name(index)})").fetchall()
                unique.append([str(column[2]) for column in columns])
        primary = [row[1] for row in sorted(self._info(), key=lambda row: row[5]) if row[5]]
        if primary and {c.casefold() for c in primary} not in [{c.casefold() for c in each} for each in unique]:
            unique.append(primary)  # an INTEGER PRIMARY KEY has no index of its own
        check_unique(f"`{self.params.table}`", self.params.keys, unique)

    def _insert(self, selected: Sequence[str]) -> int:
        """In the order of the data. An upsert goes through a temporary table, where its keys are compared as the
        target compares them: `A` and `a` are one key in a column that ignores case."""
        params, names = self.params, ", ".join(map(name, self.table.names))
        marks = ", ".join("?" * len(self.table.names))
        into = name(params.table)
        if params.mode == "upsert":
            columns = ", ".join(f"{name(column)}" for column in self.table.names)
            self.target.execute(f"CREATE TEMP TABLE whyrun_stage ({columns})")
            into = "temp.whyrun_stage"
        statement = f"INSERT INTO {into} ({names}) VALUES ({marks})"
        self.sent.append(statement)
        rows = 0
        reader = self.engine.reader(f"SELECT {', '.join(selected)} FROM {self.table.relation} ORDER BY {ROW}")
        try:
            for batch in reader:
                values = [column.to_pylist() for column in batch.columns]
                self.target.executemany(statement, zip(*values, strict=True))
                rows += batch.num_rows
        finally:
            reader.close()
        return self._from_stage(names) if params.mode == "upsert" else rows

    def _from_stage(self, names: str) -> int:
        keys = ", ".join(map(name, self.params.keys))
        target = name(self.params.table)
        # A union takes the collation of its first part, which is that of the table.
        compared = f"SELECT {keys} FROM {target} WHERE false UNION ALL SELECT {keys} FROM temp.whyrun_stage"
        (twice,) = self.target.execute(
            f"SELECT count(*) FROM (SELECT 1 FROM ({compared}) GROUP BY {keys} HAVING count(*) > 1)"
        ).fetchone()
        if twice:
            raise LoadRefused(
                f"{counted(twice, 'key')} of `data` {'is' if twice == 1 else 'are'} the same as another one for "
                f"`{self.params.table}`, which compares them in its own way"
            )
        others = [name(column) for column in self.table.names if column not in self.params.keys]
        updates = ", ".join(f"{other} = excluded.{other}" for other in others)
        sql = (
            f"INSERT INTO {target} ({names}) SELECT {names} FROM temp.whyrun_stage WHERE true "
            f"ON CONFLICT ({keys}) DO {f'UPDATE SET {updates}' if others else 'NOTHING'}"
        )
        self.sent.append(sql)
        rows = self.target.execute(sql).rowcount
        self.target.execute("DROP TABLE temp.whyrun_stage")
        return int(rows)


def _new_type(column: Column) -> str:
    """Decimals and times stay texts: SQLite has no type that holds them exactly."""
    return {"integer": "INTEGER", "boolean": "INTEGER", "number": "REAL", "blob": "BLOB"}.get(column.kind, "TEXT")


def _affinity(declared: str) -> str:
    """As https://sqlite.org/datatype3.html determines it from the declared type."""
    text = declared.upper()
    for words, affinity in ((("INT",), "INTEGER"), (("CHAR", "CLOB", "TEXT"), "TEXT"), (("BLOB",), "BLOB")):
        if any(word in text for word in words):
            return affinity
    if not text:
        return "BLOB"
    return "REAL" if any(word in text for word in ("REAL", "FLOA", "DOUB")) else "NUMERIC"
