"""The messages between the host and the inspector process: plain records that are sent as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from whyrun.actions.code.source_loader import Version
from whyrun.actions.description import Description
from whyrun.actions.problem import Bound, Problem


class WithBlock(msgspec.Struct, frozen=True, omit_defaults=True):
    """One `with:` block, encoded by `encode_value`. `missing`: entries whose values are not known yet."""

    given: dict[str, Any]
    missing: list[str] = []
    file: str | None = None  # has_existing_contribution: the file in question


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    ask: str  # "describe", "check", or the name of an optional method
    uses: str
    origin: str
    path: str
    attribute: str = ""
    blocks: list[WithBlock] = []


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    error: str | None = None
    description: Description | None = None
    problems: list[list[Problem]] = []  # by block
    values: list[dict[str, Any]] = []  # by block: {"value": …} or {"error": why}
    loaded: dict[str, Version | None] = {}  # the project files that the process has imported so far


def encode_value(value: Any) -> Any:
    """A value as JSON: a path becomes `{"$path": …}`, a bound value `{"$bound": type}`."""
    if isinstance(value, Path):
        return {"$path": str(value)}
    if isinstance(value, Bound):
        return {"$bound": value.type}
    if isinstance(value, list):
        return [encode_value(member) for member in value]
    if isinstance(value, dict):
        return {key: encode_value(member) for key, member in value.items()}
    return value


def decode_value(value: Any) -> Any:
    """The reverse of `encode_value`."""
    if isinstance(value, list):
        return [decode_value(member) for member in value]
    if isinstance(value, dict):
        if value.keys() == {"$path"}:
            return Path(value["$path"])
        if value.keys() == {"$bound"}:
            return Bound(value["$bound"])
        return {key: decode_value(member) for key, member in value.items()}
    return value
