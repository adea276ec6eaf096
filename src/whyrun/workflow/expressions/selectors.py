"""The parts of a reference: its chain of names, and the selectors `[3]`, `["asia"]`, `[loop-1]`, `[:]`."""

from __future__ import annotations

import ast

from whyrun.errors import did_you_mean
from whyrun.workflow.model import All, At, Loop, Place, Selector
from whyrun.workflow.nodes import Problems
from whyrun.workflow.scope import AnyName, Scope, Text

Part = ast.Attribute | ast.Subscript


class Refused(Exception):
    """The expression is invalid, and its problem is reported."""


class SelectorReader:
    """Reads the parts of one expression's references."""

    def __init__(self, text: Text, scope: Scope, problems: Problems) -> None:
        self.text = text
        self.scope = scope
        self.problems = problems

    def refuse(self, place: Place, code: str, message: str, hint: str | None = None) -> Refused:
        self.problems.add(place, code, message, hint)
        return Refused()

    def _source(self, node: ast.AST) -> str:
        start, end = self.text.span(node)
        return self.text.text[start:end]

    def selectors(self, parts: list[Part], position: int) -> tuple[list[tuple[Selector, Place]], int]:
        selectors: list[tuple[Selector, Place]] = []
        while position < len(parts):
            part = parts[position]
            if not isinstance(part, ast.Subscript):
                break
            written = part.slice.elts if isinstance(part.slice, ast.Tuple) and part.slice.elts else [part.slice]
            selectors.extend((self._selector(node, part), self._selector_place(node, part)) for node in written)
            position += 1
        return selectors, position

    def _selector_place(self, node: ast.expr, part: ast.Subscript) -> Place:
        if isinstance(node, ast.Slice):
            # In some versions of Python the slice `:` has an empty width.
            start, end = self.text.span(node)
            return self.text.locate(start, max(1, end - start))
        return self.text.place(node)

    def _selector(self, node: ast.expr, part: ast.Subscript) -> Selector:
        if isinstance(node, ast.Slice):
            if node.lower is None and node.upper is None and node.step is None:
                return All()
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, int | float | str) and not isinstance(node.value, bool):
                return At(node.value)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            inner = node.operand
            if (
                isinstance(inner, ast.Constant)
                and isinstance(inner.value, int | float)
                and type(inner.value) is not bool
            ):
                return At(-inner.value)
        elif isinstance(node, ast.Name):
            return Loop(self._loop(node))
        elif isinstance(node, ast.BinOp) and isinstance(node.left, ast.Name) and isinstance(node.right, ast.Constant):
            step = node.right.value
            if type(step) is int and isinstance(node.op, ast.Add | ast.Sub):
                return Loop(self._loop(node.left), step if isinstance(node.op, ast.Add) else -step)
        raise self.refuse(
            self._selector_place(node, part),
            "EXPRESSION_FORBIDDEN",
            f"`[{self._source(node)}]` is not a selector",
            'selectors are `[3]`, `["asia"]`, `[loop]`, `[loop-1]`, `[loop+1]` and `[:]`',
        )

    def _loop(self, node: ast.Name) -> str:
        check_loop(node.id, self.text.place(node), self.scope, self.problems)
        return node.id


def chain_of(node: ast.expr) -> tuple[ast.expr, list[Part]]:
    """`a.b[c].d` → `a` and its parts from left to right."""
    parts: list[Part] = []
    while isinstance(node, ast.Attribute | ast.Subscript):
        parts.append(node)
        node = node.value
    return node, parts[::-1]


def check_loop(name: str, place: Place, scope: Scope, problems: Problems) -> None:
    """Check that a bare name, which is always a loop variable, is a loop of the job."""
    if "loops" in scope.roots and name in scope.loops:
        return
    if isinstance(scope.names.loops, AnyName) and not scope.names.loops.is_read(name):
        raise Refused  # it may be declared in a part that could not be read
    if name in scope.names.loops:
        if "loops" in scope.roots:
            message = f"the loop `{name}` is not in this job's `for:`"
            hint = f"add it: `for: [{', '.join([*scope.loops, name])}]`"
        else:
            message, hint = f"there is no loop `{name}` {scope.where}", "use inputs and literals"
    else:
        message = f"there is no loop `{name}`"
        hint = did_you_mean(name, sorted(scope.names.loops)) or "declare it under `loops:`"
    problems.add(place, "UNKNOWN_LOOP", message, hint)
    raise Refused
