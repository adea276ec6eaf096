"""A planning snapshot is built once and never written to: new knowledge makes a new snapshot. So with its graph and the
tables of it, which are frozen records: here a write is seen before it runs."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from source_tree import modules, shown, tree_of

from whyrun.graph.tables import Graph, JobTable
from whyrun.snapshot.snapshot import PlanningSnapshot

FILES = modules("**/*.py")
CHANGING_METHODS = {
    "add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "setdefault", "update",
}  # fmt: skip


FROZEN = {"snapshot", "graph", "table", "tables"}  # `tables`: of a graph, as in `graph.tables[0].slots`
OTHER_GRAPHS = {"artifacts/compare/graphs.py"}  # graphs of the user, in GraphML


def writes(tree: ast.Module) -> list[str]:
    """Assignments to, and changing calls on, an attribute of anything that is called a snapshot, graph or table."""
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
            if any(_is_of_a_frozen(member) for member in members):
                found.append(f"line {node.lineno}: {ast.unparse(node).splitlines()[0]}")
    return found


def _is_of_a_frozen(target: ast.expr) -> bool:
    """`snapshot.x`, `self.snapshot.x`, `snapshot.x[1]`, `graph.tables[1].x[2]`: an attribute, or something in one."""
    target = _without_index(target)
    if not isinstance(target, ast.Attribute):
        return False
    owner = _without_index(target.value)
    name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
    return name.rpartition("_")[2] in FROZEN


def _without_index(expression: ast.expr) -> ast.expr:
    while isinstance(expression, ast.Subscript):
        expression = expression.value
    return expression


@pytest.mark.parametrize("file", FILES, ids=shown)
def test_no_module_writes_to_a_snapshot_or_its_graph(file: Path) -> None:
    assert shown(file) in OTHER_GRAPHS or writes(tree_of(file)) == []


def test_the_records_themselves_refuse_it() -> None:
    assert PlanningSnapshot.__struct_config__.frozen
    assert Graph.__struct_config__.frozen
    assert JobTable.__struct_config__.frozen


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
        "graph.asked = sites",
        "snapshot.dependency_graph.connected = {}",
        "table.outputs = ()",
        "self.graph.tables[0].slots = ()",
        "graph.connected['A']['x'] = 1",
        "table.opens = False",
        "first_table.rows.append(1)",
        "object.__setattr__(graph, 'asked', {})",
    ],
)
def test_every_way_to_write_is_seen(source: str) -> None:
    assert writes(ast.parse(source)) == [f"line 1: {ast.unparse(ast.parse(source))}"]


@pytest.mark.parametrize(
    "source",
    [
        "self.snapshot = snapshot", "x = snapshot.files", "found.update(snapshot.files)", "self.graph = graph",
        "tables[table.name] = table", "self.tables[1] = table", "graph = replace(graph, asked=sites)",
    ],
)  # fmt: skip
def test_reading_is_not_writing(source: str) -> None:
    assert writes(ast.parse(source)) == []
