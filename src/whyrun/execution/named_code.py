"""What `code:` names, and what its patterns find while a run goes on: a file may come that no plan knows."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence, Set
from pathlib import Path

from whyrun.actions.seen_code import named_files

_WILD = frozenset("*?[")
# Patterns that take longer to follow than this are followed for a tenth of the time at most.
_QUICK, _REST = 0.005, 10  # seconds; times as long as it took


class NamedCode:
    def __init__(self, project: Path, patterns: Mapping[str, Sequence[str]]) -> None:
        """`patterns`: job name → its `code:`."""
        self._project = project
        found = {given: named_files(project, given) for given in {tuple(given) for given in patterns.values() if given}}
        self._named = {job: found[tuple(given)] for job, given in patterns.items() if given}
        self._wild = {job: tuple(p for p in given if _WILD.intersection(p)) for job, given in patterns.items()}
        self._found: dict[tuple[str, ...], Set[str]] = {}  # jobs share patterns
        self._rest: dict[tuple[str, ...], float] = {}  # until when (monotonic) they are not followed again

    def names(self, job: str, path: str) -> bool:
        return path in self._named.get(job, ())

    def look_again(self) -> None:
        now = time.monotonic()
        self._found = {patterns: found for patterns, found in self._found.items() if self._rest[patterns] > now}

    def now(self, job: str) -> Set[str]:
        """What the patterns of a job find since `look_again`; a name without a wildcard finds nothing that is new."""
        patterns = self._wild.get(job, ())
        if patterns and patterns not in self._found:
            began = time.monotonic()
            self._found[patterns] = named_files(self._project, patterns)
            took = time.monotonic() - began
            self._rest[patterns] = began + took * _REST if took > _QUICK else 0.0
        return self._found.get(patterns, frozenset())


NOTHING_NAMED = NamedCode(Path(), {})
