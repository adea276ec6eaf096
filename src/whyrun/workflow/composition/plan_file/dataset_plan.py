"""A dataset plan with its inputs manifest → the model of a workflow, or all problems of both together."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec.structs import replace

from whyrun.errors import Diagnostic, InvalidError
from whyrun.workflow.composition.plan_file.json_source import json_kind_of, read_json
from whyrun.workflow.composition.plan_file.links import Links
from whyrun.workflow.composition.plan_file.manifest import SCHEMA_DRAFT, Manifest, read_manifest
from whyrun.workflow.composition.plan_file.predicates import (
    Predicate,
    negated,
    of_condition,
    predicate_expression,
    recorded,
    together,
)
from whyrun.workflow.composition.plan_file.products import DatasetRef, Product, binding_expression, refs_of
from whyrun.workflow.composition.plan_file.step_keys import schema_definitions
from whyrun.workflow.composition.plan_file.steps import Binding, Step, StepReader
from whyrun.workflow.fields import RESERVED_WORKFLOW_NAMES, Key, Schema, names_of, object_schema
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
from whyrun.workflow.nodes import MapNode, Node, Problems, Scalar
from whyrun.workflow.parsing.parse import Reading
from whyrun.workflow.yaml_source import read_source

# --- a checked plan → the model ----------------------------------------------------------------------------------
#
# A checked dataset plan → `Workflow`: datasets become inputs, steps jobs, conditions `if` of their branches.


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
        in_plan=True,
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


# --- reading a plan ----------------------------------------------------------------------------------------------


PLAN_VERSION = 1
_MANIFEST_HINT = "name it: `--manifest inputs/manifest.json`"
PLAN_KEYS = (
    Key(name="plan_version", meaning="The version of the format.", schema={"const": PLAN_VERSION}, required=True),
    Key(name="plan_id", meaning="An id that is recorded with the run.", schema={"type": "string"}),
    Key(name="rel_path", meaning="The path of the plan, recorded as given.", schema={"type": "string"}),
    Key(name="description", meaning="What the plan is for.", schema={"type": "string"}),
    Key(
        name="steps",
        meaning="The steps in any order; `depends_on` defines which step waits for which.",
        schema={
            "type": "array",
            "minItems": 1,
            "items": {"oneOf": [{"$ref": "#/$defs/action"}, {"$ref": "#/$defs/condition"}]},
        },
        required=True,
    ),
)
_PLAN_NAMES = names_of(PLAN_KEYS)


def plan_schema() -> Schema:
    """JSON Schema, draft 2020-12."""
    root = object_schema(PLAN_KEYS, "Steps that read datasets and make products.")
    return {"$schema": SCHEMA_DRAFT, "title": "Whyrun dataset plan", **root, "$defs": schema_definitions()}


_ELSEWHERE = {
    **dict.fromkeys(("jobs", "tasks"), "write steps in `steps`, a list"),
    **dict.fromkeys(("inputs", "datasets"), "write datasets in the inputs manifest"),
    "composition_mode": "write it in the `params` of every step",
}


@dataclass(frozen=True, slots=True)
class PlanHeader:
    plan_id: str | None
    rel_path: str | None
    description: str


@dataclass(frozen=True, slots=True)
class PlanSource:
    """A file of a plan: its key in `Workflow.sources`, its path as shown to the user, its text."""

    key: str
    shown: str
    text: str


def read_plan(
    plan: PlanSource,
    manifest: PlanSource | None,
    problems: Problems,
    locate: Callable[[str], str] = lambda rel_path: rel_path,
) -> Workflow | None:
    """The readable part of the workflow. Without a manifest, unknown datasets are not reported.

    `locate` turns a `rel_path` of the manifest into a path relative to the project folder. Pure except for it.
    """
    root = read_json(plan.text, plan.shown, problems)
    manifest_root = None if manifest is None else read_json(manifest.text, manifest.shown, problems)
    if manifest is not None and _has(root, "datasets") and _has(manifest_root, "steps") and root is not None:
        message = f"this is an inputs manifest, and `{manifest.shown}` is the plan: they are swapped"
        hint = f"name the plan first: `{manifest.shown} --manifest {plan.shown}`"
        problems.add(root.place, "MANIFEST_MISSING", message, hint)
        return None
    datasets = read_manifest(manifest_root, problems, locate)
    sources = {source.key: source.text for source in (plan, manifest) if source is not None}
    if root is None:
        return None
    return _PlanReader(problems).plan(root, plan, manifest, datasets, sources)


def _has(node: Node | None, key: str) -> bool:
    return isinstance(node, MapNode) and any(name.value == key for name, _ in node.entries)


class _PlanReader(StepReader):
    def plan(
        self,
        node: Node,
        plan: PlanSource,
        manifest: PlanSource | None,
        datasets: Manifest,
        sources: Mapping[str, str],
    ) -> Workflow | None:
        root = self.as_map(node, "the dataset plan", f'write `{{"plan_version": {PLAN_VERSION}, "steps": […]}}`')
        if root is None:
            return None
        fields = self.known_keys(root, _PLAN_NAMES, "the dataset plan", _ELSEWHERE)
        self._version(root, fields.get("plan_version"))
        header = PlanHeader(
            self._text(fields, "plan_id"), self._text(fields, "rel_path"), self._text(fields, "description") or ""
        )
        links = Links(self._steps(root, fields.get("steps")), datasets, self.problems, root.place)
        links.check()
        return compile_plan(
            links,
            header.plan_id,
            header.rel_path,
            name=workflow_name(plan.key),
            description=header.description,
            source=plan.key,
            sources=sources,
            manifest=None if manifest is None else manifest.key,
        )

    def _version(self, root: MapNode, node: Node | None) -> None:
        hint = f'write `"plan_version": {PLAN_VERSION}`'
        if node is None:
            self.problems.add(root.place, "MISSING_KEY", "the dataset plan has no `plan_version`", hint)
        elif not isinstance(node, Scalar) or type(node.value) is not int or node.value != PLAN_VERSION:
            shown = f"`{node.text}`" if isinstance(node, Scalar) else json_kind_of(node)
            self.wrong(node, f"the version of the dataset plan is {shown}, which is not known", hint)

    def _text(self, fields: Mapping[str, Node], key: str) -> str | None:
        return self.string(fields[key], f"`{key}` of the dataset plan") if key in fields else None

    def _steps(self, root: MapNode, node: Node | None) -> list[Step]:
        hint = 'write `"steps": [{"step_id": "model", "type": "action", …}]`'
        if node is None:
            self.problems.add(root.place, "MISSING_KEY", "the dataset plan has no `steps`", hint)
            return []
        listed = self.as_list(node, "`steps` of the dataset plan", hint)
        if listed is not None and not listed.items:
            self.wrong(listed, "the dataset plan has no steps", hint)
        return [self.step(item) for item in listed.items] if listed else []


def workflow_name(key: str) -> str:
    """The stem of the file of the plan, as a valid workflow name."""
    stem = key.replace("\\", "/").rpartition("/")[2].rpartition(".")[0] or key
    name = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")
    if not name or not name[0].isalpha() or name in RESERVED_WORKFLOW_NAMES:
        return f"plan-{name}".rstrip("-")
    return name


# --- from the disk, or from recorded sources ---------------------------------------------------------------------


def load_plan(path: Path, manifest: Path | None, project: Path, *, shown: str) -> Reading:
    """Read the plan and its manifest from the disk."""
    unreadable: list[Diagnostic] = []
    text = _read(path, "the dataset plan", "FILE_MISSING", shown, unreadable)
    of_manifest = None
    if manifest is None:
        message = "the dataset plan was given without its inputs manifest"
        unreadable.append(Diagnostic("MANIFEST_MISSING", message, file=shown, hint=_MANIFEST_HINT))
    else:
        manifest_text = _read(manifest, "the inputs manifest", "MANIFEST_MISSING", str(manifest), unreadable)
        if manifest_text is not None:
            key = Path(os.path.relpath(manifest, path.parent)).as_posix()
            of_manifest = PlanSource(key, str(manifest), manifest_text)
    problems = Problems()
    part = None
    if text is not None:
        locate = _locator(manifest, project) if manifest is not None else str
        part = read_plan(PlanSource(path.name, shown, text), of_manifest, problems, locate)
    all_problems = (*unreadable, *problems)
    return Reading(None if all_problems else part, part, () if part is None else (part,), all_problems)


def load_manifest(manifest: Path) -> list[Dataset]:
    """The datasets of an inputs manifest without a plan; `path` is relative to its folder. Raises all its problems."""
    problems, unreadable = Problems(), list[Diagnostic]()
    text = _read(manifest, "the inputs manifest", "MANIFEST_MISSING", str(manifest), unreadable)
    datasets = Manifest({}, False)
    if text is not None:
        root = read_json(text, str(manifest), problems)
        if _has(root, "steps") and root is not None and not _has(root, "datasets"):
            problems.add(root.place, "MANIFEST_MISSING", "this is a dataset plan", "name its inputs manifest")
        else:
            datasets = read_manifest(root, problems, _locator(manifest, manifest.parent))
    if unreadable or len(problems):
        raise InvalidError((*unreadable, *problems))
    return list(datasets.datasets.values())


def parse_plan(root: str, manifest: str, sources: Mapping[str, str]) -> Workflow:
    """Parse recorded sources again. The paths of the datasets do not matter: their values are recorded."""
    problems = Problems()
    part = read_plan(PlanSource(root, root, sources[root]), PlanSource(manifest, manifest, sources[manifest]), problems)
    all_problems = tuple(problems)
    return Reading(None if all_problems else part, part, (), all_problems).complete()


def _read(path: Path, what: str, code: str, shown: str, problems: list[Diagnostic]) -> str | None:
    try:
        return read_source(path)
    except UnicodeDecodeError:
        problems.append(Diagnostic("JSON_SYNTAX", f"{what} is not UTF-8 text", file=shown, hint="save it as UTF-8"))
        return None
    except OSError as problem:
        reason = problem.strerror or "it cannot be opened"
    problems.append(Diagnostic(code, f"{what} cannot be read: {reason}", file=shown, hint="check the path"))
    return None


def _locator(manifest: Path, project: Path) -> Callable[[str], str]:
    """`rel_path` → a path relative to the project folder.

    It is relative to the folder of the manifest, and may begin with the name of that folder: `inputs/main.csv` in
    `inputs/manifest.json` is the file next to it. The text alone decides, not which files exist.
    """
    folder = os.path.abspath(manifest.parent)
    root = os.path.abspath(project)

    def locate(rel_path: str) -> str:
        parts = PurePosixPath(rel_path).parts
        if len(parts) > 1 and parts[0] == os.path.basename(folder):
            parts = parts[1:]
        path = os.path.relpath(os.path.join(folder, *parts), root)
        if path.split(os.sep)[0] == "..":
            # The path must be relative also outside of the project: evidence has no absolute paths. Resolve links
            # first, because `..` of a linked folder is another folder.
            path = os.path.relpath(os.path.join(os.path.realpath(folder), *parts), os.path.realpath(root))
        return Path(path).as_posix()

    return locate
