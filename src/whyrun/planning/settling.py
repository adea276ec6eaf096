"""Which loops over results are known: those whose source is up to date. Pure, except for what `build` does.

A loop is known if its source is clean, or reuses the result that the log had last. What the source depends on may be in
other such loops. So the graph is built with none of them known, then with those whose sources are clean in it, until
there is nothing to add. Only the last graph has all of their instances; in the others, each is the one row `[?]`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from whyrun.errors import WhyrunError
from whyrun.graph.layers import compute_layers
from whyrun.graph.tables import ArtifactAt, Graph
from whyrun.ids import OPEN
from whyrun.planning.artifact_states import Available
from whyrun.planning.id_matching import match_nodes
from whyrun.planning.judge import Judge, last_recorded
from whyrun.snapshot.snapshot import PlanningSnapshot

Build = Callable[[frozenset[str]], PlanningSnapshot]  # from the results that are known
JudgeAll = Callable[[PlanningSnapshot], Judge]  # that has judged what is not clean


def settled(build: Build, force: Sequence[str] = ()) -> PlanningSnapshot:
    """The snapshot whose graph has the instances of every loop that is known, with these `--force` options."""

    def judged(snapshot: PlanningSnapshot) -> Judge:
        layers = compute_layers(snapshot.dependency_graph)
        judge = Judge(snapshot, _forced(snapshot.dependency_graph, layers, force))
        judge.judge_all(layers)
        return judge

    return settle(build, judged)


def settle(build: Build, judged: JudgeAll, known: frozenset[str] = frozenset()) -> PlanningSnapshot:
    """`known`: the results that are known from the start."""
    while True:
        snapshot = build(known)
        more = _known_now(snapshot, judged) - known
        if not more:
            return snapshot
        known |= more


def _known_now(snapshot: PlanningSnapshot, judged: JudgeAll) -> frozenset[str]:
    """The results of open loops that are what the log had last."""
    graph = snapshot.dependency_graph
    open_tables = [table for table in graph.tables if table.open_rows]
    if not open_tables:
        return frozenset()
    judge = judged(snapshot)
    known: set[str] = set()
    for table in open_tables:
        for row in table.open_rows:
            source = next(column.at(row) for place, column in table.gates if table.rows[row][place] is OPEN)
            if not isinstance(source, ArtifactAt):
                continue
            state = judge.artifact_state(source)
            if isinstance(state, Available) and state.sha256 == last_recorded(snapshot, source):
                known.add(graph.artifact_id(source))
    return frozenset(known)


def _forced(graph: Graph, layers: Sequence[int], force: Sequence[str]) -> dict[int, str]:
    """As the plan has it, but what a graph without all instances does not have is no mistake."""
    forced: dict[int, str] = {}
    for text in force:
        if text == "all":
            forced.update(dict.fromkeys(range(graph.size), text))
        elif text.startswith("layer:"):
            forced.update({node: text for node, layer in enumerate(layers) if f"layer:{layer}" == text})
        else:
            try:
                forced.update(dict.fromkeys(match_nodes(graph, text), text))
            except WhyrunError:
                continue  # the plan says so, if no graph has it
    return forced
