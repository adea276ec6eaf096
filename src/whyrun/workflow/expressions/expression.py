"""Parses and evaluates expressions: the text inside `${{ … }}`.

An expression is a restricted Python expression. It is parsed with `ast`, checked against a list of allowed syntax, and
compiled to closures, because a job with 100,000 instances evaluates it 100,000 times.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from whyrun.errors import did_you_mean
from whyrun.workflow.expressions.functions import (
    BINARY,
    COMPARISON,
    FUNCTIONS,
    SYMBOLS,
    UNARY,
    ExpressionError,
    bounded,
    format_value,
    kind_of_plain,
    never_compares,
    result_kind,
)
from whyrun.workflow.expressions.naming import ABSENT, ROOTS, Body, NameCompiler, SecretRef, called, root_name
from whyrun.workflow.expressions.references import Refused
from whyrun.workflow.model import Expression, Formatted, Place, Value
from whyrun.workflow.nodes import Problems
from whyrun.workflow.scope import Scope, Text

# --- the compiler ------------------------------------------------------------------------------------------------
#
# The syntax tree of an expression → closures. Only the syntax that is listed here is allowed.


MAX_DEPTH = 50


class Compiler(NameCompiler):
    too_deep = False

    def compile_whole(self, node: ast.expr, *, binding: bool) -> tuple[Body, Value | None]:
        self.refuse_misspelt()
        if root_name(node) in ("inputs", "jobs"):
            resolved = self.reference(node)
            if not binding:
                self.need_value(resolved, node)
            return self.slot(resolved.ref), resolved.ref
        if called(node) == "first":
            assert isinstance(node, ast.Call)
            first, _ = self.first(node, need_value=not binding)
            return self.slot(first), first
        if called(node) in ("named", "where"):
            assert isinstance(node, ast.Call)
            fan_in, _ = self.fan_in(node, need_value=not binding)
            return self.slot(fan_in), fan_in
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

    def predicate(self, node: ast.expr, scope: Scope) -> Expression:
        start, end = self.text.span(node)

        def locate(at: int, width: int) -> Place:
            return self.text.locate(start + at, width)

        found = parse_expression(self.text.text[start:end], locate, scope, self.problems)
        if found is None:
            raise Refused
        return found

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
                return result_kind(called(node))
        return self.kinds.get(node)

    def _call(self, node: ast.Call, depth: int) -> Body:
        name = called(node)
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
        if name == "where":
            fan_in, _ = self.fan_in(node, need_value=True)
            return self.slot(fan_in)
        if name == "named":
            hint = "give it an entry of its own in `with:`, as one whole `${{ }}`"
            raise self.refuse(node, "`named` is a whole value, not a part of one", hint)
        least, most, function = FUNCTIONS[name]
        if not least <= len(node.args) <= most:
            count = f"{least}" if least == most else f"{least} to {most}"
            raise self.refuse(node, f"`{name}` takes {count} argument{'' if most == 1 else 's'}, not {len(node.args)}")
        if name == "len" and root_name(node.args[0]) in ("inputs", "jobs"):
            # The number of files is a small value, so `len` of files is allowed; also of those that `where` chooses.
            resolved = self.reference(node.args[0])
            if not resolved.is_list:
                self.need_value(resolved, node.args[0])
            only = self.slot(resolved.ref)
            return lambda values, names: function(only(values, names))
        if name == "len" and called(node.args[0]) == "where":
            assert isinstance(node.args[0], ast.Call)
            some = self.slot(self.fan_in(node.args[0], need_value=False)[0])
            return lambda values, names: function(some(values, names))
        bodies = self._all(node.args, depth)
        if len(bodies) == 1:
            (single,) = bodies
            return lambda values, names: function(single(values, names))
        return lambda values, names: function(*[body(values, names) for body in bodies])


_FUNCTION_NAMES = ["first", "exists", "named", "where", *FUNCTIONS]
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


# --- expressions -------------------------------------------------------------------------------------------------


__all__ = [
    "ABSENT",
    "ROOTS",
    "ExpressionError",
    "SecretRef",
    "SecretText",
    "evaluate",
    "evaluate_formatted",
    "format_value",
    "parse_expression",
]

MAX_TEXT = 4096


class SecretText(msgspec.Struct, frozen=True):
    """A longer string with one secret, which replaces the single `{}` of `format`."""

    format: str
    name: str


# --- evaluation --------------------------------------------------------------------------------------------------


def evaluate(expression: Expression, values: Sequence[Any], names: Mapping[str, Any]) -> Any:
    """The value of an expression. `values[i]` belongs to `expression.refs[i]`; `names` has the loop variables, and
    `workflow` and `env` if they are used. The value of a whole reference is not checked; other results are."""
    if expression.whole is not None:
        return values[0]
    try:
        result = expression.body(values, names)
        return result if expression.secrets else bounded(result)
    except ExpressionError as problem:
        raise ExpressionError(f"`{expression.text}`: {problem}") from None
    except (TypeError, ValueError, ZeroDivisionError, OverflowError, RecursionError) as problem:
        raise ExpressionError(f"`{expression.text}`: {problem}") from problem


def evaluate_formatted(
    formatted: Formatted, values: Sequence[Sequence[Any]], names: Mapping[str, Any]
) -> str | SecretText:
    """The string. `values` has one sequence for each expression in it, in their order."""
    secret: str | None = None
    texts: list[str] = []
    expressions = iter(values)
    for part in formatted.parts:
        if isinstance(part, str):
            texts.append(part)
            continue
        value = evaluate(part, next(expressions), names)
        if isinstance(value, SecretRef):
            secret = value.name
            texts.append("{}")
        else:
            texts.append(format_value(value))
    text = "".join(texts)
    if secret is None:
        return str(bounded(text))
    if text.count("{}") != 1:
        raise ExpressionError("a string with a secret in it cannot contain another `{}`")
    return SecretText(text, secret)


# --- parsing -----------------------------------------------------------------------------------------------------


def parse_expression(
    written: str, locate: Callable[[int, int], Place], scope: Scope, problems: Problems, *, whole_value: bool = True
) -> Expression | None:
    """The checked expression, or None with the problems reported. `locate` returns the place of an offset in `written`.

    `whole_value` is False for a part of a longer string, which cannot contain a file.
    """
    lead = len(written) - len(written.lstrip())
    text = written.strip().replace("\n", " ").replace("\r", " ")

    def locate_stripped(offset: int, width: int) -> Place:
        return locate(lead + offset, width)

    place = locate_stripped(0, len(text))
    if not text:
        problems.add(place, "EXPRESSION_SYNTAX", "the expression is empty", "write a reference: `${{ inputs.NAME }}`")
        return None
    if len(text) > MAX_TEXT:
        problems.add(
            place, "EXPRESSION_FORBIDDEN", f"the expression is longer than {MAX_TEXT} characters", "compute it in a job"
        )
        return None
    tree = _parse_python(text, locate_stripped, problems)
    if tree is None or not _plain_letters(tree, Text(text, locate_stripped), problems):
        return None
    compiler = Compiler(Text(text, locate_stripped), scope, problems)
    try:
        body, whole = compiler.compile_whole(tree, binding=scope.binding and whole_value)
    except Refused:
        problems.count_failure()
        return None
    return Expression(
        text=text,
        place=place,
        body=body,
        refs=tuple(compiler.refs),
        optional=frozenset(compiler.optional),
        loops=frozenset(compiler.loops),
        secrets=frozenset(compiler.secrets),
        env=frozenset(compiler.env),
        whole=whole,
    )


# What other languages write → what Python does.
_OTHER_LANGUAGES = (
    ("[*]", "write `[:]` for all"),
    ("&&", "write `and`"),
    ("||", "write `or`"),
    ("===", "write `==`"),
    ("!", "write `not`"),
    ("?", "write `a if condition else b`"),
    ("=", "write `==` to compare"),
)


def _in_python(text: str) -> str | None:
    plain = text.replace("!=", "").replace("<=", "").replace(">=", "").replace(" == ", "")
    return next((hint for sign, hint in _OTHER_LANGUAGES if sign in plain), None)


def _parse_python(text: str, locate: Callable[[int, int], Place], problems: Problems) -> ast.expr | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `"\d"` in a pattern means the same as `"\\d"`
            return ast.parse(text, mode="eval").body
    except SyntaxError as problem:
        if problem.offset:
            offset = min(problem.offset - 1, len(text) - 1)
            message, place = problem.msg.removesuffix(" (detected at line 1)"), locate(offset, 1)
        else:  # Python has no offset if the text ends too early
            message, place = "it ends too early", locate(len(text) - 1, 1)
    except (ValueError, RecursionError, MemoryError) as problem:
        message, place = str(problem) or "it nests too deeply", locate(0, len(text))
    problems.add(
        place,
        "EXPRESSION_SYNTAX",
        f"this is not an expression: {message}",
        _in_python(text) or "write one Python expression inside `${{ }}`",
    )
    return None


def _plain_letters(tree: ast.expr, text: Text, problems: Problems) -> bool:
    """Refuse letters that only look like ASCII (`ｉnputs`): Python would normalize them to the same name."""
    if text.text.isascii():
        return True
    quoted = [
        text.span(node) for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    for offset, character in enumerate(text.text):
        if not character.isascii() and not any(start <= offset < end for start, end in quoted):
            place = text.locate(offset, 1)
            message = f"`{character}` is not allowed in an expression outside quotes"
            problems.add(place, "EXPRESSION_FORBIDDEN", message, "names are written in plain letters")
            return False
    return True
