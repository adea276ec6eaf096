"""The `composition` section of a manifest: all that the summary of a dataset run needs in addition to the events.

The summary is made from the run folder alone, so that the repair of a killed run can write it too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import asdict

from whyrun.artifacts.store import Store
from whyrun.graph.tables import InputAt, JobTable, sources_of
from whyrun.planning.answers.why import PlanView
from whyrun.planning.consume import Consumption, Members
from whyrun.planning.plan import Plan
from whyrun.snapshot.records import Attempt, run_name
from whyrun.snapshot.snapshot import PlanningSnapshot, leaf_inputs
from whyrun.workflow.inputs import InputValue
from whyrun.workflow.model import Composition, Dataset


def composition_section(snapshot: PlanningSnapshot, plan: Plan) -> dict[str, Any] | None:
    """None for a workflow that composes no datasets."""
    composition = snapshot.dependency_graph.workflow.composition
    if composition is None:
        return None
    graph = snapshot.dependency_graph
    known = PlanView(snapshot, plan)
    # In the order of the file, as its reader expects.
    conditions = {condition.step_id for condition in composition.conditions}
    tables = sorted(graph.tables, key=lambda table: (table.decl.place.source, table.decl.place.line))
    return {
        "mode": composition.mode,
        "plan_id": composition.plan_id,
        "rel_path": composition.rel_path,
        "datasets": _datasets(snapshot, composition),
        "steps": [_step(known, table, position) for table in tables for position in range(len(table))],
        "conditions": [
            {
                "step_id": condition.step_id,
                "predicate": condition.predicate.text,
                "asks": condition.recorded,
                # A branch may list a condition, which is not a job.
                "true_steps": [step if step in conditions else f"Job:{step}" for step in condition.true_steps],
                "false_steps": [step if step in conditions else f"Job:{step}" for step in condition.false_steps],
            }
            for condition in composition.conditions
        ],
    }


def keep_datasets(snapshot: PlanningSnapshot, store: Store, project: str) -> None:
    """Store the data files as they are now, so that the inputs of this run can be inspected later."""
    composition = snapshot.dependency_graph.workflow.composition
    for dataset in composition.datasets if composition is not None else ():
        for _, value in _files(snapshot, dataset):
            if value.path is not None and not store.has(value.sha256):
                store.restore_from(f"{project}/{value.path}", value.sha256)


def _files(snapshot: PlanningSnapshot, dataset: Dataset) -> Iterable[tuple[str, InputValue]]:
    """The input of a dataset; each member of a list of datasets, because steps read members."""
    id_ = f"Input:{dataset.key}"
    value = snapshot.dependency_graph.inputs.get(id_)
    return leaf_inputs({id_: value}) if value is not None else ()


def _datasets(snapshot: PlanningSnapshot, composition: Composition) -> list[dict[str, Any]]:
    datasets = []
    bound = _bound_inputs(snapshot)
    for dataset in composition.datasets:
        declared = {"role": dataset.role, "filename": dataset.filename, "rel_path": dataset.rel_path}
        for id_, value in _files(snapshot, dataset):
            key = id_.removeprefix("Input:")
            used = not bound.isdisjoint((id_, f"Input:{dataset.key}"))
            datasets.append({"dataset_key": key, **declared, "path": value.path, "sha256": value.sha256, "used": used})
    return datasets


def _bound_inputs(snapshot: PlanningSnapshot) -> set[str]:
    """The inputs that any step reads, planned or not."""
    return {
        source.id
        for table in snapshot.dependency_graph.tables
        for slot in table.slots
        for position in range(len(table))
        for source in sources_of(slot.column.at(position))
        if isinstance(source, InputAt)
    }


def _step(known: PlanView, table: JobTable, position: int) -> dict[str, Any]:
    node = table.base + position
    job = known.jobs.get(node)
    step: dict[str, Any] = {
        "step_id": table.job_id(position),
        "action": table.decl.uses,
        "state": "clean" if job is None else job.state,
        "products": [
            {
                "id": table.artifact_id(a, position),
                "type": spec.type,
                "path": None if (paths := table.output_of(a).paths) is None else paths[position],
            }
            for a, spec in enumerate(table.artifacts)
            if not spec.is_leaf
        ],
    }
    if table.decl.merged_bindings:
        step["merged"] = list(table.decl.merged_bindings)
    if table.condition is not None:
        step["condition"] = table.condition.expression.text
        decision = known.consumption(node).decision
        if decision is not None:  # else the run evaluates it and records an event
            step["decision"] = asdict(decision)
    if job is not None and job.because:
        step["because"] = dict(job.because)
    record = known.snapshot.record(node)
    if job is None and record is not None:
        step["kept"] = _current_result(record.latest, known.consumption(node))
    return step


def _current_result(attempt: Attempt, consumed: Consumption) -> dict[str, Any]:
    """The result of a step that is up to date, with its inputs, which are the present ones."""
    bindings = {
        name: entry.recorded if isinstance(entry, Members) else [entry.to_json()]
        for name, entry in consumed.entries.items()
    }
    return {
        "run": run_name(attempt.made_in),
        "duration": attempt.duration,
        "bindings": bindings,
        "outputs": {output.id: {"sha256": output.sha256, "size": output.size} for output in attempt.outputs},
    }
