"""Which test runs which lines of the mutated packages, and how long it takes: one run of every test, traced.

Lines are kept relative to their function, so that what is known of a test outlives a change elsewhere in the file.
"""

from __future__ import annotations

import sys
import threading
from types import CodeType, FrameType
from typing import Any

# (file, function) → lines, counted from the function's first one.
Lines = dict[tuple[str, str], set[int]]


class Tracer:
    """`with Tracer(files) as tracer: …`, then `tracer.lines`. Files: absolute path → the name to keep it under."""

    def __init__(self, files: dict[str, str], functions: dict[str, list[tuple[int, int, str]]]) -> None:
        self._files = files
        self._functions = functions  # by file: first line, last line, name
        self._owners: dict[CodeType, tuple[str, str, int] | None] = {}
        self.lines: Lines = {}

    def __enter__(self) -> Tracer:
        threading.settrace(self._call)
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]

    def _owner(self, code: CodeType) -> tuple[str, str, int] | None:
        file = self._files.get(code.co_filename)
        if file is None:
            return None
        for first, last, name in self._functions[file]:
            if first <= code.co_firstlineno <= last:
                return file, name, first
        return None

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        try:
            owner = self._owners[code]
        except KeyError:
            owner = self._owners[code] = self._owner(code)
        if owner is None:
            return None
        file, name, first = owner
        lines = self.lines.setdefault((file, name), set())
        lines.add(frame.f_lineno - first)

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            lines.add(frame.f_lineno - first)
            return line

        return line
