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

from whyrun.workflow.expressions.compiler import Compiler
from whyrun.workflow.expressions.functions import ExpressionError, bounded, format_value
from whyrun.workflow.expressions.naming import ABSENT, ROOTS, SecretRef
from whyrun.workflow.expressions.selectors import Refused
from whyrun.workflow.model import Expression, Formatted, Place
from whyrun.workflow.nodes import Problems
from whyrun.workflow.scope import Scope, Text

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
        message, place = str(problem) or "it nests too deep", locate(0, len(text))
    problems.add(
        place,
        "EXPRESSION_SYNTAX",
        f"this is not an expression: {message}",
        "write one Python expression inside `${{ }}`",
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
