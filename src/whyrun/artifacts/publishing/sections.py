"""Shared JSON files: one object, in which each section belongs to one artifact and the rest to nobody.

A section is known by the hash of its canonical JSON. What stands in a file stays as it is written, to the character,
until its own writer replaces it: a file is taken apart into the texts of its members, never into values and back.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import msgspec

from whyrun import disk
from whyrun.artifacts.durable import atomic_write, checked, with_checksum
from whyrun.artifacts.hashing import bytes_sha256, canonical_json
from whyrun.artifacts.stat_cache import StatCache
from whyrun.artifacts.store import Store
from whyrun.disk import Area
from whyrun.errors import WhyrunError
from whyrun.ids import split_site

_SPACE = " \t\n\r"
_VERSION = 1
_MAX_DEPTH = 200


class NotSections(ValueError):
    """The text is no JSON object whose members could be sections; says why."""


@dataclass(frozen=True, slots=True)
class Member:
    key: str  # as written, with its quotes
    text: str  # the value, as written


def _no_constant(name: str) -> NoReturn:
    raise NotSections(f"`{name}` is no JSON")


_decoder = json.JSONDecoder(parse_constant=_no_constant)


# --- taking apart and putting together ---------------------------------------------------------------------------


def read_members(text: str) -> dict[str, Member]:
    """The members of the object by their keys, in their order; `NotSections` where it is none."""
    try:
        return _members(text)
    except RecursionError:
        raise NotSections("it nests too deeply") from None
    except json.JSONDecodeError as problem:
        raise NotSections(f"{problem.msg[:1].lower()}{problem.msg[1:]} {_place(text, problem.pos)}") from None
    except ValueError as problem:
        raise problem if isinstance(problem, NotSections) else NotSections(str(problem)) from None


def _members(text: str) -> dict[str, Member]:
    at = _after_space(text, 0)
    if text[at : at + 1] != "{":
        raise NotSections("it is empty" if at == len(text) else "it is no JSON object")
    found: dict[str, Member] = {}
    at = _after_space(text, at + 1)
    if text[at : at + 1] == "}":
        return _nothing_after(text, at + 1, found)
    while True:
        if text[at : at + 1] != '"':
            raise NotSections(f"a key is due {_place(text, at)}")
        key, end = _decoder.raw_decode(text, at)
        written = text[at:end]
        at = _after_space(text, end)
        if text[at : at + 1] != ":":
            raise NotSections(f"`:` is due {_place(text, at)}")
        start = _after_space(text, at + 1)
        _, end = _decoder.raw_decode(text, start)
        if key in found:
            raise NotSections(f"it has the key {written} twice")
        found[key] = Member(written, text[start:end])
        at = _after_space(text, end)
        if text[at : at + 1] == "}":
            return _nothing_after(text, at + 1, found)
        if text[at : at + 1] != ",":
            raise NotSections(f"`,` or `}}` is due {_place(text, at)}")
        at = _after_space(text, at + 1)


def _place(text: str, at: int) -> str:
    line_start = text.rfind("\n", 0, at) + 1
    return f"at line {text.count(chr(10), 0, at) + 1}, column {at - line_start + 1}"


def _after_space(text: str, at: int) -> int:
    while text[at : at + 1] and text[at] in _SPACE:
        at += 1
    return at


def _nothing_after(text: str, at: int, found: dict[str, Member]) -> dict[str, Member]:
    at = _after_space(text, at)
    if at < len(text):
        raise NotSections(f"something follows the object {_place(text, at)}")
    return found


def written_members(members: Iterable[Member]) -> str:
    """The file: one member after the other, as each is written."""
    lines = ",\n".join(f"  {member.key}: {member.text}" for member in members)
    return f"{{\n{lines}\n}}\n" if lines else "{}\n"


def section_member(key: str, data: bytes) -> Member:
    """A section as it is written into a file, from its canonical JSON: indented for readers, the same every time."""
    text = json.dumps(parse_json(data), indent=2, ensure_ascii=False)
    return Member(json.dumps(key, ensure_ascii=False), text.replace("\n", "\n  "))  # strings hold no bare line ends


def parse_json(data: bytes | str) -> Any:
    """Strictly: no NaN, no infinities. ValueError (RecursionError) where it is none."""
    return json.loads(data, parse_constant=_no_constant)


def section_bytes(text: bytes | str) -> bytes:
    """The canonical JSON of a section: the bytes that are its artifact. ValueError where it cannot be one."""
    value = parse_json(text)
    _check_depth(value, _MAX_DEPTH)
    return canonical_json(value)


def _check_depth(value: Any, left: int) -> None:
    """One section that no reader can take in would spoil the file for all others."""
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for member in members:
        if isinstance(member, dict | list):
            if not left:
                raise ValueError(f"it nests deeper than {_MAX_DEPTH}")
            _check_depth(member, left - 1)


def section_sha256(text: str) -> str:
    """The hash of a section as it stands in a file. One that has no canonical JSON (half a character) is none of ours:
    then it is that of its text, which no artifact has."""
    try:
        return bytes_sha256(section_bytes(text))
    except (ValueError, RecursionError):
        return bytes_sha256(b"not canonical\n" + text.encode(errors="surrogatepass"))


# --- looking -----------------------------------------------------------------------------------------------------


class _Index(msgspec.Struct, array_like=True):
    """Derived: the hash of a file's content → the hashes of its sections. None: it has none, being no JSON object."""

    version: int
    files: dict[str, dict[str, str] | None]


