"""Which test runs which lines of the mutated packages, and how long it takes: one run of every test, traced.

Lines are kept relative to their function, so that what is known of a test outlives a change elsewhere in the file.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, ClassVar

# (file, function) → lines, counted from the function's first one.
Lines = dict[tuple[str, str], set[int]]


class Tracer:
    """`with Tracer(files) as tracer: …`, then `tracer.lines`. Files: absolute path → the name to keep it under."""

    _current: ClassVar[Tracer | None] = None

    def __init__(self, files: dict[str, str], functions: dict[str, list[tuple[int, int, str]]], notes: Path) -> None:
        self._files = files
        self._notes = notes
        self._functions = functions  # by file: first line, last line, name
        self._owners: dict[CodeType, tuple[str, str, int] | None] = {}
        self.lines: Lines = {}

    @classmethod
    def spill(cls) -> None:
        """In a fork that was made while tracing: leave what it ran to the process that it came from."""
        if cls._current is not None:
            found = [(*place, sorted(lines)) for place, lines in cls._current.lines.items()]
            (cls._current._notes / f"spilt-{os.getpid()}.json").write_text(json.dumps(found))

    def _gather(self) -> None:
        for path in self._notes.glob("spilt-*.json"):
            for file, function, lines in json.loads(path.read_text()):
                self.lines.setdefault((file, function), set()).update(lines)
            path.unlink()

    def __enter__(self) -> Tracer:
        Tracer._current = self
        threading.settrace(self._call)
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        Tracer._current = None
        self._gather()

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
