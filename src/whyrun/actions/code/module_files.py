"""Reads what a source file imports, and finds the project files that an import runs or that hold a named module."""

from __future__ import annotations

import ast
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib.machinery import EXTENSION_SUFFIXES

import msgspec

from whyrun.actions.code.editable import Editable, is_below
from whyrun.actions.code.source import (
    SourceError,
    TextRead,
    canonical_form,
    form_sha256,
    parse_source,
    read_source,
    text_read,
)
from whyrun.lazy_regex import lazy_regex

# --- reads one source file: what it imports, and which of its string constants may name modules or files --------------


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


# --- module files -----------------------------------------------------------------------------------------------------


COMPILED = tuple(EXTENSION_SUFFIXES)


def read_module(path: str, project: str) -> FileFacts:
    shown = shown_path(path, project)
    data = read_source(path, shown)
    if path.endswith(COMPILED):  # the imports of a compiled module cannot be read
        return FileFacts(hashlib.sha256(data).hexdigest())
    return read_facts(data, shown)


def shown_path(path: str, project: str) -> str:
    return path[len(project) + 1 :] if is_below(path, project) else os.path.basename(path)


def files_of(import_: Import, project: str, folder: str, editable: Editable) -> Iterator[str]:
    """The files that an import in a file of `folder` runs."""
    root = project
    if import_.level:
        root = folder
        for _ in range(import_.level - 1):
            root = os.path.dirname(root)
        if root != project and not is_below(root, project):
            return
        yield from package_inits(project, root)
    yield from files_below(root, import_, project)
    if editable and not import_.level and import_.module and not _is_module(f"{project}/{import_.module[0]}"):
        files = _installed_files(import_, project, editable)
        yield from (path for path in files if is_below(path, project))


def _installed_files(import_: Import, project: str, editable: Editable) -> Iterator[str]:
    """In import order. A folder without `__init__.py` does not end the search; a module or package does."""
    for root in editable.folders:
        top = f"{root}/{import_.module[0]}"
        if is_below(root, project) or is_below(f"{project}/", top):  # otherwise it is outside the project
            yield from files_below(root, import_, project)
            if _is_module(top):
                return
    for one in (import_, *(Import(0, (*import_.module, name)) for name in import_.names)):
        for parts in range(len(one.module), 0, -1):
            for path in editable.mapped.get(one.module[:parts], ()):
                root, name = os.path.split(path)
                yield from files_below(root, Import(0, (name, *one.module[parts:]), one.names), project)


def _is_module(path: str) -> bool:
    return bool(_variants(f"{path}/__init__") or _variants(path))


def files_below(root: str, import_: Import, project: str) -> Iterator[str]:
    yield from _module_files(root, import_.module)
    for name in import_.names:
        if name == "*":
            yield from _star_files(project, root, import_.module)
        else:
            yield from _module_files(root, (*import_.module, name))


def package_inits(project: str, folder: str) -> Iterator[str]:
    while is_below(folder, project):
        yield from _variants(f"{folder}/__init__")
        folder = os.path.dirname(folder)


def _module_files(root: str, parts: Iterable[str]) -> Iterator[str]:
    """The file of `a.b.c` below a folder, and the `__init__.py` of each package above it."""
    folder = root
    for part in parts:
        package = f"{folder}/{part}"
        is_folder = os.path.isdir(package)
        if is_folder and (inits := _variants(f"{package}/__init__")):
            yield from inits
        elif modules := _variants(package):
            yield from modules
            return  # a module contains no modules: the next part is one of its names
        elif not is_folder:
            return
        folder = package


def _variants(module: str) -> list[str]:
    """The compiled and source files of a module. Python prefers the compiled one, but both count: it may be removed."""
    return [file for suffix in (*COMPILED, ".py") if os.path.isfile(file := module + suffix)]


def _star_files(project: str, root: str, module: tuple[str, ...]) -> Iterator[str]:
    """`from package import *` imports the modules that the package lists in `__all__`."""
    package = os.path.join(root, *module)
    init = f"{package}/__init__.py"
    if not os.path.isfile(init):
        return
    try:
        exports = read_module(init, project).exports
    except SourceError:
        return  # the import itself reports this file
    if exports is None:
        exports = tuple(sorted({name.partition(".")[0] for name in os.listdir(package)}))
    for name in exports:
        yield from _module_files(package, (name,))


# --- modules by name ---------------------------------------------------------------------------------------------


class ModuleIndex:
    """The folders of the project's modules by module name, for imports from a folder that is not known.

    A project may hold far more data than code, so the tree is walked only if needed, and once per plan: create one
    index for each plan.
    """

    def __init__(self, project: str | os.PathLike[str]) -> None:
        self._project = os.fspath(project).rstrip("/")
        self._walks: dict[str, _Walk] = {}

    def folders_with(self, name: str, near: Iterable[str]) -> set[str]:
        """The folders that hold a module or package of this name: in the project, and in those folders of `near` that
        the walk of the project leaves out, such as one behind a symlink."""
        own = self._below(self._project)
        left_out = [self._below(folder) for folder in near if folder not in own.folders]
        return {folder for walk in (own, *left_out) for folder in walk.holders.get(name, ())}

    def _below(self, folder: str) -> _Walk:
        if folder not in self._walks:
            self._walks[folder] = _walk_below(folder, self._project)
        return self._walks[folder]


class _Walk(msgspec.Struct, frozen=True):
    folders: frozenset[str]
    holders: Mapping[str, set[str]]  # top-level name → the folders that hold it


def _walk_below(top: str, project: str) -> _Walk:
    folders: set[str] = set()
    holders: dict[str, set[str]] = {}
    packages: set[str] = set()
    for folder, modules in _modules_below(top, project):
        folders.add(folder)
        for module in modules:
            holders.setdefault(module.partition(".")[0], set()).add(folder)
        package = folder
        while modules and package != top and package not in packages:  # otherwise its parents are already included
            packages.add(package)
            above, _, name = package.rpartition("/")
            holders.setdefault(name, set()).add(above)
            package = above
    return _Walk(frozenset(folders), holders)


def _modules_below(top: str, project: str) -> Iterator[tuple[str, list[str]]]:
    """The modules of each folder. Hidden folders, installed packages and symlinks are left out, as in `code: "**"`."""
    if "/." in top[len(project) :]:
        return
    for folder, folders, files in os.walk(top):
        if folder != top and "pyvenv.cfg" in files:  # a virtual environment
            folders.clear()
            continue
        folders[:] = [name for name in folders if _may_hold_modules(name)]
        yield folder, [name for name in files if name.endswith((".py", *COMPILED))]


def _may_hold_modules(name: str) -> bool:
    return not (name.startswith(".") or name.endswith("-packages") or name == "node_modules")
