"""Declarations of loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from whyrun.lazy_regex import lazy_regex
from whyrun.workflow.expressions.expression import ROOTS, parse_expression
from whyrun.workflow.expressions.template import OPEN, is_whole_expression, parse_template
from whyrun.workflow.fields import Fields, Key, Schema, names_of
from whyrun.workflow.model import (
    MAX_OF_RESULT,
    At,
    Expression,
    Formatted,
    InputRef,
    Loop,
    LoopDecl,
    OutputRef,
    Selector,
    Type,
    refs_in,
)
from whyrun.workflow.nodes import ListNode, MapNode, Node, Problems, Scalar, kind_of, plain_value
from whyrun.workflow.parsing.result_loops import ResultLoops, is_over_result
from whyrun.workflow.scope import Names, Scope
from whyrun.workflow.values import MAX_INSTANCES, TOO_LONG

_RANGE = lazy_regex(r"\s*(\d{1,18})\s*-\s*(\d{1,18})\s*")

_INPUT_NAME = lazy_regex(r"inputs\.[A-Za-z_][A-Za-z0-9_]*")

_EXPRESSION: Schema = {"type": "string", "pattern": r"\$\{\{"}
_REFERENCE: Schema = {"type": "string", "pattern": r"^inputs\.[A-Za-z_][A-Za-z0-9_]*(\[[0-9]+\])*$"}
_RESULT: Schema = {"type": "string", "pattern": r"^jobs\.[A-Za-z_].*\.outputs\.[A-Za-z_]"}

LOOP_KEYS = (
    Key(
        name="each",
        meaning="One instance per element of this array: `inputs.NAME`, or an array that a job makes.",
        schema={"anyOf": [_REFERENCE, _RESULT]},
    ),
    Key(
        name="count",
        meaning="0 … n-1: a number, `inputs.NAME`, an expression over inputs: `${{ inputs.N + 1 }}`, or an integer "
        "that a job makes.",
        schema={"anyOf": [{"type": "integer", "minimum": 0}, _REFERENCE, _EXPRESSION, _RESULT]},
    ),
    Key(
        name="values",
        meaning="Each value is the index itself: a list, `inputs.NAME`, or a list that a job makes.",
        schema={
            "anyOf": [
                {"type": "array", "items": {"type": ["string", "number"]}, "uniqueItems": True},
                _REFERENCE,
                _RESULT,
            ]
        },
    ),
    Key(
        name="range",
        meaning="From the first to the last, both included: `0-24` or `[0, 24]`; also expressions over inputs.",
        schema={
            "anyOf": [
                {"type": "string", "pattern": r"^\s*\d+\s*-\s*\d+\s*$"},
                _EXPRESSION,
                {
                    "type": "array",
                    "items": {"anyOf": [{"type": "integer"}, _EXPRESSION]},
                    "minItems": 2,
                    "maxItems": 2,
                },
            ]
        },
    ),
)
MAX_KEY = Key(
    name="max",
    meaning=f"The most values that a result may give a loop; {MAX_OF_RESULT:,} where it is not said.",
    schema={"type": "integer", "minimum": 1, "maximum": MAX_INSTANCES},
)
LOOP_KEY_NAMES = names_of((*LOOP_KEYS, MAX_KEY))


class Loops(ResultLoops):
    def loop(self, key: Scalar, node: Node, names: Names) -> LoopDecl | None:
        what = f"loop `{key.value}`"
        entries = self.as_map(node, what, None if isinstance(node, MapNode) else f"write {_loop_example(node)}")
        if entries is None:
            return None
        fields = dict(self.known_keys(entries, LOOP_KEY_NAMES, what, place="loop"))
        limit = fields.pop("max", None)
        if len(fields) != 1:
            if len(fields) + (limit is not None) == len(entries.entries):  # otherwise the unknown key is reported
                self.problems.add(
                    key.place,
                    "MISSING_KEY" if not fields else "UNKNOWN_KEY",
                    f"{what} needs exactly one of `each`, `count`, `values`, `range`",
                    "remove the others" if fields else "write `{each: inputs.NAME}`",
                )
            return None
        ((kind, value),) = fields.items()
        if is_over_result(value):
            return self._over_result(key, kind, value, limit, names)
        if limit is not None:
            self.wrong(limit, f"`max` of {what} has no effect: its length is known", "`max` is for loops over results")
            return None
        source = {"each": self._each, "count": self._count, "values": self._values, "range": self._range}[kind](
            value, what, names
        )
        if source is None:
            return None
        return LoopDecl(key.value, kind, source, key.place, _loops_in(source))  # type: ignore[arg-type]

    def _over_result(self, key: Scalar, kind: str, node: Node, limit: Node | None, names: Names) -> LoopDecl | None:
        what = f"loop `{key.value}`"
        most = MAX_OF_RESULT if limit is None else self.most(limit, what)
        ref = self.result(node, kind, what, names)
        if ref is None or most is None:
            return None
        assert isinstance(node, Scalar)
        self.sources[key.value] = node, kind
        return LoopDecl(key.value, kind, ref, key.place, _loops_in(ref), most)  # type: ignore[arg-type]  # `count`, `values`

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
        roots = frozenset({"inputs", "loops"})
        scope = Scope(names, "in a loop", roots, binding=True, before_files=True, loops=names.loops)
        expression = parse_expression(node.value, node.locate, scope, self.problems)
        if expression is None:
            return None
        ref = expression.whole
        plain = isinstance(ref, InputRef) and all(isinstance(s, At) or _is_loop(s) for s in ref.selectors)
        if not isinstance(ref, InputRef) or not plain:
            self.wrong(node, f"the source of {what} is not an input", "write `inputs.NAME`")
            return None
        if ref.fields:
            return ref, None  # its type is that of the value
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

    def _computed(self, node: Node, what: str, names: Names) -> Any:
        """The node as an expression over inputs, alone or within a string; None if it is none, or wrong."""
        roots = frozenset({"inputs", "loops"})
        scope = Scope(names, f"in {what}", roots, before_files=True, loops=names.loops)
        return parse_template(node, scope, self.problems)

    def _count(self, node: Node, what: str, names: Names) -> Any:
        if _has_expression(node):
            if not is_whole_expression(node):
                self.wrong(node, f"`count` of {what} is not one whole expression", "write `${{ inputs.N + 1 }}`")
                return None
            computed = self._computed(node, what, names)
            return computed if isinstance(computed, Expression) else None
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
        ends = node.items if isinstance(node, ListNode) and len(node.items) == 2 else [node]
        if any(map(_has_expression, ends)):
            return self._computed_range(node, ends, what, names)
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

    def _computed_range(self, node: Node, ends: Sequence[Node], what: str, names: Names) -> Any:
        """A string such as `0-${{ inputs.Last }}`, or a pair of numbers and expressions."""
        failures = self.problems.failures
        computed = [self._computed(end, what, names) for end in ends]
        if self.problems.failures > failures:
            return None
        kinds = (Formatted,) if len(ends) == 1 else (int, Expression)
        if not all(isinstance(each, kinds) and not isinstance(each, bool) for each in computed):
            hint = 'write `0-${{ inputs.Last }}` or `[0, "${{ inputs.Last }}"]`; both ends count'
            self.wrong(node, f"`range` of {what} is not a range of whole numbers", hint)
            return None
        return computed[0] if len(ends) == 1 else tuple(computed)


def _is_loop(selector: Selector) -> bool:
    return isinstance(selector, Loop) and selector.offset == 0


def _loops_in(source: Any) -> tuple[str, ...]:
    """The loops that a source uses, each once."""
    found: list[str] = []
    for part in source if isinstance(source, tuple) else (source,):
        expressions = [part] if isinstance(part, Expression) else list(getattr(part, "parts", ()))
        refs = [part] if isinstance(part, InputRef) else []
        if isinstance(part, OutputRef):
            selectors = [*part.selectors, *(s for _, inside in part.leaf for s in inside)]
            found += [selector.loop for selector in selectors if isinstance(selector, Loop)]
        for expression in expressions:
            if isinstance(expression, Expression):
                found += sorted(expression.loops)
                refs += [ref for ref in refs_in(expression.refs) if isinstance(ref, InputRef)]
        found += [s.loop for ref in refs for s in (*ref.selectors, *ref.fields) if isinstance(s, Loop)]
    return tuple(dict.fromkeys(found))


def in_order(loops: Mapping[str, LoopDecl | None], problems: Problems) -> dict[str, LoopDecl | None]:
    """Each loop behind all that it depends on, which `after` then names in this order. None for a loop that depends on
    itself, or on a wrong one."""
    ordered: dict[str, LoopDecl | None] = {name: None for name, decl in loops.items() if decl is None}
    waiting = {name: decl for name, decl in loops.items() if decl is not None}
    while waiting:
        ready = [name for name, decl in waiting.items() if not any(other in waiting for other in decl.after)]
        for name in ready:
            decl = waiting.pop(name)
            before = [ordered.get(other) for other in decl.after]
            all_ = {*decl.after, *(other for each in before if each is not None for other in each.after)}
            after = tuple(other for other in ordered if other in all_)
            ordered[name] = None if None in before else replace(decl, after=after)
        if not ready:
            names = " and ".join(f"`{name}`" for name in waiting)
            verb = "depends on itself" if len(waiting) == 1 else "depend on each other"
            for decl in waiting.values():
                message = f"the loop{'s' if len(waiting) > 1 else ''} {names} {verb}"
                problems.add(decl.place, "CYCLE", message, "a loop may use inputs, and loops that do not use it")
                break
            ordered.update(dict.fromkeys(waiting))
            break
    return ordered


def misplaced(names: Sequence[str], loops: Mapping[str, LoopDecl | None]) -> tuple[int, str, str] | None:
    """The first loop in a `for:` that stands before one it depends on, what is wrong, and what to write."""
    for number, name in enumerate(names):
        decl = loops.get(name)
        lacking = [other for other in (decl.after if decl is not None else ()) if other not in names[:number]]
        if lacking:
            rest = [other for other in names if other not in lacking]
            written = [*rest[: rest.index(name)], *lacking, *rest[rest.index(name) :]]
            others = ", ".join(f"`{other}`" for other in lacking)
            message = f"the loop `{name}` has other values for each {others}, which `for:` must name before it"
            return number, message, f"write `for: [{', '.join(written)}]`"
    return None


def is_open(name: str, loops: Mapping[str, LoopDecl | None]) -> bool:
    """Whether a loop, or one that it depends on, goes over a result."""
    decl = loops.get(name)
    return decl is not None and (decl.is_over_result or any(is_open(other, loops) for other in decl.after))


def _has_expression(node: Node) -> bool:
    return isinstance(node, Scalar) and isinstance(node.value, str) and OPEN in node.value


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
