"""What the manifest of a run says of how datasets are composed: all that its summary needs beside the events.

The summary is made from files of the run folder alone, so that the repair of a killed run writes it too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from whyrun.artifacts.store import Store
from whyrun.graph.graph import InputAt, JobTable, sources_of
from whyrun.planning.consume import Consumption, Members
from whyrun.planning.known import KnownState
from whyrun.planning.plan import Plan
from whyrun.snapshot.records import Attempt, run_name
from whyrun.snapshot.snapshot import PlanningSnapshot, leaf_inputs
from whyrun.workflow.composition.model import Composition, Dataset
from whyrun.workflow.inputs import InputValue


def composition_section(snapshot: PlanningSnapshot, plan: Plan) -> dict[str, Any] | None:
    """None where no datasets are composed."""
    composition = snapshot.dependency_graph.workflow.composition
    if composition is None:
        return None
    graph = snapshot.dependency_graph
    known = KnownState(snapshot, plan)
    # In the order of the file: that is how its reader thinks of the steps.
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
                # What a branch lists may be a condition, which is no job.
                "true_steps": [step if step in conditions else f"Job:{step}" for step in condition.true_steps],
                "false_steps": [step if step in conditions else f"Job:{step}" for step in condition.false_steps],
            }
            for condition in composition.conditions
        ],
    }


def keep_datasets(snapshot: PlanningSnapshot, store: Store, project: str) -> None:
    """The data files as they are now, in the store: what the steps of this run read can be looked at later."""
    composition = snapshot.dependency_graph.workflow.composition
    for dataset in composition.datasets if composition is not None else ():
        for _, value in _files(snapshot, dataset):
            if value.path is not None and not store.has(value.sha256):
                store.restore_from(f"{project}/{value.path}", value.sha256)


def _files(snapshot: PlanningSnapshot, dataset: Dataset) -> Iterable[tuple[str, InputValue]]:
    """Of a list of datasets each member: that is what steps are given."""
    id_ = f"Input:{dataset.key}"
    value = snapshot.dependency_graph.inputs.get(id_)
    return leaf_inputs({id_: value}) if value is not None else ()


def _datasets(snapshot: PlanningSnapshot, composition: Composition) -> list[dict[str, Any]]:
    found = []
    bound = _bound_inputs(snapshot)
    for dataset in composition.datasets:
        told = {"role": dataset.role, "filename": dataset.filename, "rel_path": dataset.rel_path}
        for id_, value in _files(snapshot, dataset):
            key = id_.removeprefix("Input:")
            used = not bound.isdisjoint((id_, f"Input:{dataset.key}"))
            found.append({"dataset_key": key, **told, "path": value.path, "sha256": value.sha256, "used": used})
    return found


def _bound_inputs(snapshot: PlanningSnapshot) -> set[str]:
    """What any step takes, whether it runs or not."""
    return {
        source.id
        for table in snapshot.dependency_graph.tables
        for slot in table.slots
        for position in range(len(table))
        for source in sources_of(slot.column.at(position))
        if isinstance(source, InputAt)
    }


def _step(known: KnownState, table: JobTable, position: int) -> dict[str, Any]:
    node = table.base + position
    job = known.jobs.get(node)
    found: dict[str, Any] = {
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
    if table.condition is not None:
        found["condition"] = table.condition.expression.text
        decision = known.consumption(node).decision
        if decision is not None:  # else it is evaluated during the run, which is an event of its own
            found["decision"] = decision._asdict()
    if job is not None and job.because:
        found["because"] = dict(job.because)
    record = known.snapshot.record(node)
    if job is None and record is not None:
        found["kept"] = _kept(record.latest, known.consumption(node))
    return found


def _kept(attempt: Attempt, found: Consumption) -> dict[str, Any]:
    """Of a step that is up to date: the result that stands, and what it was made of, which is what it takes now."""
    bindings = {
        name: entry.recorded if isinstance(entry, Members) else [entry.to_json()]
        for name, entry in found.entries.items()
    }
    return {
        "run": run_name(attempt.made_in),
        "duration": attempt.duration,
        "bindings": bindings,
        "outputs": {output.id: {"sha256": output.sha256, "size": output.size} for output in attempt.outputs},
    }
