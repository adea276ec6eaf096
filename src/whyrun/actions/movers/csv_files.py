"""`csv/read` reads CSV as a typed dataset; `csv/write` writes a dataset as CSV."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import field

from whyrun.actions.base import Action
from whyrun.actions.data.engine import Engine, literal, opened
from whyrun.actions.data.files.problems import unreadable
from whyrun.actions.data.params import ColumnMissing, DataParams, Name, UnreadableTable, listed
from whyrun.actions.data.tables import Table, open_tables, with_types
from whyrun.actions.movers.extracting import ConvertParams, convert, output_path, report_conversion
from whyrun.actions.parameters import Meta
from whyrun.errors import did_you_mean

_ANY = (".parquet", ".csv", ".tsv", "")
_CSV = (".csv", ".tsv", ".txt", "")

OneCharacter = Annotated[str, Meta(min_length=1, max_length=1)]
_KINDS = "integer|number|text|boolean|date|timestamp"
_DECIMAL = r"decimal\(([1-9]|[12][0-9]|3[0-8]),([0-9]|[12][0-9]|3[0-8])\)"
CsvKind = Annotated[
    str, Meta(pattern=f"^({_KINDS}|{_DECIMAL})$", title=f"one of {_KINDS.replace('|', ', ')}, or decimal(12,2)")
]


class ReadParams(ConvertParams, kw_only=True):
    types: Annotated[
        dict[Name, CsvKind],
        Meta(description="column → type; the types of other columns are detected"),
    ] = field(default_factory=dict)
    missing: Annotated[list[str], Meta(description="texts that mean: no value")] = field(default_factory=lambda: [""])
    delimiter: Annotated[OneCharacter | None, Meta(description="null: a comma, or a tab in .tsv and .tab")] = None
    encoding: Literal["utf-8", "latin-1", "utf-16"] = "utf-8"
    names: Annotated[
        Annotated[list[Name], Meta(min_length=1)] | None,
        Meta(description="names of the columns, for a file without a header line"),
    ] = None

    def __post_init__(self) -> None:
        for column, kind in self.types.items():
            if kind.startswith("decimal("):
                digits, scale = map(int, kind[8:-1].split(","))
                if scale > digits:
                    raise ValueError(f"`types.{column}` has more digits after the point than in total")


class CsvRead(Action):
    """Read CSV as a dataset whose columns have types, detected from all rows or set by `types`."""

    name = "csv/read"
    version = "1"
    Params: ClassVar[type[Any] | None] = ReadParams
    example = """\
jobs:
  Typed:
    uses: csv/read
    with:
      data: ${{ inputs.Prices }}
      delimiter: ";"
      missing: ["", NA]
      types: {article: text, price: "decimal(12,2)", since: date}
    outputs: {prices: {type: dataset, path: out/prices.parquet}}
"""

    def run(
        self, inputs: dict[str, Any], mode: str = "dry-run", context: Any = None, logger: Any = None
    ) -> dict[str, Any] | None:
        del inputs, mode, logger
        params: ReadParams = self.params
        output, path = output_path(context, self.name, _ANY)
        with opened(params.reading(), context.work_dir, lambda: context.cancelled) as engine:
            table = _read(engine, params)
            text = path.suffix.lower() in (".csv", ".tsv")
            done = convert(engine, params, table, path, None, text=text)
        report_conversion(context, "read CSV", output, done)
        return None


def _read(engine: Engine, params: ReadParams) -> Table:
    import duckdb

    from whyrun.actions.data.files.text_files import load_csv

    delimiter = params.delimiter or ("\t" if params.data.suffix.lower() in (".tsv", ".tab") else ",")
    try:
        source = load_csv(
            engine, params.data, delimiter, params.missing, params.encoding, as_text=params.types, names=params.names
        )
    except (duckdb.OutOfMemoryException, duckdb.InterruptException):
        raise  # not a problem of the file
    except (duckdb.Error, UnreadableTable) as problem:
        raise unreadable("data", "CSV", problem, params.data) from None
    known = [column.name for column in source.columns]
    for wanted in params.types:
        if wanted not in known:
            hint = did_you_mean(wanted, known) or f"its columns: {listed(known)}"
            raise ColumnMissing(f"`types` names `{wanted}`, and `data` has no such column; {hint}")
    relation, columns = with_types(engine, "data", source, params.types)
    (rows,) = engine.row(f"SELECT count(*) FROM {relation}")
    return Table("data", relation, columns, rows, untyped=True)


class WriteParams(ConvertParams, kw_only=True):
    delimiter: Annotated[OneCharacter | None, Meta(description="null: a comma, or a tab in .tsv")] = None
    header: Annotated[bool, Meta(description="write the column names in the first line")] = True
    quote: Annotated[
        Literal["needed", "all"], Meta(description="which fields are quoted: those that need it, or all")
    ] = "needed"
    missing: Annotated[str, Meta(description="the text for a missing value")] = ""
    date_format: Annotated[Name | None, Meta(description="such as `%d.%m.%Y`; null: 2024-02-29")] = None
    timestamp_format: Annotated[Name | None, Meta(description="null: 2024-02-29 10:30:00")] = None


class CsvWrite(Action):
    """Write a dataset (CSV, Parquet, JSON, Stata or Excel) as CSV, in the format that others need."""

    name = "csv/write"
    version = "1"
    Params: ClassVar[type[Any] | None] = WriteParams
    example = """\
jobs:
  Export:
    uses: csv/write
    with:
      data: ${{ inputs.Sales }}
      columns: [country, month, total]
      rename: {total: revenue}
      order_by: [country, month]
      delimiter: ";"
      date_format: "%d.%m.%Y"
    outputs: {export: {type: dataset, path: out/sales.csv}}
"""

    def run(
        self, inputs: dict[str, Any], mode: str = "dry-run", context: Any = None, logger: Any = None
    ) -> dict[str, Any] | None:
        del inputs, mode, logger
        params: WriteParams = self.params
        output, path = output_path(context, self.name, _CSV)
        reading: DataParams = params.reading()
        with opened(reading, context.work_dir, lambda: context.cancelled) as engine:
            (table,) = open_tables(engine, reading, {"data": params.data})
            delimiter = params.delimiter or ("\t" if path.suffix.lower() == ".tsv" else ",")
            done = convert(engine, params, table, path, _options(params, delimiter), text=True)
        report_conversion(context, "wrote CSV", output, done)
        return None


def _options(params: WriteParams, delimiter: str) -> str:
    given = {
        "DELIMITER": literal(delimiter),
        "HEADER": str(params.header).lower(),
        "NULLSTR": literal(params.missing),
        "DATEFORMAT": None if params.date_format is None else literal(params.date_format),
        "TIMESTAMPFORMAT": None if params.timestamp_format is None else literal(params.timestamp_format),
        "FORCE_QUOTE": "*" if params.quote == "all" else None,
    }
    return ", ".join(["FORMAT csv", *(f"{name} {value}" for name, value in given.items() if value is not None)])
