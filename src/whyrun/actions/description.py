"""What is known about an action: the information that planning uses, and what the imported class or function declares.

`describe` needs the imported action, so it runs in the inspector process and in workers; for built-in classes it also
runs on the host.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from typing import Any, Literal

import msgspec

from whyrun.actions.base import HOOKS, MARK, Action, ConnectionSlot, FunctionFacts, Signature
from whyrun.actions.problem import HANDED_IN
from whyrun.workflow.model import BASE_TYPES


class ActionInfo(msgspec.Struct, frozen=True):
    """An action that a `uses:` names, as planning knows it."""

    name: str
    version: str
    origin: Literal["builtin", "project", "plugin"]
    path: str | None = None  # project: the file, relative to the project; plugin: "package.module:attribute"
    attribute: str | None = None
    distribution: str = ""  # plugin: "package 1.2"
    outputs: Mapping[str, str] | None = None  # None: only the job declares outputs
    deterministic: bool = False
    signature: Signature | None = None  # None: the source does not show the parameters
    needs_inspection: bool = False  # the source does not show everything: the imported action must be described
    typed: bool = False  # has `Params`
    uncounted: tuple[str, ...] = ()  # parameters that the fingerprint leaves out
    hooks: frozenset[str] = frozenset()  # the optional methods that the action overrides
    connections: tuple[ConnectionSlot, ...] = ()  # the typed parameters that take a connection


class ParameterInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    type: str  # in words: "a number > 0 and < 1"
    required: bool = False
    default: str = ""  # as a workflow would write it
    description: str = ""
    fields: list[ParameterInfo] = []  # of a nested record


class Description(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an imported action declares, as plain data that can be cached and sent between processes."""

    version: str = ""
    deterministic: bool = False
    outputs: dict[str, str] | None = None  # None: only the job declares outputs
    summary: str = ""
    parameters: list[ParameterInfo] | None = None  # None: not known
    open_ended: bool = False  # accepts other parameters, too
    typed: bool = False  # has `Params`
    uncounted: tuple[str, ...] = ()  # parameters that the fingerprint leaves out
    hooks: list[str] = []  # the optional methods that the action overrides
    connections: tuple[ConnectionSlot, ...] = ()  # the parameters that take a connection
    example: str = ""

    @property
    def signature(self) -> Signature | None:
        if self.parameters is None or self.typed:
            return None
        required = tuple(p.name for p in self.parameters if p.required)
        return Signature(required, tuple(p.name for p in self.parameters if not p.required), self.open_ended)


class InvalidAction(Exception):
    """The imported object is not an action, or its declarations contradict each other."""


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
        raise InvalidAction(f"it is neither a function with @action nor a subclass of Action, but `{shown}`")
    if target.run is Action.run:
        raise InvalidAction(f"`{target.__name__}` has no `run` method")
    params = params_of(target)
    uncounted = () if params is None else _uncounted(params)
    return Description(
        version=_text(target, "version"),
        deterministic=bool(target.deterministic),
        outputs=None if target.outputs is None else _outputs(target.outputs),
        summary=_summary(target),
        parameters=None if params is None else [_mark_uncounted(field, uncounted) for field in _fields(params)],
        typed=params is not None,
        uncounted=uncounted,
        hooks=[name for name in HOOKS if getattr(target, name) is not getattr(Action, name)],
        connections=() if params is None else _connections(params),
        example=_text(target, "example"),
    )


def params_of(target: Any) -> Any:
    """The `Params` of an action class, or None. Raises `InvalidAction` if it is not a subclass of `Parameters`."""
    params = getattr(target, "Params", None)
    if params is None:
        return None
    from msgspec.inspect import type_info

    from whyrun.actions.parameters import Parameters, fields_of

    if not (isinstance(params, type) and issubclass(params, Parameters)):
        raise InvalidAction(f"`{target.__name__}.Params` is not a subclass of `whyrun.Parameters`")
    try:
        for field in fields_of(params).values():
            type_info(field.type)
    except (TypeError, NameError) as problem:
        raise InvalidAction(f"`{target.__name__}.Params` has a type that cannot be checked: {problem}") from None
    return params


def _uncounted(params: Any) -> tuple[str, ...]:
    from whyrun.actions.parameters import fields_of

    fields = fields_of(params)
    if "uncounted" in fields:  # a parameter of this name hides the class variable
        return ()
    names = params.uncounted
    if not isinstance(names, tuple | list) or not all(isinstance(name, str) for name in names):
        raise InvalidAction(f"`{params.__qualname__}.uncounted` must be a tuple of parameter names, not {names!r:.100}")
    for name in names:
        if name not in fields:
            raise InvalidAction(f"`{params.__qualname__}.uncounted` names `{name}`, which is not a parameter")
    return tuple(sorted(set(names)))


def _connections(params: Any) -> tuple[ConnectionSlot, ...]:
    from whyrun.actions.types import connection_slots

    return tuple(connection_slots(params))


def _mark_uncounted(field: ParameterInfo, uncounted: Collection[str]) -> ParameterInfo:
    if field.name not in uncounted:
        return field
    return msgspec.structs.replace(field, description="; ".join(filter(None, [field.description, "does not count"])))


def _outputs(outputs: Any) -> dict[str, str]:
    if not isinstance(outputs, Mapping):
        raise InvalidAction(f"its `outputs` must be a mapping from name to type, not {type(outputs).__name__}")
    for name, type_ in outputs.items():
        if type_ not in BASE_TYPES:
            raise InvalidAction(f"its output `{name}` has the type {type_!r}; the types are {', '.join(BASE_TYPES)}")
    return dict(outputs)


def _text(target: type, name: str) -> str:
    value = getattr(target, name)
    if not isinstance(value, str):
        raise InvalidAction(f"`{target.__name__}.{name}` must be a text, not {type(value).__name__}")
    return value


def _summary(target: Any) -> str:
    """The first line of the action's own docstring. An inherited docstring describes another class."""
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
    """The fields of the one record that this type is, or is a list of; none where several records are possible."""
    from whyrun.actions.types import nested_records

    records = [record for record in nested_records(type_) if record not in within]  # a record may contain itself
    if len(records) != 1 or not isinstance(records[0], type) or not issubclass(records[0], msgspec.Struct):
        return []
    return _fields(records[0], within)


def _function_parameters(function: Any) -> tuple[list[ParameterInfo] | None, bool]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some C functions have no signature
        return None, True
    described = [
        ParameterInfo(
            p.name,
            "any value" if p.annotation is p.empty else inspect.formatannotation(p.annotation),
            p.default is p.empty,
            "" if p.default is p.empty else repr(p.default),
        )
        for p in parameters
        if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL) and p.name not in HANDED_IN
    ]
    return described, any(p.kind is p.VAR_KEYWORD for p in parameters)
