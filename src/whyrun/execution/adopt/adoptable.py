"""Whether an artifact can be adopted now, and under which fingerprint: what `adopt` and `restore` are about."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

import msgspec

from whyrun.artifacts.hashing import canonical_json
from whyrun.artifacts.store import Store
from whyrun.errors import WhyrunError, error
from whyrun.execution.cfg import OutputSpec
from whyrun.execution.collect import collect_file
from whyrun.execution.commands import OutputResult
from whyrun.execution.publisher import published_path
from whyrun.graph.fingerprint import recorded_suffix
from whyrun.graph.graph import ArtifactAt, Graph, JobTable
from whyrun.ids import parse_id_of
from whyrun.planning.consume import Consumption
from whyrun.planning.known import KnownState
from whyrun.planning.plan import compute_execution_plan, unknown_id
from whyrun.snapshot.records import Output
from whyrun.snapshot.snapshot import PlanningSnapshot
from whyrun.workflow.model import VALUE_TYPES


def not_adoptable(artifact: str, why: str, hint: str) -> WhyrunError:
    return error("NOT_ADOPTABLE", f"`{artifact}` cannot be put in place: {why}", hint=hint)


@dataclass(frozen=True, slots=True)
class AdoptionTarget:
    """The artifact, its job instance, and the fingerprint under which its version will stand."""

    at: ArtifactAt
    table: JobTable
    position: int
    node: int
    found: Consumption
    fingerprint: str

    @property
    def step(self) -> str:
        return self.table.job_id(self.position)

    @property
    def output(self) -> str:
        return self.table.artifacts[self.at.artifact].output

    def spec(self) -> OutputSpec:
        column = self.table.output_of(self.at.artifact)
        leaves = {
            spec.leaf_at(self.position)[1:]: spec.type
            for spec in self.table.artifacts
            if spec.is_leaf and spec.output == self.output
        }
        return OutputSpec(column.type, column.suffix, leaves, column.append)

    def numbers(self) -> dict[str, int]:
        """By key within the step: the artifacts of its table."""
        return {spec.key_at(self.position): a for a, spec in enumerate(self.table.artifacts)}

    def path_of(self, artifact: int) -> str | None:
        return published_path(self.table, artifact, self.position)


def locate(graph: Graph, artifact: str) -> ArtifactAt:
    parse_id_of("Artifact", artifact)
    at = graph.artifact_of.get(artifact)
    if at is None:
        raise unknown_id(artifact, list(graph.artifact_of))
    table = graph.tables[at.table]
    spec = table.artifacts[at.artifact]
    if spec.is_leaf:
        whole = f"Artifact:{table.name}.{spec.output}{table.texts[at.position]}"
        raise not_adoptable(
            artifact,
            "it is a leaf, a part of a JSON output",
            f"adopt the whole: `whyrun adopt {shlex.quote(whole)} FILE.json`",
        )
    return at


def find_target(snapshot: PlanningSnapshot, artifact: str, at: ArtifactAt) -> AdoptionTarget:
    """Refused unless everything that the job consumes is known, and every other output stands under it."""
    known = KnownState(snapshot, compute_execution_plan(snapshot))
    graph = snapshot.dependency_graph
    node = graph.node(at)
    table, position = graph.table_at(node)
    job = table.job_id(position)
    found = known.consumption(node)
    if found.inactive:
        raise not_adoptable(artifact, f"`{job}` is inactive", f"`whyrun why {shlex.quote(job)}` says why")
    if found.problems:
        name, problem = next(iter(found.problems.items()))
        raise not_adoptable(artifact, f"`{name}` of `{job}` cannot be computed: {problem}", "correct the workflow")
    if found.waits or not found.known:
        waiting = graph.job_id(graph.node(next(found.pending)))
        raise not_adoptable(
            artifact,
            f"what `{job}` consumes is not known yet, because `{waiting}` is still to run",
            f"run it first: `whyrun run --target {shlex.quote(waiting)}`",
        )
    target = AdoptionTarget(at, table, position, node, found, known.fingerprint(node, found))
    _require_other_outputs(snapshot, target, artifact)
    return target


def _require_other_outputs(snapshot: PlanningSnapshot, target: AdoptionTarget, artifact: str) -> None:
    recorded = standing_outputs(snapshot, target)
    for a, spec in enumerate(target.table.artifacts):
        if spec.output == target.output:
            continue
        id_ = target.table.artifact_id(a, target.position)
        output = recorded.get(id_)
        lost = output is not None and output.value is msgspec.UNSET and output.bytes_key in snapshot.lost
        # As the next plan will ask: what it would not take, it would make again, and with it what is put in place now.
        declared = spec.type, recorded_suffix(target.table, a)
        if output is None or (output.type, output.suffix) != declared or lost:
            raise not_adoptable(
                artifact,
                f"`{id_}`, another output of `{target.step}`, is not available for what the job consumes now",
                "one output is put in place beside the others of a success: "
                f"`whyrun run --target {shlex.quote(target.step)}` makes one; if it fails, correct the job first",
            )


def standing_outputs(snapshot: PlanningSnapshot, target: AdoptionTarget) -> dict[str, Output]:
    """By ID: what is recorded under the fingerprint of now."""
    record = snapshot.record(target.node)
    attempt = record.by_fingerprint(target.fingerprint) if record is not None else None
    return {output.id: output for output in attempt.outputs} if attempt is not None and attempt.has_result else {}


def stored_version(name: str, spec: OutputSpec, found: Output, store: Store) -> list[OutputResult]:
    """An old version from the log and the store; every byte is checked (STORE_DAMAGED)."""
    if spec.type in VALUE_TYPES:
        data = canonical_json(found.value)
        return [OutputResult(name, store.put_bytes(data), len(data), spec.type, found.value)]
    if spec.type == "json":
        store.check(found.sha256)
        return collect_file(name, spec, Path(store.open_path(found.sha256)), store)
    if spec.type == "directory":
        for file in store.read_tree(found.sha256).files:
            store.check(file.sha256)
    else:
        store.check(found.sha256)
    return [OutputResult(name, found.sha256, found.size, spec.type)]
