"""Does the graph of a workflow that composes datasets have the shape of its `composition:` mode? Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeGuard

from whyrun.errors import Diagnostic
from whyrun.graph.tables import ArtifactAt, FirstOf, Graph, InputAt, JobTable, sources_of
from whyrun.ids import parse_id
from whyrun.workflow.advice import worded
from whyrun.workflow.composition.shapes import Join, ShapeStep, shape_problems
from whyrun.workflow.model import AUXILIARY, MERGING_ACTIONS, PRIMARY, Composition, Workflow

_SHOWN = ("image", "text")  # types of figures and reports

Composed = Mapping[str, Composition]  # by the prefix of the import; "" for the file itself


def composition_problems(graph: Graph) -> list[Diagnostic]:
    """Shape problems of the file itself and of its imports. A dataset plan is checked when it is read."""
    composed = {prefix: flow.composition for prefix, flow in _flows(graph.workflow, "") if flow.composition is not None}
    return [problem for prefix in composed for problem in _flow_problems(graph, prefix, composed)]


def _flows(workflow: Workflow, prefix: str) -> Iterator[tuple[str, Workflow]]:
    yield prefix, workflow
    for name, imported in workflow.imports.items():
        yield from _flows(imported.workflow, f"{prefix}{name}/")


def _flow_problems(graph: Graph, prefix: str, composed: Composed) -> list[Diagnostic]:
    """Of one imported file, with all that it imports."""
    composition = composed[prefix]
    if composition.manifest is not None or composition.place is None:
        return []
    own = [table for table in graph.tables if table.name.startswith(prefix)]
    steps = [step for table in own for step in _steps(graph, table, composed)]
    # In the order of the file, for the reader of the messages.
    steps.sort(key=lambda step: (step.place.source, step.place.line))
    found = shape_problems(composition.mode, steps, composition.place)
    return [
        place.diagnostic("COMPOSITION_MODE_SHAPE", message, worded(hint, in_plan=False))
        for place, message, hint in found
    ]


def _steps(graph: Graph, table: JobTable, composed: Composed) -> Iterator[ShapeStep]:
    needed = [id_ for number in table.needs for id_ in graph.tables[number].job_ids()]
    for position in range(len(table)):
        datasets: set[str] = set()
        sources: set[str] = set()
        alone: set[str] = set()
        joins: list[Join] = []
        primary: set[str] = set()
        auxiliary: set[str] = set()
        by_role: set[str] = set()
        for slot in table.slots:
            if not slot.binding:
                continue
            term = slot.column.at(position)
            found = list(sources_of(term))
            named = {source.id: _is_auxiliary(source, composed) for source in found if _is_dataset(source)}
            read = {id_ for id_, has_role in named.items() if not has_role}
            auxiliary |= named.keys() - read
            by_role |= named.keys() - read
            if slot.path[0] == AUXILIARY:
                auxiliary |= read
                continue
            primary |= read if slot.path[0] == PRIMARY else set()
            made_by = {graph.job_id(graph.node(source)) for source in found if isinstance(source, ArtifactAt)}
            sources |= made_by
            datasets |= read
            if isinstance(term, FirstOf) and made_by:
                joins.append(Join(frozenset(made_by), certain=any(isinstance(source, InputAt) for source in found)))
            else:
                alone |= made_by
        yield ShapeStep(
            table.job_id(position),
            table.decl.place,
            frozenset(datasets),
            frozenset(sources),
            frozenset(alone),
            tuple(joins),
            waits=frozenset(needed).union(map(graph.job_id, graph.upstream(table.base + position))),
            merges=table.decl.uses in MERGING_ACTIONS,
            conditional=table.condition is not None,
            branch=None,
            primary=frozenset(primary),
            auxiliary=frozenset(auxiliary),
            auxiliary_by_role=frozenset(by_role),
            shows=bool(table.decl.outputs) and all(one.type in _SHOWN for one in table.decl.outputs.values()),
        )


def _is_dataset(source: object) -> TypeGuard[InputAt]:
    return isinstance(source, InputAt) and source.value.type.base == "dataset"


def _is_auxiliary(source: InputAt, composed: Composed) -> bool:
    """Whether the declaring file calls the dataset auxiliary."""
    parsed = parse_id(source.id)
    composition = composed.get("".join(f"{each.name}/" for each in parsed.imports))
    dataset = composition.dataset(parsed.segments[0].name) if composition is not None else None
    return dataset is not None and dataset.role == AUXILIARY
