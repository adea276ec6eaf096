"""Imports: the file of an import, and the values for its inputs."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from whyrun.errors import did_you_mean
from whyrun.workflow.expressions.template import parse_template
from whyrun.workflow.fields import NAME_PATTERN, Fields, Key, names_of
from whyrun.workflow.model import (
    FILE_TYPES,
    NO_DEFAULT,
    All,
    Expression,
    Formatted,
    ImportDecl,
    InputRef,
    Place,
    Template,
    Type,
    Workflow,
)
from whyrun.workflow.nodes import ListNode, MapNode, Node, Scalar, has_duplicates
from whyrun.workflow.scope import Names, Scope
from whyrun.workflow.values import value_problem

IMPORT_KEYS = (
    Key(
        name="workflow",
        meaning="The file of the imported workflow, relative to this file.",
        schema={"type": "string"},
        required=True,
    ),
    Key(
        name="with",
        meaning="Values for its inputs: inputs of this workflow and literals.",
        schema={"type": "object", "propertyNames": {"pattern": NAME_PATTERN}},
    ),
)
IMPORT_KEY_NAMES = names_of(IMPORT_KEYS)
_ROOTS = frozenset({"inputs", "workflow"})


def import_place(
    key: Scalar, import_fields: Mapping[str, Node], importing: str, fields: Fields
) -> tuple[Scalar, str] | None:
    """The node with the path, and the key of the file: its path relative to the folder of the root workflow."""
    what = f"import `{key.value}`"
    node = import_fields.get("workflow")
    if node is None:
        fields.problems.add(
            key.place, "MISSING_KEY", f"{what} has no `workflow`", "name the file: `workflow: ./intro.yaml`"
        )
        return None
    path = fields.string(node, f"the file of {what}", "write a path: `./intro.yaml`")
    if path is None:
        return None
    assert isinstance(node, Scalar)
    if not path or path.startswith(("/", "~")) or "\\" in path or "\0" in path:
        fields.wrong(node, f"the file of {what} is not a relative path", "write a path: `./intro.yaml`", "PATH_OUTSIDE")
        return None
    return node, posixpath.normpath(posixpath.join(posixpath.dirname(importing), path))


def check_import_inputs(
    key: Scalar, import_fields: Mapping[str, Node], workflow: Workflow | None, names: Names, fields: Fields
) -> ImportDecl | None:
    """The import with its `with:`; None if the imported file cannot be read."""
    what = f"import `{key.value}`"
    node = import_fields.get("with")
    entries = (
        fields.as_map(node, f"`with` of {what}", "write `Topic: value`, one per line") if node is not None else None
    )
    scope = Scope(names, "in an import", _ROOTS, binding=True)
    with_: dict[str, Template] = {}
    places: dict[str, Place] = {}
    given: set[str] = set()
    broken = {"with"} if node is not None and entries is None else set()
    inside = names.imports.get(key.value)
    for name, value in entries.entries if entries else ():
        failures = fields.problems.failures
        template = parse_template(value, scope, fields.problems)
        if workflow is None or inside is None:
            continue
        given.add(name.value)
        if (
            fields.problems.failures > failures
            or has_duplicates(value)
            or (entries and name.value in entries.duplicates)
        ):
            broken.add(f"with.{name.value}")
        decl = workflow.inputs.get(name.value)
        if decl is None and name.value in inside.inputs:
            continue  # its declaration could not be read
        if decl is None:
            fields.problems.add(
                name.place,
                "INPUT_UNKNOWN",
                f"`{workflow.source}` has no input `{name.value}`",
                did_you_mean(name.value, list(workflow.inputs)),
            )
            continue
        message = _misfit(decl.type, value, template, names) if f"with.{name.value}" not in broken else None
        if decl.path is not None:
            message = "it takes no value, because its path is computed"
        if message is not None:
            broken.add(f"with.{name.value}")
            fields.problems.add(value.place, "INPUT_TYPE", f"input `{name.value}` of {what}: {message}")
        with_[name.value] = template
        places[f"with.{name.value}"] = value.place
    if workflow is None:
        return None
    for decl in workflow.inputs.values():
        if "with" in broken or decl.name in given or f"inputs.{decl.name}" in workflow.broken:
            continue
        if decl.required and decl.default is NO_DEFAULT and decl.path is None:
            fields.problems.add(
                key.place,
                "INPUT_MISSING",
                f"{what} gives no value to the input `{decl.name}` ({decl.type})",
                f"add it: `with: {{{decl.name}: …}}`",
            )
    return ImportDecl(key.value, workflow, with_, key.place, places, frozenset(broken))


def _misfit(declared: Type, node: Node, template: Template, names: Names) -> str | None:
    """Why the value cannot fit, as far as this is known without the values of inputs."""
    if isinstance(template, Expression):
        if not isinstance(template.whole, InputRef):
            return f"an array is expected (`{declared}`)" if declared.is_path and declared.depth else None
        shape = names.inputs.get(template.whole.name)
        if shape is None or template.whole.fields:
            return None
        given = shape.type
        picked = sum(not isinstance(selector, All) for selector in template.whole.selectors)
        kind = Type(given.base, given.depth - picked)
        return None if _fits(kind, declared) else f"`{declared}` is expected, and `{template.text}` is `{kind}`"
    if isinstance(template, Formatted):
        fits = declared.depth == 0 and (declared.base in ("string", "json") or declared.is_path)
        return None if fits else f"`{declared}` is expected, not a string"
    if _has_expression(node):
        return None  # a list or map that contains inputs is checked when their values are known
    return value_problem(declared, template)


def _has_expression(node: Node) -> bool:
    if isinstance(node, MapNode):
        return any(_has_expression(value) for _, value in node.entries)
    if isinstance(node, ListNode):
        return any(_has_expression(item) for item in node.items)
    return isinstance(node, Scalar) and isinstance(node.value, str) and "${{" in node.value


def _fits(given: Type, declared: Type) -> bool:
    if declared.base == "json" and declared.depth == 0:
        return not given.is_path
    if given.depth != declared.depth:
        return False
    both_files = given.base in FILE_TYPES and declared.base in FILE_TYPES
    return given.base == declared.base or both_files or (given.base == "integer" and declared.base == "number")
