"""Dataset plans of the fixtures, each test with its own copy."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from whyrun.graph.tables import ArtifactAt, FirstOf, Graph, Group, InputAt, Known, Term
from whyrun.project import Project
from whyrun.workflow.model import OutputDecl

FIXTURES = Path(__file__).parent / "fixtures"
GOOD = ("sequential", "merge", "parallel", "conditional")
MANIFEST = "inputs/manifest.json"


def plans(folder: Path) -> Path:
    """A project with the good plans, and a link that leads out of it."""
    project = folder / "project"
    shutil.copytree(FIXTURES / "good", project, ignore=shutil.ignore_patterns("*.expected.json", "__pycache__"))
    (folder / "outside.csv").write_text("firm_id,year\n1,2000\n")
    os.symlink("../../outside.csv", project / "inputs" / "link.csv")
    return project


def refused(project: Path, name: str) -> Project:
    """A plan or a manifest with a mistake in it, in the current folder."""
    if name.startswith("manifest"):
        shutil.copy(FIXTURES / "refused" / f"{name}.json", project / "inputs" / f"{name}.json")
        return Project.open("merge.json", manifest=f"inputs/{name}.json")
    shutil.copy(FIXTURES / "refused" / f"{name}.json", project / f"{name}.json")
    return Project.open(f"{name}.json", manifest=MANIFEST)


def described(graph: Graph) -> dict[str, Any]:
    """All that a workflow says, in canonical IDs."""
    composition = graph.workflow.composition
    assert composition is not None
    return {
        "workflow": graph.workflow.name,
        "inputs": {id_: value.path for id_, value in graph.inputs.items()},
        "jobs": {table.job_id(0): _job(graph, number) for number, table in enumerate(graph.tables)},
        "composition": {
            "mode": composition.mode,
            "plan_id": composition.plan_id,
            "rel_path": composition.rel_path,
            "manifest": composition.manifest,
            "datasets": [[d.key, d.role, d.filename, d.rel_path, d.fingerprint] for d in composition.datasets],
            "conditions": [
                [c.step_id, c.predicate.text, list(c.true_steps), list(c.false_steps)] for c in composition.conditions
            ],
        },
    }


def _job(graph: Graph, number: int) -> dict[str, Any]:
    table = graph.tables[number]
    decl = table.decl
    found: dict[str, Any] = {
        "uses": decl.uses,
        "with": {slot.name: _term(graph, slot.column.at(0)) for slot in table.slots},
        "needs": [graph.tables[needed].job_id(0) for needed in table.needs],
        "outputs": {
            table.artifact_id(at, 0): spec.type if spec.is_leaf else _output(decl.outputs[spec.output])
            for at, spec in enumerate(table.artifacts)
        },
    }
    if table.condition is not None:
        operands = table.condition.at(0).operands
        found["if"] = [decl.condition.text if decl.condition else None, [_term(graph, operand) for operand in operands]]
    if decl.timeout is not None:
        found["timeout"] = decl.timeout
    return found


def _output(output: OutputDecl) -> str:
    return " ".join(filter(None, (output.type, output.suffix, output.path)))


def _term(graph: Graph, term: Term | Any) -> Any:
    if isinstance(term, Known):
        return term.value
    if isinstance(term, ArtifactAt | InputAt):
        return graph.source_id(term)
    if isinstance(term, FirstOf):
        return {"first": [graph.source_id(source) for source in term.candidates]}
    assert isinstance(term, Group)
    return [graph.source_id(source) for source in term.members]
