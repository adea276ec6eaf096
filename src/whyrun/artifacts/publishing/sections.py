"""Shared JSON files: one object in which each section is an artifact. Other members belong to the user.

The hash of a section is that of its canonical JSON. The file is split into the texts of its members, never parsed and
written again, so every other member stays the same, character by character.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

import msgspec

from whyrun import disk
from whyrun.artifacts.durable import atomic_write, checked, with_checksum
from whyrun.artifacts.hashing import bytes_sha256, canonical_json
from whyrun.artifacts.stat_cache.cache import StatCache
from whyrun.artifacts.store import Store
from whyrun.disk import Area
from whyrun.errors import WhyrunError
from whyrun.ids import split_site

_SPACE = " \t\n\r"
_VERSION = 1
_MAX_DEPTH = 200


class NotSections(ValueError):
    """The text is not a JSON object, or its members cannot be sections; the message says why."""


class Member(msgspec.Struct, frozen=True):
    key: str  # as written, with its quotes
    text: str  # the value, as written


def _no_constant(name: str) -> NoReturn:
    raise NotSections(f"`{name}` is not JSON")


_decoder = json.JSONDecoder(parse_constant=_no_constant)


# --- splitting and joining ---------------------------------------------------------------------------------------


def read_members(text: str) -> dict[str, Member]:
    """The members of the object by key, in their order; `NotSections` if it is not an object."""
    try:
        return _members(text)
    except RecursionError:
        raise NotSections("it nests too deeply") from None
    except json.JSONDecodeError as problem:
        raise NotSections(f"{problem.msg[:1].lower()}{problem.msg[1:]} {_position(text, problem.pos)}") from None
    except ValueError as problem:
        raise problem if isinstance(problem, NotSections) else NotSections(str(problem)) from None


def _members(text: str) -> dict[str, Member]:
    at = _after_space(text, 0)
    if text[at : at + 1] != "{":
        raise NotSections("it is empty" if at == len(text) else "it is not a JSON object")
    members: dict[str, Member] = {}
    at = _after_space(text, at + 1)
    if text[at : at + 1] == "}":
        return _nothing_after(text, at + 1, members)
    while True:
        if text[at : at + 1] != '"':
            raise NotSections(f"a key is expected {_position(text, at)}")
        key, end = _decoder.raw_decode(text, at)
        written = text[at:end]
        at = _after_space(text, end)
        if text[at : at + 1] != ":":
            raise NotSections(f"`:` is expected {_position(text, at)}")
        start = _after_space(text, at + 1)
        _, end = _decoder.raw_decode(text, start)
        if key in members:
            raise NotSections(f"it has the key {written} twice")
        members[key] = Member(written, text[start:end])
        at = _after_space(text, end)
        if text[at : at + 1] == "}":
            return _nothing_after(text, at + 1, members)
        if text[at : at + 1] != ",":
            raise NotSections(f"`,` or `}}` is expected {_position(text, at)}")
        at = _after_space(text, at + 1)


def _position(text: str, at: int) -> str:
    line_start = text.rfind("\n", 0, at) + 1
    return f"at line {text.count(chr(10), 0, at) + 1}, column {at - line_start + 1}"


def _after_space(text: str, at: int) -> int:
    while text[at : at + 1] and text[at] in _SPACE:
        at += 1
    return at


def _nothing_after(text: str, at: int, members: dict[str, Member]) -> dict[str, Member]:
    at = _after_space(text, at)
    if at < len(text):
        raise NotSections(f"something follows the object {_position(text, at)}")
    return members


def written_members(members: Iterable[Member]) -> str:
    """The text of the file, with each member as it was written."""
    lines = ",\n".join(f"  {member.key}: {member.text}" for member in members)
    return f"{{\n{lines}\n}}\n" if lines else "{}\n"


def section_member(key: str, data: bytes) -> Member:
    """The text of a section from its canonical JSON: indented, and always the same."""
    text = json.dumps(parse_json(data), indent=2, ensure_ascii=False)
    return Member(json.dumps(key, ensure_ascii=False), text.replace("\n", "\n  "))  # strings have no bare newlines


def parse_json(data: bytes | str) -> Any:
    """Parse strict JSON, without NaN and infinities. ValueError or RecursionError if it is invalid."""
    return json.loads(data, parse_constant=_no_constant)


def section_bytes(text: bytes | str) -> bytes:
    """The canonical JSON of a section: the bytes of its artifact. ValueError if it cannot be one."""
    value = parse_json(text)
    _check_depth(value, _MAX_DEPTH)
    return canonical_json(value)


def _check_depth(value: Any, left: int) -> None:
    """ValueError if it nests too deeply: readers could not parse the shared file any more."""
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for member in members:
        if isinstance(member, dict | list):
            if not left:
                raise ValueError(f"it nests deeper than {_MAX_DEPTH}")
            _check_depth(member, left - 1)


def section_sha256(text: str) -> str:
    """The hash of a section in a file. A section without canonical JSON (with half a surrogate pair) is not ours: it
    gets the hash of its text, which no artifact has."""
    try:
        return bytes_sha256(section_bytes(text))
    except (ValueError, RecursionError):
        return bytes_sha256(b"not canonical\n" + text.encode(errors="surrogatepass"))


# --- reading -----------------------------------------------------------------------------------------------------


class _Index(msgspec.Struct, array_like=True):
    """Derived: the hash of a file → the hashes of its sections; None if it is not a JSON object."""

    version: int
    files: dict[str, dict[str, str] | None]


def _file_content(path: str) -> bytes:
    """OSError if it is not a file: reading a pipe without a writer would block forever."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a file")
        return file.read()


