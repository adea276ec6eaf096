"""Reads one source file: what it imports, and whether it reads docstrings."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

import msgspec

from whyrun.actions.code.source import canonical_form, form_sha256, names_docstrings, parse_source


class Import(msgspec.Struct, frozen=True):
    """`import a.b` has no names; `from ..a import b, c` has level 2."""

    level: int
    module: tuple[str, ...]
    names: tuple[str, ...] = ()


class FileFacts(msgspec.Struct, frozen=True):
    sha256: str
    imports: tuple[Import, ...] = ()
    exports: tuple[str, ...] | None = ()  # what `__all__` lists; None where the source does not show it
    names_docstrings: bool = False
    source: bytes | None = None  # None if it is not Python source, such as a compiled module


@lru_cache(maxsize=4096)
def read_facts(data: bytes, shown: str) -> FileFacts:
    """The facts of one file. Cached, because many jobs share a module."""
    tree = parse_source(data, shown)
    form = canonical_form(tree)
    imports = tuple(dict.fromkeys(imports_in(tree)))
    return FileFacts(form_sha256(form), imports, _exports(tree), names_docstrings(form), data)


def imports_in(tree: ast.Module) -> Iterator[Import]:
    """Import statements, also those in functions or under conditions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(0, tuple(alias.name.split(".")))
        elif isinstance(node, ast.ImportFrom):
            module = tuple(node.module.split(".")) if node.module else ()
            yield Import(node.level, module, tuple(alias.name for alias in node.names))


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
