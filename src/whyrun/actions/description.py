"""What there is to know of an action that is imported already: does it fit, and what does it say of itself?

Runs where the user's code may run: in the asker (`answer`) and in workers; for the built-in classes also on the host.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from whyrun.actions.base import HOOKS, MARK, Action, FunctionFacts
from whyrun.actions.places import ConnectionPlace
from whyrun.actions.problem import HANDED_IN
from whyrun.actions.source import Signature
from whyrun.workflow.model import BASE_TYPES


class ParameterInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    type: str  # in words: "a number > 0 and < 1"
    required: bool = False
    default: str = ""  # as it would be written
    description: str = ""
    fields: list[ParameterInfo] = []  # of a nested record


class Description(msgspec.Struct, frozen=True, omit_defaults=True):
    """An action, told without it: plain data that can be kept and sent."""

    version: str = ""
    deterministic: bool = False
    outputs: dict[str, str] | None = None  # None: whatever the job declares
    summary: str = ""
    parameters: list[ParameterInfo] | None = None  # None: not known
    open_ended: bool = False  # takes more than these
    typed: bool = False  # has `Params`
    uncounted: tuple[str, ...] = ()  # parameters that do not count
    hooks: list[str] = []  # the optional methods that it has of its own
    connections: tuple[ConnectionPlace, ...] = ()  # where its parameters take a connection
    example: str = ""

    @property
    def signature(self) -> Signature | None:
        if self.parameters is None or self.typed:
            return None
        required = tuple(p.name for p in self.parameters if p.required)
        return Signature(required, tuple(p.name for p in self.parameters if not p.required), self.open_ended)


class DoesNotFit(Exception):
    """What the name leads to is no action, or one that contradicts itself."""


def describe(target: Any) -> Description:
    facts = getattr(target, MARK, None)
    if isinstance(facts, FunctionFacts):
        parameters, open_ended = _function_parameters(target)
        return Description(
            version=facts.version,
            deterministic=facts.deterministic,
            outputs=_outputs(facts.outputs),
            summary=_summary(target),
            parameters=parameters,
            open_ended=open_ended,
        )
    if not (isinstance(target, type) and issubclass(target, Action)):
        shown = target.__name__ if isinstance(target, type) else type(target).__name__
        raise DoesNotFit(f"it is neither a function with @action nor a subclass of Action, but `{shown}`")
    if target.run is Action.run:
        raise DoesNotFit(f"`{target.__name__}` has no `run` method")
    params = params_of(target)
    uncounted = () if params is None else _uncounted(params)
    return Description(
        version=_text(target, "version"),
        deterministic=bool(target.deterministic),
        outputs=None if target.outputs is None else _outputs(target.outputs),
        summary=_summary(target),
        parameters=None if params is None else [_noted(field, uncounted) for field in _fields(params)],
        typed=params is not None,
        uncounted=uncounted,
        hooks=[name for name in HOOKS if getattr(target, name) is not getattr(Action, name)],
        connections=() if params is None else _connections(params),
        example=_text(target, "example"),
    )


def params_of(target: Any) -> Any:
    """The `Params` of a class of action, or None; what is not a subclass of `Parameters` does not fit."""
    params = getattr(target, "Params", None)
    if params is None:
        return None
    from msgspec.inspect import type_info

    from whyrun.actions.parameters import Parameters, fields_of

    if not (isinstance(params, type) and issubclass(params, Parameters)):
        raise DoesNotFit(f"`{target.__name__}.Params` is not a subclass of `whyrun.Parameters`")
    try:
        for field in fields_of(params).values():
            type_info(field.type)
    except (TypeError, NameError) as problem:
        raise DoesNotFit(f"`{target.__name__}.Params` has a type that cannot be checked: {problem}") from None
    return params


def _uncounted(params: Any) -> tuple[str, ...]:
    from whyrun.actions.parameters import fields_of

    fields = fields_of(params)
    if "uncounted" in fields:  # a parameter that is called so
        return ()
    names = params.uncounted
    if not isinstance(names, tuple | list) or not all(isinstance(name, str) for name in names):
        raise DoesNotFit(f"`{params.__qualname__}.uncounted` is a tuple of names of parameters, not {names!r:.100}")
    for name in names:
        if name not in fields:
            raise DoesNotFit(f"`{params.__qualname__}.uncounted` names `{name}`, which is no parameter")
    return tuple(sorted(set(names)))


def _connections(params: Any) -> tuple[ConnectionPlace, ...]:
    from whyrun.actions.shapes import connection_places

    return tuple(connection_places(params))


def _noted(field: ParameterInfo, uncounted: Collection[str]) -> ParameterInfo:
    if field.name not in uncounted:
        return field
    return msgspec.structs.replace(field, description="; ".join(filter(None, [field.description, "does not count"])))


def _outputs(outputs: Any) -> dict[str, str]:
    if not isinstance(outputs, Mapping):
        raise DoesNotFit(f"its `outputs` are a mapping from name to type, not {type(outputs).__name__}")
    for name, type_ in outputs.items():
        if type_ not in BASE_TYPES:
            raise DoesNotFit(f"its output `{name}` has the type {type_!r}; there are {', '.join(BASE_TYPES)}")
    return dict(outputs)


def _text(target: type, name: str) -> str:
    value = getattr(target, name)
    if not isinstance(value, str):
        raise DoesNotFit(f"`{target.__name__}.{name}` is a text, not {type(value).__name__}")
    return value


def _summary(target: Any) -> str:
    """The first line of its own docstring; an inherited one speaks of something else."""
    own = target.__dict__.get("__doc__") if isinstance(target, type) else target.__doc__
    return inspect.cleandoc(own or "").partition("\n")[0].strip()


def _fields(params: Any, within: tuple[Any, ...] = ()) -> list[ParameterInfo]:
    from whyrun.actions.misfits import shown_value
    from whyrun.actions.parameters import defaults_of, fields_of
    from whyrun.actions.types import description_of, type_text

    defaults = {name: shown_value(value) for name, value in defaults_of(params).items()}
    return [
        ParameterInfo(
            name,
            type_text(field.type),
            field.required,
            defaults.get(name, ""),
            description_of(field.type),
            _nested(field.type, (*within, params)),
        )
        for name, field in fields_of(params).items()
    ]


def _nested(type_: Any, within: tuple[Any, ...]) -> list[ParameterInfo]:
    """The fields of the record that it is, or is a list of; where it may be several, they are not told apart."""
    from whyrun.actions.shapes import nested_records

    records = [record for record in nested_records(type_) if record not in within]  # one may hold its own kind
    if len(records) != 1 or not isinstance(records[0], type) or not issubclass(records[0], msgspec.Struct):
        return []
    return _fields(records[0], within)


def _function_parameters(function: Any) -> tuple[list[ParameterInfo] | None, bool]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some C functions have no signature
        return None, True
    found = [
        ParameterInfo(
            p.name,
            "any value" if p.annotation is p.empty else inspect.formatannotation(p.annotation),
            p.default is p.empty,
            "" if p.default is p.empty else repr(p.default),
        )
        for p in parameters
        if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL) and p.name not in HANDED_IN
    ]
    return found, any(p.kind is p.VAR_KEYWORD for p in parameters)
