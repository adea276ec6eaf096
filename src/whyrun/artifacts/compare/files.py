"""Which comparer for which content: by the declared type, the suffix, and how the bytes begin."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from whyrun.artifacts.compare.graphs import is_graphml
from whyrun.artifacts.compare.raw import first_difference
from whyrun.artifacts.compare.result import IDENTICAL, CompareSettings, Comparison, Unreadable

Comparer = Callable[[Path, Path, CompareSettings], Comparison]
HEAD = 4096  # bytes that are looked at to see what a file is

# kind → (module, function, what it is called in notes). Imported when needed: most outputs are equal bytes.
_COMPARERS = {
    "json": ("json_values", "compare_json", "JSON"),
    "table": ("tables", "compare_csv", "a table"),
    "parquet": ("parquet", "compare_parquet", "Parquet"),
    "graph": ("graphs", "compare_graphs", "a graph"),
    "image": ("images", "compare_images", "an image"),
    "text": ("text", "compare_text", "text"),
    "bytes": ("raw", "compare_bytes", "bytes"),
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
    """What differs between two files. One that is not what it is taken for is compared more plainly, and says so."""
    if first_difference(old, new) is None:
        return IDENTICAL
    notes: list[str] = []
    for kind in dict.fromkeys([kind_of(old, new, type_, suffix), "text", "bytes"]):
        module, function, name = _COMPARERS[kind]
        compare: Comparer = getattr(import_module(f"whyrun.artifacts.compare.{module}"), function)
        try:
            found = compare(old, new, settings)
        except Unreadable as problem:
            if kind != "text" or type_ == "text":  # that a file is no text is worth no word, unless it should be
                notes.append(f"not compared as {name}: {problem}")
            continue
        for note in reversed(notes):
            found = found.with_note(note)
        return found
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
