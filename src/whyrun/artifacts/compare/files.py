"""Compare two files or folders: choose the comparer by declared type, suffix and first bytes."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path, PurePosixPath

from whyrun.artifacts.compare.graphs import is_graphml
from whyrun.artifacts.compare.result import IDENTICAL, CompareSettings, Comparison, Findings, Unreadable, phrase
from whyrun.artifacts.hashing import Tree

Comparer = Callable[[Path, Path, CompareSettings], Comparison]
_CHUNK = 1 << 16
HEAD = 4096  # first bytes that are read to guess the kind of a file

# kind → (module, function, name in notes). Imported on demand: most outputs have equal bytes.
_COMPARERS = {
    "json": ("json_values", "compare_json", "JSON"),
    "table": ("tables", "compare_csv", "a table"),
    "parquet": ("tables", "compare_parquet", "Parquet"),
    "graph": ("graphs", "compare_graphs", "a graph"),
    "image": ("images", "compare_images", "an image"),
    "text": ("text", "compare_text", "text"),
    "bytes": ("files", "compare_bytes", "bytes"),
}
_BY_TYPE = {"json": "json", "string": "json", "integer": "json", "number": "json", "boolean": "json", "image": "image"}
_BY_SUFFIX = {
    ".json": "json", ".geojson": "json", ".ipynb": "json",
    ".csv": "table", ".tsv": "table", ".tab": "table", ".parquet": "parquet",
    ".graphml": "graph",
    ".png": "image", ".jpg": "image", ".jpeg": "image", ".gif": "image", ".bmp": "image", ".webp": "image",
    ".tif": "image", ".tiff": "image",
}  # fmt: skip
_BY_BEGINNING = {
    b"\x89PNG\r\n\x1a\n": "image", b"\xff\xd8\xff": "image", b"GIF8": "image", b"BM": "image", b"PAR1": "parquet",
}  # fmt: skip


def compare_files(old: Path, new: Path, type_: str, suffix: str, settings: CompareSettings) -> Comparison:
    """What differs between two files. If a file is not of its kind, it is compared as text or bytes, with a note."""
    if first_difference(old, new) is None:
        return IDENTICAL
    notes: list[str] = []
    for kind in dict.fromkeys([kind_of(old, new, type_, suffix), "text", "bytes"]):
        module, function, name = _COMPARERS[kind]
        compare: Comparer = getattr(import_module(f"whyrun.artifacts.compare.{module}"), function)
        try:
            comparison = compare(old, new, settings)
        except Unreadable as problem:
            if kind != "text" or type_ == "text":  # no note that a binary file is not text
                notes.append(f"not compared as {name}: {problem}")
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
