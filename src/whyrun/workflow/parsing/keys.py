"""The keys of an object in a workflow file: one row per key, for the parser, the JSON Schema and the docs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

Schema = dict[str, Any]

NAME_PATTERN = "^[A-Za-z_][A-Za-z0-9_]*$"
PARAMETER_PATTERN = "^[A-Za-z_][A-Za-z0-9_-]*$"


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """One key. The parser refuses every key that has no row."""

    name: str
    meaning: str  # one sentence: the description in the JSON Schema, and the text in the docs
    details: str = ""  # more for the docs, in Markdown
    schema: Schema  # without its description
    required: bool = False


def names_of(keys: Sequence[Key]) -> tuple[str, ...]:
    return tuple(key.name for key in keys)


def object_schema(keys: Sequence[Key], description: str | None = None) -> Schema:
    """The schema of an object that has these keys and no others."""
    schema: Schema = {
        **({} if description is None else {"description": description}),
        "type": "object",
        "additionalProperties": False,
        "properties": {key.name: {"description": key.meaning, **key.schema} for key in keys},
    }
    required = [key.name for key in keys if key.required]
    return {**schema, "required": required} if required else schema


def map_schema(definition: str) -> Schema:
    """A map from names to objects that `$defs` describes."""
    return {
        "type": "object",
        "propertyNames": {"pattern": NAME_PATTERN},
        "additionalProperties": {"$ref": f"#/$defs/{definition}"},
    }


def list_schema(pattern: str | None = None) -> Schema:
    """A list of different strings."""
    items: Schema = {"type": "string"} if pattern is None else {"type": "string", "pattern": pattern}
    return {"type": "array", "uniqueItems": True, "items": items}
