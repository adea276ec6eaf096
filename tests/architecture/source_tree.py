"""The project's own source, as the architecture tests look at it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PACKAGE = PROJECT / "src" / "whyrun"


def modules(*patterns: str) -> list[Path]:
    found = sorted({file for pattern in patterns or ("**/*.py",) for file in PACKAGE.glob(pattern)})
    assert found, f"nothing matches {patterns}"
    return found


def shown(file: Path) -> str:
    return file.relative_to(PACKAGE).as_posix()


def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), shown(file))


def imports_of(tree: ast.AST) -> Iterator[tuple[str, str | None, int]]:
    """(module, name or None, line) of every import, at any depth."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, None, node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            for alias in node.names:
                yield node.module or "", alias.name, node.lineno
