"""What a content is for a page, and its beginning: text, JSON, the first rows of a table, a graph, a folder."""

from __future__ import annotations

import csv
import io
import json
import mimetypes
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whyrun.errors import WhyrunError, to_install
from whyrun.workflow.arrays import is_array
from whyrun.workflow.model import VALUE_TYPES

if TYPE_CHECKING:
    from whyrun.artifacts.store import Store


# --- what a content is for a page -------------------------------------------------------------------------------------
# an image, a table, JSON, text … By its type, its suffix and its first bytes.


# suffix → (kind, media type). The page gets no other media type: a browser runs nothing that it has no name for.
_BY_SUFFIX = {
    **{s: ("image", m) for s, m in {
        ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
        ".bmp": "image/bmp", ".avif": "image/avif", ".ico": "image/x-icon",
    }.items()},
    ".svg": ("svg", "image/svg+xml"),
    **dict.fromkeys((".html", ".htm", ".xhtml"), ("html", "text/html; charset=utf-8")),
    **{s: ("audio", m) for s, m in {
        ".mp3": "audio/mpeg", ".wav": "audio/wav", ".ogg": "audio/ogg", ".oga": "audio/ogg", ".opus": "audio/ogg",
        ".flac": "audio/flac", ".m4a": "audio/mp4",
    }.items()},
    **{s: ("video", m) for s, m in {
        ".mp4": "video/mp4", ".m4v": "video/mp4", ".webm": "video/webm", ".ogv": "video/ogg", ".mov": "video/quicktime",
    }.items()},
    ".pdf": ("pdf", "application/pdf"),
    **dict.fromkeys((".csv", ".tsv", ".tab"), ("table", "text/csv; charset=utf-8")),
    ".parquet": ("table", "application/vnd.apache.parquet"),
    ".graphml": ("graph", "application/xml"),
    **dict.fromkeys((".json", ".geojson", ".ipynb"), ("json", "application/json")),
}  # fmt: skip
_BY_BEGINNING = (
    (b"\x89PNG\r\n\x1a\n", ".png"), (b"\xff\xd8\xff", ".jpg"), (b"GIF8", ".gif"), (b"BM", ".bmp"), (b"%PDF-", ".pdf"),
    (b"PAR1", ".parquet"), (b"OggS", ".ogg"), (b"fLaC", ".flac"), (b"ID3", ".mp3"), (b"\x1aE\xdf\xa3", ".webm"),
)  # fmt: skip
TEXT = ("text", "text/plain; charset=utf-8")
BINARY = ("binary", "application/octet-stream")
BEGINNING = 512  # bytes that tell what a file is
# A page of another origin could run what is in these: they are shown in a sandboxed frame, or downloaded.
ACTIVE = frozenset({"svg", "html", "pdf"})


def kind_of(type_: str, suffix: str, beginning: bytes | None = None) -> tuple[str, str]:
    """(kind, media type). Without the first bytes as far as type and suffix tell."""
    if type_ == "directory":
        return "directory", "application/json"
    if type_ in VALUE_TYPES or is_array(type_):
        return "value", "application/json"
    found = _BY_SUFFIX.get(suffix.lower())
    if found is not None:
        return found
    if beginning is not None:
        found = _by_beginning(beginning)
        if found is not None:
            return found
    if type_ == "json":
        return _BY_SUFFIX[".json"]
    if type_ == "text" or (mimetypes.guess_type(f"a{suffix}")[0] or "").startswith("text/"):
        return TEXT
    if type_ == "image":
        return "image", "application/octet-stream"
    return BINARY if beginning is None or not _is_text(beginning) else TEXT


def _by_beginning(beginning: bytes) -> tuple[str, str] | None:
    for start, suffix in _BY_BEGINNING:
        if beginning.startswith(start):
            return _BY_SUFFIX[suffix]
    if beginning[:4] == b"RIFF" and beginning[8:12] in (b"WEBP", b"WAVE"):
        return _BY_SUFFIX[".webp" if beginning[8:12] == b"WEBP" else ".wav"]
    if beginning[4:8] == b"ftyp":
        return _BY_SUFFIX[".avif" if beginning[8:12] == b"avif" else ".mp4"]
    head = beginning.lstrip().lower()
    if b"<graphml" in head:
        return _BY_SUFFIX[".graphml"]
    if head.startswith((b"<svg", b"<?xml")) and b"<svg" in head:
        return _BY_SUFFIX[".svg"]
    if head.startswith((b"<!doctype html", b"<html")):
        return _BY_SUFFIX[".html"]
    return None


def _is_text(beginning: bytes) -> bool:
    if b"\0" in beginning:
        return False
    try:
        beginning.decode()
    except UnicodeDecodeError as wrong:
        return wrong.start > len(beginning) - 4  # a character that the cut has split
    return True


def beginning_of(path: str | os.PathLike[str]) -> bytes | None:
    """The first bytes of a file; None if it is none, or cannot be read."""
    try:
        if not Path(path).is_file():
            return None
        with open(path, "rb") as file:
            return file.read(BEGINNING)
    except OSError:
        return None


# --- the beginning of a content ---------------------------------------------------------------------------------------


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
