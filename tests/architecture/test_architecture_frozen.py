"""A planning snapshot is built once and never written to: new knowledge makes a new snapshot."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from source_tree import modules, shown, tree_of

FILES = modules("**/*.py")
CHANGING_METHODS = {
    "add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "setdefault", "update",
}  # fmt: skip


def writes_to_snapshots(tree: ast.Module) -> list[str]:
    """Assignments to, and changing calls on, an attribute of anything that is called a snapshot."""
    found = []
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign | ast.Delete):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in CHANGING_METHODS:
                targets = [node.func.value]
            elif node.func.attr == "__setattr__":
                targets = [ast.Attribute(argument, "__setattr__") for argument in node.args[:1]]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr":
            targets = [ast.Attribute(argument, "setattr") for argument in node.args[:1]]
        for target in targets:
            members = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
            if any(_is_of_a_snapshot(member) for member in members):
                found.append(f"line {node.lineno}: {ast.unparse(node).splitlines()[0]}")
    return found


def _is_of_a_snapshot(target: ast.expr) -> bool:
    """`snapshot.x`, `self.snapshot.x`, `snapshot.x[1]`, `snapshot.x[1][2]`: an attribute, or something in one."""
    while isinstance(target, ast.Subscript):
        target = target.value
    if not isinstance(target, ast.Attribute):
        return False
    owner = target.value
    name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
    return name == "snapshot" or name.endswith("_snapshot")


@pytest.mark.parametrize("file", FILES, ids=shown)
def test_no_module_writes_to_a_snapshot(file: Path) -> None:
    assert writes_to_snapshots(tree_of(file)) == []


@pytest.mark.parametrize(
    "source",
    [
        "snapshot.shared = {}",
        "self.snapshot.shared['x'] = 1",
        "planned.snapshot.shas[0][1][2] = None",
        "a, snapshot.files = 1, {}",
        "snapshot.seen += 1",
        "del snapshot.files",
        "snapshot.shared.update({})",
        "snapshot.rows[0].append(1)",
        "setattr(snapshot, 'files', {})",
        "object.__setattr__(snapshot, 'files', {})",
        "old_snapshot.shared = {}",
    ],
)
def test_every_way_to_write_to_a_snapshot_is_seen(source: str) -> None:
    assert writes_to_snapshots(ast.parse(source)) == [f"line 1: {ast.unparse(ast.parse(source))}"]


@pytest.mark.parametrize("source", ["self.snapshot = snapshot", "x = snapshot.files", "found.update(snapshot.files)"])
def test_reading_a_snapshot_is_not_writing_to_it(source: str) -> None:
    assert writes_to_snapshots(ast.parse(source)) == []