class SharedFiles:
    """The hashes of the sections in the shared files of a project. A file is parsed once for each content."""

    def __init__(self, project: str, cache: StatCache, index: str | None) -> None:
        """`index`: the file that keeps the hashes; it may be deleted at any time."""
        self.project, self.cache = project, cache
        self._index = index
        self._known: dict[str, dict[str, str] | None] | None = None
        self._used: dict[str, dict[str, str] | None] = {}
        self._fresh = False

    def sections(self, path: str) -> Mapping[str, str] | None:
        """Key → hash; None if there is no file. A file that is not a JSON object has no sections."""
        try:
            return self._sections(path)
        except NotSections:
            return {}

    def is_unreadable(self, path: str) -> bool:
        """Whether the path exists but is not a JSON object: its sections are unreadable, not deleted."""
        try:
            self._sections(path)
        except NotSections:
            return True
        return False

    def _sections(self, path: str) -> Mapping[str, str] | None:
        try:
            sha = self.cache.sha256_of(f"{self.project}/{path}")
        except WhyrunError:
            raise NotSections("it cannot be read") from None
        if sha is None:
            return None
        if self.cache.is_folder(f"{self.project}/{path}"):
            raise NotSections("it is a folder")
        if sha not in self._used:
            known = self._load()
            if sha in known:
                self._used[sha] = known[sha]
            else:
                sha, sections = self._parse(path)
                self._used[sha], self._fresh = sections, True
        known_sections = self._used[sha]
        if known_sections is None:
            raise NotSections("it is not a JSON object")
        return known_sections

    def sha256_of(self, site: str) -> str | None:
        path, key = split_site(site)
        return (self.sections(path) or {}).get(key or "")

    def data(self, site: str) -> bytes | None:
        """The canonical bytes of a section; None if it is not in the file."""
        path, key = split_site(site)
        try:
            member = read_members(_file_content(f"{self.project}/{path}").decode()).get(key or "")
            return None if member is None else section_bytes(member.text)
        except (OSError, ValueError, RecursionError):
            return None

    def restore(self, site: str, sha256: str, store: Store) -> bool:
        """Put a lost blob back from its section. False: the section is missing or differs."""
        data = self.data(site)
        return data is not None and bytes_sha256(data) == sha256 and store.put_bytes(data) == sha256

    def save(self) -> None:
        """Save the hashes of the files that were read. An OSError here only costs time."""
        if self._fresh and self._index is not None:
            disk.make_folders(Area.INDEX, os.path.dirname(self._index))
            data = with_checksum(msgspec.msgpack.encode(_Index(_VERSION, self._used)))
            atomic_write(self._index, data, Area.INDEX)
            self._fresh = False

    def _parse(self, path: str) -> tuple[str, dict[str, str] | None]:
        try:
            data = _file_content(f"{self.project}/{path}")
        except OSError:
            return "", None  # removed, or made unreadable, just now
        try:
            members = read_members(data.decode())
        except ValueError:
            return bytes_sha256(data), None
        return bytes_sha256(data), {key: section_sha256(member.text) for key, member in members.items()}

    def _load(self) -> dict[str, dict[str, str] | None]:
        if self._known is None:
            self._known = {}
            try:
                with open(self._index or "", "rb") as file:
                    index = msgspec.msgpack.decode(checked(file.read()), type=_Index)
                if index.version == _VERSION:
                    self._known = index.files
            except (OSError, ValueError):
                return self._known  # missing or damaged: it is made again
        return self._known
