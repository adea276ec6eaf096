"""What the diagnostics of `data/check` will be, as far as its parameters say it: known before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CHECKING_ACTION = "data/check"
_COUNTS = ("missing", "duplicates")


def diagnostic_types(parameters: Mapping[str, Any]) -> Mapping[str, str | None] | None:
    """By name: `integer`, `number`, or None for what a query of the user's gives. None: the names are not known."""
    diagnostics = parameters.get("diagnostics")
    return {name: _type(asked) for name, asked in diagnostics.items()} if isinstance(diagnostics, dict) else None


def _type(asked: Any) -> str | None:
    if asked in ("rows", "columns"):
        return "integer"
    if isinstance(asked, dict) and "missing_share" in asked:
        return "number"
    return "integer" if isinstance(asked, dict) and any(count in asked for count in _COUNTS) else None
