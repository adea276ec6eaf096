"""The JSON Schema of plans over exactly these datasets and these actions: `whyrun schema --for manifest.json`.

The schema of every plan (`dataset_plan.plan_schema`) has references and actions of any name. Here a reference is a
dataset of the manifest, or a product; and each action is a variant of a step, with its own parameters. `strict` turns
it into the subset that structured output of language models takes: closed objects, `anyOf` only, no recursion, and
`null` for what is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whyrun.workflow.composition.plan_file.json_source import MAP
from whyrun.workflow.composition.plan_file.manifest import ID_PATTERN
from whyrun.workflow.composition.plan_file.step_keys import ACTION_KEYS, ACTION_PARAMS, MERGE_KEYS, schema_definitions
from whyrun.workflow.fields import PARAMETER_PATTERN, Schema, object_schema, text_schema
from whyrun.workflow.model import AUXILIARY, MERGING_ACTIONS, PRIMARY, ROLES, SECONDARY

_ID = ID_PATTERN.strip("^$")
_LEAF = rf"^prod:{_ID}:{_ID}\..+$"
_NO_REFERENCE = "^(?!(input|prod):)"
_BOUND: Schema = {"$ref": "#/$defs/bound"}
_SEVERAL: Schema = {"type": "array", "items": _BOUND, "minItems": 1}
_RESERVED = {key.name: key for key in ACTION_PARAMS}


@dataclass(frozen=True, slots=True)
class OfferedParameter:
    name: str
    required: bool
    binds: str  # "one" or "several" files; "" for a value
    schema: Schema | None  # of a value; None if it cannot be written


@dataclass(frozen=True, slots=True)
class OfferedAction:
    name: str
    summary: str
    parameters: Sequence[OfferedParameter]
    open_ended: bool  # takes parameters of any name, too


def offered_schema(plan: Schema, datasets: Sequence[str], actions: Iterable[OfferedAction], *, strict: bool) -> Schema:
    """`plan`: the schema of every plan, whose top level stays."""
    given = list(actions)
    definitions = schema_definitions()
    names = "|".join(re.escape(key) for key in datasets)
    inputs = [f"input:({names})"] if names else []
    definitions["ref"] = {
        "description": f"A dataset of the manifest ({', '.join(datasets)}), or a product of a step in `depends_on`.",
        **text_schema(f"^({'|'.join([*inputs, f'prod:{_ID}:{_ID}'])})$"),
    }
    del definitions["action"]
    steps = []
    for number, action in enumerate(given):
        definitions[f"action_{number}"] = _strict_step(action) if strict else _step(action)
        steps.append({"$ref": f"#/$defs/action_{number}"})
    steps.append({"$ref": "#/$defs/condition"})
    _with_operands(definitions["predicate"])
    root = {**plan, "properties": {**plan["properties"]}, "$defs": definitions}
    root["properties"]["steps"] = {"type": "array", "minItems": 1, "items": {"anyOf": steps}}
    return _strict_root(root) if strict else root


def _with_operands(predicate: Schema) -> None:
    """An operand that looks like a reference must be one, to a leaf."""
    for shape in predicate["oneOf"]:
        for side in ("left", "right"):
            operand = shape["properties"].get(side, {})
            if "pattern" not in operand and operand:
                kinds = [{"type": kind} for kind in ("number", "boolean", "null", "array", "object")]
                operand["anyOf"] = [text_schema(_LEAF), text_schema(_NO_REFERENCE), *kinds]


# --- one action --------------------------------------------------------------------------------------------------


def _step(action: OfferedAction) -> Schema:
    """The step of an action, as the engine reads it: values may also be bound, where a product holds them."""
    values = {one.name: one.schema for one in action.parameters if not one.binds and one.schema is not None}
    operation = MERGING_ACTIONS.get(action.name)
    bindings = _bindings(action, every=True)
    properties = {**_reserved(action), "input_bindings": bindings, **values}
    required = [key.name for key in ACTION_PARAMS if key.required]
    if operation is not None:
        properties["merge"] = _merge(operation, values)
        properties = {name: schema for name, schema in properties.items() if name not in ("keys", "operation")}
        required.append("merge")
    elif not action.open_ended:
        del properties["merge"]
    params: Schema = {"type": "object", "properties": properties, "required": required}
    if action.open_ended:
        params |= {"propertyNames": {"pattern": PARAMETER_PATTERN}, "allOf": [_merging_with_any_action()]}
    else:
        params["additionalProperties"] = False
    for one in action.parameters:
        # A value is written, or bound to a product that holds it.
        if one.required and not one.binds and one.name not in ("keys", "operation"):
            bound = {"properties": {"input_bindings": {"required": [one.name]}}}
            params.setdefault("allOf", []).append({"anyOf": [{"required": [one.name]}, bound]})
    schema = object_schema(ACTION_KEYS, action.summary)
    return {**schema, "properties": {**schema["properties"], "params": params}}


def _reserved(action: OfferedAction) -> dict[str, Schema]:
    reserved = {key.name: {"description": key.meaning, **key.schema} for key in ACTION_PARAMS}
    return {**reserved, "template_id": {"const": action.name}}


def _bindings(action: OfferedAction, *, every: bool) -> Schema:
    """`every`: also parameters that take a value, which a product may hold."""
    properties: dict[str, Schema] = {}
    for one in action.parameters:
        if one.binds or every:
            single = one.binds == "one"
            properties[one.name] = _BOUND if single else {"anyOf": [_BOUND, _SEVERAL]}
    schema: Schema = {"type": "object", "minProperties": 1, "properties": properties}
    if action.open_ended:
        schema["additionalProperties"] = {"anyOf": [_BOUND, _SEVERAL]}
        schema["propertyNames"] = {"pattern": PARAMETER_PATTERN}
    else:
        schema["additionalProperties"] = False
    required = [one.name for one in action.parameters if one.required and one.binds]
    if required:
        schema["required"] = required
    if action.name in MERGING_ACTIONS and SECONDARY not in required:
        several = {"properties": {PRIMARY: {"type": "array", "minItems": 2}}}
        schema["anyOf"] = [{"required": [SECONDARY]}, several]
    return schema


def _merge(operation: str, values: Mapping[str, Schema]) -> Schema:
    """The block `merge` of an action that merges: the action's own parameters, and the operation."""
    properties: dict[str, Schema] = {**values, "operation": {"const": operation}}
    required = ["operation"]
    if operation == "merge":
        properties["keys"] = {key.name: key for key in MERGE_KEYS}["keys"].schema
        required.append("keys")
    return {"type": "object", "additionalProperties": False, "properties": properties, "required": required}


