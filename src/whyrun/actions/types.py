"""Describes parameter types in words, and says which workflow types may be bound to them.

Also defines the parameter types `Connection` and `Secret`.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass
from dataclasses import fields as dataclass_fields
from functools import lru_cache
from itertools import repeat
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from msgspec import inspect as mi

from whyrun.actions.base import SECRET_FIELDS, ConnectionSlot
from whyrun.workflow.model import FILE_TYPES

# A workflow's value type → the parameter types that a value of it may fit.
_FITTING: dict[str, tuple[type, ...]] = {
    "string": (mi.StrType, mi.LiteralType, mi.EnumType, mi.DateTimeType, mi.DateType, mi.TimeType, mi.UUIDType,
               mi.DecimalType, mi.BytesType),
    "integer": (mi.IntType, mi.FloatType, mi.LiteralType, mi.EnumType, mi.DecimalType),
    "number": (mi.FloatType, mi.IntType, mi.LiteralType, mi.DecimalType),
    "boolean": (mi.BoolType, mi.LiteralType),
}  # fmt: skip
_LISTS = (mi.ListType, mi.SetType, mi.FrozenSetType, mi.VarTupleType)


class Connection(dict[str, Any]):
    """A parameter that takes a connection: `@family.alias` in the workflow, its fields with real values in the action.

    A subclass may restrict it: the values of `secret_fields` are never recorded, all `required_fields` must be present,
    and the connection must belong to one of `families` (if empty, any family is allowed).
    """

    secret_fields: ClassVar[tuple[str, ...]] = SECRET_FIELDS
    required_fields: ClassVar[tuple[str, ...]] = ()
    families: ClassVar[tuple[str, ...]] = ()


class Secret(str):
    """A parameter that takes a secret: `${{ secrets.NAME }}` in the workflow, its value in the action. Its `repr` hides
    the value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


@lru_cache(maxsize=1024)
def _info(type_: Any) -> mi.Type:
    return mi.type_info(type_)


def type_text(type_: Any) -> str:
    """The type in words: `a number > 0 and < 1`, `one of "pc", "hc"`, `a file`, `a list of integers`."""
    try:
        return _text(_info(type_))
    except TypeError:  # unhashable annotations exist: a Literal of lists
        return _text(mi.type_info(type_))


def description_of(type_: Any) -> str:
    """The text of `Meta(description=…)`."""
    info = mi.type_info(type_)
    return str((info.extra_json_schema or {}).get("description", "")) if isinstance(info, mi.Metadata) else ""


def accepts(type_: Any, bound: str) -> bool:
    """Whether an input or artifact of the workflow type `bound` may be bound to this parameter type.

    A `json` value may hold anything.
    """
    return _accepts(mi.type_info(type_), bound)


def _accepts(info: mi.Type, bound: str) -> bool:
    if isinstance(info, mi.Metadata):
        return _accepts(info.type, bound)
    if isinstance(info, mi.UnionType):
        return any(_accepts(member, bound) for member in info.types)
    if isinstance(info, mi.AnyType | mi.RawType):
        return True
    if isinstance(info, mi.CustomType) and info.cls.__name__ == "Files":
        return bound.removesuffix("[]") in FILE_TYPES
    if bound.endswith("[]"):
        if isinstance(info, mi.TupleType):
            return all(_accepts(item, bound[:-2]) for item in info.item_types)
        return isinstance(info, _LISTS) and _accepts(info.item_type, bound[:-2])
    if isinstance(info, mi.CustomType):
        if issubclass(info.cls, Connection):
            return bound == "json"
        if issubclass(info.cls, Secret):
            return False  # bound values are recorded, so a secret may not be bound
        if not issubclass(info.cls, Path):
            return True  # a custom type: its hook decides
        wanted = {"File": FILE_TYPES, "Directory": {"directory"}}.get(info.cls.__name__)
        return bound in (wanted or {*FILE_TYPES, "directory"})
    if bound in FILE_TYPES or bound == "directory":
        return bound == "text" and isinstance(info, mi.StrType)
    return bound == "json" or isinstance(info, _FITTING[bound])


# --- types in words ----------------------------------------------------------------------------------------------


