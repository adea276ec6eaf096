"""A checked dataset plan → `Workflow`: datasets become inputs, steps jobs, conditions `if` of their branches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from whyrun.workflow.composition.plan_file.links import Links
from whyrun.workflow.composition.plan_file.predicates import (
    Predicate,
    negated,
    of_condition,
    predicate_expression,
    recorded,
    together,
)
from whyrun.workflow.composition.plan_file.products import Product
from whyrun.workflow.composition.plan_file.refs import DatasetRef, binding_expression, refs_of
from whyrun.workflow.composition.plan_file.steps import Binding, Step
from whyrun.workflow.model import (
    AGGREGATING_ACTION,
    NO_DEFAULT,
    PRIMARY,
    SECONDARY,
    Composition,
    ConditionStep,
    Dataset,
    Expression,
    InputDecl,
    JobDecl,
    LeafDecl,
    OutputDecl,
    Place,
    Template,
    Type,
    Workflow,
)

_FILE_TYPES = frozenset({"dataset", "file", "text", "image"})


def compile_plan(
    links: Links,
    plan_id: str | None,
    rel_path: str | None,
    *,
    name: str,
    description: str,
    source: str,
    sources: Mapping[str, str],
    manifest: str | None,
) -> Workflow:
    """The workflow of the readable part. Unreadable parts are marked as broken, so that they are reported only once."""
    datasets = links.manifest.datasets
    broken = {f"inputs.{key}" for key, dataset in datasets.items() if dataset.path is None}
    if not links.manifest.complete:
        broken.add("inputs")
    composition = Composition(
        links.mode or "", tuple(datasets.values()), tuple(_conditions(links)), plan_id, rel_path, manifest
    )
    return Workflow(
        name=name,
        description=description,
        inputs={key: _input(dataset) for key, dataset in datasets.items()},
        loops={},
        jobs=dict(_jobs(links)),
        imports={},
        source=source,
        sources=dict(sorted(sources.items())),
        broken=frozenset(broken),
        composition=composition,
    )


def _input(dataset: Dataset) -> InputDecl:
    default: Any = NO_DEFAULT if dataset.path is None else dataset.path
    return InputDecl(dataset.key, Type("dataset"), True, default, dataset.filename or "", dataset.place)


def _conditions(links: Links) -> list[ConditionStep]:
    return [
        ConditionStep(
            id_,
            predicate_expression(step.predicate, step.predicate_place or step.place),
            recorded(step.predicate),
            tuple(named.name for named in step.true_steps),
            tuple(named.name for named in step.false_steps),
            step.place,
        )
        for id_, step in links.by_id.items()
        if step.type == "condition" and step.predicate is not None
    ]


def _jobs(links: Links) -> Iterator[tuple[str, JobDecl]]:
    for id_, step in links.by_id.items():
        if step.type == "action":
            yield id_, _job(links, id_, step)
    # A step without a unique id is not part of the graph, but problems with its parameters are reported.
    for number, step in enumerate(links.steps):
        if step.type == "action" and links.is_unnamed(step):
            unnamed = _job(links, f"step {number}", step)
            yield unnamed.name, replace(unnamed, broken=unnamed.broken | {"for"})


def _job(links: Links, id_: str, step: Step) -> JobDecl:
    broken = set(step.broken)
    if id_ in links.cyclic:
        broken.add("for")  # the cycle is reported; the graph would report it again
    condition = _condition(links, id_)
    if condition is None and links.branch_of(id_):
        broken.add("if")
    places = dict(step.places)
    for index, named in enumerate(step.depends_on):
        places[f"needs[{index}]"] = named.place
    outputs = {}
    for name, product in step.products.items():
        outputs[name] = _output(product, links.leaves.get((id_, name), {}), step.uses)
        places[f"outputs.{name}"] = product.place
        places[f"outputs.{name}.path"] = product.path_place
    return JobDecl(
        name=id_,
        place=step.place,
        uses=step.uses,
        with_={**_labels(step), **step.parameters, **{n: _with(binding) for n, binding in step.bindings.items()}},
        outputs=outputs,
        condition=condition,
        needs=tuple(links.needs(id_)) if id_ in links.by_id else (),
        timeout=step.timeout,
        description=step.description,
        places=places,
        broken=frozenset(broken),
    )


def _with(binding: Binding) -> Template:
    expressions = [binding_expression(bound) for bound in binding.bound]
    return expressions if binding.is_list or not expressions else expressions[0]


def _labels(step: Step) -> dict[str, list[str]]:
    """`data/aggregate` labels each result with the step that made it, unless the plan has `labels`."""
    if step.uses != AGGREGATING_ACTION or "labels" in step.parameters:
        return {}
    bound = [b for role in (PRIMARY, SECONDARY) if role in step.bindings for b in step.bindings[role].bound]
    steps = ["|".join(ref.step or ref.name for ref in refs_of(b)) for b in bound]
    if len(set(steps)) == len(steps):
        return {"labels": steps}
    return {"labels": ["|".join(f"{ref.step or 'input'}.{ref.name}" for ref in refs_of(b)) for b in bound]}


def _condition(links: Links, id_: str) -> Expression | None:
    """The conditions of the branches that a step is in; None if there are none, or one could not be read."""
    predicates: list[Predicate] = []
    place: Place | None = None
    for condition, answer in links.branch_of(id_):
        step = links.by_id[condition]
        if step.predicate is None:
            return None
        predicate = of_condition(step.predicate, condition)
        predicates.append(predicate if answer else negated(predicate))
        place = step.predicate_place or step.place
    return predicate_expression(together(predicates), place) if place is not None else None


def _output(product: Product, leaves: Mapping[str, DatasetRef], uses: str) -> OutputDecl:
    type_ = product.type(has_leaves=bool(leaves))
    suffix = product.suffix if type_ in _FILE_TYPES else ""
    if type_ == "dataset" and not product.file and uses.startswith("data/"):
        suffix = ".parquet"  # the default of these actions
    return OutputDecl(
        name=product.id,
        type=type_,
        path=product.path,
        # The type is not known: the predicate is evaluated on the recorded value.
        leaves=tuple(
            LeafDecl(ref.leaf_path, text.removeprefix("."), "json", ref.place) for text, ref in leaves.items()
        ),
        place=product.place,
        suffix=suffix,
    )
