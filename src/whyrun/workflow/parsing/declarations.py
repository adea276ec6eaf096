"""Declarations of inputs, and of the `composition:` that they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whyrun.errors import did_you_mean
from whyrun.lazy_regex import lazy_regex
from whyrun.workflow.fields import LIKE_A_PATH, MAX_ARRAY_DEPTH, Fields, Key, example_of_type, names_of
from whyrun.workflow.model import (
    BASE_TYPES,
    MODES,
    NO_DEFAULT,
    ROLES,
    Composition,
    Dataset,
    InputDecl,
    Type,
)
from whyrun.workflow.nodes import MapNode, Node, Scalar, plain_value
from whyrun.workflow.scope import InputShape
from whyrun.workflow.values import value_problem

# --- `composition:` ----------------------------------------------------------------------------------------------
#
# `composition:` of a workflow file: the mode, and the roles of its `dataset` inputs. The graph checks the shape.


COMPOSITION_KEYS = (
    Key(name="mode", meaning="The shape of the graph.", schema={"enum": list(MODES)}, required=True),
    Key(
        name="roles",
        meaning="What `dataset` inputs are for. Roles are only labels.",
        schema={"type": "object", "additionalProperties": {"enum": list(ROLES)}},
    ),
)
_EXAMPLE = "write `composition: {mode: merge_then_sequential}`"


class CompositionReader(Fields):
    def composition(
        self, node: Node, inputs: Mapping[str, InputDecl], shapes: Mapping[str, InputShape | None]
    ) -> Composition | None:
        """None if there is a problem with it."""
        entries = self.as_map(node, "`composition`", _EXAMPLE)
        if entries is None:
            return None
        failures = self.problems.failures
        fields = self.known_keys(entries, names_of(COMPOSITION_KEYS), "`composition`")
        mode = None
        if "mode" not in fields:
            self.problems.add(node.place, "COMPOSITION_MODE_MISSING", "`composition` has no `mode`", _known(MODES))
        else:
            mode = self.string(fields["mode"], "`mode` of `composition`", _known(MODES))
            if mode is not None and mode not in MODES:
                message = f"there is no composition mode `{mode}`"
                self.problems.add(fields["mode"].place, "COMPOSITION_MODE_UNKNOWN", message, did_you_mean(mode, MODES))
        roles = self._roles(fields.get("roles"), shapes)
        if mode is None or self.problems.failures > failures:
            return None
        datasets = tuple(
            Dataset(name, roles.get(name), None, None, None, None, decl.place, decl.place)
            for name, decl in inputs.items()
            if decl.type.base == "dataset"
        )
        return Composition(mode, datasets, place=fields["mode"].place)

    def _roles(self, node: Node | None, shapes: Mapping[str, InputShape | None]) -> dict[str, str]:
        hint = "write `roles: {Main: primary_dataset}`"
        entries = self.as_map(node, "`roles` of `composition`", hint) if node is not None else None
        roles: dict[str, str] = {}
        for key, value in entries.entries if entries else ():
            role = self.string(value, f"the role of `{key.value}`", _known(ROLES))
            if role is not None and role not in ROLES:
                self.wrong(value, f"there is no role `{role}`", did_you_mean(role, ROLES) or _known(ROLES))
            shape = shapes.get(key.value)
            declared = shape.type if shape is not None else None
            if key.value not in shapes:
                datasets = [name for name, each in shapes.items() if each is not None and each.type.base == "dataset"]
                message = f"there is no dataset `{key.value}`"
                self.problems.add(key.place, "DATASET_UNKNOWN", message, did_you_mean(key.value, datasets) or hint)
            elif declared is not None and declared.base != "dataset":
                message = f"the input `{key.value}` has type `{declared}`, and only datasets have roles"
                self.problems.add(key.place, "DATASET_UNKNOWN", message, "declare `type: dataset`")
            elif role is not None:
                roles[key.value] = role
        return roles


def _known(names: tuple[str, ...]) -> str:
    return "one of " + ", ".join(f"`{name}`" for name in names)


# --- inputs --------------------------------------------------------------------------------------------


_PLAIN = lazy_regex(r"[A-Za-z0-9_./-]+")

INPUT_KEYS = (
    Key(
        name="type",
        meaning="The type; `T[]` is an array. Files, directories and datasets count by content.",
        schema={
            "anyOf": [
                {"enum": [base + "[]" * depth for depth in (0, 1) for base in BASE_TYPES]},
                {"type": "string", "pattern": rf"^({'|'.join(BASE_TYPES)})(\[\]){{0,{MAX_ARRAY_DEPTH}}}$"},
            ]
        },
        required=True,
    ),
    Key(
        name="required",
        meaning="Whether a value must be given. Default: true if there is no `default`.",
        schema={"type": "boolean"},
    ),
    Key(name="default", meaning="The value if none is given; for an array of paths also a pattern.", schema={}),
    Key(
        name="key",
        meaning="What names the elements of an array: `stem` or `name` of the files, a pattern with one `{}`, a field.",
        schema={"type": "string", "minLength": 1},
    ),
    Key(name="description", meaning="A sentence for people.", schema={"type": "string"}),
)
INPUT_KEY_NAMES = names_of(INPUT_KEYS)


class Inputs(Fields):
    def input(self, key: Scalar, node: Node) -> tuple[InputDecl | None, InputShape | None]:
        """The declaration, and its shape even if another key of it is wrong."""
        what = f"input `{key.value}`"
        hint = None if isinstance(node, MapNode) else f"write `{key.value}: {_input_example(node)}`"
        entries = self.as_map(node, what, hint)
        if entries is None:
            return None, None
        fields = self.known_keys(entries, INPUT_KEY_NAMES, what, place="input")
        if "type" not in fields:
            self.problems.add(key.place, "MISSING_KEY", f"{what} has no `type`", "add one: `type: string`")
            return None, None
        declared = self.type(fields["type"], f"the type of {what}")
        default: Any = NO_DEFAULT
        if declared is not None and "default" in fields:
            default = self._default(fields["default"], declared, what)
        required = self.boolean(fields["required"], f"`required` of {what}") if "required" in fields else None
        description = self.string(fields["description"], "a description") if "description" in fields else ""
        named_by = self._key(fields["key"], declared, what) if "key" in fields else None
        if declared is None:
            return None, None
        decl = InputDecl(
            name=key.value,
            type=declared,
            required=default is NO_DEFAULT if required is None else required,
            default=default,
            description=description or "",
            place=key.place,
            key=named_by,
        )
        return decl, None if "key" in fields and named_by is None else InputShape(declared, named_by is not None)

    def _key(self, node: Node, declared: Type | None, what: str) -> str | None:
        from whyrun.workflow.keys import key_problem  # imported late: most workflows have no keys

        key = self.string(node, f"`key` of {what}", "write `stem`, `name`, a pattern with one `{}`, or a field")
        problem = key_problem(declared, key) if key is not None and declared is not None else None
        if problem is None:
            return key
        self.wrong(node, f"`key` of {what}: {problem[0]}", problem[1])
        return None

    def _default(self, node: Node, declared: Type, what: str) -> Any:
        value = plain_value(node)
        if isinstance(value, str) and "${{" in value:
            self.string(node, f"the default of {what}")
            return NO_DEFAULT
        message = value_problem(declared, value)
        if message is not None:
            hint = "for an input that may be left out write `required: false`" if value is None else None
            if declared.depth == 1 and isinstance(node, Scalar) and value_problem(declared, [value]) is None:
                hint = f"write `[{node.text}]`"
            self.wrong(node, f"the default of {what} does not fit: {message}", hint, code="INPUT_TYPE")
            return NO_DEFAULT
        return value


def _input_example(node: Node) -> str:
    """A value where a declaration is due, as a declaration of this type or with this default."""
    value = plain_value(node)
    if isinstance(value, list):
        return '{type: "string[]", default: […]}'
    if value is None or value == "":
        return "{type: string}"
    kind = {bool: "boolean", int: "integer", float: "number"}.get(type(value), "string")
    assert isinstance(node, Scalar)
    if kind == "string" and (type_ := example_of_type(node.text)) is not None:
        return f"{{type: {type_}}}"
    if kind == "string" and LIKE_A_PATH.search(node.text):
        kind = '"file[]"' if "*" in node.text else "file"
    text = f'"{node.text}"' if not _PLAIN.fullmatch(node.text) else node.text
    return f"{{type: {kind}, default: {text}}}"
