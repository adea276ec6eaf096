"""Which code of the project a worker has imported for its steps, and which step must not meet the modules of others.

Modules stay in a worker from step to step, which is what makes it fast. But where the code of one step changes where
modules are looked for, `util` may be another file for it than for the next; and a module that reads the environment
when it is imported has read that of the first. Such steps get a process in which nothing of the project is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whyrun.actions.builtin import BUILTIN
from whyrun.errors import WhyrunError

Entry = tuple[str, str]  # the action; of `python` also what it calls or runs


class ImportedCode:
    def __init__(self, project: Path) -> None:
        self._project = project
        self._ran: dict[Entry, Mapping[str, Any]] = {}
        self._moves: dict[Entry, bool] = {}

    def __bool__(self) -> bool:
        return bool(self._ran)

    def ran(self, uses: str, with_: Mapping[str, Any]) -> None:
        """Such a step runs in this very process."""
        entry = _entry(uses, with_)
        if entry is not None:
            self._ran.setdefault(entry, with_)

    def clashes(self, uses: str, with_: Mapping[str, Any], path_changed: bool) -> bool:
        """Whether the modules of other steps may not be the ones that this one would import. `path_changed`: by one of
        them, whatever its source says."""
        entry = _entry(uses, with_)
        if entry is None or not self._ran.keys() - {entry}:
            return False
        return path_changed or any(self._may_move(*one) for one in {**self._ran, entry: with_}.items())

    def _may_move(self, entry: Entry, with_: Mapping[str, Any]) -> bool:
        if entry not in self._moves:
            self._moves[entry] = self._moves_imports(entry[0], with_)
        return self._moves[entry]

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
