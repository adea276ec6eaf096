"""One DuckDB connection for one step: with a memory limit, a folder to spill to, and nothing it would fetch."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whyrun.actions.builtin.data.params import DataParams
from whyrun.actions.builtin.data.problems import MemoryLimitTooSmall

if TYPE_CHECKING:
    import duckdb

ROW = "__whyrun_row"  # the position of a row in its dataset; no column of a user may be called so
_SPILL = "spill"
_LOOK_EVERY = 0.1  # seconds
_OVERHEAD = 200_000_000  # bytes of a step that DuckDB does not count, measured


def name(text: str) -> str:
    """An identifier of SQL."""
    return '"' + text.replace('"', '""') + '"'


def literal(value: str | Path) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def file_literal(path: Path) -> str:
    """A file for a reader of DuckDB's, which takes names for patterns."""
    return literal(exact_pattern(path))


def exact_pattern(path: Path) -> str:
    """The pattern that only this file fits."""
    return re.sub(r"[*?[]", r"[\g<0>]", str(path))


def literals(values: Sequence[str]) -> str:
    return "[" + ", ".join(map(literal, values)) + "]"


class Engine:
    def __init__(self, connection: duckdb.DuckDBPyConnection, work_dir: Path, share: int) -> None:
        self._connection = connection
        self.share = share  # bytes of memory that DuckDB plans with
        self.work_dir = work_dir
        self._made = 0

    def do(self, sql: str, parameters: Any = None) -> None:
        self._connection.execute(sql, parameters)

    def rows(self, sql: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql, parameters).fetchall()

    def row(self, sql: str, parameters: Any = None) -> tuple[Any, ...]:
        (found,) = self.rows(sql, parameters)
        return found

    def columns(self, query: str) -> list[tuple[str, str]]:
        """(name, DuckDB's type) of what a query gives."""
        return [(str(row[0]), str(row[1])) for row in self.rows(f"DESCRIBE {query}")]

    def spare_bits(self) -> int:
        """How long a string of bits may be, of which each thread has one for each side of a join: a quarter of the
        memory for all of them together."""
        (threads,) = self.row("SELECT CAST(current_setting('threads') AS BIGINT)")
        return self.share // 4 * 8 // (2 * (int(threads) + 2))

    def statements(self, sql: str) -> list[Any]:
        return list(self._connection.extract_statements(sql))

    def new_name(self, what: str) -> str:
        """For a table or view of our own. With two underscores in front: no role is called so."""
        self._made += 1
        return f"__{what}_{self._made}"

    def reader(self, query: str) -> Any:
        """What a query gives as an Arrow reader, batch by batch. One at a time, and read to its end or closed."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_stream(self._connection.sql(query))

    def register(self, what: str, data: Any) -> str:
        """An Arrow reader as a relation that can be read once."""
        made = self.new_name(what)
        self._connection.register(made, data)
        return made

    def lock(self, allowed: Sequence[Path]) -> None:
        """From here on no file is read or written but these, and no setting changes."""
        spelled = [spelling for path in allowed for spelling in dict.fromkeys((str(path), exact_pattern(path)))]
        self.do(f"SET allowed_paths = {literals(spelled)}")
        self.do("SET enable_external_access = false")
        self.do("SET lock_configuration = true")


def duckdb_share(limit: str) -> int:
    """How many of the step's bytes DuckDB may plan with: it does not count all it uses, and Python needs some too."""
    found = re.fullmatch(r"([0-9.]+) ?([KMGT])(i?)B", limit)
    assert found is not None, "checked with the parameters"
    whole = float(found[1]) * (1024 if found[3] else 1000) ** ("KMGT".index(found[2]) + 1)
    return int(max(whole - _OVERHEAD, whole * 0.6))


@contextmanager
def opened(params: DataParams, work_dir: Path, cancelled: Callable[[], bool] = lambda: False) -> Iterator[Engine]:
    """`cancelled` is asked while queries run: a step that is told to stop does not wait for DuckDB to be done."""
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
            "python_enable_replacements": "false",  # a query never sees variables of Python
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
        words = " ".join(str(problem).split("\n")[0].split())
        raise MemoryLimitTooSmall(
            f"`memory_limit: {params.memory_limit}` is not enough here: {words}; raise it, or lower `threads`"
        ) from None
    finally:
        done.set()
        watch.join()
        connection.close()


def _interrupt_if(cancelled: Callable[[], bool], connection: duckdb.DuckDBPyConnection, done: threading.Event) -> None:
    while not done.wait(_LOOK_EVERY):
        if cancelled():
            connection.interrupt()  # again and again: the next query is to end as well
