"""`parquet/read` reads Parquet as a dataset; `parquet/write` writes a dataset as Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from msgspec import field

from whyrun.actions.base import Action
from whyrun.actions.data.engine import opened
from whyrun.actions.data.params import DataParams, Kind, Name, UnreadableTable
from whyrun.actions.data.tables import open_tables
from whyrun.actions.movers.extracting import ConvertParams, convert, output_path, report_conversion
from whyrun.actions.parameters import Meta

_ANY = (".parquet", ".pq", ".csv", ".tsv", "")
_PARQUET = (".parquet", ".pq", "")
_ROW_GROUP = 122_880  # rows; DuckDB's default, fixed here so that a new version does not change the bytes


class ParquetRead(Action):
    """Read Parquet, all or some columns, as a dataset; the output's path selects Parquet or CSV."""

    name = "parquet/read"
    version = "1"
    Params: ClassVar[type[Any] | None] = ConvertParams
    example = """\
jobs:
  Slim:
    uses: parquet/read
    with: {data: "${{ inputs.Events }}", columns: [user, at], order_by: [at]}
    outputs: {slim: {type: dataset, path: out/slim.csv}}
"""

    def run(
        self, inputs: dict[str, Any], mode: str = "dry-run", context: Any = None, logger: Any = None
    ) -> dict[str, Any] | None:
        del inputs, mode, logger
        params: ConvertParams = self.params
        output, path = output_path(context, self.name, _ANY)
        with params.data.open("rb") as file:
            if file.read(4) != b"PAR1":
                raise UnreadableTable("`data` is not a Parquet file; use `csv/read` for CSV, `duckdb/query` for both")
        with opened(params.reading(), context.work_dir, lambda: context.cancelled) as engine:
            (table,) = open_tables(engine, params.reading(), {"data": _named(params.data, context.work_dir)})
            text = path.suffix.lower() in (".csv", ".tsv")
            options = None if path.suffix.lower() != ".pq" else parquet_options("zstd", _ROW_GROUP)
            done = convert(engine, params, table, path, options, text=text)
        report_conversion(context, "read Parquet", output, done)
        return None


def _named(file: Path, folder: Path) -> Path:
    """The file under a name with the suffix of Parquet, which decides how it is read."""
    if file.suffix.lower() in (".parquet", ".pq"):
        return file
    named = folder / "data.parquet"
    named.symlink_to(file.resolve())
    return named


class WriteParams(ConvertParams, kw_only=True):
    types: Annotated[dict[Name, Kind], Meta(description="column → type, instead of the detected one")] = field(
        default_factory=dict
    )
    compression: Annotated[Literal["zstd", "snappy", "gzip", "lz4", "none"], Meta(description="of the pages")] = "zstd"
    row_group_size: Annotated[int, Meta(ge=2048, le=10_000_000, description="rows")] = _ROW_GROUP

    def reading(self) -> DataParams:
        return DataParams(types=self.types, memory_limit=self.memory_limit, threads=self.threads)


class ParquetWrite(Action):
    """Write a dataset (CSV, JSON, Stata, Excel or Parquet) as Parquet, sorted and compressed."""

    name = "parquet/write"
    version = "1"
    Params: ClassVar[type[Any] | None] = WriteParams
    example = """\
jobs:
  Pack:
    uses: parquet/write
    with: {data: "${{ inputs.Events }}", order_by: [user, at], compression: zstd}
    outputs: {packed: {type: dataset, path: out/events.parquet}}
"""

    def run(
        self, inputs: dict[str, Any], mode: str = "dry-run", context: Any = None, logger: Any = None
    ) -> dict[str, Any] | None:
        del inputs, mode, logger
        params: WriteParams = self.params
        output, path = output_path(context, self.name, _PARQUET)
        with opened(params.reading(), context.work_dir, lambda: context.cancelled) as engine:
            (table,) = open_tables(engine, params.reading(), {"data": params.data})
            options = parquet_options(params.compression, params.row_group_size)
            done = convert(engine, params, table, path, options, text=False)
        report_conversion(context, "wrote Parquet", output, done)
        return None


def parquet_options(compression: str, row_group_size: int) -> str:
    named = {"none": "uncompressed", "lz4": "lz4_raw"}.get(compression, compression)
    return f"FORMAT parquet, COMPRESSION {named}, ROW_GROUP_SIZE {row_group_size}"
