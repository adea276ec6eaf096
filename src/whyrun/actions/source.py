"""Python source, read without running it: its canonical form, what it says of other files, what it defines.

The canonical form leaves out comments, layout, docstrings and type comments, and does not depend on the Python that
reads it. `ast.dump` and `ast.unparse` were rejected: both changed between Python versions.

Code may read its own docstrings, or its own source, and then they are data: `text_read` says whether it seems to.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from pathlib import Path
from typing import Any

_DOCUMENTED = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# Where it stands, or how it is spelled, but not what it does.
_SKIPPED = frozenset({"ctx", "type_comment", "type_ignores", "kind", "lineno", "col_offset", "end_lineno"})


class SourceError(Exception):
    """A file of the project that is no Python: where and why."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a function as written; `None` for a callable whose signature the source does not show."""

    required: tuple[str, ...]
    optional: tuple[str, ...]
    open_ended: bool  # has **kwargs


def read_source(path: str | os.PathLike[str], shown: str) -> bytes:
    """The content of a file. `shown` is how messages name it."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as problem:
        raise SourceError(f"{shown} cannot be read: {problem.strerror}") from None


def parse_file(path: str | os.PathLike[str], shown: str) -> ast.Module:
    return parse_source(read_source(path, shown), shown)


# Remembered by content, not by size and times: an edit of the same size within one tick of the clock shows in neither,
# and reading a file that is in memory anyway costs next to nothing beside parsing it.
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

    With `docstrings` each is one more field, of a name that no node has: so neither form is ever that of other code in
    the other, and code that has no docstrings has the same form in both.
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


@dataclass(frozen=True, slots=True)
class _Token:
    text: str


def _field(node: ast.AST, name: str) -> Any:
    value: Any = getattr(node, name, None)
    if name == "body" and isinstance(node, _DOCUMENTED):
        return _without_docstring(value)
    if name == "values" and isinstance(node, ast.JoinedStr):
        return _joined(value)
    return value


def _is_absent(node: ast.AST, name: str, value: Any) -> bool:
    """Optional fields that are not used, so that fields which later Pythons add change nothing."""
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
    """The parts of an f-string with neighbouring texts put together: how they are cut depends on the Python."""
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


# --- text that is data -------------------------------------------------------------------------------------------


class TextRead(IntEnum):
    """What code reads of the text that its canonical form leaves out; the greater includes the lesser."""

    NOTHING = 0
    DOCSTRINGS = 1
    SOURCE = 2


# `__file__` is not among them: nearly always it only leads to a data file nearby. `tokenize` is a method of every
# tokenizer, so it is looked for among the imports.
_SOURCE_NAMES = ("getsource", "getsourcelines", "getcomments", "getblock", "linecache")
_SOURCE_LINES = tuple(f"\nstr {len(name)} {name}\n" for name in _SOURCE_NAMES)
# `model_json_schema` of Pydantic puts the docstring of a model into its schema.
_DOCSTRING_LINES = tuple(f"\nstr {len(name)} {name}\n" for name in ("getdoc", "model_json_schema"))


def text_read(form: str) -> TextRead:
    """By the names in a canonical form: attributes, variables, imports, and texts such as in `getattr(f, "__doc__")`.

    A few searches in what is there for the hash anyway cost next to nothing; another walk over the tree would.
    """
    if any(line in form for line in _SOURCE_LINES):
        return TextRead.SOURCE
    # `__doc__` also within a text: `"{0.__doc__}".format(f)` and `attrgetter("f.__doc__")` read it.
    if "__doc__" in form or any(line in form for line in _DOCSTRING_LINES):
        return TextRead.DOCSTRINGS
    return TextRead.NOTHING


# --- what one file says ------------------------------------------------------------------------------------------

# Functions that import what their first argument names: of `importlib`, of Python itself and of `runpy`.
_IMPORTERS = frozenset({"import_module", "__import__", "run_module"})
# What code says that loads a file which it names, as they stand in a canonical form; and what it says that changes
# where imports are looked for, beside `sys.path`.
_FILE_LOADERS = tuple(
    f"{before}\nstr {len(name)} {name}\n"
    for before, name in (
        ("", "spec_from_file_location"),
        ("", "run_path"),
        ("", "importlib.machinery"),
        (".attr", "machinery"),
        (".name", "machinery"),
    )
)
_PATH_WORDS = ("\nstr 10 addsitedir\n", "PYTHONPATH")
# Between the parts of a text that is a template, or a list as in `PYTHONPATH`.
_GAPS = re.compile(r"%s|\{[^{}]*\}|:")


@dataclass(frozen=True, slots=True)
class Import:
    """`import a.b` has no names; `from ..a import b, c` has level 2."""

    level: int
    module: tuple[str, ...]
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileFacts:
    sha256: str
    imports: tuple[Import, ...] = ()
    exports: tuple[str, ...] | None = ()  # what `__all__` lists; None where the source does not show it
    reads: TextRead = TextRead.NOTHING  # by the names in it; what its imports say is known only beside the project
    source: bytes | None = None  # None of what is no Python, such as a compiled one
    moves_path: bool = False  # it may change where absolute imports are looked for
    loads: bool = False  # it loads modules or files by names that are texts
    texts: tuple[str, ...] = ()  # those in it that may be paths or names, if it does either


@lru_cache(maxsize=4096)
def facts_of(data: bytes, shown: str) -> FileFacts:
    """Many jobs share one module: it is looked through once."""
    tree = parse_source(data, shown)
    form = canonical_form(tree)
    imports = tuple(dict.fromkeys(imports_in(tree)))
    loads_files = any(word in form for word in _FILE_LOADERS)
    moves_path = loads_files or any(word in form for word in _PATH_WORDS) or _says_sys_path(tree, form)
    loads = loads_files or any(f"\nstr {len(name)} {name}\n" in form for name in _IMPORTERS)
    texts = _texts(tree) if moves_path or loads else ()
    return FileFacts(form_sha256(form), imports, _exports(tree), text_read(form), data, moves_path, loads, texts)


def _says_sys_path(tree: ast.Module, form: str) -> bool:
    if "\nstr 3 sys\n" not in form or "\nstr 4 path\n" not in form:  # saves the walk for most files
        return False
    nodes = list(ast.walk(tree))
    imported = [alias for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    own = {"sys", *(alias.asname for alias in imported if alias.name == "sys" and alias.asname)}
    return any(_is_sys_path(node, own) for node in nodes)


def _is_sys_path(node: ast.AST, own: set[str]) -> bool:
    """`sys.path`, `os.sys.path`, `getattr(sys, "path")`, `from sys import path`. `own`: what `sys` is called there."""
    match node:
        case ast.Attribute(attr="path", value=ast.Attribute(attr="sys")):
            return True
        case ast.Attribute(attr="path", value=ast.Name(id=name)):
            return name in own
        case ast.Call(func=ast.Name(id="getattr"), args=[ast.Name(id=name), ast.Constant(value="path"), *_]):
            return name in own
        case ast.ImportFrom(module="sys", level=0, names=names):
            return any(alias.name in ("path", "*") for alias in names)
    return False


def _texts(tree: ast.Module) -> tuple[str, ...]:
    """The texts that may be paths or names of modules, and the parts of templates of them, as `"%s/lib"` is one."""
    values = (text for node in ast.walk(tree) if isinstance(node, ast.Constant) and (text := _text(node)))
    parts = (part for text in values if not {"\n", "\0"} & set(text) for part in _GAPS.split(text))
    return tuple(sorted({part for part in parts if part.strip("/")}))


def imports_in(tree: ast.Module) -> Iterator[Import]:
    nodes = list(ast.walk(tree))
    importers = _IMPORTERS | {
        alias.asname
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname and alias.name in _IMPORTERS
    }
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(0, tuple(alias.name.split(".")))
        elif isinstance(node, ast.ImportFrom):
            module = tuple(node.module.split(".")) if node.module else ()
            yield Import(node.level, module, tuple(alias.name for alias in node.names))
        elif isinstance(node, ast.Call) and _last_name(node.func) in importers:
            found = _called_import(node)
            if found is not None:
                yield found


def _last_name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _called_import(call: ast.Call) -> Import | None:
    """`import_module("a.b")`, `import_module(".b", "a")`, `import_module(".b", __package__)`."""
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    name = _text(call.args[0] if call.args else keywords.get("name", keywords.get("mod_name")))
    if name is None:
        return None
    found = named_import(name)
    package = _text(call.args[1] if len(call.args) > 1 else keywords.get("package"))
    if found is None or not found.level or not package:
        return found
    above = package.split(".")
    module = (*above[: len(above) - found.level + 1], *found.module)
    return Import(0, module) if _may_be_files(module) else None


def named_import(name: str) -> Import | None:
    """`a.b` or `..b`."""
    parts = name.lstrip(".")
    module = tuple(parts.split(".")) if parts else ()
    return Import(len(name) - len(parts), module) if _may_be_files(module) else None


def _may_be_files(module: tuple[str, ...]) -> bool:
    """A file's name may be any, such as `my-model.py`, but nothing that leads elsewhere."""
    return all(part and not {"/", "\0"} & set(part) for part in module)


