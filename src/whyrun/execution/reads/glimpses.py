"""What the eyes saw of a step, as paths: as the step named them (`Glimpses`), then those that count (`Sighted`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

_CODE = ("utf-8", "surrogatepass")  # every text of Python and back


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

    def packed(self, own: tuple[str, ...]) -> list[bytes]:
        """For another process, one text for each set, without the paths below `own`: by far the most of a step that
        reads many, and they do not count unless a link leads on from there."""
        left_out = () if self.links else own
        kinds = (getattr(self, name) for name in self.__slots__)
        kept = ((path for path in paths if ".." in path or not path.startswith(left_out)) for paths in kinds)
        return ["\0".join(paths).encode(*_CODE) for paths in kept]

    @classmethod
    def unpacked(cls, packed: Sequence[bytes]) -> Glimpses:
        return cls(*(set(text.decode(*_CODE).split("\0")) if text else set() for text in packed))


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
