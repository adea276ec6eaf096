"""Loops over results: `{count: jobs.Script.outputs.Count}`, `{each: jobs.Split.outputs.Parts}`.

They are read twice: before the jobs, which name the loops, and again when the outputs of the jobs are known.
Also inputs of imports that are results: what a reference to such an input refers to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from whyrun.workflow.arrays import is_array
from whyrun.workflow.expressions.expression import parse_expression
from whyrun.workflow.fields import Fields
from whyrun.workflow.model import (
    All,
    At,
    Expression,
    Formatted,
    InputDecl,
    InputRef,
    Loop,
    LoopDecl,
    OutputDecl,
    OutputRef,
    Place,
    Ref,
    Selector,
    Template,
    refs_in,
)
from whyrun.workflow.nodes import Node, Problems, Scalar, plain_value
from whyrun.workflow.parsing.outputs import ARRAY_TYPES
from whyrun.workflow.scope import AnyKey, JobShape, Names, OutputShape, Scope
from whyrun.workflow.values import MAX_INSTANCES

_ROOTS = frozenset({"jobs", "loops"})
_ANY_OUTPUT = OutputShape(None, None)
_ANY_JOB = JobShape(None, AnyKey({}, _ANY_OUTPUT))
FITS: dict[str, tuple[str, ...]] = {  # by kind of loop: the types of results that it goes over
    "count": ("integer",),
    "values": ("json", "string[]", "integer[]", "number[]"),
    "each": ARRAY_TYPES,
}
_GOES_OVER = {
    "count": "it goes over an integer output or leaf",
    "values": "it goes over `string[]`, `integer[]` or `number[]`, or a leaf of type `json` that holds a list",
    "each": "it goes over an array; `count` over an integer, `values` over texts and numbers",
}

_WHOLE = "declare the part that is read as a leaf of the output, and hand in the leaf"


def is_over_result(node: Node) -> bool:
    return isinstance(node, Scalar) and isinstance(node.value, str) and node.value.lstrip("${ ").startswith("jobs.")


class ResultLoops(Fields):
    """Reads the sources of these loops. `sources` has those that were read once, by name."""

    def __init__(self, problems: Problems) -> None:
        super().__init__(problems)
        self.sources: dict[str, tuple[Scalar, str]] = {}

    def result(self, node: Node, kind: str, what: str, names: Names) -> OutputRef | None:
        """The reference as far as it can be read before the jobs: its loops are known then, its output is not."""
        assert isinstance(node, Scalar)
        if "{" in node.value:
            plain = node.value.strip("${} ")
            message = f"the source of {what} cannot contain `${{{{ }}}}`"
            self.wrong(node, message, f"write `{plain}`", "EXPRESSION_FORBIDDEN")
            return None
        if kind not in FITS:
            hint = "`each:` goes over an array that a job makes, `count:` over an integer, `values:` over a list"
            self.wrong(node, f"`{kind}` of {what} cannot be a result of a job", hint)
            return None
        lenient = Names(names.inputs, names.loops, AnyKey({}, _ANY_JOB), dict.fromkeys(names.imports))
        found = _reference(node, lenient, what, self.problems)
        return None if found is None else self._checked(node, what, found[0])

    def _checked(self, node: Scalar, what: str, ref: OutputRef) -> OutputRef | None:
        selectors = [*ref.selectors, *(s for _, part in ref.leaf for s in part)]
        if all(isinstance(selector, Loop) and not selector.offset for selector in selectors):
            return ref
        hint = "take one result, or one for each index of another loop: `jobs.Cut.outputs.Count[network]`"
        self.wrong(node, f"the source of {what} is not one result", hint)
        return None

    def most(self, node: Node, what: str) -> int | None:
        value = plain_value(node)
        if type(value) is int and 0 < value <= MAX_INSTANCES:
            return value
        self.wrong(node, f"`max` of {what} is not a whole number from 1 to {MAX_INSTANCES}", "write `max: 200`")
        return None

    def with_jobs(self, loops: Mapping[str, LoopDecl | None], names: Names) -> dict[str, LoopDecl | None]:
        """The loops again, now that the outputs of all jobs are known. None for one whose source is wrong."""
        found = dict(loops)
        for name, (node, kind) in self.sources.items():
            decl = loops.get(name)
            if decl is None or not decl.is_over_result:
                continue
            what = f"loop `{name}`"
            read = _reference(node, names, what, self.problems)
            ref = None if read is None else self._fitting(node, kind, what, *read)
            found[name] = None if ref is None else replace(decl, source=ref)
        return found

    def _fitting(self, node: Scalar, kind: str, what: str, ref: OutputRef, type_: str | None) -> OutputRef | None:
        if type_ is not None and kind == "values" and type_ == "json" and not ref.leaf:
            hint = "declare it as `string[]`, or the list as a leaf of type `json`"
            self.wrong(node, f"the source of {what} is a whole JSON output, whose value is not recorded", hint)
            return None
        if type_ is not None and type_ not in FITS[kind]:
            self.wrong(node, f"`{kind}` of {what} is a result of type `{type_}`", _GOES_OVER[kind])
            return None
        return ref


def _reference(node: Scalar, names: Names, what: str, problems: Problems) -> tuple[OutputRef, str | None] | None:
    """The reference, and the type of what it refers to, if that is known."""
    scope = Scope(names, f"in {what}", _ROOTS, True, names.loops, before_files=True, takes_arrays=True)
    expression = parse_expression(node.value, node.locate, scope, problems)
    if expression is None:
        return None
    if not isinstance(expression.whole, OutputRef):
        hint = "write `jobs.JOB.outputs.OUTPUT`, and compute in the job"
        problems.add(node.place, "WRONG_TYPE", f"the source of {what} is not one result of a job", hint)
        return None
    return expression.whole, type_of_result(expression.whole, names)


def type_of_result(ref: OutputRef, names: Names) -> str | None:
    *imports, job = ref.job.split("/")
    for name in imports:
        inner = names.imports.get(name)
        if inner is None:
            return None
        names = inner
    outputs = names.jobs[job].outputs
    shape = outputs.get(ref.output) if outputs is not None else None
    if shape is None:
        return None
    if not ref.leaf:
        return shape.type
    same = [leaf for leaf in shape.leaves or () if [name for name, _ in leaf.path] == [name for name, _ in ref.leaf]]
    return same[0].type if same else None


def wrong_nesting(names: Sequence[str], loops: Mapping[str, Any]) -> tuple[int, str, str] | None:
    """The first loop over a result in a `for:` that goes beside another one, what is wrong, and what to write."""
    over: list[str] = []
    for number, name in enumerate(names):
        decl = loops.get(name)
        if decl is None or not decl.is_over_result:
            continue
        beside = [other for other in over if other not in decl.after]
        if beside:
            message = f"`{name}` and `{beside[0]}` are loops over results, and neither depends on the other"
            hint = f"let a job that runs for [{beside[0]}] make the values of `{name}`, or join the lists in one job"
            return number, message, hint
        over.append(name)
    return None


# --- inputs of imports that are results ---------------------------------------------------------------------------


def refs_of(template: Template) -> Iterable[Ref]:
    if isinstance(template, Expression):
        return refs_in(template.refs)
    parts: Iterable[Any] = ()
    if isinstance(template, Formatted):
        parts = template.parts
    elif isinstance(template, dict):
        parts = template.values()
    elif isinstance(template, list | tuple):
        parts = template
    return (ref for part in parts for ref in refs_of(part))


def reads_jobs(templates: Iterable[Template]) -> bool:
    return any(isinstance(ref, OutputRef) for template in templates for ref in refs_of(template))


class Refusal(Exception):
    """Why an input that an artifact feeds cannot be used in this way."""

    def __init__(self, message: str, hint: str, code: str = "EXPRESSION_FORBIDDEN") -> None:
        super().__init__(message)
        self.message, self.hint, self.code = message, hint, code


class Feed(msgspec.Struct, frozen=True):
    """An input of an import that is an artifact."""

    ref: OutputRef  # from the root
    output: OutputDecl
    place: Place  # of the entry of `with:`

    @property
    def is_list(self) -> bool:
        return any(isinstance(selector, All) for selector in self.ref.selectors)

    @property
    def type(self) -> str:
        """Of what it refers to: an output, or a leaf."""
        if not self.ref.leaf:
            return self.output.type
        leaf = leaf_like(self.output, self.ref.leaf)
        return leaf if leaf is not None else "json"


def fed(feed: Feed, ref: InputRef, what: str, *, alone: bool, whole_array: bool = False) -> OutputRef:
    """What a reference to the input refers to; `alone`: it is a whole value, and no part of an expression."""
    array = is_array(feed.output.type) and not feed.ref.leaf
    selectors, leaf = feed.ref.selectors, feed.ref.leaf
    written = str(ref)
    if ref.selectors:
        if feed.is_list or not array or len(ref.selectors) > 1:
            message = (
                f"{what} picks `{written}`, and the input `{ref.name}` gets a result that has no elements of its own"
            )
            if feed.is_list:
                message = f"{what} picks `{written}` of many results, which have no indices inside the import"
            hint = "take the whole input, or hand in one output that is an array: `jobs.JOB.outputs.OUTPUT`"
            raise Refusal(message, hint, "LOOP_MISMATCH")
        (selector,) = ref.selectors
        if isinstance(selector, Loop) and selector.offset:
            message = f"{what} picks `{written}`, and no neighbour of an element is known before a job makes it"
            raise Refusal(message, "take the element itself, or all of them with `[:]`")
        selectors = (*selectors, selector)
    elif array and not whole_array:
        selectors = (*selectors, All())  # all of its elements, as a whole array among the inputs is
    if ref.fields:
        leaf = _as_leaf(ref, feed, what)
    elif not alone and feed.type == "json" and not feed.ref.leaf:
        message = f"{what} computes with `{written}`, and the value of a whole JSON output is not recorded"
        raise Refusal(message, _WHOLE)
    return OutputRef(feed.ref.job, feed.ref.output, selectors, leaf, ref.place)


def _as_leaf(ref: InputRef, feed: Feed, what: str) -> tuple[tuple[str, tuple[Selector, ...]], ...]:
    """Fields of the input, as a declared leaf of the output."""
    parts: list[tuple[str, list[Selector]]] = []
    for field in ref.fields:
        if isinstance(field, At) and isinstance(field.index, str):
            parts.append((field.index, []))
        elif parts:
            parts[-1][1].append(field)
    leaf = tuple((name, tuple(selectors)) for name, selectors in parts)
    if feed.ref.leaf or not parts or leaf_like(feed.output, leaf) is None:
        declared = ", ".join(f"`{each.text}`" for each in feed.output.leaves[:5]) or "none"
        message = f"{what} reads `{ref}`, and `{feed.ref}` has no such leaf (declared: {declared})"
        text = str(ref).partition(".")[2].partition(".")[2]
        hint = (
            f'declare it where the output is made: `{feed.output.name}: {{type: json, leaves: {{"{text}": string}}}}`'
        )
        raise Refusal(message, hint, "UNKNOWN_REFERENCE")
    return leaf


def leaf_like(output: OutputDecl, leaf: Sequence[tuple[str, Sequence[Selector]]]) -> str | None:
    """The type of the declared leaf with these names and as many indices; None if there is none."""
    form = [(name, len(selectors)) for name, selectors in leaf]
    alike = (each for each in output.leaves if [(name, len(part)) for name, part in each.path] == form)
    return next((each.type for each in alike), None)


def key_problem(decl: InputDecl, feed: Feed) -> tuple[str, str] | None:
    if decl.key in (None, "stem") or not is_array(feed.output.type):
        return None
    message = f"the input `{decl.name}` has `key: {decl.key}`, and the elements of a result have keys already"
    return message, "remove its `key:`, or write `key: stem`"
