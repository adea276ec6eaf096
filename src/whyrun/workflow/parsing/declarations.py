"""Declarations of inputs, and of the `composition:` that they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from whyrun.errors import did_you_mean
from whyrun.lazy_regex import lazy_regex
from whyrun.workflow.expressions.template import parse_template
from whyrun.workflow.fields import (
    LIKE_A_PATH,
    MAX_ARRAY_DEPTH,
    NAME_PATTERN,
    Fields,
    Key,
    example_of_type,
    list_schema,
    names_of,
)
from whyrun.workflow.model import (
    BASE_TYPES,
    MODES,
    NO_DEFAULT,
    ROLES,
    Composition,
    Dataset,
    InputDecl,
    LoopDecl,
    Type,
)
from whyrun.workflow.nodes import MapNode, Node, Problems, Scalar, kind_of, plain_value
from whyrun.workflow.parsing.loops import is_open, misplaced
from whyrun.workflow.scope import AnyName, InputShape, Names, Scope
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
    Key(
        name="for",
        meaning="With `path`: loops for which there is one file each.",
        schema=list_schema(NAME_PATTERN),
    ),
    Key(
        name="path",
        meaning="The path of the file, computed from loop variables and inputs.",
        schema={"type": "string", "minLength": 1},
    ),
    Key(name="description", meaning="A sentence for people.", schema={"type": "string"}),
)
INPUT_KEY_NAMES = names_of(INPUT_KEYS)


class Inputs(Fields):
    def __init__(self, problems: Problems, loops: AnyName | frozenset[str]) -> None:
        super().__init__(problems)
        self.loops = loops
        self.paths: dict[str, Node] = {}  # of inputs with computed paths, to be parsed when all names are known

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
        if "path" in fields or "for" in fields:
            return self._computed(key, fields, declared, what, required is not False, description or "")
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

    def _computed(
        self, key: Scalar, fields: Mapping[str, Node], declared: Type, what: str, required: bool, description: str
    ) -> tuple[InputDecl | None, InputShape | None]:
        """An input at a computed path; `path` is parsed later."""
        loops = self._loops(fields["for"], what) if "for" in fields else ()
        if "path" not in fields:
            hint = f'add the path of the file: `path: "data/${{{{ {(loops or ("loop",))[0]} }}}}.csv"`'
            self.problems.add(key.place, "MISSING_KEY", f"{what} has `for`, but no `path`", hint)
            return None, None
        for other in ("default", "key"):
            if other in fields:
                self.wrong(fields[other], f"{what} has a `path`, so it has no `{other}`", "remove one of them")
        node = fields["path"]
        path = node.value if isinstance(node, Scalar) and isinstance(node.value, str) else None
        if path is None:
            self.wrong(node, f"`path` of {what} is {kind_of(node)}, not a string", "write `data/${{ loop }}.csv`")
        if not declared.is_path or declared.depth:
            hint = "write `type: file`" if not declared.is_path else f"write `type: {declared.base}`"
            self.wrong(node, f"`path` of {what} is that of one file or folder, not of `{declared}`", hint)
            return None, None
        if path is not None and "${{" not in path and not loops:
            self.wrong(node, f"`path` of {what} is not computed", f"write `default: {path}`")
        if loops is None or path is None:
            return None, None
        self.paths[key.value] = node
        decl = InputDecl(key.value, declared, required, NO_DEFAULT, description, key.place, loops=loops)
        return decl, InputShape(declared, loops=loops, is_computed=True)

    def _loops(self, node: Node, what: str) -> tuple[str, ...] | None:
        listed = self.as_list(node, f"`for` of {what}", "write `for: [loop]`, and declare the loop under `loops:`")
        if listed is None:
            return None
        loops = self.strings(listed, f"`for` of {what}", "a loop", "write its name")
        unknown = [(name, item) for name, item in loops if name not in self.loops]
        for name, item in unknown:
            hint = did_you_mean(name, sorted(self.loops)) or "declare it under `loops:`"
            self.problems.add(item.place, "UNKNOWN_LOOP", f"there is no loop `{name}`", hint)
        return tuple(name for name, _ in loops) if len(loops) == len(listed.items) and not unknown else None

    def with_path(self, decl: InputDecl, names: Names, loops: Mapping[str, LoopDecl | None]) -> InputDecl | None:
        """The declaration with its `path`; None if that is wrong."""
        wrong = misplaced(decl.loops, loops)
        if wrong is not None:
            self.problems.add(decl.place, "LOOP_MISMATCH", f"input `{decl.name}`: {wrong[1]}", wrong[2])
            return None
        if over := next((name for name in decl.loops if is_open(name, loops)), None):
            message = f"input `{decl.name}`: the values of `{over}` are known only once a job has made them"
            hint = "inputs are looked at before the first job: use a loop over inputs"
            self.problems.add(decl.place, "LOOP_MISMATCH", message, hint)
            return None
        where = f"in `path:` of input `{decl.name}`"
        scope = Scope(names, where, frozenset({"inputs", "loops"}), loops=decl.loops, before_files=True)
        failures = self.problems.failures
        template = parse_template(self.paths[decl.name], scope, self.problems)
        return None if self.problems.failures > failures else replace(decl, path=template)

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
