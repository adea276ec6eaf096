"""The links on the paths of a graph, as found on disk: several paths can be one file. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from whyrun.ids import site_of, split_site


class RealFolder(NamedTuple):
    """A folder behind a link. `path`: without links, from the project folder (itself: empty)."""

    path: str
    link: str  # the first link on the way


class Links(msgspec.Struct, frozen=True):
    """The folders of outputs that lie behind links, and inputs with a second path."""

    folders: Mapping[str, RealFolder] = {}  # folder as written → the real folder
    inputs: Mapping[str, str] = {}  # another path of an input → the way, for messages

    def __bool__(self) -> bool:
        return bool(self.folders or self.inputs)

    def real(self, path: str) -> str:
        """The path with links resolved; the same for all paths of one file. Also for the head of a column."""
        folder, _, name = path.rpartition("/")
        found = self.folders.get(folder)
        return path if found is None else f"{found.path}/{name}" if found.path else name

    def real_site(self, site: str) -> str:
        path, section = split_site(site)
        return site_of(self.real(path), section)

    def explained(self, *written: str) -> str:
        """The links on these paths, as the end of a message; empty if there are none."""
        through = {path: self.folders.get(path.rpartition("/")[0]) for path in written}
        links = [f"`{p}` is `{self.real(p)}`, through the link `{f.link}`" for p, f in through.items() if f is not None]
        return f" ({'; '.join(links)})" if links else ""


NO_LINKS = Links()
