"""The members of an output that is an array: files in its folder, or what the action returned, each with its key."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from whyrun.graph.fingerprint import SUFFIX_OF_TYPE, suffix_of_path
from whyrun.ids import Index
from whyrun.json_values import is_utf8, plain_scalar
from whyrun.workflow.arrays import MAX_ELEMENTS, Element, published_name
from whyrun.workflow.keys import stem
from whyrun.workflow.model import FILE_TYPES


class MemberProblem(Exception):
    """Why an array cannot be kept: the type of the step's error, and its message."""


Member = tuple[Index, Any]  # its key, and its value or the `Path` of its file

_SHOWN = 5  # names in a message


def members_of(name: str, base: str, value: Any) -> list[Member]:
    """`base`: the type of an element. `value`: what was returned, or the `Path` of the folder."""
    if isinstance(value, Path):
        members = _in_folder(name, base, value)
    elif isinstance(value, dict):
        members = [(_key(name, key), member) for key, member in value.items()]
    elif isinstance(value, list | tuple):
        members = list(enumerate(value))
    else:
        given = "null" if value is None else type(value).__name__
        message = f"`{name}` is declared as {base}[]: return a list or a dict, or write files into its folder"
        raise MemberProblem("WrongOutputType", f"{message}; it was returned as {given}")
    if len(members) > MAX_ELEMENTS:
        raise MemberProblem(
            "ValueTooLarge", f"`{name}` has {len(members)} elements; an array has at most {MAX_ELEMENTS}"
        )
    _check_names(name, base, members)
    return members


def _in_folder(name: str, base: str, folder: Path) -> list[Member]:
    """By name. Hidden files do not count, so that a tool may keep notes beside its results."""
    try:
        entries = sorted(entry.name for entry in os.scandir(folder) if not entry.name.startswith("."))
    except FileNotFoundError:
        raise MemberProblem("MissingOutput", f"the step removed the folder of its declared `{name}`") from None
    except NotADirectoryError:
        message = f"`{name}` is declared as {base}[], but one file was written: write files into the folder"
        raise MemberProblem("WrongOutputType", message) from None
    found: dict[str, str] = {}
    for entry in entries:
        if not is_utf8(entry):
            raise MemberProblem("WrongOutputType", f"`{name}` has a file whose name is not UTF-8: {entry!r}")
        is_folder = os.path.isdir(folder / entry)
        if is_folder and base not in ("directory", "dataset"):
            message = f"`{name}` is declared as {base}[], but its folder has a folder, `{entry}`: only files count"
            raise MemberProblem("WrongOutputType", message)
        key = entry if is_folder else stem(entry)
        if key in found:
            message = f"`{name}` has two files of one stem, `{found[key]}` and `{entry}`: stems name its elements"
            raise MemberProblem("WrongOutputType", message)
        found[key] = entry
    return [(_key(name, key), folder / entry) for key, entry in found.items()]


def _key(name: str, key: Any) -> Index:
    key = plain_scalar(key)
    if type(key) is int and key >= 0:
        return key
    if isinstance(key, str) and key and key.isprintable() and is_utf8(key):
        return key
    message = f"`{name}` has the key {key!r:.60}: a key is a printable text, or a number from 0"
    raise MemberProblem("WrongOutputType", message)


def suffix_of(base: str, member: Any) -> str:
    """The suffix of an element's file; nothing for values and folders."""
    if base not in FILE_TYPES:
        return ""
    if isinstance(member, os.PathLike):
        return suffix_of_path(Path(member).name)
    return SUFFIX_OF_TYPE.get(base, "")


def _check_names(name: str, base: str, members: Iterable[Member]) -> None:
    """Two elements must not be published as one file."""
    seen: dict[str, Index] = {}
    for key, member in members:
        file = published_name(Element(key, "", 0, suffix_of(base, member)), f"{base}[]")
        if file in seen:
            message = f"`{name}` has the keys {seen[file]!r} and {key!r}, which both name the file `{file}`"
            raise MemberProblem("WrongOutputType", message)
        seen[file] = key
