"""What a workflow says of how its datasets are composed. Reached as `Workflow.composition`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from whyrun.workflow.model import Expression, Place

PRIMARY, SECONDARY, AUXILIARY = "primary_dataset", "secondary_dataset", "auxiliary_data"
ROLES = (PRIMARY, SECONDARY, AUXILIARY)
SEQUENTIAL, MERGE, PARALLEL, CONDITIONAL = (
    "sequential",
    "merge_then_sequential",
    "parallel_then_aggregate",
    "conditional",
)
MODES = (SEQUENTIAL, MERGE, PARALLEL, CONDITIONAL)
MERGING_ACTIONS = {"data/merge": "merge", "data/append": "append"}  # action → its operation
AGGREGATING_ACTION = "data/aggregate"


@dataclass(frozen=True, slots=True)
class Dataset:
    """One data file that is given: `Input:<key>`. A role labels it and wires nothing."""

    key: str
    role: str | None  # None: a workflow file need not say one
    filename: str | None  # as its owner calls it; for people only
    rel_path: str | None  # as the manifest has it; None in a workflow file, where the input says the path
    path: str | None  # the same from the project folder
    fingerprint: str | None  # 64 hex digits; None where none is given
    place: Place
    fingerprint_place: Place


@dataclass(frozen=True, slots=True)
class ConditionStep:
    """A step of a dataset plan that is no job: it stands as `if` on the steps of its branches."""

    step_id: str
    predicate: Expression
    recorded: Mapping[str, Any]  # the predicate as the manifest of a run has it: see `recorded_predicates`
    true_steps: tuple[str, ...]
    false_steps: tuple[str, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Composition:
    mode: str
    datasets: tuple[Dataset, ...]  # in the order of the manifest, or of the file's inputs
    conditions: tuple[ConditionStep, ...] = ()  # of a dataset plan, in its order
    plan_id: str | None = None
    rel_path: str | None = None  # where the plan was filed, as given
    manifest: str | None = None  # the key of the inputs manifest among the workflow's sources; None: no dataset plan
    place: Place | None = None  # of `mode:` in a workflow file

    def dataset(self, key: str) -> Dataset | None:
        return next((dataset for dataset in self.datasets if dataset.key == key), None)
