"""Reads one source file: what it imports, and which of its string constants may name modules or files."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

import msgspec

from whyrun.actions.code.source import TextRead, canonical_form, form_sha256, parse_source, text_read
from whyrun.lazy_regex import lazy_regex


def _patterns(*names: tuple[str, str]) -> tuple[str, ...]:
    """Text to search for in a canonical form. The field is given where other code uses the same name, too."""
    return tuple(f"{field}\nstr {len(name)} {name}\n" for field, name in names)


# Functions of `importlib`, Python, `runpy`, `pkgutil` and `pydoc` that import the module named by the first argument.
_IMPORTERS = frozenset(
    {"import_module", "find_spec", "__import__", "run_module", "resolve_name", "locate", "safeimport"}
)
_IMPORTER_PATTERNS = _patterns(*(("", name) for name in sorted(_IMPORTERS)))
# Names in code that imports packages for their data files, or executes text.
_TEXT_LOADERS = _patterns(
    ("", "pkgutil"),
    ("", "importlib.resources"),
    (".name", "resources"),
    (".id", "exec"),
)
# Names in code that loads a file by its path.
_FILE_LOADERS = _patterns(
    ("", "spec_from_file_location"),
    ("", "run_path"),
    ("", "load_source"),  # of `imp`, which Python 3.11 still has
    ("", "importlib.machinery"),
    (".attr", "machinery"),
    (".name", "machinery"),
)
# Names in code that changes where modules are found, apart from `sys.path`.
_PATH_PATTERNS = ("\nstr 10 addsitedir\n", "PYTHONPATH")
# Separates the fixed parts of a template, or the entries of a list like `PYTHONPATH`.
_GAPS = lazy_regex(r"%s|\{[^{}]*\}|:")


class Import(msgspec.Struct, frozen=True):
    """`import a.b` has no names; `from ..a import b, c` has level 2."""

    level: int
    module: tuple[str, ...]
    names: tuple[str, ...] = ()


class FileFacts(msgspec.Struct, frozen=True):
    sha256: str
    imports: tuple[Import, ...] = ()
    exports: tuple[str, ...] | None = ()  # what `__all__` lists; None where the source does not show it
    reads: TextRead = TextRead.NOTHING  # judged by the names in it, without the libraries that it imports
    source: bytes | None = None  # None if it is not Python source, such as a compiled module
    changes_sys_path: bool = False  # it may change where absolute imports are found
    loads_by_name: bool = False  # it loads modules or files by names in string constants
    texts: tuple[str, ...] = ()  # string constants that may be paths or names, if it does either


@lru_cache(maxsize=4096)
def read_facts(data: bytes, shown: str) -> FileFacts:
    """The facts of one file. Cached, because many jobs share a module."""
    tree = parse_source(data, shown)
    form = canonical_form(tree)
    imports = tuple(dict.fromkeys(imports_in(tree)))
    loads_files = any(pattern in form for pattern in _FILE_LOADERS)
    sys_path = loads_files or any(pattern in form for pattern in _PATH_PATTERNS) or _uses_sys_path(tree, form)
    by_name = loads_files or any(pattern in form for pattern in (*_IMPORTER_PATTERNS, *_TEXT_LOADERS))
    texts = _texts(tree) if sys_path or by_name else ()
    return FileFacts(form_sha256(form), imports, _exports(tree), text_read(form), data, sys_path, by_name, texts)


def _uses_sys_path(tree: ast.Module, form: str) -> bool:
    if "\nstr 3 sys\n" not in form or "\nstr 4 path\n" not in form:  # most files need no walk of the tree
        return False
    nodes = list(ast.walk(tree))
    imported = [alias for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    own = {"sys", *(alias.asname for alias in imported if alias.name == "sys" and alias.asname)}
    return any(_is_sys_path(node, own) for node in nodes)


def _is_sys_path(node: ast.AST, own: set[str]) -> bool:
    """`sys.path`, `os.sys.path`, `getattr(sys, "path")`, `from sys import path`. `own`: the local names of `sys`."""
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
    """The string constants that may be paths or module names, and the fixed parts of templates such as `"%s/lib"`."""
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
            import_ = _called_import(node, importers[_last_name(node.func)])
            if import_ is not None:
                yield import_


def _last_name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _called_import(call: ast.Call, importer: str) -> Import | None:
    """`import_module("a.b")`, `resolve_name("a.b:c")`, `locate("a.b.c")`.

    The last part of `a.b.c` may be a name in `a/b.py`, as in `from a.b import c`.
    """
    name = _text(_argument(call, 0, "name", "mod_name", "path"))
    import_ = parse_module_name(name.partition(":")[0]) if name is not None else None
    if import_ is None:
        return None
    if importer == "__import__":
        return _low_level_import(call, import_.module)
    if importer == "run_module":
        return main_module_of(import_)
    package = _text(_argument(call, 1, "package"))
    return _absolute(package, import_) if import_.level and package else import_


def _low_level_import(call: ast.Call, module: tuple[str, ...]) -> Import:
    """`__import__("a", globals(), locals(), ["b"], 1)` is `from .a import b`."""
    names = _listed(_argument(call, 3, "fromlist"))
    match _argument(call, 4, "level"):
        case ast.Constant(value=int(level)) if level > 0:
            return Import(level, module, tuple(names or ()))
    return Import(0, module, tuple(names or ()))


def _absolute(package: str, import_: Import) -> Import | None:
    """`import_module(".b", "a")`."""
    above = package.split(".")
    module = (*above[: len(above) - import_.level + 1], *import_.module)
    return Import(0, module) if _may_be_files(module) else None


def _argument(call: ast.Call, position: int, *names: str) -> ast.expr | None:
    if len(call.args) > position:
        return call.args[position]
    return next((keyword.value for keyword in call.keywords if keyword.arg in names), None)


def main_module_of(import_: Import) -> Import:
    """`run_module` runs `__main__` of a package. For a plain module, the lookup ends at the module itself."""
    return Import(import_.level, (*import_.module, "__main__"))


def parse_module_name(name: str) -> Import | None:
    """An absolute name `a.b` or a relative name `..b`."""
    parts = name.lstrip(".")
    module = tuple(parts.split(".")) if parts else ()
    return Import(len(name) - len(parts), module) if _may_be_files(module) else None


def _may_be_files(module: tuple[str, ...]) -> bool:
    """Any file name is possible, such as `my-model.py`, but no path separator."""
    return all(part and not {"/", "\0"} & set(part) for part in module)


def _text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _exports(tree: ast.Module) -> tuple[str, ...] | None:
    """The names in `__all__`; None if it is not a plain list."""
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
