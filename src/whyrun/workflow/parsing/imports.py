"""Imports: the file of an import, and the values for its inputs."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from msgspec.structs import replace

from whyrun.errors import did_you_mean
from whyrun.lazy_regex import lazy_regex
from whyrun.workflow.arrays import element_type, is_array
from whyrun.workflow.expressions.template import parse_template
from whyrun.workflow.fields import NAME_PATTERN, Fields, Key, list_schema, names_of
from whyrun.workflow.model import (
    FILE_TYPES,
    NO_DEFAULT,
    All,
    Expression,
    Formatted,
    ImportDecl,
    InputDecl,
    InputRef,
    Loop,
    OutputRef,
    Place,
    Selector,
    Template,
    Type,
    Workflow,
)
from whyrun.workflow.nodes import ListNode, MapNode, Node, Scalar, has_duplicates
from whyrun.workflow.parsing.job_expressions import JobDraft
from whyrun.workflow.parsing.jobs import Jobs
from whyrun.workflow.parsing.loops import is_open
from whyrun.workflow.parsing.result_loops import reads_jobs, refs_of, type_of_result
from whyrun.workflow.scope import Names
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
        meaning="Values for its inputs: literals, inputs of this workflow, and whole results of its jobs.",
        schema={"type": "object", "propertyNames": {"pattern": NAME_PATTERN}},
    ),
    Key(
        name="for",
        meaning="Loops of this workflow: the import is there once for each combination of their values.",
        schema=list_schema(NAME_PATTERN),
    ),
    Key(
        name="if",
        meaning="Whether its jobs are active. A job's own `if` must hold, too.",
        schema={"anyOf": [{"type": "boolean"}, {"type": "string", "pattern": r"^\s*\$\{\{[\s\S]*\}\}\s*$"}]},
    ),
    Key(
        name="needs",
        meaning="Jobs that all of its jobs wait for; the name of another import stands for all jobs of that.",
        schema=list_schema(r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$"),
    ),
)
IMPORT_KEY_NAMES = names_of(IMPORT_KEYS)
_ROOTS = frozenset({"inputs", "jobs", "loops", "workflow"})
_FIRST_NAME = lazy_regex(r"[A-Za-z_][A-Za-z0-9_]*")
_COMPUTED = "it takes no value, because its path is computed"


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


def loops_named(import_fields: Mapping[str, Node]) -> tuple[str, ...] | None:
    """The loops of an import as far as they can be read before the loops themselves; None if that is not at all."""
    node = import_fields.get("for")
    if node is None:
        return ()
    items = node.items if isinstance(node, ListNode) else (None,)
    names = [item.value for item in items if isinstance(item, Scalar) and isinstance(item.value, str)]
    return tuple(names) if len(names) == len(items) else None


class ImportReader:
    """Reads one import, with the readers of the job keys that it shares."""

    def __init__(self, jobs: Jobs, key: Scalar, fields: Mapping[str, Node], names: Names) -> None:
        self.jobs, self.problems, self.key, self.fields, self.names = jobs, jobs.problems, key, fields, names
        self.what = f"import `{key.value}`"
        self.draft = JobDraft(key, names, self.what, dict(fields), loops=())
        self.broken: set[str] = set()

    def read(self, workflow: Workflow | None) -> ImportDecl | None:
        """None if the imported file cannot be read."""
        fields, draft = self.fields, self.draft
        loops = self.jobs.loops(draft, fields["for"]) if "for" in fields else ()
        over = next((name for name in loops if is_open(name, self.jobs.loop_decls)), None)
        if over is not None:
            message = f"{self.what} runs for `{over}`, whose values are known only in a run"
            hint = f"run it once and hand in the list that `{over}` goes over; the imported workflow has the loop"
            self.problems.add(fields["for"].place, "LOOP_MISMATCH", message, hint)
            draft.broken.add("for")
        condition = self.jobs.condition(draft, fields["if"]) if "if" in fields else None
        needs = self.jobs.needs(draft, fields["needs"]) if "needs" in fields else ()
        with_, places = self._with(workflow)
        if workflow is None:
            return None
        for decl in workflow.inputs.values():
            if "with" in self.broken or decl.name in self.given or f"inputs.{decl.name}" in workflow.broken:
                continue
            if decl.required and decl.default is NO_DEFAULT and decl.path is None:
                self.problems.add(
                    self.key.place,
                    "INPUT_MISSING",
                    f"{self.what} gives no value to the input `{decl.name}` ({decl.type})",
                    f"add it: `with: {{{decl.name}: …}}`",
                )
        broken = frozenset(self.broken | draft.broken)
        return ImportDecl(
            self.key.value,
            workflow,
            with_,
            self.key.place,
            places,
            broken,
            loops=loops,
            condition=condition,
            needs=needs,
        )

    def _with(self, workflow: Workflow | None) -> tuple[dict[str, Template], dict[str, Place]]:
        node = self.fields.get("with")
        entries = (
            self.jobs.as_map(node, f"`with` of {self.what}", "write `Topic: value`, one per line")
            if node is not None
            else None
        )
        scope = replace(self.draft.scope("in an import", _ROOTS, binding=True), takes_arrays=True)
        with_: dict[str, Template] = {}
        places: dict[str, Place] = {}
        self.given: set[str] = set()
        if node is not None and entries is None:
            self.broken.add("with")
        inside = self.names.imports.get(self.key.value)
        for name, value in entries.entries if entries else ():
            failures = self.problems.failures
            template = parse_template(value, scope, self.problems)
            if workflow is None or inside is None:
                continue
            self.given.add(name.value)
            if (
                self.problems.failures > failures
                or has_duplicates(value)
                or (entries and name.value in entries.duplicates)
            ):
                self.broken.add(f"with.{name.value}")
            decl = workflow.inputs.get(name.value)
            if decl is None and name.value in inside.inputs:
                continue  # its declaration could not be read
            if decl is None:
                self.problems.add(
                    name.place,
                    "INPUT_UNKNOWN",
                    f"`{workflow.source}` has no input `{name.value}`",
                    did_you_mean(name.value, list(workflow.inputs)),
                )
                continue
            self._check(name.value, decl, value, template)
            with_[name.value] = template
            places[f"with.{name.value}"] = value.place
        return with_, places

    def _check(self, name: str, decl: InputDecl, value: Node, template: Template) -> None:
        entry = f"with.{name}"
        if decl.path is not None:
            self._wrong(entry, value, "INPUT_TYPE", f"input `{name}` of {self.what}: {_COMPUTED}")
        elif entry in self.broken:
            return
        elif decl.type.is_path and isinstance(template, str) and _names_something(template, self.names):
            message = f"input `{name}` of {self.what} is a {decl.type}, and `{template}` is a text"
            self._wrong(entry, value, "INPUT_TYPE", message, f"write `${{{{ {template} }}}}` for what it names")
        elif reads_jobs([template]) and not _is_whole_result(template):
            message = f"input `{name}` of {self.what} is computed from results of jobs"
            hint = "hand in one whole result, `${{ jobs.JOB.outputs.OUTPUT }}`, and compute in a job"
            self._wrong(entry, value, "EXPRESSION_FORBIDDEN", message, hint)
        elif (moved := _moved(template)) is not None:
            message = (
                f"input `{name}` of {self.what} takes the neighbour `[{moved}]`, which the first or last one lacks"
            )
            hint = "let a job of this workflow choose with `first(…)`, and hand in its result"
            self._wrong(entry, value, "EXPRESSION_FORBIDDEN", message, hint)
        elif (misfit := _misfit(decl.type, value, template, self.names)) is not None:
            hint = None
            if _is_whole_result(template):
                hint = "declare both with one type: the input in its file, or the output that it gets"
            self._wrong(entry, value, "INPUT_TYPE", f"input `{name}` of {self.what}: {misfit}", hint)

    def _wrong(self, entry: str, node: Node, code: str, message: str, hint: str | None = None) -> None:
        self.broken.add(entry)
        self.problems.add(node.place, code, message, hint)


def _names_something(text: str, names: Names) -> bool:
    """Whether a text reads like a reference to a declared job, import or input."""
    root, _, rest = text.strip().partition(".")
    name = _FIRST_NAME.match(rest)
    known = {"jobs": {*names.jobs, *names.imports}, "inputs": {*names.inputs}}.get(root, set())
    return name is not None and name[0] in known


def _moved(template: Template) -> Selector | None:
    """The first selector of a neighbour: `[clip-1]`."""
    selectors = (selector for ref in refs_of(template) for selector in ref.selectors)
    return next((each for each in selectors if isinstance(each, Loop) and each.offset), None)


def _is_whole_result(template: Template) -> bool:
    return isinstance(template, Expression) and isinstance(template.whole, OutputRef)


def _misfit(declared: Type, node: Node, template: Template, names: Names) -> str | None:
    """Why the value cannot fit, as far as this is known without the values of inputs."""
    if isinstance(template, Expression):
        if isinstance(template.whole, OutputRef):
            kind = _type_of_result(template.whole, names)
            wrong = kind is not None and not _fits(kind, declared)
            return f"`{declared}` is expected, and `{template.text}` is `{kind}`" if wrong else None
        if not isinstance(template.whole, InputRef):
            return f"an array is expected (`{declared}`)" if declared.is_path and declared.depth else None
        shape = names.inputs.get(template.whole.name)
        if shape is None or template.whole.fields:
            return None
        given = shape.type
        picked = sum(not isinstance(selector, All) for selector in template.whole.selectors)
        kind = Type(given.base, shape.depth - picked)
        return None if _fits(kind, declared) else f"`{declared}` is expected, and `{template.text}` is `{kind}`"
    if isinstance(template, Formatted):
        fits = declared.depth == 0 and (declared.base in ("string", "json") or declared.is_path)
        return None if fits else f"`{declared}` is expected, not a string"
    if _has_expression(node):
        return None  # a list or map that contains inputs is checked when their values are known
    return value_problem(declared, template)


def _type_of_result(ref: OutputRef, names: Names) -> Type | None:
    """The type of one result, or of a list of them."""
    type_ = type_of_result(ref, names)
    if type_ is None:
        return None
    selectors = [*ref.selectors, *(selector for _, part in ref.leaf for selector in part)]
    many = any(isinstance(selector, All) for selector in selectors)
    base = element_type(type_)
    return Type(base, int(is_array(type_) or many))


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
