"""Opens files of every format as DuckDB relations. The types of columns follow from all rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from msgspec import structs

from whyrun.actions.data.engine import ROW, Engine, file_literal, name
from whyrun.actions.data.files.problems import unreadable
from whyrun.actions.data.kinds import FLOATING, converted_to, kind_of
from whyrun.actions.data.params import (
    ColumnMissing,
    DataError,
    DataParams,
    UnreadableTable,
    ValueNotConvertible,
    counted,
    listed,
)
from whyrun.errors import did_you_mean

FORMATS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".json": "json",
    ".ndjson": "json",
    ".jsonl": "json",
    ".dta": "stata",
    ".xlsx": "excel",
    ".xlsm": "excel",
}
_TABS = (".tsv", ".tab")
_EXAMPLES = 5
_MOST_DIGITS = 38  # of a DECIMAL; DuckDB reads longer ones as floating-point numbers


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str  # the DuckDB type
    single: bool = False  # numbers of 32 bits that are computed with in 64: the `float` of Stata

    @property
    def kind(self) -> str:
        return kind_of(self.type)

    @property
    def bits(self) -> int | None:
        """Of a floating-point number, as its file holds it."""
        return None if self.type not in FLOATING else 32 if self.single or self.type == "FLOAT" else 64


@dataclass(frozen=True, slots=True)
class Source:
    """A file as a relation with its columns and `ROW`.

    `untyped`: the format has no types, so a column without values has no type. `texts`: for columns of floating-point
    numbers, a query for the values as written (`t`), because different spellings can be the same number.
    """

    relation: str
    columns: tuple[Column, ...]
    untyped: bool
    texts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Table:
    """A dataset: `relation` has these columns, and `ROW` for the order of the rows."""

    label: str  # its slot: `primary_dataset`, `secondary_dataset[0]`
    relation: str
    columns: tuple[Column, ...]
    rows: int
    untyped: bool = False
    texts: Mapping[str, str] = field(default_factory=dict)  # as in `Source`, without columns of `types`
    # The dataset with another declared type: (column, kind) → table. For hints, which are tried before they are given.
    retyped: Callable[[str, str], Table] | None = None

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def column(self, wanted: str, what: str) -> Column:
        """The column of this exact name. `what`: the parameter that names it, such as `keys`."""
        for column in self.columns:
            if column.name == wanted:
                return column
        hint = other_delimiter(self.names) or did_you_mean(wanted, self.names) or f"its columns: {listed(self.names)}"
        raise ColumnMissing(f"`{what}` names `{wanted}`, and `{self.label}` has no such column; {hint}")


def other_delimiter(names: Sequence[str]) -> str | None:
    """A hint if the whole header is one column, because the file uses another delimiter."""
    for character in ";\t|,":
        if len(names) == 1 and character in names[0]:
            shown = "\\t" if character == "\t" else character
            return f'its only column is `{names[0][:80]}`: is it `delimiter: "{shown}"`?'
    return None


def format_of(path: Path) -> str:
    """The format by suffix; otherwise Parquet by its first bytes, or CSV if it is text.

    An output without `path:` has no suffix, or the end of its slot name: `products.large`.
    """
    suffix = path.suffix.lower()
    if suffix in FORMATS:
        return FORMATS[suffix]
    with path.open("rb") as file:
        start = file.read(4096)
    if start.startswith(b"PAR1"):
        return "parquet"
    if b"\0" not in start:
        return "csv"
    known = ", ".join(f"`{known}`" for known in FORMATS)
    raise UnreadableTable(f"`{path}` is in an unknown format; readable: {known}")


def delimiter_of(path: Path, params: DataParams) -> str:
    return params.delimiter or ("\t" if path.suffix.lower() in _TABS else ",")


def open_tables(engine: Engine, params: DataParams, files: Mapping[str, Path] | None = None) -> list[Table]:
    """All bound datasets, in order, with the types that `types` declares."""
    bound = params.files() if files is None else files
    tables = [open_table(engine, label, path, params) for label, path in bound.items()]
    for wanted in params.types:
        if not any(wanted in table.names for table in tables):
            known = sorted({known for table in tables for known in table.names})
            hint = did_you_mean(wanted, known) or f"their columns: {listed(known)}"
            raise ColumnMissing(f"`types` names `{wanted}`, and no dataset has such a column; {hint}")
    return tables


def open_table(engine: Engine, label: str, path: Path, params: DataParams) -> Table:
    source = _source(engine, label, path, params)
    check_names(label, [column.name for column in source.columns])
    if not source.untyped:
        source = _without_nan_statistics(engine, source)
    relation, columns = with_types(engine, label, source, params.types)
    (rows,) = engine.row(f"SELECT count(*) FROM {relation}")
    texts = {column: query for column, query in source.texts.items() if column not in params.types}

    def retyped(column: str, kind: str) -> Table:
        return open_table(engine, label, path, structs.replace(params, types={**params.types, column: kind}))

    return Table(label, relation, columns, rows, source.untyped, texts, retyped)


def _source(engine: Engine, label: str, path: Path, params: DataParams) -> Source:
    import duckdb

    kind = format_of(path)
    wanted_texts = [column for column, wanted in params.types.items() if wanted == "text"]  # as they are written
    try:
        match kind:
            case "parquet":
                return _parquet(engine, path)
            case "csv":
                from whyrun.actions.data.files.text_files import load_csv

                delimiter = delimiter_of(path, params)
                return load_csv(engine, path, delimiter, params.missing, params.encoding, as_text=wanted_texts)
            case "json":
                from whyrun.actions.data.files.text_files import load_json

                return load_json(engine, path, wanted_texts)
            case "stata":
                from whyrun.actions.data.files.stata_files import load_stata

                return load_stata(engine, path)
        from whyrun.actions.data.files.excel_files import load_excel

        return load_excel(engine, path, params.sheet, params.missing)
    except (duckdb.OutOfMemoryException, duckdb.InterruptException):
        raise  # not a problem of the file
    except (duckdb.Error, UnreadableTable) as problem:
        raise unreadable(label, kind, problem, path) from None


def _parquet(engine: Engine, path: Path) -> Source:
    """A view of the file: Parquet has types and an order."""
    view = engine.new_name("parquet")
    wide = engine.rows(
        f"SELECT name, precision, scale FROM parquet_schema({file_literal(path)}) WHERE precision > {_MOST_DIGITS}"
    )
    if wide:
        column, precision, scale = wide[0]
        raise UnreadableTable(
            f"the column `{column}` is decimal({precision}, {scale}), and numbers of more than {_MOST_DIGITS} digits "
            "are not read exactly: write it as text, or with fewer digits"
        )
    scan = f"read_parquet({file_literal(path)}, file_row_number = true, hive_partitioning = false)"
    columns = tuple(Column(*found) for found in engine.columns(f"SELECT * EXCLUDE (file_row_number) FROM {scan}"))
    engine.do(f"CREATE VIEW {view} AS SELECT * EXCLUDE (file_row_number), file_row_number AS {ROW} FROM {scan}")
    return Source(view, columns, untyped=False)


def _without_nan_statistics(engine: Engine, source: Source) -> Source:
    """The same rows, but the optimiser cannot use statistics of columns that contain NaN.

    Statistics in Parquet leave NaN out, and DuckDB trusts them: if all other values are 0.5, `WHERE k = 0.5` keeps the
    rows with NaN, and `isnan(k)` finds none. DuckDB infers nothing about the result of a volatile function.
    """
    hidden = {c.name: f"CASE WHEN random() < 2 THEN {name(c.name)} END" for c in source.columns if c.type in FLOATING}
    if hidden:
        have_nan = engine.row(
            f"SELECT {', '.join(f'bool_or(isnan({value}))' for value in hidden.values())} FROM {source.relation}"
        )
        hidden = {column: hidden[column] for column, has_nan in zip(hidden, have_nan, strict=True) if has_nan}
    if not hidden:
        return source
    view = engine.new_name("with_nan")
    replaced = ", ".join(f"{value} AS {name(column)}" for column, value in hidden.items())
    engine.do(f"CREATE VIEW {view} AS SELECT * REPLACE ({replaced}) FROM {source.relation}")
    return replace(source, relation=view)


def check_names(label: str | None, names: Sequence[str]) -> None:
    """Check that every column has a unique, allowed name. `label`: None if the caller adds it to the message."""
    seen: dict[str, str] = {}
    it = "it" if label is None else f"`{label}`"
    for position, column in enumerate(names, 1):
        if not column.strip():
            of = "" if label is None else f" of `{label}`"
            raise UnreadableTable(f"column {position}{of} has no name; give it one, or leave it out")
        other = seen.get(column.casefold())
        if other is not None:
            same = "twice" if other == column else f"and also `{other}`, which is the same name in SQL"
            raise UnreadableTable(f"{it} has the column `{column}` {same}; rename one")
        if column.startswith("__whyrun"):
            raise UnreadableTable(f"{it} has the column `{column}`; names with this start are reserved, rename it")
        seen[column.casefold()] = column


def with_types(engine: Engine, label: str, source: Source, types: Mapping[str, str]) -> tuple[str, tuple[Column, ...]]:
    """The relation with the types that the user declares. Raises `ValueNotConvertible` if a value does not fit."""
    changed = [
        column
        for column in source.columns
        # A declared number has 64 bits, so that it can be compared with numbers of every file.
        if column.name in types and (column.kind != types[column.name] or column.bits == 32)
    ]
    if not changed:
        return source.relation, source.columns
    converted = {c.name: converted_to(_as_in_file(c), c.type, types[c.name]) for c in changed}
    for column in changed:
        _, bad = converted[column.name]
        (count,) = engine.row(f"SELECT count(*) FROM {source.relation} WHERE {bad}")
        if count:
            examples = engine.rows(
                f"SELECT CAST({name(column.name)} AS VARCHAR) FROM {source.relation} WHERE {bad} "
                f"ORDER BY {ROW} LIMIT {_EXAMPLES}"
            )
            shown = ", ".join(repr(example) for (example,) in examples) + (", …" if count > _EXAMPLES else "")
            raise ValueNotConvertible(
                f"`types` says `{column.name}: {types[column.name]}`, but {counted(count, 'value')} of "
                f"`{label}` cannot be that: {shown}; correct the data, or write `{column.name}: text`"
            )
    view = engine.new_name("typed")
    selected = [
        f"{converted[c.name][0]} AS {name(c.name)}" if c.name in converted else name(c.name) for c in source.columns
    ]
    engine.do(f"CREATE VIEW {view} AS SELECT {', '.join(selected)}, {ROW} FROM {source.relation}")
    by_name = dict(engine.columns(f"SELECT * FROM {view}"))
    return view, tuple(Column(c.name, by_name[c.name]) if c.name in converted else c for c in source.columns)


def _as_in_file(column: Column) -> str:
    """SQL of the value in its own width, so that 0.1 in 32 bits becomes the text `0.1`."""
    return f"CAST({name(column.name)} AS FLOAT)" if column.single else name(column.name)


def has_value(engine: Engine, table: Table, column: Column) -> bool:
    """Whether the column has a value. In a format without types, a column without values has no type."""
    return not table.untyped or bool(
        engine.rows(f"SELECT 1 FROM {table.relation} WHERE {name(column.name)} IS NOT NULL LIMIT 1")
    )


def column_names(path: Path, params: DataParams) -> list[str] | None:
    """Only the column names, to check them before a run. Raises `UnreadableTable` if the file has none.

    None if the names would take too long to read: in JSON any object may add a column, so only a small file is read.
    """
    match format_of(path):
        case "csv":
            from whyrun.actions.data.files.text_files import header

            return header(path, delimiter_of(path, params), params.encoding)
        case "stata":
            from whyrun.actions.data.files.stata_files import read_metadata

            return list(read_metadata(path).column_names)
        case "excel":
            from whyrun.actions.data.files.excel_files import header_of, opened_sheet

            with opened_sheet(path, params.sheet) as page:
                return header_of(page)
        case "json":
            from whyrun.actions.data.files.text_files import names_of_small

            return names_of_small(path)
    from tempfile import TemporaryDirectory

    from whyrun.actions.data.engine import opened

    # DuckDB reads Parquet here, too: it imports three times as fast as pyarrow.
    with TemporaryDirectory() as spill, opened(params, Path(spill)) as engine:
        return [column.name for column in _source(engine, path.name, path, params).columns]


# --- counting ----------------------------------------------------------------------------------------------------

# Any text is a table of one column, for example a codebook; such a table counts only with one of these suffixes.
_ONE_COLUMN = (".csv", ".tsv", ".tab", ".parquet", ".pq", ".json", ".ndjson", ".jsonl", ".dta", ".xlsx", ".xlsm")


def count_rows_and_columns(blob: Path, suffix: str) -> dict[str, int] | None:
    """The size of a stored dataset, for steps whose action does not report it.

    None if it is not a table, or the extra `data` is not installed.
    """
    try:
        import duckdb
    except ImportError:
        return None
    from tempfile import TemporaryDirectory

    from whyrun.actions.data.engine import opened

    with TemporaryDirectory(prefix="whyrun-count-") as folder:
        named = Path(folder) / f"table{suffix}"  # stored files have no suffix, which gives the format
        named.symlink_to(blob)
        params = DataParams()
        try:
            with opened(params, Path(folder)) as engine:
                table = open_table(engine, "table", named, params)
        except (DataError, duckdb.Error, OSError):
            return None  # the step itself accepted the file, so this is not an error
    if len(table.columns) == 1 and suffix not in _ONE_COLUMN:
        return None
    return {"rows": table.rows, "columns": len(table.columns)}
