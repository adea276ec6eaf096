"""Declarations of inputs and loops, and of the `composition:` that inputs belong to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whyrun.errors import did_you_mean
from whyrun.lazy_regex import lazy_regex
from whyrun.workflow.expressions.expression import ROOTS, parse_expression
from whyrun.workflow.fields import MAX_ARRAY_DEPTH, Fields, Key, Schema, names_of
from whyrun.workflow.model import (
    BASE_TYPES,
    MODES,
    NO_DEFAULT,
    ROLES,
    At,
    Composition,
    Dataset,
    InputDecl,
    InputRef,
    LoopDecl,
    Type,
)
from whyrun.workflow.nodes import ListNode, MapNode, Node, Scalar, kind_of, plain_value
from whyrun.workflow.scope import InputShape, Names, Scope
from whyrun.workflow.values import MAX_INSTANCES, TOO_LONG, value_problem

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


# --- inputs and loops --------------------------------------------------------------------------------------------


_RANGE = lazy_regex(r"\s*(\d{1,18})\s*-\s*(\d{1,18})\s*")

_INPUT_NAME = lazy_regex(r"inputs\.[A-Za-z_][A-Za-z0-9_]*")
_PATH = lazy_regex(r"[/*]|\.[A-Za-z0-9]{1,5}$")
_PLAIN = lazy_regex(r"[A-Za-z0-9_./-]+")

_REFERENCE: Schema = {"type": "string", "pattern": r"^inputs\.[A-Za-z_][A-Za-z0-9_]*(\[[0-9]+\])*$"}

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
LOOP_KEYS = (
    Key(name="each", meaning="One instance per element of this input array: `inputs.NAME`.", schema=_REFERENCE),
    Key(
        name="count",
        meaning="0 … n-1: a number or `inputs.NAME`.",
        schema={"anyOf": [{"type": "integer", "minimum": 0}, _REFERENCE]},
    ),
    Key(
        name="values",
        meaning="Each value is the index itself: a list or `inputs.NAME`.",
        schema={"anyOf": [{"type": "array", "items": {"type": ["string", "number"]}, "uniqueItems": True}, _REFERENCE]},
    ),
    Key(
        name="range",
        meaning="From the first to the last, both included: `0-24` or `[0, 24]`.",
        schema={
            "anyOf": [
                {"type": "string", "pattern": r"^\s*\d+\s*-\s*\d+\s*$"},
                {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
            ]
        },
    ),
)
INPUT_KEY_NAMES = names_of(INPUT_KEYS)
LOOP_KEY_NAMES = names_of(LOOP_KEYS)


class Declarations(Fields):
    # --- inputs ---------------------------------------------------------------------------------------------------

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

    # --- loops ----------------------------------------------------------------------------------------------------

    def loop(self, key: Scalar, node: Node, names: Names) -> LoopDecl | None:
        what = f"loop `{key.value}`"
        entries = self.as_map(node, what, None if isinstance(node, MapNode) else f"write {_loop_example(node)}")
        if entries is None:
            return None
        fields = self.known_keys(entries, LOOP_KEY_NAMES, what, place="loop")
        if len(fields) != 1:
            if len(fields) == len(entries.entries):  # otherwise the unknown key is reported
                self.problems.add(
                    key.place,
                    "MISSING_KEY" if not fields else "UNKNOWN_KEY",
                    f"{what} needs exactly one of `each`, `count`, `values`, `range`",
                    "remove the others" if fields else "write `{each: inputs.NAME}`",
                )
            return None
        ((kind, value),) = fields.items()
        source = {"each": self._each, "count": self._count, "values": self._values, "range": self._range}[kind](
            value, what, names
        )
        return None if source is None else LoopDecl(key.value, kind, source, key.place)  # type: ignore[arg-type]

    def _loop_input(self, node: Node, what: str, names: Names) -> tuple[InputRef, Type | None] | None:
        """The input of `inputs.NAME`, and its type."""
        assert isinstance(node, Scalar)
        if "{" in node.value:
            plain = node.value.strip("${} ")
            self.wrong(
                node,
                f"the source of {what} cannot contain `${{{{ }}}}`",
                f"write `{plain}`" if _INPUT_NAME.fullmatch(plain) else "write `inputs.NAME`",
                "EXPRESSION_FORBIDDEN",
            )
            return None
        if "*" in node.value or "/" in node.value:
            files = f'`Files: {{type: "file[]", default: "{node.value}"}}`'
            hint = f"declare the files as an input, {files}, and write `each: inputs.Files`"
            self.wrong(node, f"the source of {what} is a path", hint)
            return None
        if node.value in list(names.inputs):  # a list: `AnyKey` contains every name
            message = f"`{node.value}` alone is not a source of {what}"
            self.wrong(node, message, f"write `inputs.{node.value}`", "UNKNOWN_REFERENCE")
            return None
        scope = Scope(names, "in a loop", frozenset({"inputs"}), binding=True)
        expression = parse_expression(node.value, node.locate, scope, self.problems)
        if expression is None:
            return None
        ref = expression.whole
        if not isinstance(ref, InputRef) or not all(isinstance(s, At) for s in ref.selectors):
            self.wrong(node, f"the source of {what} is not an input", "write `inputs.NAME`")
            return None
        shape = names.inputs[ref.name]
        declared = shape.type if shape is not None else None
        return ref, declared and Type(declared.base, declared.depth - len(ref.selectors))

    def _each(self, node: Node, what: str, names: Names) -> Any:
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            self.wrong(
                node, f"`each` of {what} is {kind_of(node)}, not an input", "write `each: inputs.NAME`, or use `values`"
            )
            return None
        source = self._loop_input(node, what, names)
        if source is None:
            return None
        ref, declared = source
        if declared is not None and declared.depth == 0:
            self.wrong(
                node, f"`inputs.{ref.name}` has type `{declared}`, not an array", f"declare it as `{declared}[]`"
            )
            return None
        return ref

    def _count(self, node: Node, what: str, names: Names) -> Any:
        if isinstance(node, Scalar) and isinstance(node.value, str):
            source = self._loop_input(node, what, names)
            if source is None:
                return None
            ref, declared = source
            if declared is not None and declared != Type("integer"):
                self.wrong(
                    node, f"`inputs.{ref.name}` has type `{declared}`, not `integer`", "`each` goes over an array"
                )
                return None
            return ref
        count = plain_value(node)
        if type(count) is not int or count < 0:
            self.wrong(node, f"`count` of {what} is not a whole number from 0", "write a number or `inputs.NAME`")
            return None
        if count > MAX_INSTANCES:
            self.wrong(node, f"{what} is too long: it has {count} values", TOO_LONG)
            return None
        return count

    def _values(self, node: Node, what: str, names: Names) -> Any:
        if isinstance(node, Scalar) and isinstance(node.value, str):
            source = self._loop_input(node, what, names)
            if source is None:
                return None
            ref, declared = source
            if declared is not None and (declared.depth != 1 or declared.base not in ("string", "integer", "number")):
                self.wrong(
                    node,
                    f"`inputs.{ref.name}` is `{declared}`; values come from `string[]`, `integer[]` or `number[]`",
                    "`each` goes over any array",
                )
                return None
            return ref
        listed = self.as_list(node, f"`values` of {what}", "write `[asia, cancer]` or `inputs.NAME`")
        if listed is None:
            return None
        values: list[Any] = []
        for item in listed.items:
            value = plain_value(item)
            if isinstance(value, bool) or not isinstance(value, int | float | str):
                self.wrong(item, f"a value of {what} is {kind_of(item)}", "values are strings and numbers")
            elif value in values:
                self.wrong(item, f"the value `{value}` of {what} appears twice", "remove one")
            else:
                values.append(value)
        return tuple(values)

    def _range(self, node: Node, what: str, names: Names) -> Any:
        first = last = None
        if isinstance(node, Scalar) and isinstance(node.value, str):
            match = _RANGE.fullmatch(node.value)
            if match:
                first, last = int(match[1]), int(match[2])
        elif isinstance(node, ListNode) and len(node.items) == 2:
            first, last = map(plain_value, node.items)
        if type(first) is not int or type(last) is not int:
            self.wrong(
                node, f"`range` of {what} is not a range of whole numbers", "write `0-24` or `[0, 24]`; both ends count"
            )
            return None
        if last < first:
            turned = f"{last}-{first}" if isinstance(node, Scalar) else f"[{last}, {first}]"
            self.wrong(node, f"`range` of {what} ends before it begins", f"write `{turned}`; both ends count")
            return None
        if last - first >= MAX_INSTANCES:
            self.wrong(node, f"{what} is too long: it has {last - first + 1} values", TOO_LONG)
            return None
        return first, last


def _input_example(node: Node) -> str:
    """A value where a declaration is due, as a declaration with this default."""
    value = plain_value(node)
    if isinstance(value, list):
        return '{type: "string[]", default: […]}'
    if value is None or value == "":
        return "{type: string}"
    kind = {bool: "boolean", int: "integer", float: "number"}.get(type(value), "string")
    assert isinstance(node, Scalar)
    if kind == "string" and _PATH.search(node.text):
        kind = '"file[]"' if "*" in node.text else "file"
    text = f'"{node.text}"' if not _PLAIN.fullmatch(node.text) else node.text
    return f"{{type: {kind}, default: {text}}}"


def _loop_example(node: Node) -> str:
    """The same for a loop."""
    if isinstance(node, ListNode):
        return "`{values: […]}` around it"
    assert isinstance(node, Scalar)
    if type(node.value) is int:
        return f"`{{count: {node.text}}}`"
    if _RANGE.fullmatch(node.text):
        return f"`{{range: {node.text}}}`"
    if _INPUT_NAME.fullmatch(node.text):
        return f"`{{each: {node.text}}}`"
    return "`{each: inputs.NAME}`, `{count: 3}`, `{values: [a, b]}` or `{range: 0-9}`"


def check_loop_name(fields: Fields, key: Scalar) -> bool:
    if not fields.name(key, "a loop"):
        return False
    if key.value in ROOTS:
        fields.problems.add(
            key.place, "NAME_TAKEN", f"`{key.value}` means something else in expressions", "choose another name"
        )
        return False
    return True
