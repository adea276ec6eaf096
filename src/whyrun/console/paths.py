"""How lines and messages show paths: relative to the working folder, and with the sizes of files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from whyrun.console.lines import file_text, size


def relative(path: str | os.PathLike[str]) -> str:
    """The path relative to the working folder if it lies below it, else the absolute path."""
    full = os.path.abspath(path)
    short = os.path.relpath(full)
    return full if short.split(os.sep)[0] == os.pardir else short


def described_files(given: Any) -> list[str]:
    """Paths, with the sizes of those that are files: `data/asia.csv (1.2MB)`; other values as text."""
    if given is None:
        return []
    if isinstance(given, Mapping):
        given = list(given.values())
    if isinstance(given, str | os.PathLike) or not isinstance(given, list | tuple):
        given = [given]
    return [_described_file(each) for each in given]


def _described_file(given: Any) -> str:
    if not isinstance(given, str | os.PathLike):
        return str(given)
    path = os.fsdecode(given)
    try:
        return file_text(path, size(os.stat(path).st_size)) if os.path.isfile(path) else path
    except (OSError, ValueError):  # the file was just removed, or the text is not a path
        return path
