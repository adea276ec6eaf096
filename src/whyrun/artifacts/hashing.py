"""What a value, a file and a folder hash to. The same bytes give the same hash on every machine and in every locale."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from whyrun.errors import Diagnostic, InvalidError

_CHUNK = 1 << 20
_TREE_TAG = "whyrun/tree/v1"
TREE_START = b'{"empty_dirs":'  # as `encode_tree` begins; what begins so and is none is refused by `decode_tree`
_SHA256 = re.compile("[0-9a-f]{64}")
_LONGEST_NAME = 255  # bytes, as file systems have it
DEEPEST = 256  # folders within folders of a folder that has a hash: who takes it out must be able to make them


def is_sha256(text: str) -> bool:
    """As we write them."""
    return _SHA256.fullmatch(text) is not None


# --- values ------------------------------------------------------------------------------------------------------


def canonical_json(value: Any) -> bytes:
    """One spelling per value: sorted keys, no spaces, UTF-8 unescaped, floats by repr. `1`, `1.0`, `true` differ.

    Refused, because two values would share one spelling or no reader would agree on it: NaN, infinities, keys that
    are not strings, anything that JSON does not have. (msgspec is faster, but spells floats in another way, writes NaN
    as null and turns number keys into strings: so it is asked only where there is none of these.)
    """
    if type(value) is int:
        return b"%d" % value
    if _is_plain(value):
        return _encode_plain(value)
    return _encode(value).encode()


def canonical_list(members: Iterable[bytes]) -> bytes:
    """The canonical JSON of a list, from that of its members: one too long to be had as objects."""
    return b"[%b]" % b",".join(members)


def canonical_object(members: Mapping[str, bytes]) -> bytes:
    return b"{%b}" % b",".join(b"%b:%b" % (canonical_json(name), members[name]) for name in sorted(members))


_PLAIN = frozenset({str, int, bool, type(None)})
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
_encode_plain = msgspec.json.Encoder(order="sorted").encode


def _is_plain(value: Any) -> bool:
    """Whether there is nothing in it but texts, whole numbers, true, false, null, and lists and objects of these.

    TypeError for a key that is not a string. By exact types first: this is gone through for every job of a plan.
    """
    if isinstance(value, dict):
        plain = type(value) is dict
        for key, member in value.items():
            if type(key) is not str:
                if not isinstance(key, str):
                    raise TypeError(f"a key of canonical JSON is a string, not {key!r}")
                plain = False
            if type(member) not in _PLAIN and not _is_plain(member):
                plain = False
        return plain
    if isinstance(value, (list, tuple)):
        plain = type(value) is list or type(value) is tuple
        for member in value:
            if type(member) not in _PLAIN and not _is_plain(member):
                plain = False
        return plain
    return type(value) in _PLAIN


def value_sha256(value: Any) -> str:
    return hashlib.sha256(canonical_json(value)).hexdigest()


def bytes_sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def digest(tag: str, *parts: bytes | str) -> str:
    """A hash of several parts under a tag that names what they are: `digest("job/v1", action, bindings)`.

    Each part is preceded by its type and length, so neither moving a boundary between two parts nor bytes in place
    of text can give the same preimage.
    """
    preimage = [b"whyrun"]
    for part in (tag, *parts):
        kind, data = (b"s", part.encode()) if isinstance(part, str) else (b"b", part)
        preimage += (kind, len(data).to_bytes(8, "big"), data)
    return hashlib.sha256(b"".join(preimage)).hexdigest()


# --- files -------------------------------------------------------------------------------------------------------


def file_sha256(path: str | os.PathLike[str]) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return descriptor_sha256(descriptor)
    finally:
        os.close(descriptor)


def file_sha256_and_size(path: str | os.PathLike[str]) -> tuple[str, int]:
    """`size`: of what was read, whatever the file system says of it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return descriptor_sha256(descriptor), os.lseek(descriptor, 0, os.SEEK_CUR)
    finally:
        os.close(descriptor)


def descriptor_sha256(descriptor: int) -> str:
    """The hash of what can be read from here on."""
    hasher = hashlib.sha256()
    while chunk := os.read(descriptor, _CHUNK):
        hasher.update(chunk)
    return hasher.hexdigest()


# --- folders -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TreeFile:
    """One file of a folder. `path` is relative, with `/`."""

    path: str
    sha256: str
    size: int
    executable: bool


