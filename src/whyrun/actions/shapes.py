"""Takes a parameter's type apart: records with their fields, lists, mappings, and slots for connections."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass
from dataclasses import fields as dataclass_fields
from itertools import repeat
from typing import Any

import msgspec

from whyrun.actions.base import ConnectionSlot
from whyrun.actions.types import Connection


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
