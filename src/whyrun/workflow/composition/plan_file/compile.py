"""A checked dataset plan → `Workflow`: datasets become inputs, steps jobs, conditions `if` on their branches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from whyrun.workflow.composition.links import Links
from whyrun.workflow.composition.model import (
    AGGREGATING_ACTION,
    PRIMARY,
    SECONDARY,
    Composition,
    ConditionStep,
    Dataset,
)
from whyrun.workflow.composition.predicates import (
    Predicate,
    negated,
    of_condition,
    predicate_expression,
    together,
)
from whyrun.workflow.composition.products import Product
from whyrun.workflow.composition.recorded_predicates import recorded
from whyrun.workflow.composition.refs import DatasetRef, binding_expression, refs_of
from whyrun.workflow.composition.steps import Binding, Step
from whyrun.workflow.model import (
    NO_DEFAULT,
    Expression,
    InputDecl,
    JobDecl,
    LeafDecl,
    OutputDecl,
    Place,
    Retries,
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
    """As far as the plan could be read; what is in doubt is marked as broken, so that no second word is said of it."""
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
    # What has no id of its own is no part of the graph; but what is wrong with its parameters is told, too.
    for number, step in enumerate(links.steps):
        if step.type == "action" and links.is_unnamed(step):
            unnamed = _job(links, f"step {number}", step)
            yield unnamed.name, replace(unnamed, broken=unnamed.broken | {"for"})


def _job(links: Links, id_: str, step: Step) -> JobDecl:
    broken = set(step.broken)
    if id_ in links.cyclic:
        broken.add("for")  # the circle is told; the graph would tell it again
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
        uses=step.uses,
        with_={**_labels(step), **step.parameters, **{n: _with(binding) for n, binding in step.bindings.items()}},
        outputs=outputs,
        loops=(),
        exclude=(),
        include=(),
        condition=condition,
        needs=tuple(links.needs(id_)) if id_ in links.by_id else (),
        env={},
        secrets=(),
        code=(),
        timeout=step.timeout,
        retries=Retries(),
        resources={},
        deterministic=None,
        description=step.description,
        place=step.place,
        places=places,
        broken=frozenset(broken),
    )


def _with(binding: Binding) -> Template:
    found = [binding_expression(bound) for bound in binding.bound]
    return found if binding.is_list or not found else found[0]


def _labels(step: Step) -> dict[str, list[str]]:
    """`data/aggregate` labels each result by the step that made it, unless the plan says other labels."""
    if step.uses != AGGREGATING_ACTION or "labels" in step.parameters:
        return {}
    bound = [b for role in (PRIMARY, SECONDARY) if role in step.bindings for b in step.bindings[role].bound]
    steps = ["|".join(ref.step or ref.name for ref in refs_of(b)) for b in bound]
    if len(set(steps)) == len(steps):
        return {"labels": steps}
    return {"labels": ["|".join(f"{ref.step or 'input'}.{ref.name}" for ref in refs_of(b)) for b in bound]}


def _condition(links: Links, id_: str) -> Expression | None:
    """All the answers that a step hangs on; None where it hangs on none, or one of them could not be read."""
    predicates: list[Predicate] = []
    place: Place | None = None
    for condition, answer in links.branch_of(id_):
        step = links.by_id[condition]
        if step.predicate is None:
            return None
        asked = of_condition(step.predicate, condition)
        predicates.append(asked if answer else negated(asked))
        place = step.predicate_place or step.place
    return predicate_expression(together(predicates), place) if place is not None else None


def _output(product: Product, leaves: Mapping[str, DatasetRef], uses: str) -> OutputDecl:
    type_ = product.type(has_leaves=bool(leaves))
    suffix = product.suffix if type_ in _FILE_TYPES else ""
    if type_ == "dataset" and not product.file and uses.startswith("data/"):
        suffix = ".parquet"  # what these actions write where no file is named
    return OutputDecl(
        name=product.id,
        type=type_,
        path=product.path,
        # Of whatever type it turns out to be: the predicate is evaluated on what was recorded.
        leaves=tuple(
            LeafDecl(ref.leaf_path, text.removeprefix("."), "json", ref.place) for text, ref in leaves.items()
        ),
        place=product.place,
        suffix=suffix,
    )
