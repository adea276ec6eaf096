"""Paths that somebody names in a line, with the sizes of those that are files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from whyrun.console.lines import file_text, size


def described_files(given: Any) -> list[str]:
    """Paths with the sizes of those that are files: `data/asia.csv (1.2MB)`; anything else as text."""
    if given is None:
        return []
    if isinstance(given, Mapping):
        given = list(given.values())
    if isinstance(given, str | os.PathLike) or not isinstance(given, list | tuple):
        given = [given]
    return [_described(each) for each in given]


def _described(given: Any) -> str:
    if not isinstance(given, str | os.PathLike):
        return str(given)
    path = os.fspath(given)
    try:
        return file_text(path, size(os.stat(path).st_size)) if os.path.isfile(path) else path
    except (OSError, ValueError):  # it went away between the two questions, or is no path at all: then it is text
        return path
