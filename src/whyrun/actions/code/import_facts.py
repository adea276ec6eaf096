"""What one file of project code says of others: what it imports, and the texts in it that may name modules or files."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from whyrun.actions.source import TextRead, canonical_form, form_sha256, parse_source, text_read


def _words(*found: tuple[str, str]) -> tuple[str, ...]:
    """As they stand in a canonical form, each after the field that it is in where other code has that name, too."""
    return tuple(f"{field}\nstr {len(name)} {name}\n" for field, name in found)


# Functions that import what their first argument names: of `importlib`, Python itself, `runpy`, `pkgutil`, `pydoc`.
_IMPORTERS = frozenset(
    {"import_module", "find_spec", "__import__", "run_module", "resolve_name", "locate", "safeimport"}
)
_IMPORTER_WORDS = _words(*(("", name) for name in sorted(_IMPORTERS)))
# What code says that imports packages for their data, or runs what it reads.
_TEXT_LOADERS = _words(
    ("", "pkgutil"),
    ("", "importlib.resources"),
    (".name", "resources"),
    (".id", "exec"),
)
# What code says that loads a file which it names; and what it says that changes where imports are looked for, beside
# `sys.path`.
_FILE_LOADERS = _words(
    ("", "spec_from_file_location"),
    ("", "run_path"),
    ("", "load_source"),  # of `imp`, which Python 3.11 still has
    ("", "importlib.machinery"),
    (".attr", "machinery"),
    (".name", "machinery"),
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
    loads = loads_files or any(word in form for word in (*_IMPORTER_WORDS, *_TEXT_LOADERS))
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
    importers = {name: name for name in _IMPORTERS} | {
        alias.asname: alias.name
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
            found = _called_import(node, importers[_last_name(node.func)])
            if found is not None:
                yield found


def _last_name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _called_import(call: ast.Call, importer: str) -> Import | None:
    """`import_module("a.b")`, `resolve_name("a.b:c")`. In `locate("a.b.c")` the last part may be a name in `a/b.py`, as
    it may in `import a.b.c`."""
    name = _text(_argument(call, 0, "name", "mod_name", "path"))
    found = named_import(name.partition(":")[0]) if name is not None else None
    if found is None:
        return None
    if importer == "__import__":
        return _low_level_import(call, found.module)
    if importer == "run_module":
        return run_of(found)
    package = _text(_argument(call, 1, "package"))
    return _seen_from(package, found) if found.level and package else found


def _low_level_import(call: ast.Call, module: tuple[str, ...]) -> Import:
    """`__import__("a", globals(), locals(), ["b"], 1)` is `from .a import b`."""
    names = _listed(_argument(call, 3, "fromlist"))
    match _argument(call, 4, "level"):
        case ast.Constant(value=int(level)) if level > 0:
            return Import(level, module, tuple(names or ()))
    return Import(0, module, tuple(names or ()))


def _seen_from(package: str, found: Import) -> Import | None:
    """`import_module(".b", "a")`."""
    above = package.split(".")
    module = (*above[: len(above) - found.level + 1], *found.module)
    return Import(0, module) if _may_be_files(module) else None


def _argument(call: ast.Call, position: int, *names: str) -> ast.expr | None:
    if len(call.args) > position:
        return call.args[position]
    return next((keyword.value for keyword in call.keywords if keyword.arg in names), None)


def run_of(found: Import) -> Import:
    """Of a package `run_module` runs `__main__`; a module has nothing below it, so that this one is itself."""
    return Import(found.level, (*found.module, "__main__"))


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