def _file_content(path: str) -> bytes:
    """OSError where it is no file: a pipe without a writer would be waited for, for ever."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no file")
        return file.read()


class SharedFiles:
    """The sections of the shared files of a project, by their hashes. A file is taken apart once for each content."""

    def __init__(self, project: str, cache: StatCache, index: str | None) -> None:
        """`index`: where what was found is kept; it may be deleted at any time."""
        self.project, self.cache = project, cache
        self._index = index
        self._known: dict[str, dict[str, str] | None] | None = None
        self._used: dict[str, dict[str, str] | None] = {}
        self._fresh = False

    def sections(self, path: str) -> Mapping[str, str] | None:
        """Key → hash; None where there is no file. What cannot be read as a JSON object has no sections."""
        try:
            return self._sections(path)
        except NotSections:
            return {}

    def is_unreadable(self, path: str) -> bool:
        """Something stands there, and it is no JSON object: its sections are not deleted, but nobody can see them."""
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
                sha, found = self._take_apart(path)
                self._used[sha], self._fresh = found, True
        known_sections = self._used[sha]
        if known_sections is None:
            raise NotSections("it is no JSON object")
        return known_sections

    def sha256_of(self, site: str) -> str | None:
        path, key = split_site(site)
        return (self.sections(path) or {}).get(key or "")

    def data(self, site: str) -> bytes | None:
        """The bytes of a section as its artifact has them; None where it is not in the file."""
        path, key = split_site(site)
        try:
            member = read_members(_file_content(f"{self.project}/{path}").decode()).get(key or "")
            return None if member is None else section_bytes(member.text)
        except (OSError, ValueError, RecursionError):
            return None

    def restore(self, site: str, sha256: str, store: Store) -> bool:
        """Put a lost blob back from its section. False: the section is not there, or another."""
        data = self.data(site)
        return data is not None and bytes_sha256(data) == sha256 and store.put_bytes(data) == sha256

    def save(self) -> None:
        """Keep what was found, of the files that were looked at. May fail with OSError, which costs time only."""
        if self._fresh and self._index is not None:
            disk.make_folders(Area.INDEX, os.path.dirname(self._index))
            data = with_checksum(msgspec.msgpack.encode(_Index(_VERSION, self._used)))
            atomic_write(self._index, data, Area.INDEX)
            self._fresh = False

    def _take_apart(self, path: str) -> tuple[str, dict[str, str] | None]:
        try:
            data = _file_content(f"{self.project}/{path}")
        except OSError:
            return "", None  # gone, or closed to us, within a moment
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
                return self._known  # not there, or not ours: it is derived, and made anew
        return self._known
