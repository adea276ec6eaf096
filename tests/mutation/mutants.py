"""The small changes that a test must notice: every mutant of a source file, as a change of its syntax tree.

A mutant is named by its function, the text before and the text after, so that its name outlives a shift of lines.
What is not changed: annotations, docstrings and other texts (a word of a message is not worth a test).
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.Mod: ast.Add, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitAnd,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
CALLS = {"sorted": "list", "reversed": "list", "min": "max", "max": "min", "any": "all", "all": "any"}
UNTOUCHED = {"annotation", "returns", "type_comment", "format_spec", "bases", "ctx", "type_params"}
TELLING = 30  # characters that are enough to find a piece of source in its function
MODULE = "<module>"
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Site:
    """A place in a syntax tree: `path[-1].field` (or its member `index`) is `old` and becomes `new`."""

    path: tuple[ast.AST, ...]  # from the statement down to the parent
    field: str
    index: int | None
    old: ast.AST
    new: ast.AST

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.path[-1], self.field, node)
        else:
            getattr(self.path[-1], self.field)[self.index] = node

    @property
    def line(self) -> int:
        return next(node.lineno for node in (self.old, *reversed(self.path)) if hasattr(node, "lineno"))

    def texts(self) -> tuple[str, str]:
        """Before and after: the smallest piece around the change that says enough; at most its statement's head."""
        if isinstance(self.old, ast.stmt | ast.ExceptHandler):
            return _head(self.old), _head(self.new)
        was, now = ast.unparse(self.old), ast.unparse(self.new)
        for around in reversed(self.path):
            if len(was) >= TELLING:
                break
            if isinstance(around, ast.expr | ast.stmt):
                was = _head(around)
                self.put(self.new)
                now = _head(around)
                self.put(self.old)
            if isinstance(around, ast.stmt):
                break
        return was, now


@dataclass(frozen=True)
class Mutant:
    file: str
    function: str  # the outermost one, as in __qualname__; MODULE for what runs at import
    first_line: int  # of that function, with its decorators
    was: str
    now: str
    nth: int  # among those that read the same in this function
    site: Site

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.file, self.function, self.was, self.now

    @property
    def line(self) -> int:
        return self.site.line

    def apply(self) -> None:
        self.site.put(self.site.new)

    def revert(self) -> None:
        self.site.put(self.site.old)


def mutants_of(source: str, file: str) -> tuple[ast.Module, list[Mutant]]:
    """The tree of a source file, and the mutants that change it in place."""
    tree = ast.parse(source)
    seen: dict[tuple[str, str, str], int] = {}
    found = []
    for function, first_line, site in _sites(tree, ""):
        was, now = site.texts()
        if was != now:
            nth = seen.get((function, was, now), 0)
            seen[function, was, now] = nth + 1
            found.append(Mutant(file, function, first_line, was, now, nth, site))
    return tree, found


# --- where ----------------------------------------------------------------------------------------------------------


def _head(node: ast.AST) -> str:
    """A statement without its body."""
    if isinstance(node, ast.If | ast.While | ast.For | ast.With | ast.FunctionDef | ast.ClassDef | ast.ExceptHandler):
        if isinstance(node, ast.ExceptHandler) and isinstance(node.body[0], ast.Raise):
            return ast.unparse(node).strip()
        bare = copy.copy(node)
        bare.body = [ast.Expr(ast.Constant(...))]
        if hasattr(bare, "orelse"):
            bare.orelse = []
        return ast.unparse(bare).strip().removesuffix("...").strip()
    return ast.unparse(node)


def _sites(owner: ast.Module | ast.ClassDef, prefix: str) -> Iterator[tuple[str, int, Site]]:
    for node in owner.body:
        if isinstance(node, Function):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            for site in _within(node, (node,), only={"body"}):
                yield prefix + node.name, first, site
            for site in _within(node, (node,), only={"decorator_list", "args"}):
                yield MODULE, 1, site
        elif isinstance(node, ast.ClassDef):
            yield from _sites(node, f"{prefix}{node.name}.")
            for site in _within(node, (node,), only={"decorator_list", "keywords"}):
                yield MODULE, 1, site
        elif not _only_for_types(node):
            for site in _within(node, (node,)):
                yield MODULE, 1, site


