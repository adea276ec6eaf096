"""What the host asks about actions, and what comes back: plain records that travel as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from whyrun.actions.describe import Description
from whyrun.actions.problem import Bound, Problem


class Block(msgspec.Struct, frozen=True, omit_defaults=True):
    """One `with:` block, as `as_json` makes it. `missing`: entries that are there, but not known at all."""

    given: dict[str, Any]
    missing: list[str] = []
    file: str | None = None  # has_existing_contribution: the file in question


class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    ask: str  # "describe", "check", or the name of an optional method
    uses: str
    origin: str
    path: str
    attribute: str = ""
    blocks: list[Block] = []


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    error: str | None = None
    description: Description | None = None
    problems: list[list[Problem]] = []  # by block
    values: list[dict[str, Any]] = []  # by block: {"value": …} or {"error": why}


def as_json(value: Any) -> Any:
    """A value that can travel: a path as `{"$path": …}`, what is known by its type as `{"$bound": …}`."""
    if isinstance(value, Path):
        return {"$path": str(value)}
    if isinstance(value, Bound):
        return {"$bound": value.type}
    if isinstance(value, list):
        return [as_json(member) for member in value]
    if isinstance(value, dict):
        return {key: as_json(member) for key, member in value.items()}
    return value


def with_paths(value: Any) -> Any:
    """The way back."""
    if isinstance(value, list):
        return [with_paths(member) for member in value]
    if isinstance(value, dict):
        if value.keys() == {"$path"}:
            return Path(value["$path"])
        if value.keys() == {"$bound"}:
            return Bound(value["$bound"])
        return {key: with_paths(member) for key, member in value.items()}
    return value