def _merging_with_any_action() -> Schema:
    """What holds if a step that merges has an action of its own."""
    two = [
        {"minProperties": 3},
        {"minProperties": 2, "not": {"required": [AUXILIARY]}},
        {"properties": {PRIMARY: {"type": "array", "minItems": 2}}},
    ]
    keys = {"if": {"properties": {"operation": {"const": "merge"}}}, "then": {"required": ["operation", "keys"]}}
    block = {**object_schema(MERGE_KEYS, others=True), "allOf": [keys]}
    bound = {"required": [PRIMARY], "anyOf": two}
    return {"if": {"required": ["merge"]}, "then": {"properties": {"merge": block, "input_bindings": bound}}}


# --- for structured output of language models --------------------------------------------------------------------


def _strict_step(action: OfferedAction) -> Schema:
    """The step of an action with closed objects. An action that takes any parameter gets the usual roles."""
    operation = MERGING_ACTIONS.get(action.name)
    offered = list(action.parameters)
    if action.open_ended:
        known = {one.name for one in offered}
        offered += [OfferedParameter(role, False, "several", None) for role in ROLES if role not in known]
    values = {one.name: one.schema for one in offered if not one.binds and one.schema is not None}
    needed = [one.name for one in offered if one.required and one.name in values]
    closed = OfferedAction(action.name, action.summary, offered, open_ended=False)
    bindings = {name: schema for name, schema in _bindings(closed, every=False).items() if name != "anyOf"}
    properties = {**_reserved(action), "input_bindings": bindings, **values}
    required = [key.name for key in ACTION_PARAMS if key.required] + needed
    if operation is not None:
        properties = {name: schema for name, schema in properties.items() if name not in values}
        merge = _merge(operation, values)
        properties["merge"] = {**merge, "required": [*merge["required"], *(n for n in needed if n not in ("keys",))]}
        required = [name for name in required if name not in values] + ["merge"]
    elif action.open_ended:
        properties["merge"] = object_schema(MERGE_KEYS)
    else:
        del properties["merge"]
    params: Schema = {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "required": list(dict.fromkeys(required)),
    }
    schema = object_schema(ACTION_KEYS, action.summary)
    return {**schema, "properties": {**schema["properties"], "params": params}}


