"""The beginning of a content as a page can show it: text, JSON, the first rows of a table, a graph, a folder."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whyrun.errors import WhyrunError, to_install
from whyrun.facts.kinds import beginning_of, kind_of

if TYPE_CHECKING:
    from whyrun.artifacts.store import Store

TEXT_SHOWN = 256 << 10
JSON_READ = 1 << 20
TABLE_READ = 4 << 20
ROWS = 200
COLUMNS = 200
NODES = 2000
EDGES = 5000
FILES = 1000
CELL = 500  # characters


def preview(path: str, kind: str, suffix: str) -> dict[str, Any]:
    """The beginning of a file of this kind; empty for kinds that a page shows by their bytes."""
    try:
        match kind:
            case "json":
                return _json(path)
            case "table":
                return _parquet(path) if (beginning_of(path) or b"").startswith(b"PAR1") else _csv(path, suffix)
            case "graph":
                return _graph(path)
            case "text" | "html" | "svg":
                return _text(path)
    except (OSError, ValueError, csv.Error, WhyrunError) as problem:
        return {"problem": str(problem)[:CELL]}
    return {}


def read_text(path: str, most: int = TEXT_SHOWN) -> tuple[str, bool]:
    """The beginning of a file as text, and whether there is more."""
    with open(path, "rb") as file:
        data = file.read(most + 1)
    return data[:most].decode(errors="replace"), len(data) > most


def _text(path: str) -> dict[str, Any]:
    text, truncated = read_text(path)
    return {"text": text, "truncated": truncated}


def _json(path: str) -> dict[str, Any]:
    if os.path.getsize(path) > JSON_READ:
        return _text(path)
    with open(path, "rb") as file:
        data = file.read(JSON_READ)
    try:
        return {"value": json.loads(data, parse_constant=str), "truncated": False}
    except (ValueError, RecursionError):
        return _text(path)


# --- tables ----------------------------------------------------------------------------------------------------------


def _csv(path: str, suffix: str) -> dict[str, Any]:
    """The first rows. Types are those that all shown cells of a column have."""
    with open(path, "rb") as file:
        data = file.read(TABLE_READ)
    whole = len(data) == os.path.getsize(path)
    text = data.decode("utf-8-sig", errors="replace")
    first = text.partition("\n")[0]
    delimiter = "\t" if suffix.lower() in (".tsv", ".tab") else max(",;\t|", key=first.count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    names = next(rows, [])
    shown: list[list[str]] = []
    total = 0
    for row in rows:
        total += 1
        if len(shown) < ROWS:
            shown.append([cell[:CELL] for cell in row[:COLUMNS]])
    columns = [
        {"name": name[:CELL], "type": _column_type([row[i] for row in shown if i < len(row)])}
        for i, name in enumerate(names[:COLUMNS])
    ]
    return {"columns": columns, "rows": shown, "total_rows": total if whole else None, "total_columns": len(names)}


def _column_type(cells: list[str]) -> str:
    filled = [cell for cell in cells if cell != ""]
    for name, reader in (("integer", int), ("number", float)):
        try:
            if filled and all(reader(cell) is not None for cell in filled):
                return name
        except ValueError:
            continue
    return "string"


def _parquet(path: str) -> dict[str, Any]:
    try:
        import pyarrow.parquet as pq
    except ImportError:
        return {"problem": f"to see Parquet files: {to_install('data')}"}
    file = pq.ParquetFile(path)
    names = file.schema_arrow.names[:COLUMNS]
    columns = [{"name": name, "type": str(file.schema_arrow.field(name).type)} for name in names]
    rows: list[list[Any]] = []
    for batch in file.iter_batches(batch_size=ROWS, columns=names):
        rows = [[_cell(value) for value in row.values()] for row in batch.to_pylist()]
        break
    total = file.metadata.num_rows
    return {"columns": columns, "rows": rows, "total_rows": total, "total_columns": len(file.schema_arrow.names)}


def _cell(value: Any) -> Any:
    if isinstance(value, float) and value != value:
        return "NaN"
    return value if value is None or isinstance(value, bool | int | float) else str(value)[:CELL]


# --- graphs and folders ----------------------------------------------------------------------------------------------


def _graph(path: str) -> dict[str, Any]:
    from whyrun.artifacts.compare.graphs import read_graphml
    from whyrun.artifacts.compare.result import Unreadable

    if os.path.getsize(path) > TABLE_READ:
        return {"problem": "the graph is too large to be drawn", **_text(path)}
    try:
        graph = read_graphml(Path(path), "this")
    except Unreadable as problem:
        return {"problem": str(problem), **_text(path)}
    edges = []
    for (one, other), marks in graph.edges.items():
        for mark in marks.elements():
            start, end = (other, one) if mark == "←" else (one, other)
            edges.append({"from": start, "to": end, "directed": mark != "—"})
    nodes = list(graph.nodes)
    truncated = len(nodes) > NODES or len(edges) > EDGES
    return {"nodes": nodes[:NODES], "edges": edges[:EDGES], "truncated": truncated}


def folder_preview(store: Store, sha256: str) -> dict[str, Any]:
    """The files of a stored folder."""
    files = store.read_tree(sha256).files
    shown = []
    for file in files[:FILES]:
        suffix = os.path.splitext(file.path)[1]
        kind, media_type = kind_of("file", suffix, None if suffix else beginning_of(store.path(file.sha256)))
        shown.append(
            {"path": file.path, "sha256": file.sha256, "size": file.size, "kind": kind, "media_type": media_type}
        )
    return {"files": shown, "total_files": len(files), "truncated": len(files) > FILES}
