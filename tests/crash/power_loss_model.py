"""What the disk may hold after a power cut, computed from the record of all operations before it.

Data that was not synced is there, or not, page by page; a file may have its old length, its new one, or one between.
Names that were not synced are there, or not, each by itself: so a file may have got its final name and none of its
bytes. A rename is one change: a file has its old name or its new one, never none or both. What was synced is there.
(File systems that promise less, such as showing the old content of blocks of other files, are not modelled.)
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from power_loss_record import Entry

PAGE = 4096
SCRATCH = re.compile(r"\.whyrun/tmp/[^/]+\.scratch/")  # steps write there, and nobody records it


@dataclass(eq=False)
class File:
    durable: bytes = b""
    pending: list[tuple[int, str, int, bytes]] = field(default_factory=list)  # (moment, write or cut, offset, data)

    def now(self) -> bytes:
        return self.after(self.pending)

    def after(self, changes: Sequence[tuple[int, str, int, bytes]]) -> bytes:
        content = bytearray(self.durable)
        for _, what, offset, data in changes:
            if what == "cut":
                del content[offset:]
                content.extend(b"\0" * (offset - len(content)))
            else:
                content.extend(b"\0" * (offset - len(content)))
                content[offset : offset + len(data)] = data
        return bytes(content)

    def sync(self, until: int) -> None:
        done = [change for change in self.pending if change[0] < until]
        self.durable = self.after(done)
        self.pending = [change for change in self.pending if change[0] >= until]

    def perhaps(self, chance: random.Random) -> bytes:
        """A content that the disk may hold."""
        new = self.now()
        if not self.pending:
            return new
        fate = chance.random()
        if fate < 0.25:
            return self.durable
        if fate < 0.5:
            return new
        low, high = sorted((len(self.durable), len(new)))
        between = max(low, chance.randint(low, high) // PAGE * PAGE)
        size = chance.choice((len(self.durable), len(new), len(new), between))
        old = self.durable.ljust(size, b"\0")
        ahead = new.ljust(size, b"\0")
        pages = range(0, size, PAGE)
        return b"".join((ahead if chance.random() < 0.5 else old)[at : at + PAGE] for at in pages)[:size]


@dataclass(eq=False)
class Link:
    target: str


@dataclass(eq=False)
class Folder:
    durable: dict[str, File | Link | Folder] = field(default_factory=dict)


Node = File | Link | Folder


@dataclass(eq=False)
class Change:
    """Names that change together. None: the name is gone."""

    moment: int
    names: tuple[tuple[Folder, str, Node | None], ...]


class Disk:
    """The project folder `root`. What is outside is not looked at."""

    def __init__(self, root: Path, initial: Path, inodes: Mapping[str, int]) -> None:
        """`initial`: a copy of it from before; `inodes`: those of its files."""
        self.root = str(root)
        self.moment = 0
        self.top = Folder()
        self.changes: list[Change] = []  # not yet durable
        self.files: dict[int, File] = {}  # by inode, as long as it is that file's
        self._begun: dict[object, tuple[int, int | None, str]] = {}
        self._now: dict[Folder, dict[str, Node]] = {self.top: {}}
        self._load(initial, self.top, "", inodes)

    def _load(self, folder: Path, node: Folder, prefix: str, inodes: Mapping[str, int]) -> None:
        for entry in os.scandir(folder):
            if entry.is_symlink():
                child: Node = Link(os.readlink(entry.path))
            elif entry.is_dir():
                child = Folder()
                self._now[child] = {}
                self._load(Path(entry.path), child, f"{prefix}{entry.name}/", inodes)
            else:
                child = File(Path(entry.path).read_bytes())
                self.files[inodes[f"{prefix}{entry.name}"]] = child
            node.durable[entry.name] = child
            self._now[node][entry.name] = child

    # --- what happened -------------------------------------------------------------------------------------------

    def apply(self, entry: Entry) -> None:
        self.moment += 1
        what, *facts = entry
        match what:
            case "create":
                path, inode = facts
                self.files[inode] = File()
                self._set((path, self.files[inode]))
            case "write":
                inode, offset, data = facts
                if inode in self.files:
                    self.files[inode].pending.append((self.moment, "write", offset, data))
            case "cut":
                inode, size = facts
                if inode in self.files:
                    self.files[inode].pending.append((self.moment, "cut", size, b""))
            case "mkdir":
                self._set((facts[0], self._folder()))
            case "link":
                self._set((facts[1], Link(facts[0])))
            case "remove":
                self._set((facts[0], None))
            case "rename":
                source, target, inode, data, tree = facts
                self._rename(source, target, inode, data, tree)
            case "sync begins":
                number, inode, path = facts
                self._begun[number] = (self.moment, inode, path)
            case "sync ends":
                self._sync(*self._begun.pop(facts[0]))
            case "told":
                pass
            case _:
                raise AssertionError(what)

    def _rename(self, source: str, target: str, inode: int, data: bytes | None, tree: dict | None) -> None:
        node = self._find(source)
        if node is None:  # made by a step: nobody has synced it
            self._check_unrecorded(source)
        if node is None and data is not None:
            node = self.files[inode] = File(b"", [(self.moment, "write", 0, data)])
        elif node is None and tree is not None:
            node = self._folder()
            for relative, (kind, content) in sorted(tree.items()):
                parent, name = os.path.split(relative)
                place = node
                for part in parent.split("/") if parent else ():
                    below = self._now[place][part]
                    assert isinstance(below, Folder)
                    place = below
                if kind == "folder":
                    child: Node = self._folder()
                elif kind == "link":
                    child = Link(content)
                else:
                    child = File(b"", [(self.moment, "write", 0, content)])
                self._now[place][name] = child
                self.changes.append(Change(self.moment, ((place, name, child),)))
        assert node is not None, source
        self._set((source, None), (target, node))

    def _folder(self) -> Folder:
        made = Folder()
        self._now[made] = {}
        return made

    def _place(self, path: str) -> tuple[Folder, str] | None:
        """The folder that a path stands in and its name there; None outside of the project, or below what is not
        known here."""
        relative = os.path.relpath(path, self.root)
        if relative.startswith(".."):
            return None
        folder = self.top
        *parents, name = relative.split("/")
        for part in parents:
            below = self._now[folder].get(part)
            if not isinstance(below, Folder):
                return None
            folder = below
        return folder, name

    def _find(self, path: str) -> Node | None:
        place = self._place(path)
        return None if place is None else self._now[place[0]].get(place[1])

    def _set(self, *names: tuple[str, Node | None]) -> None:
        known: list[tuple[tuple[Folder, str], Node | None]] = []
        for path, node in names:
            place = self._place(path)
            if place is None:
                self._check_unrecorded(path)
            else:
                known.append((place, node))
        for (folder, name), node in known:
            if node is None:
                self._now[folder].pop(name, None)
            else:
                self._now[folder][name] = node
        if known:
            self.changes.append(Change(self.moment, tuple((folder, name, node) for (folder, name), node in known)))

    def _check_unrecorded(self, path: str) -> None:
        """The record may lack only paths outside of the project and in scratch folders. Elsewhere, a lost entry would
        look like a forgotten sync."""
        relative = os.path.relpath(path, self.root)
        assert relative.startswith("..") or SCRATCH.match(relative), (
            f"entry {self.moment} of the record uses `{relative}`, but no earlier entry made it or its folder"
        )

    def _sync(self, until: int, inode: int | None, path: str) -> None:
        if inode is None:
            for file in self.files.values():
                file.sync(until)
            for node in self._now:
                for child in node.durable.values():
                    if isinstance(child, File):
                        child.sync(until)
            for change in self.changes:
                for _, _, node in change.names:
                    if isinstance(node, File):
                        node.sync(until)
            self._make_durable([change for change in self.changes if change.moment < until])
            return
        found = self._find(path) if path != self.root else self.top
        if isinstance(found, Folder):
            touched = [c for c in self.changes if c.moment < until and any(f is found for f, _, _ in c.names)]
            self._make_durable(touched)
        elif inode in self.files:
            self.files[inode].sync(until)

    def _make_durable(self, changes: list[Change]) -> None:
        """And with them all that was done to the same names before."""
        names = {(id(folder), name) for change in changes for folder, name, _ in change.names}
        last = max((change.moment for change in changes), default=0)
        wanted = {id(change) for change in changes}
        for change in reversed(self.changes):
            own = {(id(folder), name) for folder, name, _ in change.names}
            if change.moment <= last and own & names:
                wanted.add(id(change))
                names |= own
        changes = [change for change in self.changes if id(change) in wanted]
        for change in changes:
            for folder, name, node in change.names:
                _put(folder.durable, name, node)
        done = {id(change) for change in changes}
        self.changes = [change for change in self.changes if id(change) not in done]

    # --- after the cut -------------------------------------------------------------------------------------------

    def durable_content(self, path: str) -> bytes:
        """The synced content of a file; nothing where its name was not synced."""
        node: Node | None = self.top
        for part in path.split("/"):
            node = node.durable.get(part) if isinstance(node, Folder) else None
        return node.durable if isinstance(node, File) else b""

    def written_content(self, path: str) -> bytes:
        """The written content of a file, synced or not."""
        node: Node | None = self.top
        for part in path.split("/"):
            node = self._now[node].get(part) if isinstance(node, Folder) else None
        return node.now() if isinstance(node, File) else b""

    def perhaps(self, chance: random.Random) -> dict[str, bytes | str | None]:
        """A tree that the disk may hold: path → bytes of a file, text of a link, None for a folder."""
        fate = chance.random()
        if fate < 0.2:
            kept: list[Change] = []
        elif fate < 0.5:  # in their order, up to some moment: as a journal would have it
            kept = self.changes[: chance.randint(0, len(self.changes))]
        else:
            share = chance.choice((0.1, 0.5, 0.9, 1.0))
            kept = [change for change in self.changes if chance.random() < share]
        names: dict[int, dict[str, Node]] = {}
        for change in kept:
            for folder, name, node in change.names:
                _put(names.setdefault(id(folder), dict(folder.durable)), name, node)
        found: dict[str, bytes | str | None] = {}
        self._collect(self.top, "", names, chance, found, set())
        return found

    def everything(self) -> dict[str, bytes | str | None]:
        """The tree without a power cut."""
        found: dict[str, bytes | str | None] = {}
        self._collect(self.top, "", {id(folder): names for folder, names in self._now.items()}, None, found, set())
        return found

    def _collect(
        self,
        folder: Folder,
        prefix: str,
        names: dict[int, dict[str, Node]],
        chance: random.Random | None,
        found: dict[str, bytes | str | None],
        above: set[int],
    ) -> None:
        if id(folder) in above:
            return  # a folder that stands below itself, because a rename of one above it was lost
        for name, node in names.get(id(folder), folder.durable).items():
            path = f"{prefix}{name}"
            if isinstance(node, File):
                found[path] = node.now() if chance is None else node.perhaps(chance)
            elif isinstance(node, Link):
                found[path] = node.target
            else:
                found[path] = None
                self._collect(node, f"{path}/", names, chance, found, above | {id(folder)})


def _put(names: dict[str, Node], name: str, node: Node | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node
