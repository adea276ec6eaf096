"""Which modules of the project a step meets in its worker.

Modules stay in a worker from step to step, which is what makes it fast. But where the code of one step changes where
modules are looked for, `util` may be another file for it than for the next. So each kind of step with such code has its
modules for itself, and all others have theirs together. (A step with an environment of its own gets a process in which
nothing of the project is imported: a module may read the environment when it is imported.)
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from whyrun.actions.builtin import BUILTIN
from whyrun.actions.from_source import put_project_modules, take_project_modules
from whyrun.errors import WhyrunError

Entry = tuple[str, str]  # the action; of `python` also what it calls or runs


class ImportedCode:
    def __init__(self, project: Path) -> None:
        self._project = project
        self._last: tuple[Entry, Mapping[str, Any]] | None = None  # whose modules are there now
        self._moves: dict[Entry, bool] = {}
        self._put_aside: dict[Entry | None, dict[str, ModuleType]] = {}  # None: of all that change nothing

    def __bool__(self) -> bool:
        return self._last is not None

    def enter(self, uses: str, with_: Mapping[str, Any]) -> None:
        """Such a step is about to run in this very process."""
        entry = _entry(uses, with_)
        if entry is None or (self._last is not None and self._last[0] == entry):
            return
        if self._last is not None:
            mine, theirs = self._whose(entry, with_), self._whose(*self._last)
            if mine != theirs:
                self._put_aside[theirs] = take_project_modules()
                put_project_modules(self._put_aside.pop(mine, {}))
        self._last = entry, with_

    def path_changed(self) -> None:
        """By the step that has just run, whatever its source says."""
        if self._last is not None:
            self._moves[self._last[0]] = True

    def _whose(self, entry: Entry, with_: Mapping[str, Any]) -> Entry | None:
        if entry not in self._moves:
            self._moves[entry] = self._moves_imports(entry[0], with_)
        return entry if self._moves[entry] else None

    def _moves_imports(self, uses: str, with_: Mapping[str, Any]) -> bool:
        from whyrun.actions.imports import project_code  # only where steps of several kinds meet in one worker
        from whyrun.actions.load import project_entry

        try:
            entry = project_entry(uses, with_, self._project)
        except WhyrunError:
            return True  # it cannot be told; the step itself will say what is wrong
        if entry is None:
            return False
        code = project_code(self._project, entry[0], imported=entry[1])
        return code.moves_imports or bool(code.problems)


def _entry(uses: str, with_: Mapping[str, Any]) -> Entry | None:
    """None: it has no code of the project."""
    if uses == "python":
        return uses, str(with_.get("call", with_.get("script")))
    return None if uses in BUILTIN else (uses, "")