def _text(info: mi.Type) -> str:
    match info:
        case mi.Metadata():  # `Meta(title=…)` replaces our text
            return str((info.extra_json_schema or {}).get("title") or _text(info.type))
        case mi.IntType():
            return "an integer" + _bounds(info)
        case mi.FloatType():
            return "a number" + _bounds(info)
        case mi.StrType():
            return "a text" + _length(info, "character") + (f" that matches `{info.pattern}`" if info.pattern else "")
        case mi.BoolType():
            return "true or false"
        case mi.NoneType():
            return "null"
        case mi.LiteralType():
            return "one of " + ", ".join(_quoted(value) for value in info.values)
        case mi.EnumType():
            return "one of " + ", ".join(_quoted(member.value) for member in info.cls)
        case mi.UnionType():
            return " or ".join(sorted(map(_text, info.types), key=lambda text: text == "null"))
        case mi.TupleType():
            return "a list of " + ", ".join(map(_text, info.item_types))
        case mi.ListType() | mi.SetType() | mi.FrozenSetType() | mi.VarTupleType():
            inner = _text(info.item_type)
            return "a list" + _length(info, "member") + ("" if inner == "any value" else f", each {inner}")
        case mi.DictType() | mi.StructType() | mi.TypedDictType() | mi.DataclassType():
            return "a mapping"
        case mi.CustomType() if issubclass(info.cls, Connection):
            return "a connection, such as `@family.alias`"
        case mi.CustomType() if issubclass(info.cls, Secret):
            return "a secret"
        case mi.CustomType():
            known = {"File": "a file", "Directory": "a directory", "FileOrDirectory": "a file or directory",
                     "Files": "a file or a list of files",
                     "Path": "a path", "PosixPath": "a path"}  # fmt: skip
            return known.get(info.cls.__name__, f"a {info.cls.__name__}")
        case mi.AnyType() | mi.RawType():
            return "any value"
    return f"a {type(info).__name__.removesuffix('Type').lower()}"


def _bounds(info: mi.IntType | mi.FloatType) -> str:
    parts = [
        f"{sign} {value:g}"
        for sign, value in ((">", info.gt), ("≥", info.ge), ("<", info.lt), ("≤", info.le))
        if value is not None
    ]
    if info.multiple_of is not None:
        parts.append(f"a multiple of {info.multiple_of:g}")
    return " " + " and ".join(parts) if parts else ""


def _length(info: Any, unit: str) -> str:
    low, high = info.min_length, info.max_length
    if low is None and high is None:
        return ""
    if low == high:
        return f" of {low} {unit}{'' if low == 1 else 's'}"
    if high is None:
        return f" of at least {low} {unit}{'' if low == 1 else 's'}"
    return f" of {low or 0} to {high} {unit}s"


