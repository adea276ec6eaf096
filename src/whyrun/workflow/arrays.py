"""Outputs that are arrays: the list that the log records of one, and the elements in it. Pure.

A step records each element as an artifact of its own (`Artifact:Split.Parts[part-01]`), then the list as the output
itself (`Artifact:Split.Parts`). The list is a value, in the order of the array:

    [{"key", "sha256", "size", "suffix"?, "value"?}]

So the log alone says which elements there are, and the content of the list is the content of them all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

import msgspec
from msgspec import UNSET

from whyrun.ids import Index, file_name, format_index
from whyrun.lazy_regex import lazy_regex
from whyrun.workflow.model import VALUE_TYPES, At, Loop, Selector


class Every(IntEnum):
    """In the place of a key: every element of an array."""

    ELEMENT = 0


_PLAIN = lazy_regex(r"[^/%.§][^/%§]*")  # a file name that is kept as it is
_LONGEST = 200  # bytes of a file name
MAX_ELEMENTS = 100_000  # of one array


class Element(msgspec.Struct, frozen=True, omit_defaults=True):
    """One element, as the record of its list names it."""

    key: Index
    sha256: str
    size: int
    suffix: str = ""  # of files
    value: Any = UNSET  # of value types

    @property
    def text(self) -> str:
        """Its key as it ends an ID: `[part-01]`."""
        return f"[{format_index(self.key)}]"


def is_array(type_: str) -> bool:
    return type_.endswith("[]")


def element_type(type_: str) -> str:
    return type_.removesuffix("[]")


def is_value_type(type_: str) -> bool:
    """Whether the log has the value of an output of this type: then it needs no stored bytes."""
    return type_ in VALUE_TYPES or type_.endswith("[]")


def as_recorded(elements: Sequence[Element]) -> list[dict[str, Any]]:
    """The value of the list's own record."""
    return [msgspec.to_builtins(element) for element in elements]


def elements_of(recorded: Any) -> Sequence[Element]:
    """The elements that the record of a list names, in its order."""
    if recorded is UNSET:
        return ()  # of an adopted or foreign record: its bytes say nothing about elements
    return msgspec.convert(recorded, tuple[Element, ...])


class ListIndex:
    """Elements by key, for many look-ups in the same lists."""

    def __init__(self) -> None:
        self._known: dict[Any, tuple[Any, Mapping[Index, Element]]] = {}

    def elements(self, of: Any, recorded: Any) -> Mapping[Index, Element]:
        """`of`: what the list belongs to. Each version of it is read once."""
        known = self._known.get(of)
        if known is None or known[0] is not recorded:
            known = self._known[of] = recorded, {element.key: element for element in elements_of(recorded)}
        return known[1]

    def element(self, of: Any, recorded: Any, key: Index) -> Element | None:
        """`2.0` is another key than `2`, although Python has them equal."""
        found = self.elements(of, recorded).get(key)
        return found if found is not None and type(found.key) is type(key) else None


def published_name(element: Element, type_: str) -> str:
    """The name of its file in the published folder. `type_`: of the array."""
    base = element_type(type_)
    suffix = element.suffix if base not in VALUE_TYPES and base != "json" else ".json"
    plain = f"{element.key}{suffix}"
    if _PLAIN.fullmatch(plain) and len(plain.encode()) <= _LONGEST:
        return plain
    return file_name(plain)  # keys and suffixes come from workers: no name leads out of the folder


def published_path(folder: str, element: Element, type_: str) -> str:
    return f"{folder}/{published_name(element, type_)}" if folder not in ("", ".") else published_name(element, type_)


# --- references to elements: `jobs.Split.outputs.Parts[:]`, `Parts[sample, "part-01"]` --------------------------------


# (the number of the selector, or None for the output's name; code; message; hint)
Problem = tuple[int | None, str, str, str]


def element_problem(
    loops: Sequence[str] | None, job: str, output: str, selectors: Sequence[Selector]
) -> Problem | None:
    """What is wrong with the selectors of an array: it takes the indices of its job's loops, and one of an element.

    `loops`: None where they are not known.
    """
    if loops is None:
        return None
    listed = ", ".join(loops)
    if len(selectors) != len(loops) + 1:
        runs = f", which runs for [{listed}]," if loops else ""
        needed = "one selector" if not loops else f"{len(loops) + 1} selectors"
        message = f"the output `{output}` of job `{job}`{runs} is an array: it needs {needed}"
        head = f"{output}[{listed}, " if loops else f"{output}["
        hint = f'write `{head}:]` for all its elements, `{head}"key"]` for one'
        return (len(loops) + 1 if len(selectors) > len(loops) + 1 else None), "LOOP_MISMATCH", message, hint
    last, number = selectors[-1], len(loops)
    if isinstance(last, Loop) and last.offset:
        message = f"`[{last}]`: the elements of `{output}` are known once it is made, so no neighbour is known now"
        return number, "EXPRESSION_FORBIDDEN", message, f"name one, `[{last.loop}]`, or take all, `[:]`"
    if isinstance(last, At) and (type(last.index) is float or (type(last.index) is int and last.index < 0)):
        message = f"`{last.index}` is no index of an element of `{output}`"
        return number, "INDEX_FORMAT_INVALID", message, "elements have keys, or positions that are counted from 0"
    return None
