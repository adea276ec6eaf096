"""Values over loops as one table: `whyrun table` prints it, the viewer and notebooks show it.

A row is an instance of the loops, a column a value: a leaf of a JSON output, an output that is a value, or a member of
a JSON output that has no declared leaves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from whyrun.ids import OPEN, own_name, place_of_texts

if TYPE_CHECKING:
    from whyrun.evidence.queries.current import CurrentArtifact
    from whyrun.graph.paths import ArtifactSpec
    from whyrun.graph.tables import Graph
    from whyrun.ids import Index
    from whyrun.project import Project

    # The artifacts of these instances, in their order.
    ArtifactsOf = Callable[[Sequence[int]], Iterator[CurrentArtifact]]

Facts = dict[str, Any]
_VALUES = ("json", "string", "integer", "number", "boolean")


Row = tuple[tuple[str, "Index"], ...]  # loop → index


class _Cell(msgspec.Struct, frozen=True):
    value: Any
    state: str
    artifact: str | None
    run: str | None


class _Column(msgspec.Struct):
    """`cells` by row; `whole`: the JSON document that the cells are from, for rows that do not have this member."""

    name: str
    cells: dict[Row, _Cell]
    whole: dict[Row, _Cell]


def possible_patterns(graph: Graph) -> list[str]:
    """Every pattern that gives columns: leaves, values, and JSON outputs without leaves; those of looped jobs first."""
    found = []
    for table in sorted(graph.tables, key=lambda table: not table.decl.loops):
        leaves = {spec.output for spec in table.artifacts if spec.is_leaf}
        for spec in table.artifacts:
            if spec.is_leaf or (spec.type in _VALUES and spec.output not in leaves):
                before, loops = place_of_texts(table.name, table.levels, ["*"] * len(table.decl.loops))
                found.append(f"Artifact:{before}.{spec.output}{loops}{_any_index_of(spec)}")
    return list(dict.fromkeys(found))


def _any_index_of(spec: ArtifactSpec) -> str:
    """The leaf; where it depends on the job's own loop, with `[*]` for its indices."""
    from whyrun.ids import any_index

    return spec.leaf if not spec.leaf_by_row else any_index(spec.leaf_by_row[0])


def value_table(project: Project, patterns: Sequence[str]) -> Facts:
    """The values as they are now."""
    from whyrun.evidence.queries.current import current_artifacts
    from whyrun.planning.plan import compute_execution_plan

    snapshot = project.snapshot()
    plan = compute_execution_plan(snapshot)
    return table_of(
        project, snapshot.dependency_graph, lambda nodes: current_artifacts(snapshot, plan, nodes), patterns
    )


def table_of(project: Project, graph: Graph, artifacts_of: ArtifactsOf, patterns: Sequence[str]) -> Facts:
    """One row for each instance; instances of several jobs with the same loops and indices are one row. A value that
    is not current is None, and `states` says why: missing failed running inactive, or none without such an artifact."""
    rows: dict[Row, None] = {}
    columns: dict[str, _Column] = {}
    for pattern in patterns:
        _add(project, graph, artifacts_of, pattern, rows, columns)
    loops = list(dict.fromkeys(name for row in rows for name, _ in row))
    names = [column.name for column in columns.values()]
    missing = _Cell(None, "none", None, None)
    body = []
    for row in rows:
        cells = [column.cells.get(row, column.whole.get(row, missing)) for column in columns.values()]
        body.append(
            {
                "index": [dict(row).get(loop) for loop in loops],
                "values": [cell.value for cell in cells],
                "states": [cell.state for cell in cells],
                "artifacts": [cell.artifact for cell in cells],
                "runs": [cell.run for cell in cells],
            }
        )
    return {
        "patterns": list(patterns),
        "loops": loops,
        "columns": [whole if names.count(column.name) > 1 else column.name for whole, column in columns.items()],
        "rows": body,
        "total": len(body),
    }


def _add(
    project: Project,
    graph: Graph,
    artifacts_of: ArtifactsOf,
    pattern: str,
    rows: dict[Row, None],
    columns: dict[str, _Column],
) -> None:
    """Add the rows and columns that a pattern stands for. Columns have the names of job, output and leaf."""
    from whyrun.errors import error
    from whyrun.ids import IdPattern
    from whyrun.planning.id_matching import match_nodes

    if not pattern.startswith("Artifact:"):
        raise error("USAGE", f"`{pattern}` is not an artifact", hint=_hint(graph, pattern))
    nodes = match_nodes(graph, pattern)  # raises if nothing matches
    matcher = IdPattern(pattern)
    artifacts = artifacts_of(nodes)
    before = len(columns)
    documents: dict[str, dict[Row, _Cell]] = {}  # JSON outputs as wholes, by name
    for node in nodes:
        table, position = graph.table_at(node)
        indices = ["?" if index is OPEN else index for index in table.rows[position]]
        row = tuple(zip(map(own_name, table.decl.loops), indices, strict=True))
        for spec in table.artifacts:
            artifact = next(artifacts)
            if artifact.id != pattern and not matcher.matches(artifact.id):
                continue
            name = f"{table.name}.{spec.output}{_any_index_of(spec)}"
            if artifact.type not in _VALUES and artifact.value is UNSET:
                continue
            rows[row] = None
            cell = _Cell(None, artifact.state, artifact.id, artifact.run)
            if spec.is_leaf or artifact.type != "json":
                value = artifact.value if artifact.state == "available" else None
                _column(columns, name).cells[row] = replace(cell, value=value)
                continue
            documents.setdefault(name, {})[row] = cell
            for member, value in _members(project, artifact):
                _column(columns, f"{name}{member}").cells[row] = replace(cell, value=value)
    for name, cells in documents.items():
        inside = [column for whole, column in columns.items() if whole == name or whole.startswith(f"{name}.")]
        for column in inside or [_column(columns, name)]:  # none is current: one empty column
            column.whole |= cells
    if len(columns) == before and not rows:
        raise error("USAGE", f"`{pattern}` has no values: it stands for files", hint=_hint(graph, pattern))


def _column(columns: dict[str, _Column], whole: str) -> _Column:
    """`Train.Result.acc` is shown as `acc`, unless another column would have the same name."""
    return columns.setdefault(whole, _Column(whole.rpartition(".")[2], {}, {}))


def _members(project: Project, artifact: CurrentArtifact) -> Iterator[tuple[str, Any]]:
    """The values in a JSON document: its members that are no lists or objects, or the document itself if it is none."""
    if artifact.state != "available" or artifact.sha256 is None:
        return
    content = json.loads(project.store.read(artifact.sha256))
    if isinstance(content, dict):
        yield from ((f".{name}", value) for name, value in content.items() if not isinstance(value, dict | list))
    elif not isinstance(content, list):
        yield "", content


def _hint(graph: Graph, instead_of: str) -> str:
    """The patterns that have values; if this names a job, those of the job."""
    patterns = possible_patterns(graph)
    job = instead_of.rpartition(":")[2].partition("[")[0].partition(".")[0]
    patterns = [each for each in patterns if each.startswith(f"Artifact:{job}.")] or patterns
    if not patterns:
        return "declare leaves under `leaves:` of a JSON output, or an output of a value type"
    return f"values are in {', '.join(f'`{pattern}`' for pattern in patterns[:4])}"
