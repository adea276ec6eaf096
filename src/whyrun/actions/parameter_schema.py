"""The JSON Schema of an action's typed parameters, for editors and language models that write a plan.

It says what the types say. What a `__post_init__` compares, and what only the data can tell, the engine checks.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import inspect as mi

from whyrun.actions.base import CONNECTION_REFERENCE
from whyrun.actions.parameters import Parameters, fields_of
from whyrun.actions.types import Connection, Secret, description_of

Schema = dict[str, Any]
_BOUND = ("File", "Files", "Directory", "FileOrDirectory")
_TEXTS = (mi.DateTimeType, mi.DateType, mi.TimeType, mi.TimeDeltaType, mi.UUIDType, mi.BytesType)


@dataclass(frozen=True, slots=True)
class ParameterSchema:
    """`binds`: a file that must be bound, or several. `schema`: of any other parameter; None if none can be written."""

    name: str
    required: bool
    binds: Literal["", "one", "several"]
    schema: Schema | None


def parameter_schemas(params: type[Parameters]) -> list[ParameterSchema]:
    return [_parameter(name, field.required, field.type) for name, field in fields_of(params).items()]


def _parameter(name: str, required: bool, type_: Any) -> ParameterSchema:
    info = mi.type_info(type_)
    binds = _binds(info)
    schema = None if binds else _schema(info, ())
    if schema is not None and (text := description_of(type_)):
        schema = {"description": text, **schema}
    return ParameterSchema(name, required, binds, schema)


def _binds(info: mi.Type) -> Literal["", "one", "several"]:
    match info:
        case mi.Metadata():
            return _binds(info.type)
        case mi.UnionType():
            found = {_binds(member) for member in info.types}
            return "several" if "several" in found else "one" if "one" in found else ""
        case mi.CustomType() if info.cls.__name__ == "Files":
            return "several"
        case mi.CustomType() if info.cls.__name__ in _BOUND:
            return "one"
        case mi.ListType() | mi.VarTupleType():
            return "several" if _binds(info.item_type) else ""
    return ""


def _schema(info: mi.Type, within: tuple[Any, ...]) -> Schema | None:
    """None: no value of this type can be written, because it holds a file or a secret."""
    match info:
        case mi.Metadata():
            return _schema(info.type, within)
        case mi.IntType() | mi.FloatType():
            bounds = {"minimum": info.ge, "exclusiveMinimum": info.gt, "maximum": info.le, "exclusiveMaximum": info.lt}
            return {"type": "integer" if isinstance(info, mi.IntType) else "number", **_given(bounds)}
        case mi.StrType():
            limits = {"minLength": info.min_length, "maxLength": info.max_length, "pattern": info.pattern}
            return {"type": "string", **_given(limits)}
        case mi.BoolType():
            return {"type": "boolean"}
        case mi.NoneType():
            return {"type": "null"}
        case mi.LiteralType():
            return {"enum": list(info.values)}
        case mi.EnumType():
            return {"enum": [member.value for member in info.cls]}
        case mi.UnionType():
            return _union(info, within)
        case mi.TupleType():
            items = [_schema(item, within) for item in info.item_types]
            if None in items:
                return None
            return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
        case mi.ListType() | mi.SetType() | mi.FrozenSetType() | mi.VarTupleType():
            item = _schema(info.item_type, within)
            sizes = {"minItems": info.min_length, "maxItems": info.max_length}
            return None if item is None else {"type": "array", "items": item, **_given(sizes)}
        case mi.DictType():
            value = _schema(info.value_type, within)
            return None if value is None else {"type": "object", "additionalProperties": value}
        case mi.StructType():
            return _record(info, within)
        case mi.CustomType():
            return _custom(info.cls)
        case _:
            return {"type": "string"} if isinstance(info, _TEXTS) else {}


def _union(info: mi.UnionType, within: tuple[Any, ...]) -> Schema | None:
    members = [schema for member in info.types if (schema := _schema(member, within)) is not None]
    if members == [{"type": "null"}] or not members:
        return None
    return members[0] if len(members) == 1 else {"anyOf": sorted(members, key=lambda one: one.get("type") == "null")}


def _record(info: mi.StructType, within: tuple[Any, ...]) -> Schema | None:
    if info.cls in within:  # a record may contain itself; the engine checks what is inside
        return {"type": "object"}
    properties: Schema = {}
    if info.tag_field is not None:
        properties[info.tag_field] = {"enum": [info.tag]}
    required = list(properties)
    for field in info.fields:
        schema = _schema(field.type, (*within, info.cls))
        if schema is None:
            if field.required:
                return None
            continue
        extra = field.type.extra_json_schema if isinstance(field.type, mi.Metadata) else None
        text = (extra or {}).get("description")
        properties[field.encode_name] = {"description": text, **schema} if text else schema
        if field.required:
            required.append(field.encode_name)
    closed = {"additionalProperties": False} if info.forbid_unknown_fields else {}
    return {"type": "object", **closed, "properties": properties, **({"required": required} if required else {})}


def _custom(cls: type) -> Schema | None:
    if issubclass(cls, Connection):
        return {"type": "string", "pattern": f"^{CONNECTION_REFERENCE.pattern}$"}
    if issubclass(cls, Secret) or cls.__name__ in _BOUND:
        return None
    return {"type": "string"} if issubclass(cls, Path) else {}


def _given(entries: dict[str, Any]) -> Schema:
    return {name: value for name, value in entries.items() if value is not None and value is not msgspec.UNSET}
