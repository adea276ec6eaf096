"""The syntax tree of an expression → closures. Only the syntax that is listed here is allowed."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from whyrun.errors import did_you_mean
from whyrun.workflow.expressions.functions import (
    BINARY,
    COMPARISON,
    FUNCTIONS,
    SYMBOLS,
    UNARY,
    ExpressionError,
    bounded,
    kind_of_plain,
    never_compares,
    result_kind,
)
from whyrun.workflow.expressions.naming import Body, NameCompiler, root_name
from whyrun.workflow.expressions.selectors import Refused
from whyrun.workflow.model import First, Ref

MAX_DEPTH = 50


class Compiler(NameCompiler):
    too_deep = False

    def compile_whole(self, node: ast.expr, *, binding: bool) -> tuple[Body, Ref | First | None]:
        if root_name(node) in ("inputs", "jobs"):
            resolved = self.reference(node)
            if not binding:
                self.need_value(resolved, node)
            return self.slot(resolved.ref), resolved.ref
        if _called(node) == "first":
            assert isinstance(node, ast.Call)
            first, _ = self.first(node, need_value=not binding)
            return self.slot(first), first
        if root_name(node) == "secrets":
            return self.secret(node), None
        return self._compile(node, 0), None

    # --- allowed syntax -------------------------------------------------------------------------------------------

    def _compile(self, node: ast.expr, depth: int) -> Body:
        if depth > MAX_DEPTH:
            if self.too_deep:
                raise Refused  # reported once
            self.too_deep = True
            raise self.refuse(node, f"the expression nests deeper than {MAX_DEPTH} levels", "compute it in a job")
        depth += 1
        match node:
            case ast.Constant():
                return self._constant(node)
            case ast.Name() | ast.Attribute() | ast.Subscript():
                return self.named(node)
            case ast.List(elts=members) | ast.Tuple(elts=members):
                return self._list(members, depth)
            case ast.Dict():
                return self._dict(node, depth)
            case ast.BoolOp():
                return self._bool_op(node, depth)
            case ast.UnaryOp() if type(node.op).__name__ in UNARY:
                unary, operand = UNARY[type(node.op).__name__], self._compile(node.operand, depth)
                return lambda values, names: unary(operand(values, names))
            case ast.BinOp() if type(node.op).__name__ in BINARY:
                binary = BINARY[type(node.op).__name__]
                left, right = self._all([node.left, node.right], depth)
                return lambda values, names: binary(left(values, names), right(values, names))
            case ast.Compare():
                return self._compare(node, depth)
            case ast.IfExp():
                test, then, other = self._all([node.test, node.body, node.orelse], depth)
                return lambda values, names: then(values, names) if test(values, names) else other(values, names)
            case ast.Call():
                return self._call(node, depth)
        raise self.refuse(node, f"{_describe(node)} is not allowed in an expression", "compute it in a job")

    def _all(self, nodes: Sequence[ast.expr], depth: int) -> list[Body]:
        """Compile each, so that all problems are reported."""
        bodies: list[Body] = []
        refused = False
        for node in nodes:
            try:
                bodies.append(self._compile(node, depth))
            except Refused:
                refused = True
        if refused:
            raise Refused
        return bodies

    def _constant(self, node: ast.Constant) -> Body:
        value = node.value
        if not (value is None or isinstance(value, bool | int | float | str)):
            raise self.refuse(node, f"`{self.source(node)}` is not a plain value")
        try:
            bounded(value)
        except ExpressionError as problem:
            raise self.refuse(node, str(problem), "write a smaller one") from None
        return lambda values, names: value

    def _list(self, members: list[ast.expr], depth: int) -> Body:
        bodies = self._all(members, depth)
        return lambda values, names: [body(values, names) for body in bodies]

    def _dict(self, node: ast.Dict, depth: int) -> Body:
        keys: list[str] = []
        for key in node.keys:
            if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
                raise self.refuse(key or node, "the keys of a map are strings in quotes")
            keys.append(key.value)
        bodies = self._all(node.values, depth)
        pairs = list(zip(keys, bodies, strict=True))
        return lambda values, names: {key: body(values, names) for key, body in pairs}

    def _bool_op(self, node: ast.BoolOp, depth: int) -> Body:
        bodies = self._all(node.values, depth)
        stop_at = isinstance(node.op, ast.Or)

        def compute(values: Sequence[Any], names: Mapping[str, Any]) -> Any:
            value: Any = None
            for body in bodies:
                value = body(values, names)
                if bool(value) is stop_at:
                    return value
            return value

        return compute

    def _compare(self, node: ast.Compare, depth: int) -> Body:
        for op in node.ops:
            if type(op).__name__ not in COMPARISON:
                raise self.refuse(node, "`is` is not allowed in an expression", "write `==` or `!=`")
        first, *rest = self._all([node.left, *node.comparators], depth)
        if self.scope.decides:
            self._can_be_compared(node)
        steps = [(COMPARISON[type(op).__name__], body) for op, body in zip(node.ops, rest, strict=True)]

        def compute(values: Sequence[Any], names: Mapping[str, Any]) -> Any:
            left = first(values, names)
            for compare, body in steps:
                right = body(values, names)
                if not compare(left, right):
                    return False
                left = right
            return True

        return compute

    def _can_be_compared(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for op, left, right in zip(node.ops, operands, operands[1:], strict=False):
            name, kinds = type(op).__name__, (self._kind(left), self._kind(right))
            if never_compares(name, *kinds):
                known_kinds = [
                    f"`{self.source(operand)}` is {kind}"
                    for operand, kind in zip((left, right), kinds, strict=True)
                    if not isinstance(operand, ast.Constant)
                ]
                message = f"`{SYMBOLS[name]}` cannot compare {kinds[0]} with {kinds[1]}"
                hint = "; ".join(known_kinds) or "compare values of one kind"
                raise self.reader.refuse(self.text.place(node), "WRONG_TYPE", message, hint)

    def _kind(self, node: ast.expr) -> str | None:
        """The kind of its value, if that is known before evaluation."""
        match node:
            case ast.Constant(value=value):
                return kind_of_plain(value)
            case ast.List() | ast.Tuple():
                return "a list"
            case ast.Dict():
                return "a map"
            case ast.UnaryOp(op=ast.Not()) | ast.Compare():
                return "a boolean"
            case ast.UnaryOp():
                return "a number"
            case ast.Call():
                return result_kind(_called(node))
        return self.kinds.get(node)

    def _call(self, node: ast.Call, depth: int) -> Body:
        name = _called(node)
        if name is None:
            hint = "write the function's name before the parenthesis"
            if isinstance(node.func, ast.Attribute):
                method = node.func.attr
                known = method in _FUNCTION_NAMES
                hint = f"write `{method}(…)`" if known else "functions: " + ", ".join(_FUNCTION_NAMES)
            raise self.refuse(node.func, "a method cannot be called in an expression", hint)
        if name not in _FUNCTION_NAMES:
            raise self.refuse(node.func, f"there is no function `{name}`", did_you_mean(name, _FUNCTION_NAMES))
        if node.keywords:
            raise self.refuse(node.keywords[0], "arguments have no names here", f"write `{name}(value, …)`")
        if name == "first":
            first, _ = self.first(node, need_value=True)
            return self.slot(first)
        if name == "exists":
            return self.exists(node)
        least, most, function = FUNCTIONS[name]
        if not least <= len(node.args) <= most:
            count = f"{least}" if least == most else f"{least} to {most}"
            raise self.refuse(node, f"`{name}` takes {count} argument{'' if most == 1 else 's'}, not {len(node.args)}")
        if name == "len" and root_name(node.args[0]) in ("inputs", "jobs"):
            # The number of files is a small value, so `len` of files is allowed.
            resolved = self.reference(node.args[0])
            if not resolved.is_list:
                self.need_value(resolved, node.args[0])
            only = self.slot(resolved.ref)
            return lambda values, names: function(only(values, names))
        bodies = self._all(node.args, depth)
        if len(bodies) == 1:
            (single,) = bodies
            return lambda values, names: function(single(values, names))
        return lambda values, names: function(*[body(values, names) for body in bodies])


_FUNCTION_NAMES = ["first", "exists", *FUNCTIONS]
_DESCRIPTIONS = {
    "Lambda": "a function",
    "ListComp": "a comprehension",
    "SetComp": "a comprehension",
    "DictComp": "a comprehension",
    "GeneratorExp": "a comprehension",
    "JoinedStr": "an f-string",
    "NamedExpr": "an assignment",
    "Set": "a set",
    "Starred": "`*`",
    "Slice": "a slice",
    "BinOp": "this operator",
    "UnaryOp": "this operator",
}


def _describe(node: ast.AST) -> str:
    return _DESCRIPTIONS.get(type(node).__name__, f"`{type(node).__name__.lower()}`")


def _called(node: ast.expr) -> str | None:
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None
