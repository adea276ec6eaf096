"""Predicates of condition steps: `{"op": "lt", "left": "prod:diagnose:report.missing_share", "right": 0.05}`.

Read into a tree, and from there into the expression that `if:` of a workflow file would give.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from whyrun.errors import did_you_mean
from whyrun.workflow.composition.json_fields import JsonFields
from whyrun.workflow.composition.refs import REF_HINT, DatasetRef, looks_like_ref, parse_ref
from whyrun.workflow.functions import COMPARISON, FUNCTIONS, ExpressionError
from whyrun.workflow.model import Expression, First, Place, Ref
from whyrun.workflow.naming import ABSENT, Body
from whyrun.workflow.nodes import ListNode, MapNode, Node, Scalar, kind_of_value, plain_value

_COMPARED = {
    "eq": ("==", COMPARISON["Eq"]),
    "ne": ("!=", COMPARISON["NotEq"]),
    "lt": ("<", COMPARISON["Lt"]),
    "le": ("<=", COMPARISON["LtE"]),
    "gt": (">", COMPARISON["Gt"]),
    "ge": (">=", COMPARISON["GtE"]),
    "in": ("in", COMPARISON["In"]),
}
_ORDERED = ("lt", "le", "gt", "ge")
_CALLED = ("contains", "matches")
OPERATORS = (*_COMPARED, *_CALLED, "exists", "all", "any", "not")
_LEAF_HINT = "write `prod:<step_id>:<product_id>.<leaf>`: predicates read small values, not files"
MAX_DEPTH = 40


@dataclass(frozen=True, slots=True)
class Literal:
    value: Any
    place: Place


Operand = DatasetRef | Literal


@dataclass(frozen=True, slots=True)
class Test:
    """Two operands, compared or handed to a function; `exists` has one."""

    op: str
    operands: tuple[Operand, ...]
    condition: str | None = None  # the condition step that asks it


@dataclass(frozen=True, slots=True)
class Combined:
    """`all`, `any` or `not`."""

    op: str
    of: tuple[Predicate, ...]


Predicate = Test | Combined


_SAMPLES: Mapping[str | None, tuple[Any, ...]] = {
    "integer": (1,),
    "number": (0.5,),
    None: (1, 0.5, "text", True, None, [], {}),  # it may be anything
}


def never_compares(test: Test, types: Sequence[str | None]) -> str | None:
    """Why no values of these types can be asked this: in words, or None where some can. `types`: of the operands that
    are no literals, in order; None where that is not known."""
    if test.op == "exists":
        return None
    of_refs = iter(types)
    left, right = (
        (operand.value,) if isinstance(operand, Literal) else _SAMPLES[next(of_refs)] for operand in test.operands
    )
    if any(_is_answered(test.op, a, b) for a in left for b in right):
        return None
    kinds = [_shown_kinds(samples) for samples in (left, right)]
    verb = "compare" if test.op in _COMPARED and test.op != "in" else "be asked of"
    return f"`{test.op}` cannot {verb} {kinds[0]} {'with' if verb == 'compare' else 'and'} {kinds[1]}"


def _is_answered(op: str, left: Any, right: Any) -> bool:
    if op in ("eq", "ne"):  # of other kinds it is always the same answer, and so no question
        return left is None or right is None or _is_number(left) == _is_number(right)
    function = _COMPARED[op][1] if op in _COMPARED else FUNCTIONS[op][2]
    try:
        function(left, right)
    except (ExpressionError, TypeError):
        return False
    return True


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown_kinds(samples: Sequence[Any]) -> str:
    (sample,) = samples[:1]
    return kind_of_value(sample).split(" `")[0].replace("the ", "a ") if len(samples) == 1 else "any value"


def tested(op: str, left: Any, right: Any, refs: tuple[str | None, str | None]) -> Any:
    """The answer for two values. `refs`: where they come from, to say which of them is of the wrong kind."""
    function: Callable[[Any, Any], Any] = _COMPARED[op][1] if op in _COMPARED else FUNCTIONS[op][2]
    try:
        return function(left, right)
    except (ExpressionError, TypeError) as problem:
        raise ExpressionError(_misfit(op, (left, right), refs) or str(problem)) from None


def _misfit(op: str, values: tuple[Any, Any], refs: tuple[str | None, str | None]) -> str | None:
    """`prod:diag:report.share` is null, and `lt` compares numbers: in words; None where nothing better is to say."""
    for value, other, ref in zip(values, values[::-1], refs, strict=True):
        if ref is None:
            continue
        kind = "null" if value is None else kind_of_value(value).split(" `")[0]
        told = f"`{ref}` is {kind}"
        if op not in _ORDERED:
            return f"{told}, and `{op}` cannot be asked of it"
        if not (_is_number(value) or isinstance(value, str)) or type(other) is not type(value):
            wanted = "numbers" if _is_number(other) else "texts" if isinstance(other, str) else "numbers, or texts"
            if not (wanted == "numbers" and _is_number(value)):
                return f"{told}, and `{op}` compares {wanted}"
    return None


def of_condition(predicate: Predicate, condition: str) -> Predicate:
    """The same, knowing which step asks it."""
    if isinstance(predicate, Test):
        return replace(predicate, condition=condition)
    return Combined(predicate.op, tuple(of_condition(part, condition) for part in predicate.of))


def tests_of(predicate: Predicate) -> Iterator[Test]:
    if isinstance(predicate, Test):
        yield predicate
        return
    for part in predicate.of:
        yield from tests_of(part)


def operands_of(predicate: Predicate) -> Iterator[DatasetRef]:
    """What it reads."""
    for test in tests_of(predicate):
        yield from (operand for operand in test.operands if isinstance(operand, DatasetRef))


# --- reading -----------------------------------------------------------------------------------------------------


class PredicateReader(JsonFields):
    def predicate(self, node: Node, depth: int = 0) -> Predicate | None:
        """The tree; None where something in it is wrong, and told."""
        example = 'write `{"op": "lt", "left": "prod:check:report.missing_share", "right": 0.05}`'
        entries = self.as_map(node, "a predicate", example)
        if entries is None:
            return None
        if depth > MAX_DEPTH:
            self.wrong(node, f"the predicate nests deeper than {MAX_DEPTH} levels", "compute it in a step")
            return None
        op_node = entries.get("op")
        if op_node is None:
            self.problems.add(node.place, "PREDICATE_UNKNOWN", "the predicate has no `op`", _known())
            return None
        op = self.string(op_node, "`op` of a predicate", _known())
        if op is None:
            return None
        if op not in OPERATORS:
            hint = did_you_mean(op, OPERATORS) or _known()
            self.problems.add(op_node.place, "PREDICATE_UNKNOWN", f"there is no predicate `{op}`", hint)
            return None
        if op in ("all", "any", "not"):
            return self._combined(op, entries, depth)
        return self._test(op, entries)

    def _combined(self, op: str, entries: MapNode, depth: int) -> Predicate | None:
        fields = self.known_keys(entries, ("op", "of"), f"the predicate `{op}`")
        due = "a predicate" if op == "not" else "a list of predicates"
        if "of" not in fields:
            self.problems.add(entries.place, "MISSING_KEY", f"the predicate `{op}` has no `of`", f'`"of"` takes {due}')
            return None
        if op == "not":
            parts = [self.predicate(fields["of"], depth + 1)]
        else:
            listed = self.as_list(fields["of"], f"`of` of the predicate `{op}`", f'`"of"` takes {due}')
            if listed is None:
                return None
            if not listed.items:
                self.wrong(listed, f"`of` of the predicate `{op}` is empty", f'`"of"` takes {due}')
                return None
            parts = [self.predicate(item, depth + 1) for item in listed.items]
        known = [part for part in parts if part is not None]
        return Combined(op, tuple(known)) if len(known) == len(parts) else None

    def _test(self, op: str, entries: MapNode) -> Predicate | None:
        due = ("left",) if op == "exists" else ("left", "right")
        fields = self.known_keys(entries, ("op", *due), f"the predicate `{op}`")
        operands: list[Operand | None] = []
        for side in due:
            if side in fields:
                operands.append(self._operand(op, fields[side]))
            else:
                operands.append(None)
                names = " and ".join(f"`{name}`" for name in due)
                self.problems.add(
                    entries.place, "MISSING_KEY", f"the predicate `{op}` has no `{side}`", f"it takes {names}"
                )
        found = [operand for operand in operands if operand is not None]
        return Test(op, tuple(found)) if len(found) == len(due) else None

    def _operand(self, op: str, node: Node) -> Operand | None:
        if isinstance(node, Scalar) and looks_like_ref(node.value):
            ref = parse_ref(node)
            if ref is None:
                self.wrong(
                    node,
                    f"`{node.value}` is no reference",
                    "write `prod:<step_id>:<product_id>.<leaf>`",
                    "DATASET_REF_INVALID",
                )
                return None
            if op == "exists":
                if ref.step is None:
                    self.wrong(node, "a dataset always exists", "ask for a product", "DATASET_REF_INVALID")
                    return None
            elif ref.step is None or not ref.leaf:
                what = "a dataset" if ref.step is None else "a whole product"
                self.wrong(node, f"a predicate cannot read {what}", _LEAF_HINT, "DATASET_REF_INVALID")
                return None
            return ref
        if op == "exists":
            self.wrong(node, "`exists` asks for a product", REF_HINT, "DATASET_REF_INVALID")
            return None
        if isinstance(node, ListNode | MapNode) and op != "in" and op not in ("eq", "ne", "contains"):
            self.wrong(node, f"the predicate `{op}` takes no list or object", "write a number or a string")
            return None
        value = plain_value(node)
        if op == "matches":
            try:
                FUNCTIONS["matches"][2]("", value)
            except ExpressionError as problem:
                self.wrong(node, f"the predicate `matches`: {problem}", "write a regular expression in quotes")
                return None
        return Literal(value, node.place)


def _known() -> str:
    return "known: " + ", ".join(f"`{op}`" for op in OPERATORS)


# --- the expression ----------------------------------------------------------------------------------------------


def negated(predicate: Predicate) -> Predicate:
    return Combined("not", (predicate,))


def together(predicates: Sequence[Predicate]) -> Predicate:
    return predicates[0] if len(predicates) == 1 else Combined("all", tuple(predicates))


def predicate_expression(predicate: Predicate, place: Place) -> Expression:
    """What `if:` would hold."""
    builder = _Builder()
    body = builder.body(predicate)
    return Expression(
        text=_text(predicate),
        place=place,
        body=body,
        refs=tuple(builder.refs),
        optional=frozenset(builder.optional),
        loops=frozenset(),
        secrets=frozenset(),
        env=frozenset(),
        whole=None,
    )


def _text(predicate: Predicate, inside: bool = False) -> str:
    if isinstance(predicate, Test):
        texts = [o.text if isinstance(o, DatasetRef) else repr(o.value) for o in predicate.operands]
        if predicate.op in _COMPARED:
            text = f"{texts[0]} {_COMPARED[predicate.op][0]} {texts[1]}"
            return f"({text})" if inside else text
        return f"{predicate.op}({', '.join(texts)})"
    if predicate.op == "not":
        return f"not {_text(predicate.of[0], True)}"
    joined = f" {'and' if predicate.op == 'all' else 'or'} ".join(_text(part, True) for part in predicate.of)
    return f"({joined})" if inside and len(predicate.of) > 1 else joined


class _Builder:
    """Closures like those that `Compiler` makes of an expression's text."""

    def __init__(self) -> None:
        self.refs: list[Ref | First] = []
        self.optional: set[int] = set()

    def body(self, predicate: Predicate) -> Body:
        if isinstance(predicate, Combined):
            parts = [self.body(part) for part in predicate.of]
            if predicate.op == "not":
                (only,) = parts
                return lambda values, names: operator.not_(only(values, names))
            every = all if predicate.op == "all" else any
            return lambda values, names: every(part(values, names) for part in parts)
        if predicate.op == "exists":
            self.optional.add(len(self.refs))
            asked = self._operand(predicate.operands[0])
            return lambda values, names: asked(values, names) is not ABSENT
        left, right = (self._operand(operand) for operand in predicate.operands)
        op, asked_by = predicate.op, predicate.condition
        of_left, of_right = (o.written if isinstance(o, DatasetRef) else None for o in predicate.operands)

        def asks(values: Sequence[Any], names: Mapping[str, Any]) -> Any:
            try:
                return tested(op, left(values, names), right(values, names), (of_left, of_right))
            except ExpressionError as problem:
                raise ExpressionError(f"condition `{asked_by}`: {problem}" if asked_by else str(problem)) from None

        return asks

    def _operand(self, operand: Operand) -> Body:
        if isinstance(operand, Literal):
            value = operand.value
            return lambda values, names: value
        index = len(self.refs)
        self.refs.append(operand.model())

        def slot(values: Sequence[Any], names: Mapping[str, Any]) -> Any:
            return values[index]

        return slot
