"""`key:` of an input: what names the elements of its array. Keys are the indices in IDs, selectors and loops. Pure.

stem                  reads/alpha.fastq.gz → alpha
name                  reads/alpha.fastq.gz → alpha.fastq.gz
{}_R1.fastq.gz        reads/alpha_R1.fastq.gz → alpha
{}/R1.fastq.gz        reads/alpha/R1.fastq.gz → alpha
id                    a field of JSON elements
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from whyrun.errors import Diagnostic, did_you_mean
from whyrun.workflow.model import InputDecl, Type
from whyrun.workflow.values import InputValue, Keys

_COMPRESSED = (".gz", ".bz2", ".xz", ".zst")  # the suffix before one of these says what the file is
_SHOWN = 5  # files in a message


def key_problem(declared: Type, key: str) -> tuple[str, str] | None:
    """Why elements of this type cannot have this key, and what to write instead."""
    if declared.depth != 1 or not (declared.is_path or declared.base == "json"):
        shown = f"{declared.base}[]" if declared.is_path or declared.base == "json" else "file[]"
        instead = "a loop over the values themselves is `{values: inputs.NAME}`" if declared.depth else ""
        return f"only arrays of files and of `json` have keys, not `{declared}`", instead or f"write `type: {shown}`"
    if declared.base == "json" or key in ("stem", "name"):
        return None
    if key.count("{}") == 1 and "{" not in key.replace("{}", ""):
        return None
    return f"`{key}` is no key of files", "write `stem`, `name`, or a pattern with one `{}`: `{}_R1.fastq.gz`"


def with_keys(id_: str, decl: InputDecl, value: InputValue) -> tuple[InputValue, list[Diagnostic]]:
    """The array with the keys that its declaration asks for."""
    if decl.key is None or value.elements is None:
        return value, []
    if decl.type.is_path:
        found = _keys_of_paths(decl.key, [str(each.path) for each in value.elements])
    else:
        found = [_key_of_field(decl.key, each.value) for each in value.elements]
    misfits = [position for position, key in enumerate(found) if key is None]
    if misfits:
        return value, [_misfit(id_, decl, value, misfits)]
    keys = Keys(str(key) for key in found)
    if len(keys) < len(found):
        first = next(position for position, key in enumerate(found) if keys[str(key)] != position)
        return value, [_twice(id_, decl, value, first, found.index(found[first], first + 1))]
    return replace(value, keys=keys), []


def stem(name: str) -> str:
    """Without the last suffix, and the one before `.gz .bz2 .xz .zst`."""
    head, dot, last = name.rpartition(".")
    if not head:
        return name
    return stem(head) if f"{dot}{last}" in _COMPRESSED else head


def _keys_of_paths(key: str, paths: Sequence[str]) -> list[str | None]:
    if key in ("stem", "name"):
        names = [path[path.rfind("/") + 1 :] for path in paths]
        return [stem(name) for name in names] if key == "stem" else [*names]
    before, after = map(re.escape, key.split("{}"))
    fits = re.compile(rf"(?:.*/)?{before}([^/]+){after}", re.DOTALL).fullmatch
    return [found[1] if (found := fits(path)) else None for path in paths]


def _key_of_field(field: str, value: Any) -> str | None:
    """Keys are strings: a number is written as in JSON."""
    key = value.get(field) if isinstance(value, dict) else None
    if isinstance(key, int | float) and not isinstance(key, bool):
        return str(key)
    return key if isinstance(key, str) and key else None


def _misfit(id_: str, decl: InputDecl, value: InputValue, misfits: Sequence[int]) -> Diagnostic:
    assert value.elements is not None
    if decl.type.is_path:
        files = _listed([str(value.elements[position].path) for position in misfits])
        message = f"`{id_}`: the key `{decl.key}` does not fit {files}"
        return decl.place.diagnostic("INPUT_TYPE", message, "give only files that it fits, or another key, as `stem`")
    row, number = value.elements[misfits[0]].value, misfits[0] + 1
    where = f"row {number} of `{value.path}`" if value.path else f"element {number}"
    if not isinstance(row, dict):
        message, hint = f"`{id_}`: {where} is no object", "each element is an object that has the key as a field"
    elif decl.key in row:
        message = f"`{id_}`: the field `{decl.key}` of {where} is no key: a key is a text or a number"
        hint = "give each element its own name there"
    else:
        message = f"`{id_}`: {where} has no field `{decl.key}`"
        hint = did_you_mean(str(decl.key), list(row)) or f"its fields are {_listed(list(row))}"
    return decl.place.diagnostic("INPUT_TYPE", message, hint)


def _twice(id_: str, decl: InputDecl, value: InputValue, first: int, second: int) -> Diagnostic:
    assert value.elements is not None
    one, other = value.elements[first], value.elements[second]
    if decl.type.is_path:
        (key,) = {*_keys_of_paths(str(decl.key), [str(one.path), str(other.path)])}
        holders, hint = f"`{one.path}` and `{other.path}`", "rename one, or take a key that differs: `name`, a pattern"
    else:
        key, of_file = one.value[decl.key], f" of `{value.path}`" if value.path else ""
        holders, hint = f"rows {first + 1} and {second + 1}{of_file}", "keys are names: change one"
    message = f"`{id_}`: {holders} have the same key `{key}`"
    return decl.place.diagnostic("NAME_TAKEN", message, hint)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown
