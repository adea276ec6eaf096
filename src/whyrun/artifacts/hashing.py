"""Hashes of values, files and folders. The same content has the same hash on every machine and in every locale."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from whyrun.errors import Diagnostic, InvalidError
from whyrun.lazy_regex import lazy_regex

_CHUNK = 1 << 20
_TREE_TAG = "whyrun/tree/v1"
TREE_START = b'{"empty_dirs":'  # the start of `encode_tree`; `decode_tree` refuses other bytes that start like this
_SHA256 = lazy_regex("[0-9a-f]{64}")
_LONGEST_NAME = 255  # bytes, the limit of file systems
DEEPEST = 256  # nested folders in a folder artifact: it must be possible to restore it anywhere


def is_sha256(text: str) -> bool:
    """Whether the text is a sha256 in lower case."""
    return _SHA256.fullmatch(text) is not None


# --- values ------------------------------------------------------------------------------------------------------


def canonical_json(value: Any) -> bytes:
    """One spelling per value: sorted keys, no spaces, UTF-8 unescaped, floats by repr. `1`, `1.0`, `true` differ.

    Refused, because two values would share one spelling or readers would disagree: NaN, infinities, keys that are not
    strings, and everything that JSON does not have. (msgspec is faster, but spells floats in another way, writes NaN as
    null and turns number keys into strings. So it is used only for values without these.)
    """
    if type(value) is int:
        return b"%d" % value
    if _is_plain(value):
        return _encode_plain(value)
    return _encode(value).encode()


def canonical_list(members: Iterable[bytes]) -> bytes:
    """The canonical JSON of a list from that of its members, for lists too long to build as objects."""
    return b"[%b]" % b",".join(members)


def canonical_object(members: Mapping[str, bytes]) -> bytes:
    return b"{%b}" % b",".join(b"%b:%b" % (canonical_json(name), members[name]) for name in sorted(members))


_PLAIN = frozenset({str, int, bool, type(None)})
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
_encode_plain = msgspec.json.Encoder(order="sorted").encode


def _is_plain(value: Any) -> bool:
    """Whether it consists only of strings, integers, true, false, null, and lists and objects of these.

    TypeError for a key that is not a string. Exact types are checked first, because this runs for every job of a plan.
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

    Each part is preceded by its type and length. So neither another boundary between two parts nor bytes instead of
    text can give the same preimage.
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
    """`size`: the number of bytes that were read, which may differ from `st_size` (as in `/sys`)."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return descriptor_sha256(descriptor), os.lseek(descriptor, 0, os.SEEK_CUR)
    finally:
        os.close(descriptor)


def descriptor_sha256(descriptor: int) -> str:
    """The hash of the bytes from the current position on."""
    hasher = hashlib.sha256()
    while chunk := os.read(descriptor, _CHUNK):
        hasher.update(chunk)
    return hasher.hexdigest()


def is_program(head: bytes) -> bool:
    """Whether a file that begins with these bytes is a script that names its interpreter, or a compiled program.

    Modes of files do not count as content, and a store has none. So the content says what can be executed: the answer
    is the same everywhere and after every transfer.
    """
    return head.startswith((b"#!", b"\x7fELF"))


# --- folders -----------------------------------------------------------------------------------------------------


class TreeFile(msgspec.Struct, frozen=True):
    """One file of a folder. `path` is relative, with `/`."""

    path: str
    sha256: str
    size: int
    executable: bool


class Tree(msgspec.Struct, frozen=True):
    files: tuple[TreeFile, ...]
    empty_dirs: tuple[str, ...]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


class FoundFile(msgspec.Struct, frozen=True):
    """A file below a folder. `path`: its name in the manifest. `location`: its path on disk."""

    path: str
    location: str
    linked: bool  # reached through a link in the folder: the file has another name, too


def tree_manifest(path: str | os.PathLike[str], sha256_of: Callable[[str], str] = file_sha256) -> bytes:
    """The manifest of a folder: sorted relative paths, content hashes, sizes, executable bits, empty folders.

    The hash of the folder is the hash of these bytes. Owners, times and other permissions are not content.
    """
    files, empty = walk_tree(path)
    return encode_tree([read_file_entry(file, sha256_of(file.location)) for file in files], empty)


def read_file_entry(file: FoundFile, sha256: str) -> TreeFile:
    status = os.stat(file.location)
    return TreeFile(file.path, sha256, status.st_size, bool(status.st_mode & stat.S_IXUSR))


def encode_tree(files: Iterable[TreeFile], empty_dirs: Iterable[str]) -> bytes:
    rows = sorted([file.path, file.sha256, file.size, file.executable] for file in files)
    return canonical_json({"tree": _TREE_TAG, "files": rows, "empty_dirs": sorted(empty_dirs)})


def decode_tree(manifest: bytes) -> Tree:
    """Read the manifest of a folder. ValueError for other bytes."""
    try:
        data = json.loads(manifest)
    except RecursionError:
        raise ValueError("the manifest of a folder nests too deeply") from None
    if not isinstance(data, dict) or data.get("tree") != _TREE_TAG:
        raise ValueError("not the manifest of a folder")
    # A step may have written these bytes. Hashes become paths in the store, and paths are created: check all of them.
    try:
        files = tuple(TreeFile(path, sha256, size, executable) for path, sha256, size, executable in data["files"])
        empty_dirs = tuple(data["empty_dirs"])
        for path in (*empty_dirs, *(file.path for file in files)):
            _check_listed_path(path)
        for file in files:
            if not is_sha256(file.sha256):
                raise ValueError(f"the manifest of a folder names an invalid sha256: {file.sha256!r:.80}")
            if type(file.size) is not int or file.size < 0 or type(file.executable) is not bool:
                raise ValueError(f"the manifest of a folder has an invalid size or mode for {file.path!r:.80}")
        _check_names_are_unique(files, empty_dirs)
    except (TypeError, AttributeError, KeyError) as wrong:
        raise ValueError(f"not the manifest of a folder: {wrong}") from None
    return Tree(files, empty_dirs)


def _check_listed_path(path: str) -> None:
    """The path is joined to the restored folder, so it must be valid and stay inside."""
    parts = path.split("/")
    if path.startswith("/") or ".." in parts:
        raise ValueError(f"the manifest of a folder names a path outside it: {path!r:.80}")
    if len(parts) > DEEPEST:
        raise ValueError(f"the manifest of a folder names a path of more than {DEEPEST} parts")
    if "" in parts or "." in parts or "\0" in path:
        raise ValueError(f"the manifest of a folder names an invalid path: {path!r:.80}")
    if any(len(part.encode()) > _LONGEST_NAME for part in parts):  # a path that is not UTF-8 also raises ValueError
        raise ValueError(f"the manifest of a folder names a path with too long a name: {path!r:.80}")


def _check_names_are_unique(files: Iterable[TreeFile], empty_dirs: Iterable[str]) -> None:
    folders = {parent for file in files for parent in iter_parents(file.path)}
    folders.update(parent for folder in empty_dirs for parent in iter_parents(folder))
    taken: set[str] = set()
    for path in (*empty_dirs, *(file.path for file in files)):
        if path in taken or path in folders:
            raise ValueError(f"the manifest of a folder names {path!r:.80} twice")
        taken.add(path)


class UnfitFolder(InvalidError):
    """A folder that cannot be an artifact: with a pipe, a link that leads out or nowhere, a name that is not UTF-8."""


def _unfit(code: str, message: str, hint: str) -> UnfitFolder:
    return UnfitFolder([Diagnostic(code, message, hint=hint)])


def walk_tree(root: str | os.PathLike[str]) -> tuple[list[FoundFile], list[str]]:
    """Every file below a folder, and its empty folders. Links are followed if they stay inside."""
    top = os.fspath(root)
    real_top = os.path.realpath(top)
    files: list[FoundFile] = []
    empty: list[str] = []

    def visit(folder: str, relative: str, above: tuple[str, ...], linked: bool) -> None:
        if len(above) > DEEPEST:
            raise _unfit(
                "INPUT_TYPE",
                f"`{top}` has more than {DEEPEST} folders within folders",
                hint="use fewer levels: not every file system could restore it",
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
                files.append(FoundFile(name, entry.path, linked or is_link))
            else:
                raise _unfit(
                    "INPUT_TYPE",
                    f"`{entry.path}` is neither a file nor a folder",
                    hint="sockets, pipes and devices have no content; move it out of the folder",
                )

    visit(top, "", (real_top,), False)
    return files, empty


def _check_name(name: str, top: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise _unfit(
            "NAME_INVALID",
            f"the name of {name!r} in `{top}` is not UTF-8",
            hint="rename the file; names are part of a folder's content and must be the same everywhere",
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
