"""A connection in a planned value: its fields as written, and `"$connection": "@mysql.primary"`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

MARK = "$connection"


def fields_of(mark: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in mark.items() if name != MARK}  # no field has such a name


def counted(value: Any) -> Any:
    """What counts of a planned value: of a connection its fields, and not the name that it goes by."""
    if isinstance(value, dict):
        if MARK in value:
            return fields_of(value)
        return {key: counted(member) for key, member in value.items()}
    return [counted(member) for member in value] if isinstance(value, list) else value


def marks_in(value: Any) -> Iterator[dict[str, Any]]:
    """The connections in a planned value, at any depth."""
    if isinstance(value, dict):
        if MARK in value:
            yield value
            return
        value = list(value.values())
    if isinstance(value, list):
        for member in value:
            yield from marks_in(member)