def _text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _exports(tree: ast.Module) -> tuple[str, ...] | None:
    """The names that `import *` takes by `__all__`; None where it is not a plain list."""
    names: list[str] = []
    plain, mentioned = 0, 0
    for node in ast.walk(tree):
        mentioned += isinstance(node, ast.Name) and node.id == "__all__"
        mentioned += isinstance(node, ast.alias) and "__all__" in (node.name, node.asname)
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            listed = _listed(node.value)
            if listed is not None and [t.id for t in targets if isinstance(t, ast.Name)] == ["__all__"]:
                plain += 1
                names.extend(listed)
    return tuple(names) if plain == mentioned else None


def _listed(node: ast.expr | None) -> list[str] | None:
    if not isinstance(node, ast.List | ast.Tuple):
        return None
    texts = [_text(member) for member in node.elts]
    return [text for text in texts if text is not None] if None not in texts else None


# --- definitions -------------------------------------------------------------------------------------------------


def find_module(project: Path, dotted: str) -> Path | None:
    """The file that `import a.b` would run last, if it lies in the project."""
    parts = dotted.split(".")
    if not all(part.isidentifier() for part in parts):
        return None
    package = project.joinpath(*parts)
    for candidate in (package / "__init__.py", package.with_name(f"{package.name}.py")):
        if candidate.is_file():
            return candidate
    return None


@dataclass(frozen=True, slots=True)
class Definitions:
    """The names that a module binds at its top level; `complete` is False where it may bind more (`import *`)."""

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
    """`@action(…)` hands the function back as it is; what other decorators do is not known."""
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