# Keywords of the subset. Limits of numbers and lengths are not in it; the engine checks them.
_KEPT = ("description", "type", "enum", "pattern", "minItems", "items", "anyOf", "$ref", "$defs")
_LOOKAROUND = re.compile(r"\(\?[=!<]")
_DEPTH = 3  # levels of predicates
_SCALARS = [{"type": kind} for kind in ("string", "number", "boolean", "null")]


def _strict_root(root: Schema) -> Schema:
    definitions = dict(root["$defs"])
    predicate = definitions.pop("predicate")
    for level in range(_DEPTH):
        deeper = f"#/$defs/predicate_{level + 1}" if level + 1 < _DEPTH else None
        definitions[f"predicate_{level}"] = _level(predicate, deeper)
    strict = _strict({name: value for name, value in root.items() if name not in ("$defs", "$schema", "title")})
    strict["$defs"] = {name: _strict(_renamed(schema)) for name, schema in definitions.items()}
    return strict


def _level(predicate: Schema, deeper: str | None) -> Schema:
    """The predicates of one level. `deeper`: the definition of those inside; None for the innermost ones."""
    shapes = []
    for shape in predicate["oneOf"]:
        of = shape["properties"].get("of")
        if of is not None and deeper is None:
            continue
        inner: Schema = {"$ref": deeper}
        properties = dict(shape["properties"])
        if of is not None:
            properties["of"] = {"type": "array", "items": inner, "minItems": 1} if of.get("type") == "array" else inner
        for side in ("left", "right"):
            if side in properties and "pattern" not in properties[side]:
                lists = {"type": "array", "items": {"anyOf": _SCALARS}}
                properties[side] = {"anyOf": [*_SCALARS, lists]}
        shapes.append({**shape, "properties": properties})
    return {"description": predicate["description"], "anyOf": shapes}


def _renamed(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {key: _renamed(value) for key, value in schema.items()}
    if isinstance(schema, list):
        return [_renamed(member) for member in schema]
    return "#/$defs/predicate_0" if schema == "#/$defs/predicate" else schema


def _strict(schema: Schema) -> Schema:
    if "$ref" in schema:  # nothing may stand beside it
        return {"$ref": schema["$ref"]}
    if "const" in schema:
        return _strict({**_without(schema, "const"), "enum": [schema["const"]]})
    if "oneOf" in schema:
        return _strict({**_without(schema, "oneOf"), "anyOf": schema["oneOf"]})
    if schema.get("type") == "object":
        return _strict_object(schema)
    strict = {name: value for name, value in schema.items() if name in _KEPT}
    if "prefixItems" in schema:
        strict["items"] = {"anyOf": [_strict(item) for item in schema["prefixItems"]]}
    if "enum" in strict and "type" not in strict:
        kinds = {_kind(value) for value in strict["enum"]}
        strict |= {"type": kinds.pop()} if len(kinds) == 1 else {}
    if _LOOKAROUND.search(strict.get("pattern", "")):
        del strict["pattern"]
    if strict.get("minItems", 0) > 1:
        strict["minItems"] = 1
    if "anyOf" in strict:
        strict["anyOf"] = [_strict(member) for member in strict["anyOf"]]
    if "items" in strict:
        strict["items"] = _strict(strict["items"])
    if schema.get("maxItems") == 0:  # `produces` of a condition
        return {"type": "null"}
    return strict if strict.keys() - {"description"} else {**strict, "anyOf": _SCALARS}


def _strict_object(schema: Schema) -> Schema:
    described = {"description": schema["description"]} if "description" in schema else {}
    others = schema.get("additionalProperties")
    if "properties" not in schema and isinstance(others, dict):
        entry = {"name": {"type": "string"}, "value": _strict(others)}
        entries = {"type": "array", "items": _closed(entry)}
        return {**described, **_closed({MAP: entries})}
    required = schema.get("required", ())
    properties = {
        name: _strict(one) if name in required else _or_null(_strict(one))
        for name, one in schema.get("properties", {}).items()
    }
    return {**described, **_closed(properties)}


def _closed(properties: Mapping[str, Schema]) -> Schema:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": dict(properties),
        "required": list(properties),
    }


def _or_null(schema: Schema) -> Schema:
    null: Schema = {"type": "null"}
    if schema == null or null in schema.get("anyOf", ()):
        return schema
    if set(schema) <= {"anyOf", "description"}:
        return {**schema, "anyOf": [*schema["anyOf"], null]}
    described = {"description": schema["description"]} if "description" in schema else {}
    return {**described, "anyOf": [_without(schema, "description"), null]}


def _without(schema: Schema, key: str) -> Schema:
    return {name: value for name, value in schema.items() if name != key}


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "integer" if isinstance(value, int) else "number"
