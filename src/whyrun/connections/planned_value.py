"""Connections inside planned values: `{"$connection": "@mysql.primary", ...}` with the fields as written.

This module imports nothing, because every plan needs it and few workflows have connections.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

MARK = "$connection"


def fields_of(mark: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in mark.items() if name != MARK}  # no field can have this name


def without_names(value: Any) -> Any:
    """The value as it counts in a fingerprint: the fields of a connection count, its name does not."""
    if isinstance(value, dict):
        if MARK in value:
            return fields_of(value)
        return {key: without_names(member) for key, member in value.items()}
    return [without_names(member) for member in value] if isinstance(value, list) else value


def connections_in(value: Any) -> Iterator[dict[str, Any]]:
    """The connections in a planned value, at any depth."""
    if isinstance(value, dict):
        if MARK in value:
            yield value
            return
        value = list(value.values())
    if isinstance(value, list):
        for member in value:
            yield from connections_in(member)
