"""The shape of a workflow that composes datasets: does its graph fit the mode that `composition:` names? Pure."""

from __future__ import annotations

from collections.abc import Iterator

from whyrun.errors import Diagnostic
from whyrun.graph.graph import ArtifactAt, FirstOf, Graph, InputAt, JobTable, sources_of
from whyrun.ids import parse_id
from whyrun.workflow.composition.model import AUXILIARY, MERGING_ACTIONS, Composition
from whyrun.workflow.composition.shapes import ShapeStep, shape_problems


def composition_problems(graph: Graph) -> list[Diagnostic]:
    """What does not fit. That of a dataset plan was looked at when it was read, with the places of its steps."""
    composition = graph.workflow.composition
    if composition is None or composition.manifest is not None or composition.place is None:
        return []
    steps = [step for table in graph.tables for step in _steps(graph, table, composition)]
    # In the order of the file: that is what its reader has before them.
    steps.sort(key=lambda step: (step.place.source, step.place.line))
    found = shape_problems(composition.mode, steps, composition.place)
    return [place.diagnostic("COMPOSITION_MODE_SHAPE", message, hint) for place, message, hint in found]


def _steps(graph: Graph, table: JobTable, composition: Composition) -> Iterator[ShapeStep]:
    needed = [id_ for number in table.needs for id_ in graph.tables[number].job_ids()]
    for position in range(len(table)):
        datasets: set[str] = set()
        sources: set[str] = set()
        joined: set[str] = set()
        for slot in table.slots:
            if not slot.binding or slot.path[0] == AUXILIARY:
                continue
            term = slot.column.at(position)
            for source in sources_of(term):
                if isinstance(source, ArtifactAt):
                    id_ = graph.job_id(graph.node(source))
                    sources.add(id_)
                    if isinstance(term, FirstOf):
                        joined.add(id_)
                elif _is_dataset(source, composition):
                    datasets.add(source.id)
        yield ShapeStep(
            table.job_id(position),
            table.decl.place,
            frozenset(datasets),
            frozenset(sources),
            frozenset(joined),
            waits=frozenset(needed).union(map(graph.job_id, graph.upstream(table.base + position))),
            merges=table.decl.uses in MERGING_ACTIONS,
            conditional=table.condition is not None,
            branch=None,
        )


def _is_dataset(source: InputAt, composition: Composition) -> bool:
    if source.value.type.base != "dataset":
        return False
    dataset = composition.dataset(parse_id(source.id).segments[0].name)
    return dataset is None or dataset.role != AUXILIARY
