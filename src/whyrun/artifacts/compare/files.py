"""Compare two files or folders: choose the comparer by declared type, suffix and first bytes."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from whyrun.artifacts.compare.graphs import is_graphml
from whyrun.artifacts.compare.result import IDENTICAL, CompareSettings, Comparison, Findings, Unreadable, phrase
from whyrun.artifacts.hashing import Tree

Comparer = Callable[[Path, Path, CompareSettings], Comparison]
_CHUNK = 1 << 16
HEAD = 4096  # first bytes that are read to guess the kind of a file


class ComparerRow(NamedTuple):
    """One comparer: its function, when it is chosen, and its row in docs/compare.md."""

    function: str  # `module:function`; imported on demand, because most outputs have equal bytes
    name: str  # in notes: "not compared as …"
    content: str  # the four columns of the docs
    identical_if: str
    reported: str
    settings: tuple[str, ...] = ()  # those that it honours
    types: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()
    beginnings: tuple[bytes, ...] = ()  # the first bytes of a file


# The order is that of the docs. A file that nothing chooses is compared as text, and if it is none, as bytes.
COMPARERS: dict[str, ComparerRow] = {
    "json": ComparerRow(
        "text:compare_json",
        "JSON",
        "JSON, sections and value outputs",
        "the values are the same, in any order of keys",
        "values changed, added, removed, each with its path",
        settings=("tolerance",),
        types=("json", "string", "integer", "number", "boolean"),
        suffixes=(".json", ".geojson", ".ipynb"),
    ),
    "table": ComparerRow(
        "tables:compare_csv",
        "a table",
        "tables: CSV, TSV",
        "columns and cells are the same; with `keys` in any order of rows",
        "columns, rows, cells",
        settings=("keys", "tolerance"),
        suffixes=(".csv", ".tsv", ".tab"),
    ),
    "parquet": ComparerRow(
        "tables:compare_parquet",
        "Parquet",
        "tables: Parquet, with pyarrow or duckdb",
        "columns and cells are the same; with `keys` in any order of rows",
        "columns, rows, cells",
        settings=("keys", "tolerance"),
        suffixes=(".parquet",),
        beginnings=(b"PAR1",),
    ),
    "graph": ComparerRow(
        "graphs:compare_graphs",
        "a graph",
        "graphs: GraphML",
        "nodes, edges and their attributes are the same",
        "edges added, removed, reversed; nodes; attributes",
        settings=("tolerance",),
        suffixes=(".graphml",),  # and by its content: see `is_graphml`
    ),
    "image": ComparerRow(
        "images:compare_images",
        "an image",
        "images, with Pillow",
        "the pixels are the same; other data in the file is ignored",
        "number of pixels, and where",
        types=("image",),
        suffixes=(".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff"),
        beginnings=(b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8", b"BM"),
    ),
    "text": ComparerRow("text:compare_text", "text", "text", "never", "lines changed, added, removed"),
    "bytes": ComparerRow("files:compare_bytes", "bytes", "bytes", "never", "sizes, and the first difference"),
}
_BY_TYPE = {type_: kind for kind, row in COMPARERS.items() for type_ in row.types}
_BY_SUFFIX = {suffix: kind for kind, row in COMPARERS.items() for suffix in row.suffixes}
_BY_BEGINNING = {beginning: kind for kind, row in COMPARERS.items() for beginning in row.beginnings}


def compare_files(old: Path, new: Path, type_: str, suffix: str, settings: CompareSettings) -> Comparison:
    """What differs between two files. If a file is not of its kind, it is compared as text or bytes, with a note."""
    if first_difference(old, new) is None:
        return IDENTICAL
    notes: list[str] = []
    for kind in dict.fromkeys([kind_of(old, new, type_, suffix), "text", "bytes"]):
        row = COMPARERS[kind]
        module, _, function = row.function.partition(":")
        compare: Comparer = getattr(import_module(f"whyrun.artifacts.compare.{module}"), function)
        try:
            comparison = compare(old, new, settings)
        except Unreadable as problem:
            if kind != "text" or type_ == "text":  # no note that a binary file is not text
                notes.append(f"not compared as {row.name}: {problem}")
            continue
        for note in reversed(notes):
            comparison = comparison.with_note(note)
        return comparison
    raise AssertionError("bytes can always be compared")


def kind_of(old: Path, new: Path, type_: str, suffix: str) -> str:
    if type_ in _BY_TYPE:
        return _BY_TYPE[type_]
    if suffix.lower() in _BY_SUFFIX:
        return _BY_SUFFIX[suffix.lower()]
    beginnings = [_beginning(path) for path in (old, new)]
    for start, kind in _BY_BEGINNING.items():
        if all(head.startswith(start) for head in beginnings):
            return kind
    return "graph" if all(map(is_graphml, beginnings)) else "text"


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEAD)


# --- bytes -----------------------------------------------------------------------------------------------------------


def compare_bytes(old: Path, new: Path, settings: CompareSettings) -> Comparison:
    del settings  # bytes are equal or not
    position = first_difference(old, new)
    if position is None:
        return IDENTICAL
    was, now = os.path.getsize(old), os.path.getsize(new)
    size = f"{was:,} bytes" if was == now else f"{was:,} → {now:,} bytes"
    return Comparison(False, f"{size}, different from byte {position:,}", _around(old, new, position))


def first_difference(old: Path, new: Path) -> int | None:
    """The offset of the first byte that differs; None if the files are equal."""
    offset = 0
    with old.open("rb") as a, new.open("rb") as b:
        while True:
            left, right = a.read(_CHUNK), b.read(_CHUNK)
            if left != right:
                shorter = min(len(left), len(right))
                return offset + next((i for i in range(shorter) if left[i] != right[i]), shorter)
            if not left:
                return None
            offset += len(left)


def _around(old: Path, new: Path, position: int) -> tuple[str, ...]:
    shown = []
    for word, path in (("before", old), ("now", new)):
        with path.open("rb") as file:
            file.seek(position)
            data = file.read(8)
        shown.append(f"byte {position:,} {word}: {data.hex(' ') or 'the end'}")
    return tuple(shown)


# --- folders ---------------------------------------------------------------------------------------------------------


def compare_trees(old: Tree, new: Tree, locate: Callable[[str], Path], settings: CompareSettings) -> Comparison:
    """Compare two folders file by file. `locate`: the path of the blob with a hash."""
    findings = Findings()
    before, after = ({file.path: file for file in tree.files} for tree in (old, new))
    for path in sorted({*before, *after}):
        was, now = before.get(path), after.get(path)
        if was is None:
            findings.add("added", f"{path} added")
        elif now is None:
            findings.add("removed", f"{path} removed")
        elif was.sha256 != now.sha256:
            suffix = PurePosixPath(path).suffix
            comparison = compare_files(locate(was.sha256), locate(now.sha256), "file", suffix, settings)
            why = "; ".join(comparison.details[:1])
            if comparison.identical:
                findings.notes.append(f"{path}: unchanged; {why}")
            else:
                findings.add("changed", f"{path}: {comparison.summary}" + (f" ({why})" if why else ""))
        elif was.executable != now.executable:
            findings.add("changed", f"{path}: {'no longer' if was.executable else 'now'} executable")
    for word, one, other in (("added", new, old), ("removed", old, new)):
        for folder in sorted({*one.empty_dirs} - {*other.empty_dirs}):
            findings.add(f"folder {word}", f"empty folder {folder} {word}")
    files = phrase("file", [(findings.counts.get(kind, 0), kind) for kind in ("changed", "added", "removed")])
    folders = phrase("empty folder", [(findings.counts.get(f"folder {k}", 0), k) for k in ("added", "removed")])
    return findings.result(", ".join(part for part in (files, folders) if part))