def _quoted(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


# Takes a parameter's type apart: records with their fields, lists, mappings, and slots for connections.


@dataclass(frozen=True, slots=True)
class Record:
    """The fields of a `Struct`, a dataclass or a `TypedDict`."""

    fields: Mapping[str, tuple[Any, bool]]  # name → type, and whether it is required
    closed: bool  # other fields are refused


def record_for(type_: Any, value: Mapping[str, Any]) -> Record | None:
    """The one record type that a mapping can be; None if there is none or the choice is ambiguous."""
    records = [member for member in _alternatives(type_) if _is_record(member)]
    if len(records) > 1:  # `Struct(tag=…)`: the mapping contains the tag
        records = [cls for cls in records if _has_tag_of(value, cls)]
    others = any(typing.get_origin(member) is dict or member is dict for member in _alternatives(type_))
    return record_of(records[0]) if len(records) == 1 and not others else None


def record_of(cls: Any) -> Record:
    config = getattr(typing.get_origin(cls) or cls, "__struct_config__", None)
    if config is not None:
        known = {f.encode_name: (f.type, f.required) for f in msgspec.structs.fields(cls)}
        if config.tag is not None:
            known[config.tag_field] = (Any, False)
        return Record(known, config.forbid_unknown_fields)
    hints = typing.get_type_hints(cls, include_extras=True)
    if typing.is_typeddict(cls):
        return Record({name: (hint, name in cls.__required_keys__) for name, hint in hints.items()}, closed=False)
    return Record({f.name: (hints[f.name], _is_required(f)) for f in dataclass_fields(cls)}, closed=False)


def _is_required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _is_record(type_: Any) -> bool:
    cls = typing.get_origin(type_) or type_
    if not isinstance(cls, type):
        return False
    config = getattr(cls, "__struct_config__", None)
    if config is not None:
        return not config.array_like
    return hasattr(cls, "__dataclass_fields__") or typing.is_typeddict(cls)


def _has_tag_of(value: Mapping[str, Any], cls: Any) -> bool:
    config = getattr(cls, "__struct_config__", None)
    return config is not None and config.tag is not None and value.get(config.tag_field) == config.tag


def nested_records(type_: Any) -> list[Any]:
    """The record types that a value of this type may be, or may contain as members of a list or mapping."""
    found = []
    for member in _alternatives(type_):
        if _is_record(member):
            found.append(member)
        elif typing.get_origin(member) is not None:
            found += [record for argument in typing.get_args(member) for record in nested_records(argument)]
    return found


def _alternatives(type_: Any) -> Iterator[Any]:
    """The possible types, with unions and annotations resolved."""
    origin = typing.get_origin(type_)
    if origin is typing.Annotated:
        yield from _alternatives(typing.get_args(type_)[0])
    elif origin is typing.Union or origin is types.UnionType:
        for member in typing.get_args(type_):
            yield from _alternatives(member)
    else:
        yield type_


def key_type(type_: Any) -> Any:
    """The key type of a mapping; None if any text is a key, or the type is not one mapping."""
    shapes = [member for member in _alternatives(type_) if typing.get_origin(member) is dict]
    arguments = typing.get_args(shapes[0]) if len(shapes) == 1 else (str,)
    return None if arguments[0] is str else arguments[0]


def members_of(type_: Any, value: Any) -> Iterator[tuple[str | int, Any, Any]]:
    """The members of a list or mapping: key, type and value of each."""
    wanted = (list, tuple, set, frozenset) if isinstance(value, list) else (dict,)
    shapes = [member for member in _alternatives(type_) if (typing.get_origin(member) or member) in wanted]
    if not isinstance(value, list | dict) or len(shapes) != 1 or not typing.get_args(shapes[0]):
        return
    arguments = typing.get_args(shapes[0])
    if isinstance(value, dict):
        yield from ((key, arguments[1], member) for key, member in value.items())
        return
    fixed = typing.get_origin(shapes[0]) is tuple and arguments[-1] is not Ellipsis
    if fixed and len(arguments) != len(value):
        return
    yield from zip(range(len(value)), arguments if fixed else repeat(arguments[0]), value, strict=False)


# --- connections -------------------------------------------------------------------------------------------------


def connection_type(type_: Any) -> type[Connection] | None:
    for member in _alternatives(type_):
        if isinstance(member, type) and issubclass(member, Connection):
            return member
    return None


def connection_slots(record: Any, path: tuple[str, ...] = (), within: tuple[Any, ...] = ()) -> list[ConnectionSlot]:
    """The slots for connections in a record of parameters, at any depth."""
    if record in within:  # a record may contain itself
        return []
    slots: list[ConnectionSlot] = []
    for name, (type_, _) in record_of(record).fields.items():
        slots += _slots_in(type_, (*path, name), (*within, record))
    return slots


def _slots_in(type_: Any, path: tuple[str, ...], within: tuple[Any, ...]) -> Iterator[ConnectionSlot]:
    for member in _alternatives(type_):
        if isinstance(member, type) and issubclass(member, Connection):
            fields = tuple(member.secret_fields), tuple(member.required_fields)
            yield ConnectionSlot(path, *fields, tuple(member.families))
        elif _is_record(member):
            yield from connection_slots(member, path, within)
        elif typing.get_origin(member) in (list, tuple, set, frozenset):
            for argument in {*typing.get_args(member)} - {...}:
                yield from _slots_in(argument, (*path, "*"), within)
        elif typing.get_origin(member) is dict:
            yield from _slots_in(typing.get_args(member)[1], (*path, "*"), within)
