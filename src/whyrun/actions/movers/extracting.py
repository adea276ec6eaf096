"""What `mysql/extract` and `postgres/extract` share: parameters, and what they report."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, ClassVar, TypeVar

from msgspec import field

from whyrun.actions.base import WorkerContext
from whyrun.actions.builtin.data.output import shape
from whyrun.actions.builtin.data.params import DataParams, Identifier, Name, Size
from whyrun.actions.builtin.data.problems import counted
from whyrun.actions.builtin.movers.feed import Written
from whyrun.actions.builtin.movers.statement import Dialect, Scalar, is_sorted, problems_of
from whyrun.actions.parameters import Meta, Parameters

_LOOK_EVERY = 0.1  # seconds
Result = TypeVar("Result")


class ExtractParams(Parameters, kw_only=True):
    uncounted: ClassVar[tuple[str, ...]] = ("memory_limit",)
    dialect: ClassVar[Dialect]

    query: Annotated[
        Name | None, Meta(description="one SELECT; values come in as `$name`, see `values`; or name a `table`")
    ] = None
    values: Annotated[
        dict[Identifier, Scalar], Meta(description="what `$name` stands for: never text of the query")
    ] = field(default_factory=dict)
    table: Annotated[Name | None, Meta(description="a table or view, instead of a query")] = None
    schema: Annotated[Name | None, Meta(description="of `table`, where it is not the usual one")] = None
    columns: Annotated[
        Annotated[list[Name], Meta(min_length=1)] | None, Meta(description="of `table`; where it is null: all")
    ] = None
    order_by: Annotated[
        Annotated[list[Name], Meta(min_length=1)] | None,
        Meta(description="columns to sort the file by; where it is null: as the query sorts, else by all columns"),
    ] = None
    memory_limit: Annotated[Size, Meta(description="of the step; what needs more goes to its folder on disk")] = "1GB"

    def __post_init__(self) -> None:
        if (self.query is None) == (self.table is None):
            raise ValueError("write either `query` or `table`")
        if self.query is not None:
            for entry in ("schema", "columns"):
                if getattr(self, entry) is not None:
                    raise ValueError(f"`{entry}` belongs to `table`; the query says it itself")
            if found := problems_of(self.query, self.values, self.dialect):
                raise ValueError("; ".join(found))
        elif self.values:
            raise ValueError("`values` are for a query, and there is none")

    def order(self) -> Sequence[str] | None:
        """The columns to sort by first; None: the order of the server, which the query asked for. Without ORDER BY
        SQL defines no order, and the same rows could come as other bytes."""
        if self.order_by is None and self.query is not None and is_sorted(self.query, self.dialect):
            return None
        return self.order_by or ()

    def engine(self) -> DataParams:
        return DataParams(memory_limit=self.memory_limit, threads=1)  # one thread: one order

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
        """For messages: what is read."""
        return "`query`" if self.table is None else f"`table: {self.table}`"


def report_extract(context: WorkerContext, output: str, path: Path, source: str, written: Written) -> None:
    words = f"read {counted(written.rows_read, 'row')} from {source}"
    details = {
        "decision": "extract",
        "rows": {"read": written.rows_read, "written": written.rows_written},
        "wrote": {output: shape(written.rows_written, written.columns)},
    }
    context.task("EXECUTES", words, details)
    report_rows(context, read=written.rows_read, written=written.rows_written, bytes_out=path.stat().st_size)


def report_rows(
    context: WorkerContext,
    *,
    read: int,
    written: int,
    bytes_in: int | None = None,
    bytes_out: int | None = None,
) -> None:
    """Counts of what happened; a number that nobody counted is not reported."""
    context.metric("rows_read", read, "rows")
    context.metric("rows_written", written, "rows")
    if bytes_in is not None:
        context.metric("bytes_in", bytes_in, "bytes")
    if bytes_out is not None:
        context.metric("bytes_out", bytes_out, "bytes")


@contextmanager
def stopping(context: WorkerContext, stop: Callable[[], None]) -> Iterator[None]:
    """While this lasts, `stop` is called when the step is told to end: a server would go on with a query otherwise."""
    done = threading.Event()
    _ = context.cancelled  # from here on the step is not ended in the midst of a query

    def watch() -> None:
        while not done.wait(_LOOK_EVERY):
            if context.cancelled:
                stop()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def aside(context: WorkerContext, work: Callable[[], Result]) -> Result:
    """Do it in a thread of its own, and wait for it. A driver that waits for its server in C lets no signal be heard in
    the thread that it waits in; this one hears that the step is to stop, and `stopping` tells the server."""
    _ = context.cancelled  # who looks is trusted to stop by himself: the work is never left alone
    results: list[Result] = []
    problems: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as problem:  # raised below, where the step is
            problems.append(problem)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join()
    if problems:
        raise problems[0]
    return results[0]


def keep_sql(context: WorkerContext, sql: str) -> None:
    """The statement really sent, for the step's folder."""
    context.script_path.with_name("query.sql").write_text(sql.rstrip() + "\n", encoding="utf-8")