@dataclass(frozen=True, slots=True)
class Tree:
    files: tuple[TreeFile, ...]
    empty_dirs: tuple[str, ...]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file met while walking a folder: where it is, and how it is called in the manifest."""

    path: str
    location: str
    linked: bool  # reached through a link inside the folder: the bytes belong to another name too


def tree_manifest(path: str | os.PathLike[str], sha256_of: Callable[[str], str] = file_sha256) -> bytes:
    """A folder as bytes: sorted relative paths, content hashes, sizes, executable bits, empty folders.

    The hash of the folder is the hash of these bytes. Owners, times and other permissions are not content.
    """
    found, empty = walk_tree(path)
    return encode_tree([read_file_entry(file, sha256_of(file.location)) for file in found], empty)


def read_file_entry(file: FoundFile, sha256: str) -> TreeFile:
    status = os.stat(file.location)
    return TreeFile(file.path, sha256, status.st_size, bool(status.st_mode & stat.S_IXUSR))


def encode_tree(files: Iterable[TreeFile], empty_dirs: Iterable[str]) -> bytes:
    rows = sorted([file.path, file.sha256, file.size, file.executable] for file in files)
    return canonical_json({"tree": _TREE_TAG, "files": rows, "empty_dirs": sorted(empty_dirs)})


def decode_tree(manifest: bytes) -> Tree:
    """The manifest of a folder, read back. Raises ValueError for bytes that are none."""
    try:
        data = json.loads(manifest)
    except RecursionError:
        raise ValueError("the manifest of a folder nests too deep") from None
    if not isinstance(data, dict) or data.get("tree") != _TREE_TAG:
        raise ValueError("not the manifest of a folder")
    # It may come from where a step could write it: its hashes become paths of the store, and its paths are made.
    try:
        files = tuple(TreeFile(path, sha256, size, executable) for path, sha256, size, executable in data["files"])
        empty_dirs = tuple(data["empty_dirs"])
        for path in (*empty_dirs, *(file.path for file in files)):
            _check_listed_path(path)
        for file in files:
            if not is_sha256(file.sha256):
                raise ValueError(f"the manifest of a folder names what is no sha256: {file.sha256!r:.80}")
            if type(file.size) is not int or file.size < 0 or type(file.executable) is not bool:
                raise ValueError(f"the manifest of a folder says of {file.path!r:.80} what is no size or mode")
        _check_no_name_is_two_things(files, empty_dirs)
    except (TypeError, AttributeError, KeyError) as wrong:
        raise ValueError(f"not the manifest of a folder: {wrong}") from None
    return Tree(files, empty_dirs)


def _check_listed_path(path: str) -> None:
    """It is joined to the folder that is made from the manifest: it must stay in it, and be a path there."""
    parts = path.split("/")
    if path.startswith("/") or ".." in parts:
        raise ValueError(f"the manifest of a folder names a path outside it: {path!r:.80}")
    if len(parts) > DEEPEST:
        raise ValueError(f"the manifest of a folder names a path of more than {DEEPEST} parts")
    if "" in parts or "." in parts or "\0" in path:
        raise ValueError(f"the manifest of a folder names what is no path: {path!r:.80}")
    if any(len(part.encode()) > _LONGEST_NAME for part in parts):  # not UTF-8: a ValueError, too
        raise ValueError(f"the manifest of a folder names a path with too long a name: {path!r:.80}")


def _check_no_name_is_two_things(files: Iterable[TreeFile], empty_dirs: Iterable[str]) -> None:
    folders = {parent for file in files for parent in iter_parents(file.path)}
    folders.update(parent for folder in empty_dirs for parent in iter_parents(folder))
    taken: set[str] = set()
    for path in (*empty_dirs, *(file.path for file in files)):
        if path in taken or path in folders:
            raise ValueError(f"the manifest of a folder names {path!r:.80} twice")
        taken.add(path)


class UnfitFolder(InvalidError):
    """It holds what no artifact can hold: a pipe, a link that leads out or nowhere, a name that is no text."""


def _unfit(code: str, message: str, hint: str) -> UnfitFolder:
    return UnfitFolder([Diagnostic(code, message, hint=hint)])


def walk_tree(root: str | os.PathLike[str]) -> tuple[list[FoundFile], list[str]]:
    """Every file below a folder, and the folders that hold nothing. Links are followed if they stay inside."""
    top = os.fspath(root)
    real_top = os.path.realpath(top)
    found: list[FoundFile] = []
    empty: list[str] = []

    def visit(folder: str, relative: str, above: tuple[str, ...], linked: bool) -> None:
        if len(above) > DEEPEST:
            raise _unfit(
                "INPUT_TYPE",
                f"`{top}` has more than {DEEPEST} folders within folders",
                hint="nothing could take it out again everywhere; use fewer levels",
            )
        with os.scandir(folder) as listing:
            entries = list(listing)
        if not entries and relative:
            empty.append(relative)
        for entry in entries:
            name = f"{relative}/{entry.name}" if relative else entry.name
            _check_name(name, top)
            is_link = entry.is_symlink()
            if is_link:
                _check_link(entry.path, real_top, above)
            if entry.is_dir():
                visit(entry.path, name, (*above, os.path.realpath(entry.path)), linked or is_link)
            elif entry.is_file():
                found.append(FoundFile(name, entry.path, linked or is_link))
            else:
                raise _unfit(
                    "INPUT_TYPE",
                    f"`{entry.path}` is neither a file nor a folder",
                    hint="sockets, pipes and devices have no content; move it out of the folder",
                )

    visit(top, "", (real_top,), False)
    return found, empty


def _check_name(name: str, top: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise _unfit(
            "NAME_INVALID",
            f"the name of {name!r} in `{top}` is not UTF-8",
            hint="rename the file; names are part of a folder's content and must read the same everywhere",
        ) from None


def _check_link(path: str, real_top: str, above: tuple[str, ...]) -> None:
    target = os.path.realpath(path)
    if target != real_top and not target.startswith(real_top.rstrip("/") + "/"):
        raise _unfit(
            "PATH_OUTSIDE",
            f"the link `{path}` leads out of its folder",
            hint="put the file itself into the folder; what lies outside is not part of its content",
        )
    if target in above:
        raise _unfit("CYCLE", f"the link `{path}` leads back to a folder above it", hint="remove the link")
    if not os.path.exists(target):
        raise _unfit("FILE_MISSING", f"the link `{path}` leads nowhere", hint="remove the link, or restore its target")


def iter_parents(path: str) -> Iterator[str]:
    """`a/b/c` → `a`, `a/b`."""
    position = path.find("/")
    while position != -1:
        yield path[:position]
        position = path.find("/", position + 1)
