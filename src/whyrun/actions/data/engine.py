"""One DuckDB connection for one step, with a memory limit, a spill folder, and no downloads."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whyrun.actions.data.params import DataParams, MemoryLimitTooSmall

if TYPE_CHECKING:
    import duckdb

ROW = "__whyrun_row"  # the position of a row in its dataset; users' columns may not have this name
_SPILL = "spill"
_CHECK_INTERVAL = 0.1  # seconds
_OVERHEAD = 200_000_000  # bytes of a step that DuckDB does not count (measured)


def name(text: str) -> str:
    """A quoted SQL identifier."""
    return '"' + text.replace('"', '""') + '"'


def literal(value: str | Path) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def file_literal(path: Path) -> str:
    """A file name for DuckDB's readers, which treat names as patterns."""
    return literal(exact_pattern(path))


def exact_pattern(path: Path) -> str:
    """The pattern that matches only this file."""
    return re.sub(r"[*?[]", r"[\g<0>]", str(path))


def literals(values: Sequence[str]) -> str:
    return "[" + ", ".join(map(literal, values)) + "]"


def position(columns: Iterable[str]) -> str:
    """SQL of the position of a row in a table of ours, from 0. A column `rowid` of the user hides that of DuckDB."""
    hidden = any(column.casefold() == "rowid" for column in columns)
    return "row_number() OVER () - 1" if hidden else "rowid"


class Engine:
    def __init__(self, connection: duckdb.DuckDBPyConnection, work_dir: Path, share: int) -> None:
        self._connection = connection
        self.share = share  # bytes of memory that DuckDB plans with
        self.work_dir = work_dir
        self._names = 0

    def do(self, sql: str, parameters: Any = None) -> None:
        self._connection.execute(sql, parameters)

    def rows(self, sql: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql, parameters).fetchall()

    def row(self, sql: str, parameters: Any = None) -> tuple[Any, ...]:
        (row,) = self.rows(sql, parameters)
        return row

    def columns(self, query: str) -> list[tuple[str, str]]:
        """(name, DuckDB type) of the columns of a query."""
        return [(str(row[0]), str(row[1])) for row in self.rows(f"DESCRIBE {query}")]

    def spare_bits(self) -> int:
        """The largest length of a bit string. Each thread needs one for each side of a join; together they may use a
        quarter of the memory."""
        (threads,) = self.row("SELECT CAST(current_setting('threads') AS BIGINT)")
        return self.share // 4 * 8 // (2 * (int(threads) + 2))

    def statements(self, sql: str) -> list[Any]:
        return list(self._connection.extract_statements(sql))

    def new_name(self, what: str) -> str:
        """A name for our own table or view. It starts with two underscores, which no role does."""
        self._names += 1
        return f"__{what}_{self._names}"

    def reader(self, query: str) -> Any:
        """The result of a query as an Arrow reader. Only one may be open; read it to its end or close it."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_stream(self._connection.sql(query))

    def register(self, what: str, data: Any) -> str:
        """An Arrow reader as a relation that can be read once."""
        relation = self.new_name(what)
        self._connection.register(relation, data)
        return relation

    def lock(self, allowed: Sequence[Path]) -> None:
        """From now on, allow only these files, and no change of settings."""
        spellings = [spelling for path in allowed for spelling in dict.fromkeys((str(path), exact_pattern(path)))]
        self.do(f"SET allowed_paths = {literals(spellings)}")
        self.do("SET enable_external_access = false")
        self.do("SET lock_configuration = true")


def duckdb_share(limit: str) -> int:
    """The part of the step's memory that DuckDB may plan with. DuckDB uses more than it counts; Python needs some."""
    size = re.fullmatch(r"([0-9.]+) ?([KMGT])(i?)B", limit)
    assert size is not None, "checked with the parameters"
    whole = float(size[1]) * (1024 if size[3] else 1000) ** ("KMGT".index(size[2]) + 1)
    return int(max(whole - _OVERHEAD, whole * 0.6))


@contextmanager
def opened(params: DataParams, work_dir: Path, cancelled: Callable[[], bool] = lambda: False) -> Iterator[Engine]:
    """Open an engine. While queries run, `cancelled` is checked, so that a cancelled step does not wait for DuckDB."""
    import duckdb

    connection = duckdb.connect(":memory:")
    share = duckdb_share(params.memory_limit)
    done = threading.Event()
    watch = threading.Thread(target=_interrupt_if, args=(cancelled, connection, done), daemon=True)
    watch.start()
    try:
        settings = {
            "memory_limit": literal(f"{share}B"),
            "temp_directory": literal(work_dir / _SPILL),
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",  # queries must not see Python variables
            "preserve_insertion_order": "true",
            "enable_progress_bar": "false",
            "TimeZone": literal("UTC"),
        }
        if params.threads:
            settings["threads"] = str(params.threads)
        for setting, value in settings.items():
            connection.execute(f"SET {setting} = {value}")
        yield Engine(connection, work_dir, share)
    except duckdb.OutOfMemoryException as problem:
        message = " ".join(str(problem).split("\n")[0].split())
        raise MemoryLimitTooSmall(
            f"`memory_limit: {params.memory_limit}` is not enough here: {message}; raise it, or lower `threads`"
        ) from None
    finally:
        done.set()
        watch.join()
        connection.close()


def _interrupt_if(cancelled: Callable[[], bool], connection: duckdb.DuckDBPyConnection, done: threading.Event) -> None:
    while not done.wait(_CHECK_INTERVAL):
        if cancelled():
            connection.interrupt()  # repeatedly, to end the following queries, too
