"""What a content is for a page: an image, a table, JSON, text … By its type, its suffix and its first bytes."""

from __future__ import annotations

import mimetypes
import os
from pathlib import Path

from whyrun.workflow.arrays import is_array
from whyrun.workflow.model import VALUE_TYPES

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
