"""How many rows and columns a stored dataset has: for evidence of steps whose action does not count them itself."""

from __future__ import annotations

import tempfile
from pathlib import Path

_TABLES = (".csv", ".tsv", ".tab", ".parquet", ".pq", ".json", ".ndjson", ".jsonl", ".dta", ".xlsx", ".xlsm")


def counted_shape(blob: Path, suffix: str) -> dict[str, int] | None:
    """None where that cannot be told: no such format, no table, or the extra `data` is not installed."""
    try:
        import duckdb
    except ImportError:
        return None
    from whyrun.actions.builtin.data.engine import opened
    from whyrun.actions.builtin.data.params import DataParams
    from whyrun.actions.builtin.data.problems import DataError
    from whyrun.actions.builtin.data.tables import open_table

    with tempfile.TemporaryDirectory(prefix="whyrun-count-") as folder:
        named = Path(folder) / f"table{suffix}"  # stored bytes have no name, and the format stands in it
        named.symlink_to(blob)
        params = DataParams()
        try:
            with opened(params, Path(folder)) as engine:
                table = open_table(engine, "table", named, params)
        except (DataError, duckdb.Error, OSError):
            return None  # the step that made it was content with it; its rows are not known, and that is what is said
    if len(table.columns) == 1 and suffix not in _TABLES:
        return None  # any text is a table of one column: a codebook, for one
    return {"rows": table.rows, "columns": len(table.columns)}
