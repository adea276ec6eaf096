"""How the place of a shared store is written: a URL, or a folder."""

from __future__ import annotations

from pathlib import Path


def scheme_of(address: str) -> str:
    """`s3` of `s3://bucket/prefix`; empty for a folder."""
    scheme, mark, _ = address.partition("://")
    return scheme.lower() if mark and scheme.lower() != "file" else ""


def folder_of(address: str, project: Path) -> Path | None:
    """None for a URL. RuntimeError: `~somebody`, and there is nobody of that name."""
    return None if scheme_of(address) else project / Path(address.removeprefix("file://")).expanduser()


def holds_credentials(url: str) -> bool:
    """`s3://key:secret@bucket`, or anything after a question mark: tokens are handed over there."""
    rest = url.partition("://")[2]
    return "@" in rest.partition("/")[0] or "?" in rest