def _only_for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom) or (
        isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    )


def _within(node: ast.AST, path: tuple[ast.AST, ...], only: set[str] | None = None) -> Iterator[Site]:
    for name, value in ast.iter_fields(node):
        if name in UNTOUCHED or (only is not None and name not in only):
            continue
        members = enumerate(value) if isinstance(value, list) else [(None, value)]
        for index, child in members:
            if isinstance(child, ast.AST):
                for new in _replacements(child, node, name):
                    yield Site(path, name, index, child, ast.fix_missing_locations(ast.copy_location(new, child)))
                start = (child,) if isinstance(child, ast.stmt | ast.ExceptHandler) else (*path, child)
                yield from _within(child, start)


# --- what becomes of it ---------------------------------------------------------------------------------------------


def _replacements(node: ast.AST, parent: ast.AST, name: str) -> Iterator[ast.AST]:
    if isinstance(node, ast.stmt):
        yield from _statements(node)
    elif isinstance(node, ast.ExceptHandler):
        if not any(isinstance(statement, ast.Raise) for statement in node.body):
            yield _with(node, body=[ast.Raise()])
    elif isinstance(node, ast.expr):
        yield from _expressions(node)
        decides = name == "guard" or (name == "test" and isinstance(parent, ast.If | ast.While | ast.IfExp))
        if decides and _is_plain(node):
            yield ast.UnaryOp(ast.Not(), node)
        elif name == "ifs":
            yield ast.Constant(True)


def _is_plain(node: ast.expr) -> bool:
    """No comparison or combination, which have changes of their own."""
    return not isinstance(node, ast.Compare | ast.BoolOp | ast.Constant | ast.UnaryOp)


def _statements(node: ast.stmt) -> Iterator[ast.stmt]:
    match node:
        case ast.Expr(ast.Constant()):
            pass
        case ast.Expr() | ast.AugAssign() | ast.Delete() | ast.Raise() | ast.Return(value=None):
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]):
            yield ast.Pass()
        case ast.Return(value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield ast.Return(ast.Constant(None))
        case ast.Continue():
            yield ast.Break()
        case ast.Break():
            yield ast.Continue()
        case ast.With(items) if all(item.optional_vars is None for item in items):
            yield ast.If(ast.Constant(True), node.body, [])


def _expressions(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Compare(_, ops):
            for at, op in enumerate(ops):
                yield _with(node, ops=[*ops[:at], COMPARISONS[type(op)](), *ops[at + 1 :]])
        case ast.BoolOp(op, values):
            yield _with(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
            for at in range(len(values)):
                rest = [*values[:at], *values[at + 1 :]]
                yield _with(node, values=rest) if len(rest) > 1 else rest[0]
        case ast.UnaryOp(ast.Not(), operand):
            yield operand
        case ast.UnaryOp(ast.USub(), operand):
            yield operand
        case ast.BinOp(_, op, _) if type(op) in ARITHMETIC:
            yield _with(node, op=ARITHMETIC[type(op)]())
        case ast.Constant(bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(int(value) | float(value)):
            yield ast.Constant(value + 1)
        case ast.Call(func, _, keywords):
            if isinstance(func, ast.Name) and func.id in CALLS and node.args:
                plain = [] if func.id == "sorted" else keywords
                yield _with(node, func=ast.Name(CALLS[func.id], ast.Load()), keywords=plain)
            for at, keyword in enumerate(keywords):
                if keyword.arg not in (None, "hint"):  # a hint is a text, too
                    yield _with(node, keywords=[*keywords[:at], *keywords[at + 1 :]])


def _with(node, **fields):  # type: ignore[no-untyped-def]
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed
