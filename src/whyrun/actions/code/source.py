"""Reads Python source without running it: its canonical form, and the names that it defines.

The canonical form leaves out comments, layout, docstrings and type comments, and is the same in all Python versions.
`ast.dump` and `ast.unparse` were rejected because their output changed between Python versions.

Docstrings count if the code names them; see `names_docstrings`.
"""

from __future__ import annotations

import ast
import hashlib
import os
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from whyrun.actions.base import Signature

_DOCUMENTED = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# Fields for positions and spelling, which do not change what the code does.
_SKIPPED = frozenset({"ctx", "type_comment", "type_ignores", "kind", "lineno", "col_offset", "end_lineno"})


class SourceError(Exception):
    """A file of the project cannot be read as Python; the message says where and why."""


def read_source(path: str | os.PathLike[str], shown: str) -> bytes:
    """The content of a file. `shown` is its name in messages."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as problem:
        raise SourceError(f"{shown} cannot be read: {problem.strerror}") from None


def parse_file(path: str | os.PathLike[str], shown: str) -> ast.Module:
    return parse_source(read_source(path, shown), shown)


# Cached by content, not by size and times: an edit of the same size within one clock tick changes neither. Reading a
# file takes much less time than parsing it.
@lru_cache(maxsize=256)
def parse_source(data: bytes, shown: str) -> ast.Module:
    try:
        return ast.parse(data, filename=shown)
    except SyntaxError as problem:
        raise SourceError(f"{shown}:{problem.lineno or 1}: {problem.msg}") from None
    except (ValueError, RecursionError, MemoryError) as problem:  # null bytes, undecodable text, absurd nesting
        raise SourceError(f"{shown}: {problem}") from None


# --- canonical form ----------------------------------------------------------------------------------------------


def source_sha256(tree: ast.Module, *, docstrings: bool = False) -> str:
    return form_sha256(canonical_form(tree, docstrings=docstrings))


def canonical_form(tree: ast.Module, *, docstrings: bool = False) -> str:
    return "\n".join(canonical_tokens(tree, docstrings=docstrings)) + "\n"


def form_sha256(form: str) -> str:
    return hashlib.sha256(b"whyrun/python-source/v1\n" + form.encode("utf-8", "surrogatepass")).hexdigest()


def canonical_tokens(tree: ast.AST, *, docstrings: bool = False) -> Iterator[str]:
    """One token a line: `(Name`, field names, constants with type and length, `)`. Iterative: nesting may be deep.

    With `docstrings`, each docstring is an additional field whose name no node has. So no code with docstrings has the
    same form as other code, and code without docstrings has the same form either way.
    """
    stack: list[Any] = [tree]
    while stack:
        item = stack.pop()
        if isinstance(item, _Token):
            yield item.text
        elif isinstance(item, ast.AST):
            yield "(" + type(item).__name__
            stack.append(_Token(")"))
            for name in sorted(item._fields, reverse=True):
                value = _field(item, name)
                if name in _SKIPPED or _is_absent(item, name, value):
                    continue
                stack.append(value)
                stack.append(_Token("." + name))
            if docstrings and (text := _docstring(item)) is not None:
                stack += text, _Token(".docstring")
        elif isinstance(item, list):
            yield f"[{len(item)}"
            stack.extend(reversed(item))
        else:
            yield _constant(item)


class _Token(msgspec.Struct, frozen=True):
    text: str


def _field(node: ast.AST, name: str) -> Any:
    value: Any = getattr(node, name, None)
    if name == "body" and isinstance(node, _DOCUMENTED):
        return _without_docstring(value)
    if name == "values" and isinstance(node, ast.JoinedStr):
        return _joined(value)
    return value


def _is_absent(node: ast.AST, name: str, value: Any) -> bool:
    """Skip optional fields that are not used, so that fields added by later Python versions change nothing."""
    if isinstance(node, ast.Constant) and name == "value":
        return False
    return value is None or value == []


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    match body:
        case [ast.Expr(value=ast.Constant(value=str())), *rest]:
            return rest or [ast.Pass()]
    return body


def _docstring(node: ast.AST) -> str | None:
    if isinstance(node, _DOCUMENTED):
        match node.body:
            case [ast.Expr(value=ast.Constant(value=str() as text)), *_]:
                return text
    return None


def _joined(values: list[ast.expr]) -> list[ast.expr]:
    """The parts of an f-string with neighbouring texts joined: Python versions split them differently."""
    parts: list[ast.expr] = []
    for value in values:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            if not value.value:
                continue
            if parts and isinstance(parts[-1], ast.Constant):
                parts[-1] = ast.Constant(str(parts[-1].value) + value.value)
                continue
        parts.append(value)
    return parts


def _constant(value: Any) -> str:
    if isinstance(value, str):
        return f"str {len(value)} {value}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"int {value:x}"  # hexadecimal: Python limits the length of decimal conversions
    return f"{type(value).__name__} {value!r}"


# --- docstrings as data ------------------------------------------------------------------------------------------


# `model_json_schema` of Pydantic puts the docstring of a model into its schema.
_DOCSTRING_LINES = tuple(f"\nstr {len(name)} {name}\n" for name in ("getdoc", "model_json_schema"))


def names_docstrings(form: str) -> bool:
    """Whether code asks for docstrings, by the names in its canonical form: attributes, variables, imports, texts as in
    `getattr(f, "__doc__")`. No hook of Python sees that a docstring is read, because it is in memory.

    The form exists already for the hash. Searching it costs much less than another walk over the tree.
    """
    # Also search within texts: `"{0.__doc__}".format(f)` and `attrgetter("f.__doc__")` read it.
    return "__doc__" in form or any(line in form for line in _DOCSTRING_LINES)


# --- definitions -------------------------------------------------------------------------------------------------


def find_module(project: Path, dotted: str) -> Path | None:
    """The file of the module `a.b`, if it is in the project."""
    parts = dotted.split(".")
    if not all(part.isidentifier() for part in parts):
        return None
    package = project.joinpath(*parts)
    for candidate in (package / "__init__.py", package.with_name(f"{package.name}.py")):
        if candidate.is_file():
            return candidate
    return None


class Definitions(msgspec.Struct, frozen=True):
    """The names that a module defines at its top level; `complete` is False if it may define more (`import *`)."""

    functions: dict[str, Signature]
    others: frozenset[str]
    complete: bool

    @property
    def names(self) -> list[str]:
        return sorted({*self.functions, *self.others})


def definitions(tree: ast.Module) -> Definitions:
    functions: dict[str, Signature] = {}
    others: set[str] = set()
    complete = True
    for statement in _top_level(tree.body):
        match statement:
            case ast.FunctionDef(name=name) if not statement.decorator_list or _keeps_signature(statement):
                functions[name] = signature_of(statement)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                others.add(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                complete &= all(alias.name != "*" for alias in names)
                others.update((alias.asname or alias.name).split(".")[0] for alias in names)
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                others.update(n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and _stores(n))
    if "__getattr__" in functions:
        complete = False
    return Definitions(functions, frozenset(others - functions.keys()), complete)


def _stores(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _keeps_signature(function: ast.FunctionDef) -> bool:
    """`@action(…)` returns the function unchanged; other decorators may not."""
    return all(
        isinstance(d, ast.Call) and getattr(d.func, "id", getattr(d.func, "attr", None)) == "action"
        for d in function.decorator_list
    )


def _top_level(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run when the module is imported, also inside `if`, `try` and `with`."""
    for statement in body:
        yield statement
        for field in ("body", "orelse", "finalbody"):
            if isinstance(statement, (ast.If, ast.Try, ast.With, ast.For, ast.While)):
                yield from _top_level(getattr(statement, field, []))
        for handler in getattr(statement, "handlers", []):
            yield from _top_level(handler.body)


def signature_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Signature:
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    cut = len(positional) - len(arguments.defaults)
    required = [a.arg for a in positional[:cut]]
    optional = [a.arg for a in positional[cut:]]
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        (required if default is None else optional).append(argument.arg)
    return Signature(tuple(required), tuple(optional), arguments.kwarg is not None)
