"""YAML values with expressions in them → templates."""

from __future__ import annotations

import re
from typing import Any

from whyrun.lazy_regex import lazy_regex
from whyrun.workflow.expressions.expression import parse_expression
from whyrun.workflow.model import Expression, Formatted, Template
from whyrun.workflow.nodes import ListNode, MapNode, Node, Problems, Scalar
from whyrun.workflow.scope import Scope

OPEN, CLOSE = "${{", "}}"
# How other tools write an expression: `{{ inputs.Topic }}`, `${ inputs.Topic }`.
_FOREIGN = lazy_regex(r"(?<!\$)\{\{\s*([^{}]+?)\s*\}\}|\$\{\s*([^{}]+?)\s*\}(?!\})")
_REFERENCE = lazy_regex(r"\b(inputs|jobs|secrets)\.([A-Za-z_][A-Za-z0-9_]*)")


def parse_template(node: Node, scope: Scope, problems: Problems) -> Template:
    """The value of the node, with an `Expression` or `Formatted` in place of each string that has `${{ }}` in it."""
    if isinstance(node, MapNode):
        return {key.value: parse_template(value, scope, problems) for key, value in node.entries}
    if isinstance(node, ListNode):
        return [parse_template(item, scope, problems) for item in node.items]
    assert isinstance(node, Scalar)
    if not isinstance(node.value, str):
        return node.value
    if "{" in node.value and (almost := almost_expression(node.value, scope)) is not None:
        refuse_almost(node, almost, problems)
        return node.value
    return _parse_string(node, scope, problems) if OPEN in node.value else node.value


# --- almost an expression ----------------------------------------------------------------------------------------
#
# Text in braces is text, because prompts and templates of actions have it. But where it names what the workflow
# declares, or is a whole value, an expression was meant, and a step would receive the braces themselves.


def almost_expression(text: str, scope: Scope) -> re.Match[str] | None:
    """The first expression that is written as other tools write it."""
    for match in _FOREIGN.finditer(_without_expressions(text)):
        inner, whole = match[1] or match[2], match[0] == text.strip()
        if inner in scope.loops and (whole or not scope.binding):
            return match
        for root, name in _REFERENCE.findall(inner):
            declared = {"inputs": scope.names.inputs, "jobs": scope.names.jobs, "secrets": scope.secrets}[root]
            if whole or name in declared:
                return match
    return None


def _without_expressions(text: str) -> str:
    """The text with blanks for its expressions, in which braces are literals."""
    start = text.find(OPEN)
    while start >= 0:
        end = _end_of(text, start + len(OPEN))
        end = len(text) if end < 0 else end + len(CLOSE)
        text = text[:start] + " " * (end - start) + text[end:]
        start = text.find(OPEN, end)
    return text


def refuse_almost(node: Scalar, almost: re.Match[str], problems: Problems) -> None:
    at, written = almost.start(), almost[0]
    problems.add(
        node.locate(at, len(written)),
        "EXPRESSION_SYNTAX",
        f"`{written}` is not an expression, but plain text",
        f"write `${{{{ {almost[1] or almost[2]} }}}}`",
    )


def whole_expression(node: Node, scope: Scope, problems: Problems) -> Expression | None:
    """The node as one whole `${{ }}`; None if it is anything else, which is not reported."""
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        return None
    pieces = _split(node, problems)
    if pieces is None or len([p for p in pieces if p[2] or p[0].strip()]) != 1:
        return None
    return next((_expression(node, piece, scope, problems, whole=True) for piece in pieces if piece[2]), None)


def is_whole_expression(node: Node) -> bool:
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        return False
    text = node.value.strip()
    return text.startswith(OPEN) and _end_of(text, len(OPEN)) == len(text) - len(CLOSE)


def secrets_of(template: Template) -> frozenset[str]:
    """The secrets that a template uses, at any depth."""
    if isinstance(template, Expression):
        return template.secrets
    if isinstance(template, Formatted):
        members: Any = template.parts
    elif isinstance(template, dict):
        members = template.values()
    elif isinstance(template, list):
        members = template
    else:
        return frozenset()
    return frozenset().union(*map(secrets_of, members))


_Piece = tuple[str, int, bool]  # text, its offset in the scalar, whether it is an expression


def _parse_string(node: Scalar, scope: Scope, problems: Problems) -> Template:
    pieces = _split(node, problems)
    if pieces is None:
        return node.value
    if len([p for p in pieces if p[2] or p[0].strip()]) == 1:
        piece = next(p for p in pieces if p[2])
        return _expression(node, piece, scope, problems, whole=True) or node.value
    parts = [
        (_expression(node, piece, scope, problems, whole=False) or piece[0]) if piece[2] else piece[0]
        for piece in pieces
    ]
    formatted = Formatted(tuple(parts), node.place)
    _check_secrets(node, formatted, problems)
    return formatted


def _check_secrets(node: Scalar, formatted: Formatted, problems: Problems) -> None:
    """A string with a secret is kept as a format with one `{}`, so it can have only one secret and no other `{}`."""
    holders = [p for p in formatted.parts if isinstance(p, Expression) and p.secrets]
    if len(holders) > 1:
        problems.add(
            holders[1].place,
            "EXPRESSION_FORBIDDEN",
            "a second secret in one string",
            "give each secret an entry of its own, and join them in the action",
        )
    elif holders and any(isinstance(p, str) and "{}" in p for p in formatted.parts):
        problems.add(
            node.place,
            "EXPRESSION_FORBIDDEN",
            "a string with a secret cannot contain `{}`",
            "give the secret an entry of its own",
        )


def _expression(node: Scalar, piece: _Piece, scope: Scope, problems: Problems, *, whole: bool) -> Expression | None:
    text, offset, _ = piece
    return parse_expression(text, lambda at, width: node.locate(offset + at, width), scope, problems, whole_value=whole)


def _split(node: Scalar, problems: Problems) -> list[_Piece] | None:
    text = node.value
    pieces: list[_Piece] = []
    position = 0
    while True:
        start = text.find(OPEN, position)
        if start < 0:
            if position < len(text):
                pieces.append((text[position:], position, False))
            return pieces
        if start > position:
            pieces.append((text[position:start], position, False))
        inner = start + len(OPEN)
        end = _end_of(text, inner)
        if end < 0:
            problems.add(
                node.locate(start, len(text) - start),
                "EXPRESSION_SYNTAX",
                "`${{` without its `}}`",
                "close the expression with `}}`",
            )
            return None
        pieces.append((text[inner:end], inner, True))
        position = end + len(CLOSE)


def _end_of(text: str, position: int) -> int:
    """The position of the `}}` that ends an expression: not inside quotes, and not the end of a map in it."""
    begin = position
    depth = 0
    quote = ""
    while position < len(text):
        character = text[position]
        if quote:
            if character == "\\":
                position += 1
            elif character == quote:
                quote = ""
        elif character in "'\"":
            quote = character
        elif character == "{":
            depth += 1
        elif character == "}":
            if depth == 0 and text.startswith(CLOSE, position):
                return position
            depth = max(0, depth - 1)
        position += 1
    return text.find(CLOSE, begin)  # quotes or braces do not match: the parser of the expression reports it
