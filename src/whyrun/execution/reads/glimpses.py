"""What the eyes saw of a step, as paths: as the step named them (`Glimpses`), then those that count (`Sighted`)."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec


@dataclass(slots=True)
class Glimpses:
    """Paths as the step named them; relative ones are relative to its working folder."""

    opened: set[str] = field(default_factory=set)  # for reading, whether that succeeded or not; or looked for in vain
    listed: set[str] = field(default_factory=set)
    there: set[str] = field(default_factory=set)  # of all that was not only written: what was there then
    written: set[str] = field(default_factory=set)  # opened for writing, or renamed to
    updated: set[str] = field(default_factory=set)  # opened to read and write, as databases are
    texts: set[str] = field(default_factory=set)  # Python files that were opened, and not to import them
    imported: set[str] = field(default_factory=set)  # installed modules
    links: set[str] = field(default_factory=set)  # that it made: in its scratch folder they may lead into the project


class Sighted(msgspec.Struct, omit_defaults=True, frozen=True):
    """What counts: paths of the project, relative to it, and what else is recorded."""

    opened: list[str] = []
    listed: list[str] = []
    missing: list[str] = []  # of all that was not only written: what was not there then
    written: list[str] = []
    updated: list[str] = []
    texts: list[str] = []
    outside: list[str] = []  # absolute paths
    imported: list[str] = []  # installed modules: `/…/site-packages/numpy`

    def __bool__(self) -> bool:
        return bool(self.opened or self.listed or self.written or self.updated or self.outside or self.imported)
