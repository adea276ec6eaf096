"""The values of a workflow's inputs: defaults, `--inputs FILE.yaml`, `--set Name=value`; later wins."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from whyrun.errors import Diagnostic, did_you_mean
from whyrun.json_values import DEEPEST, plain_scalar
from whyrun.workflow.model import NO_DEFAULT, InputDecl, Type, Workflow
from whyrun.workflow.nodes import MapNode, Problems, has_duplicates, kind_of, plain_value
from whyrun.workflow.values import IndexProblem, InputValue, element, is_sheet, value_problem
from whyrun.workflow.yaml_source import read_source, read_yaml, resolve_scalar

__all__ = [
    "IndexProblem",
    "InputValue",
    "element",
    "files_of",
    "given_by",
    "is_dataset_plan",
    "known_inputs",
    "parse_set",
]


def known_inputs(
    workflow: Workflow, inputs_file: Path | None, sets: Sequence[str], given: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], list[Diagnostic]]:
    """The values of the declared inputs, in the order of declaration, and the problems of those that have none.

    `given` are values from Python: they override the file, and `sets` override them.
    Paths stay as given, and a pattern (`photos/*.png`) for an array of paths stays a string.
    """
    unreadable: list[Diagnostic] = []
    text = None
    if inputs_file is not None:
        try:
            text = read_source(inputs_file)
        except UnicodeDecodeError:
            unreadable.append(Diagnostic("YAML_SYNTAX", "the inputs file is not UTF-8 text", file=str(inputs_file)))
        except OSError as problem:
            message, hint = f"the inputs file cannot be read: {problem.strerror}", "check the path after `--inputs`"
            unreadable.append(Diagnostic("FILE_MISSING", message, file=str(inputs_file), hint=hint))
    values, problems = _combine(workflow, text, str(inputs_file), sets, given, unreadable=bool(unreadable))
    return values, [*unreadable, *problems]


def _combine(
    workflow: Workflow,
    text: str | None,
    shown: str,
    sets: Sequence[str],
    values_given: Mapping[str, Any] | None,
    *,
    unreadable: bool,
) -> tuple[dict[str, Any], list[Diagnostic]]:
    """`unreadable`: the content of the inputs file is not known, so no input is missing or left at its default."""
    problems: list[Diagnostic] = []
    given: dict[str, Any] = {}
    failed: set[str] = set()  # given with a problem, so not reported as missing
    if text is not None and not _from_file(workflow, text, shown, given, failed, problems):
        unreadable = True
    for name, value in (values_given or {}).items():
        _from_python(workflow, name, value, given, failed, problems)
    for entry in sets:
        _from_set(workflow, entry, given, failed, problems)
    values: dict[str, Any] = {}
    for name, decl in workflow.inputs.items():
        if name in given:
            values[name] = given[name]
        elif unreadable or name in failed or f"inputs.{name}" in workflow.broken:
            continue  # its value is not known
        elif decl.path is not None:
            continue  # its path is computed
        elif decl.default is not NO_DEFAULT:
            values[name] = decl.default
        elif not decl.required:
            values[name] = None
        else:
            problems.append(
                decl.place.diagnostic(
                    "INPUT_MISSING",
                    f"the input `{name}` ({decl.type}) has no value",
                    f"give it with `--set {name}=…` or in a file with `--inputs FILE.yaml`",
                )
            )
    return values, problems


def _from_file(
    workflow: Workflow, text: str, shown: str, given: dict[str, Any], failed: set[str], all_problems: list[Diagnostic]
) -> bool:
    """Whether the file could be read."""
    problems = Problems()
    node = read_yaml(text, shown, problems)
    if isinstance(node, MapNode):
        for key, value_node in node.entries:
            decl = workflow.inputs.get(key.value)
            if decl is None:
                if not _is_unread(workflow, key.value):
                    problems.add(
                        key.place,
                        "INPUT_UNKNOWN",
                        f"the workflow has no input `{key.value}`",
                        did_you_mean(key.value, list(workflow.inputs)),
                    )
                continue
            if key.value in node.duplicates or has_duplicates(value_node):
                failed.add(key.value)
                continue
            value = plain_value(value_node)
            message = _problem(decl, value)
            if message is not None:
                failed.add(key.value)
                problems.add(value_node.place, "INPUT_TYPE", f"input `{key.value}`: {message}", _hint(decl))
                continue
            given[key.value] = value
    elif node is not None and plain_value(node) is not None:
        problems.add(
            node.place,
            "WRONG_TYPE",
            f"an inputs file is a map, not {kind_of(node)}",
            "write one `Name: value` per line",
        )
    all_problems.extend(problems)
    return isinstance(node, MapNode) or (node is not None and plain_value(node) is None)


def _is_unread(workflow: Workflow, name: str) -> bool:
    """Whether a declaration that could not be read may have this name."""
    return "inputs" in workflow.broken or f"inputs.{name}" in workflow.broken


def _from_python(
    workflow: Workflow, name: str, value: Any, given: dict[str, Any], failed: set[str], problems: list[Diagnostic]
) -> None:
    decl = workflow.inputs.get(name)
    if decl is None:
        if not _is_unread(workflow, name):
            hint = did_you_mean(name, list(workflow.inputs))
            problems.append(Diagnostic("INPUT_UNKNOWN", f"the workflow has no input `{name}`", hint=hint))
        return
    value = _as_data(value)
    message = _problem(decl, value)
    if message is not None:
        failed.add(name)
        problems.append(Diagnostic("INPUT_TYPE", f"input `{name}`: {message}", hint=_hint(decl)))
        return
    given[name] = value


def _as_data(value: Any, depth: int = 0) -> Any:
    """Paths, tuples and subclasses (a `StrEnum`, a NumPy number) as the plain data that a file would hold.

    Parts that are nested too deep stay as they are; the check of the value refuses them.
    """
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, list | tuple) and depth <= DEEPEST:
        return [_as_data(member, depth + 1) for member in value]
    if isinstance(value, dict) and depth <= DEEPEST:
        return {plain_scalar(key): _as_data(member, depth + 1) for key, member in value.items()}
    return plain_scalar(value)


def _from_set(
    workflow: Workflow, entry: str, given: dict[str, Any], failed: set[str], problems: list[Diagnostic]
) -> None:
    name, equals, text = entry.partition("=")
    if not equals:
        problems.append(Diagnostic("USAGE", f"`--set {entry}` has no value", hint="write `--set Name=value`"))
        return
    decl = workflow.inputs.get(name)
    if decl is None:
        if not _is_unread(workflow, name):
            hint = did_you_mean(name, list(workflow.inputs))
            problems.append(
                Diagnostic("INPUT_UNKNOWN", f"`--set {name}`: the workflow has no input `{name}`", hint=hint)
            )
        return
    try:
        value = parse_set(decl.type, text)
        message = _problem(decl, value)
    except ValueError as problem:
        message = str(problem)
    if message is not None:
        failed.add(name)
        problems.append(Diagnostic("INPUT_TYPE", f"`--set {name}`: {message}", hint=_hint(decl)))
        return
    given[name] = value


def parse_set(declared: Type, text: str) -> Any:
    """The text after `--set Name=`, read by the declared type. `ValueError` if it cannot be read."""
    if declared.depth == 0 and (declared.base == "string" or declared.is_path):
        return text
    if declared.depth == 0 and declared.base != "json":
        return resolve_scalar(text.strip())
    if declared.depth and declared.is_path and not text.lstrip().startswith("["):
        return text  # one path, or a pattern that is expanded when the files are observed
    if is_sheet(declared, text.strip()):
        return text.strip()
    problems = Problems()
    node = read_yaml(text, "--set", problems)
    for problem in problems:
        raise ValueError(problem.message)
    return None if node is None else plain_value(node)


def _problem(decl: InputDecl, value: Any) -> str | None:
    if decl.path is not None:
        return "it takes no value, because its path is computed"
    if value is None and not decl.required and decl.default is NO_DEFAULT:
        return None
    return value_problem(decl.type, value)


def _hint(decl: InputDecl) -> str:
    if decl.path is not None:
        return "change its `path:`, or an input that this uses"
    return _example(decl.type)


def _example(declared: Type) -> str:
    """A hint with an example of this type."""
    examples = {"string": "cinema", "integer": "3", "number": "0.5", "boolean": "true", "json": '{"a": 1}'}
    if declared.depth:
        member = "photos/a.png" if declared.is_path else examples[declared.base]
        quoted = f'"{member}"' if declared.is_path or declared.base == "string" else member
        text = "[" * declared.depth + quoted + "]" * declared.depth
        or_file = " or a file of objects: `samples.csv`" if declared == Type("json", 1) else ""
        return f"for example `{text}`" + (" or a pattern: `photos/*.png`" if declared.is_path else or_file)
    return f"for example `{'photos/a.png' if declared.is_path else examples[declared.base]}`"


def files_of(workflow: Workflow) -> Iterator[Workflow]:
    """The workflow of this file, and those that it imports, once for each import."""
    yield workflow
    for imported in workflow.imports.values():
        yield from files_of(imported.workflow)


def given_by(
    workflow: Workflow | None, inputs_file: Path | None, sets: Sequence[str], given: Iterable[str]
) -> dict[str, str]:
    """By input: where its value comes from, if that is not the workflow file."""
    values = known_inputs(workflow, inputs_file, ())[0] if workflow is not None else {}
    other = {name for name, v in values.items() if workflow is not None and v != workflow.inputs[name].default}
    return {
        **dict.fromkeys(other, f"given in `{inputs_file}`"),
        **dict.fromkeys(given, "given by the caller"),
        **{entry.partition("=")[0]: "given by `--set`" for entry in sets},
    }


def is_dataset_plan(path: Path) -> bool:
    """Whether it is a `.json` file, but not a workflow written as JSON. An unreadable `.json` file counts as a plan."""
    if path.suffix.lower() != ".json":
        return False
    import json  # imported late: nearly no workflow is JSON

    try:
        root = json.loads(read_source(path))
    except (OSError, ValueError, RecursionError):
        return True
    return not (isinstance(root, dict) and ("workflow" in root or "jobs" in root) and "steps" not in root)
