"""The common part of `mysql/extract` and `postgres/extract`: parameters, cancellation and reports."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, ClassVar, TypeVar

from msgspec import field

from whyrun.actions.base import WorkerContext
from whyrun.actions.data.output import shape
from whyrun.actions.data.params import DataParams, Identifier, Name, Size
from whyrun.actions.data.problems import counted
from whyrun.actions.movers.batch_writer import WrittenRows
from whyrun.actions.movers.statement import Dialect, Scalar, is_sorted, problems_of
from whyrun.actions.parameters import Meta, Parameters

_CHECK_INTERVAL = 0.1  # seconds
Result = TypeVar("Result")


class ExtractParams(Parameters, kw_only=True):
    uncounted: ClassVar[tuple[str, ...]] = ("memory_limit",)
    dialect: ClassVar[Dialect]

    query: Annotated[
        Name | None, Meta(description="one SELECT; write `$name` for a value of `values`; or use `table`")
    ] = None
    values: Annotated[
        dict[Identifier, Scalar], Meta(description="the values of `$name`; they never become part of the statement")
    ] = field(default_factory=dict)
    table: Annotated[Name | None, Meta(description="a table or view, instead of a query")] = None
    schema: Annotated[Name | None, Meta(description="the schema of `table`, if it is not the default one")] = None
    columns: Annotated[
        Annotated[list[Name], Meta(min_length=1)] | None, Meta(description="columns of `table`; null: all")
    ] = None
    order_by: Annotated[
        Annotated[list[Name], Meta(min_length=1)] | None,
        Meta(description="sort the file by these; null: the ORDER BY of the query, else all columns"),
    ] = None
    memory_limit: Annotated[Size, Meta(description="memory of the step; it uses its folder on disk for more")] = "1GB"

    def __post_init__(self) -> None:
        if (self.query is None) == (self.table is None):
            raise ValueError("write either `query` or `table`")
        if self.query is not None:
            for entry in ("schema", "columns"):
                if getattr(self, entry) is not None:
                    raise ValueError(f"`{entry}` belongs to `table`; with `query`, write it in the query")
            if problems := problems_of(self.query, self.values, self.dialect):
                raise ValueError("; ".join(problems))
        elif self.values:
            raise ValueError("`values` belong to a `query`, and there is none")

    def order(self) -> Sequence[str] | None:
        """The columns to sort by first; None: keep the order of the query's ORDER BY.

        Without ORDER BY, SQL defines no order, and the same rows could give different bytes.
        """
        if self.order_by is None and self.query is not None and is_sorted(self.query, self.dialect):
            return None
        return self.order_by or ()

    def engine(self) -> DataParams:
        return DataParams(memory_limit=self.memory_limit, threads=1)  # one thread keeps the order of the rows

    def select(self, quoted: Callable[[str], str]) -> str:
        """The query that reads `table`."""
        assert self.table is not None
        columns = "*" if self.columns is None else ", ".join(map(quoted, self.columns))
        return f"SELECT {columns} FROM {self.relation(quoted)}"

    def relation(self, quoted: Callable[[str], str]) -> str:
        assert self.table is not None
        return ".".join(map(quoted, filter(None, [self.schema, self.table])))

    @property
    def what(self) -> str:
        """The source of the rows, for messages."""
        return "`query`" if self.table is None else f"`table: {self.table}`"


def report_extract(context: WorkerContext, output: str, path: Path, source: str, written: WrittenRows) -> None:
    message = f"read {counted(written.rows_read, 'row')} from {source}"
    details = {
        "decision": "extract",
        "rows": {"read": written.rows_read, "written": written.rows_written},
        "wrote": {output: shape(written.rows_written, written.columns)},
    }
    context.task("EXECUTES", message, details)
    report_rows(context, read=written.rows_read, written=written.rows_written, bytes_out=path.stat().st_size)


def report_rows(
    context: WorkerContext,
    *,
    read: int,
    written: int,
    bytes_in: int | None = None,
    bytes_out: int | None = None,
) -> None:
    """Report the counts as metrics; a count that is not known is left out."""
    context.metric("rows_read", read, "rows")
    context.metric("rows_written", written, "rows")
    if bytes_in is not None:
        context.metric("bytes_in", bytes_in, "bytes")
    if bytes_out is not None:
        context.metric("bytes_out", bytes_out, "bytes")


@contextmanager
def stopping(context: WorkerContext, stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` when the step is cancelled, so that the server does not go on with the query."""
    done = threading.Event()
    _ = context.cancelled  # reading this opts in to cooperative cancellation

    def watch() -> None:
        while not done.wait(_CHECK_INTERVAL):
            if context.cancelled:
                stop()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def in_thread(context: WorkerContext, work: Callable[[], Result]) -> Result:
    """Run the work in another thread and wait for it.

    A driver that waits for its server in C code blocks signal handlers in its thread. The main thread stays free to
    receive the signal that cancels the step, and `stopping` then cancels the query.
    """
    _ = context.cancelled  # reading this opts in to cooperative cancellation, so the thread is always joined
    results: list[Result] = []
    problems: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as problem:  # raised again below, in the step's thread
            problems.append(problem)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join()
    if problems:
        raise problems[0]
    return results[0]


def keep_sql(context: WorkerContext, sql: str) -> None:
    """Save the statement that is sent in the step's folder."""
    context.script_path.with_name("query.sql").write_text(sql.rstrip() + "\n", encoding="utf-8")
