"""Predicates of condition steps: `{"op": "lt", "left": "prod:diagnose:report.missing_share", "right": 0.05}`.

A predicate is read into a tree, which becomes the same expression as `if:` of a workflow file, and the record in the
manifest of a run.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from whyrun.errors import did_you_mean
from whyrun.workflow.composition.plan_file.json_source import JsonFields
from whyrun.workflow.composition.plan_file.products import LEAF_PATTERN, REF_HINT, DatasetRef, looks_like_ref, parse_ref
from whyrun.workflow.expressions.functions import COMPARISON, FUNCTIONS, ExpressionError
from whyrun.workflow.expressions.naming import ABSENT, Body
from whyrun.workflow.fields import Key, Schema, names_of, text_schema
from whyrun.workflow.model import Expression, First, Place, Ref
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
_OPERAND = "A leaf `prod:<step_id>:<product_id>.<leaf>` of a product, or a value."
_INNER = {"$ref": "#/$defs/predicate"}


def _op(schema: Schema) -> Key:
    return Key(name="op", meaning="The operator.", schema=schema, required=True)


# The operators that take the same keys, what they do, and their keys.
SHAPES: tuple[tuple[tuple[str, ...], str, tuple[Key, ...]], ...] = (
    (
        (*_COMPARED, *_CALLED),
        "Compares two values.",
        (
            _op({"enum": [*_COMPARED, *_CALLED]}),
            Key(name="left", meaning=_OPERAND, schema={}, required=True),
            Key(name="right", meaning=_OPERAND, schema={}, required=True),
        ),
    ),
    (
        ("exists",),
        "Whether the product exists. It does not if its step is in a branch that did not run.",
        (
            _op({"const": "exists"}),
            Key(name="left", meaning=_OPERAND, schema=text_schema(LEAF_PATTERN), required=True),
        ),
    ),
    (
        ("all", "any"),
        "All of them, or any.",
        (
            _op({"enum": ["all", "any"]}),
            Key(
                name="of",
                meaning="The predicates.",
                schema={"type": "array", "items": _INNER, "minItems": 1},
                required=True,
            ),
        ),
    ),
    (
        ("not",),
        "Negates a predicate.",
        (
            _op({"const": "not"}),
            Key(name="of", meaning="The predicate.", schema=_INNER, required=True),
        ),
    ),
)
_KEYS = {op: names_of(keys) for operators, _, keys in SHAPES for op in operators}
OPERATORS = tuple(_KEYS)
_LEAF_HINT = "write `prod:<step_id>:<product_id>.<leaf>`: predicates read small values, not files"
MAX_DEPTH = 40


@dataclass(frozen=True, slots=True)
class Literal:
    value: Any
    place: Place


Operand = DatasetRef | Literal


@dataclass(frozen=True, slots=True)
class Test:
    """A comparison or function call with two operands; `exists` has one."""

    op: str
    operands: tuple[Operand, ...]
    condition: str | None = None  # the id of the condition step


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
    """Why the test is impossible for all values of these types, or None. `types`: of the operands that are references,
    in order; None if the type is not known."""
    if test.op == "exists":
        return None
    ref_types = iter(types)
    left, right = (
        (operand.value,) if isinstance(operand, Literal) else _SAMPLES[next(ref_types)] for operand in test.operands
    )
    if any(_can_test(test.op, a, b) for a in left for b in right):
        return None
    kinds = [_shown_kinds(samples) for samples in (left, right)]
    verb = "compare" if test.op in _COMPARED and test.op != "in" else "be applied to"
    return f"`{test.op}` cannot {verb} {kinds[0]} {'with' if verb == 'compare' else 'and'} {kinds[1]}"


def _can_test(op: str, left: Any, right: Any) -> bool:
    if op in ("eq", "ne"):  # a number never equals a value of another kind, so the comparison is pointless
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


def apply_operator(op: str, left: Any, right: Any, refs: tuple[str | None, str | None]) -> Any:
    """The result for two values. `refs`: the references that they come from, for the message about a wrong kind."""
    function: Callable[[Any, Any], Any] = _COMPARED[op][1] if op in _COMPARED else FUNCTIONS[op][2]
    try:
        return function(left, right)
    except (ExpressionError, TypeError) as problem:
        raise ExpressionError(_misfit(op, (left, right), refs) or str(problem)) from None


def _misfit(op: str, values: tuple[Any, Any], refs: tuple[str | None, str | None]) -> str | None:
    """A message such as "`prod:diag:report.share` is null, and `lt` compares numbers"; None if no operand is wrong."""
    for value, other, ref in zip(values, values[::-1], refs, strict=True):
        if ref is None:
            continue
        kind = "null" if value is None else kind_of_value(value).split(" `")[0]
        operand = f"`{ref}` is {kind}"
        if op not in _ORDERED:
            return f"{operand}, and `{op}` cannot be applied to it"
        if not (_is_number(value) or isinstance(value, str)) or type(other) is not type(value):
            wanted = "numbers" if _is_number(other) else "texts" if isinstance(other, str) else "numbers, or texts"
            if not (wanted == "numbers" and _is_number(value)):
                return f"{operand}, and `{op}` compares {wanted}"
    return None


def of_condition(predicate: Predicate, condition: str) -> Predicate:
    """The predicate with the id of its condition step, for messages."""
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
    """The references that it reads."""
    for test in tests_of(predicate):
        yield from (operand for operand in test.operands if isinstance(operand, DatasetRef))


# --- reading -----------------------------------------------------------------------------------------------------


class PredicateReader(JsonFields):
    def predicate(self, node: Node, depth: int = 0) -> Predicate | None:
        """The tree; None if a problem in it is reported."""
        example = 'write `{"op": "lt", "left": "prod:check:report.missing_share", "right": 0.05}`'
        entries = node if isinstance(node, MapNode) else None  # as it is: `null` is a value to compare with
        if entries is None:
            self.as_map(node, "a predicate", example)
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
        fields = self.known_keys(entries, _KEYS[op], f"the predicate `{op}`")
        hint = f'`"of"` takes {"a predicate" if op == "not" else "a list of predicates"}'
        if "of" not in fields:
            self.problems.add(entries.place, "MISSING_KEY", f"the predicate `{op}` has no `of`", hint)
            return None
        if op == "not":
            parts = [self.predicate(fields["of"], depth + 1)]
        else:
            listed = self.as_list(fields["of"], f"`of` of the predicate `{op}`", hint)
            if listed is None:
                return None
            if not listed.items:
                self.wrong(listed, f"`of` of the predicate `{op}` is empty", hint)
                return None
            parts = [self.predicate(item, depth + 1) for item in listed.items]
        known = [part for part in parts if part is not None]
        return Combined(op, tuple(known)) if len(known) == len(parts) else None

    def _test(self, op: str, entries: MapNode) -> Predicate | None:
        _, *sides = _KEYS[op]
        fields = self.known_keys(entries, _KEYS[op], f"the predicate `{op}`")
        operands: list[Operand | None] = []
        for side in sides:
            if side in fields:
                operands.append(self._operand(op, fields[side]))
            else:
                operands.append(None)
                names = " and ".join(f"`{name}`" for name in sides)
                self.problems.add(
                    entries.place, "MISSING_KEY", f"the predicate `{op}` has no `{side}`", f"it takes {names}"
                )
        known = [operand for operand in operands if operand is not None]
        return Test(op, tuple(known)) if len(known) == len(sides) else None

    def _operand(self, op: str, node: Node) -> Operand | None:
        if isinstance(node, Scalar) and looks_like_ref(node.value):
            ref = parse_ref(node)
            if ref is None:
                self.wrong(
                    node,
                    f"`{node.value}` is not a reference",
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
    """The same expression as in `if:`."""
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
    """Closures like those that `Compiler` makes from the text of an expression."""

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
            operand = self._operand(predicate.operands[0])
            return lambda values, names: operand(values, names) is not ABSENT
        left, right = (self._operand(operand) for operand in predicate.operands)
        op, condition = predicate.op, predicate.condition
        left_ref, right_ref = (o.written if isinstance(o, DatasetRef) else None for o in predicate.operands)

        def test(values: Sequence[Any], names: Mapping[str, Any]) -> Any:
            try:
                return apply_operator(op, left(values, names), right(values, names), (left_ref, right_ref))
            except ExpressionError as problem:
                raise ExpressionError(f"condition `{condition}`: {problem}" if condition else str(problem)) from None

        return test

    def _operand(self, operand: Operand) -> Body:
        if isinstance(operand, Literal):
            value = operand.value
            return lambda values, names: value
        index = len(self.refs)
        self.refs.append(operand.model())

        def slot(values: Sequence[Any], names: Mapping[str, Any]) -> Any:
            return values[index]

        return slot


# --- the manifest of a run ---------------------------------------------------------------------------------------


Recorded = Mapping[str, Any]
_SIDES = ("left", "right")


def recorded(predicate: Predicate) -> dict[str, Any]:
    """The predicate as JSON, so that its result can be computed from recorded values: `{"op": "lt", "left": {"id":
    "Artifact:check.report.share", "ref": "prod:check:report.share"}, "right": {"value": 1}}`."""
    if isinstance(predicate, Test):
        sides = zip(_SIDES, predicate.operands, strict=False)  # `exists` has one
        return {"op": predicate.op, **{side: _operand(operand) for side, operand in sides}}
    return {"op": predicate.op, "of": [recorded(part) for part in predicate.of]}


def _operand(operand: Operand) -> dict[str, Any]:
    if isinstance(operand, DatasetRef):
        return {"id": operand.canonical, "ref": operand.written}
    return {"value": operand.value}


def read_ids(predicate: Recorded) -> Iterator[str]:
    """The IDs that it reads, also repeated ones."""
    for part in predicate.get("of", ()):
        yield from read_ids(part)
    yield from (predicate[side]["id"] for side in _SIDES if "id" in predicate.get(side, ()))


def evaluate_recorded(predicate: Recorded, values: Mapping[str, Any], there: Mapping[str, bool]) -> bool:
    """Its result for these values by ID. `there`: whether each product of an `exists` is present.
    `ExpressionError` if the values cannot be compared; `KeyError` if a value is not known."""
    op = predicate["op"]
    if op == "not":
        return not evaluate_recorded(predicate["of"][0], values, there)
    if op in ("all", "any"):
        parts = (evaluate_recorded(part, values, there) for part in predicate["of"])
        return all(parts) if op == "all" else any(parts)
    if op == "exists":
        return there[predicate["left"]["id"]]
    sides = [predicate[side] for side in _SIDES]
    left, right = (values[side["id"]] if "id" in side else side["value"] for side in sides)
    return bool(apply_operator(op, left, right, (sides[0].get("ref"), sides[1].get("ref"))))
