"""A dataset plan with its inputs manifest → the workflow's model, or everything that is wrong with both at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from whyrun.workflow.composition.compile import compile_plan
from whyrun.workflow.composition.json_fields import json_kind_of
from whyrun.workflow.composition.json_source import read_json
from whyrun.workflow.composition.links import Links
from whyrun.workflow.composition.manifest import Manifest, read_manifest
from whyrun.workflow.composition.steps import Step, StepReader
from whyrun.workflow.fields import RESERVED_WORKFLOW_NAMES
from whyrun.workflow.model import Workflow
from whyrun.workflow.nodes import MapNode, Node, Problems, Scalar

PLAN_VERSION = 1
PLAN_KEYS = ("plan_version", "plan_id", "rel_path", "description", "steps")
_ELSEWHERE = {
    **dict.fromkeys(("jobs", "tasks"), "steps stand in `steps`, a list"),
    **dict.fromkeys(("inputs", "datasets"), "datasets stand in the inputs manifest"),
    "composition_mode": "it stands in the `params` of every step",
}


@dataclass(frozen=True, slots=True)
class PlanHeader:
    plan_id: str | None
    rel_path: str | None
    description: str


@dataclass(frozen=True, slots=True)
class PlanSource:
    """A file of a plan: the key that it is kept under, the name that the user knows it by, its text."""

    key: str
    shown: str
    text: str


def read_plan(
    plan: PlanSource,
    manifest: PlanSource | None,
    problems: Problems,
    locate: Callable[[str], str] = lambda rel_path: rel_path,
) -> Workflow | None:
    """The workflow as far as it can be read. Without a manifest (told by who looked for it) no dataset is unknown.

    `locate`: a `rel_path` of the manifest as a path from the project folder. Pure but for it.
    """
    root = read_json(plan.text, plan.shown, problems)
    of_manifest = None if manifest is None else read_json(manifest.text, manifest.shown, problems)
    if manifest is not None and _has(root, "datasets") and _has(of_manifest, "steps") and root is not None:
        message = f"this is an inputs manifest, and `{manifest.shown}` is the plan: they are swapped"
        hint = f"name the plan first: `{manifest.shown} --manifest {plan.shown}`"
        problems.add(root.place, "MANIFEST_MISSING", message, hint)
        return None
    datasets = read_manifest(of_manifest, problems, locate)
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
        fields = self.known_keys(root, PLAN_KEYS, "the dataset plan", _ELSEWHERE)
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
    """The stem of the plan's file, made a valid name of a workflow."""
    stem = key.replace("\\", "/").rpartition("/")[2].rpartition(".")[0] or key
    name = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")
    if not name or not name[0].isalpha() or name in RESERVED_WORKFLOW_NAMES:
        return f"plan-{name}".rstrip("-")
    return name
