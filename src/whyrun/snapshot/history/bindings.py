"""Reads the bindings of an event: checked against their types, and long lists with their members."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Any

import msgspec

from whyrun.errors import StateError
from whyrun.log.decoding import decoded, read_long_list
from whyrun.log.events import UNREADABLE, damaged_line, id_problem

_UNREADABLE_BINDINGS = "the bindings cannot be read"
_LISTED_ACTION = "`.action` is a long list"


class _Member(msgspec.Struct, gc=False):
    """The fields of a binding's member that are used."""

    id: str
    sha256: str
    form: str = msgspec.field(default="v", name="as")
    listed: bool = False
    files: dict[str, str] = {}


class _LongList(msgspec.Struct, gc=False):
    count: int
    digest: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    blob: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class _Bindings(msgspec.Struct, gc=False):
    """Bindings are checked against these types, and then returned as recorded."""

    bindings: dict[str, list[_Member] | _LongList]


class _Plain(msgspec.Struct, gc=False):
    bindings: dict[str, Any]


# Made late: a plan with nothing to do reads no bindings.
_binding_decoders = cache(lambda: (msgspec.json.Decoder(_Bindings), msgspec.json.Decoder(_Plain)))
_members_decoder = cache(lambda: msgspec.json.Decoder(list[_Member]))


class BindingsReader:
    def __init__(self, get_blob: Callable[[str], bytes]) -> None:
        self._get_blob = get_blob
        self._long_lists: dict[str, list[Any]] = {}  # digest → members

    def read(self, line: bytes, file: str, seq: int) -> dict[str, Any]:
        """As recorded, with the members of long lists if their blobs can be read; LOG_DAMAGED if malformed."""
        checked, plain = _binding_decoders()
        try:
            bindings = decoded(checked.decode, line).bindings
        except UNREADABLE as wrong:
            raise damaged_line(file, seq, f"{_UNREADABLE_BINDINGS}: {wrong}") from None
        if isinstance(bindings.get(".action"), _LongList):
            raise damaged_line(file, seq, f"{_UNREADABLE_BINDINGS}: {_LISTED_ACTION}")
        found = decoded(plain.decode, line).bindings
        for name, members in bindings.items():
            if isinstance(members, _LongList):
                found[name] = self._members(found[name], file, seq)
            else:
                _check_members(name, members, file, seq)
        return found

    def _members(self, long_list: dict[str, Any], file: str, seq: int) -> Any:
        """The members of a long list; the `{count, digest, blob}` itself if the blob cannot be read.

        Many consumers share one fan-in, so each list is read once.
        """
        digest = long_list["digest"]
        if digest not in self._long_lists:
            try:
                data = self._get_blob(long_list["blob"])
                members = decoded(_members_decoder().decode, data)
                _check_members(f"blob {long_list['blob']}", members, file, seq)
                self._long_lists[digest] = read_long_list(long_list, lambda _: data)
            except StateError as lost:
                if lost.diagnostics[0].code != "STORE_DAMAGED":
                    raise
                return long_list
            except UNREADABLE as wrong:
                raise damaged_line(
                    file, seq, f"the blob {long_list['blob']} holds no list of members: {wrong}"
                ) from None
        return self._long_lists[digest]


def _check_members(name: str, members: Sequence[_Member], file: str, seq: int) -> None:
    problem = _members_problem(name, members)
    if problem is not None:
        raise damaged_line(file, seq, problem)


def _members_problem(name: str, members: Sequence[_Member]) -> str | None:
    problems = (id_problem(member.id, None) for member in members)
    return next((f"`{name}`: {problem}" for problem in problems if problem is not None), None)


def bindings_problem(bindings: dict[str, Any]) -> str | None:
    """Why `History` could not read these bindings of an event, or None. The blobs of long lists are not read."""
    try:
        checked = msgspec.convert({"bindings": bindings}, _Bindings).bindings
    except msgspec.ValidationError as wrong:
        return f"{_UNREADABLE_BINDINGS}: {wrong}"
    if isinstance(checked.get(".action"), _LongList):
        return f"{_UNREADABLE_BINDINGS}: {_LISTED_ACTION}"
    short = ((name, members) for name, members in checked.items() if isinstance(members, list))
    return next((problem for one in short if (problem := _members_problem(*one)) is not None), None)
