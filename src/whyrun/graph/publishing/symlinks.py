"""Where paths of a project really are, as it was seen by someone who may look: several names can be one file. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from whyrun.ids import site_of, split_site


class RealFolder(NamedTuple):
    """A folder that is reached through a link. `path`: without links, from the project folder (itself: empty)."""

    path: str
    link: str  # the first on the way


class Links(msgspec.Struct, frozen=True):
    """The folders of outputs that are reached through links of the project, and inputs that have second names."""

    folders: Mapping[str, RealFolder] = {}  # folder as written → what it is
    inputs: Mapping[str, str] = {}  # another place of an input → by which way, as a message has it

    def __bool__(self) -> bool:
        return bool(self.folders or self.inputs)

    def real(self, path: str) -> str:
        """The file that is written; the same for all names that it has. Also of what paths begin with."""
        folder, _, name = path.rpartition("/")
        found = self.folders.get(folder)
        return path if found is None else f"{found.path}/{name}" if found.path else name

    def real_site(self, site: str) -> str:
        path, section = split_site(site)
        return site_of(self.real(path), section)

    def explained(self, *written: str) -> str:
        """Which links make paths another file than it seems, to stand after a message; empty where none does."""
        through = {path: self.folders.get(path.rpartition("/")[0]) for path in written}
        told = [f"`{p}` is `{self.real(p)}`, through the link `{f.link}`" for p, f in through.items() if f is not None]
        return f" ({'; '.join(told)})" if told else ""


NO_LINKS = Links()
