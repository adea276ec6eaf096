"""The target of an adoption: whether an artifact can be adopted now, and with which fingerprint."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from whyrun.artifacts.hashing import canonical_json
from whyrun.artifacts.store import Store
from whyrun.errors import WhyrunError, error
from whyrun.execution.protocol.messages import OutputResult, OutputSpec
from whyrun.execution.recording.publisher import published_path
from whyrun.execution.worker.collect import collect_file
from whyrun.graph.fingerprint import recorded_suffix
from whyrun.graph.tables import ArtifactAt, Graph, JobTable
from whyrun.ids import parse_id_of
from whyrun.planning.answers.why import PlanView
from whyrun.planning.consume import Consumption
from whyrun.planning.id_matching import one_id
from whyrun.planning.plan import compute_execution_plan
from whyrun.snapshot.reads import still_holds
from whyrun.snapshot.records import Attempt, Output
from whyrun.snapshot.snapshot import PlanningSnapshot
from whyrun.workflow.arrays import is_array
from whyrun.workflow.model import VALUE_TYPES


def not_adoptable(artifact: str, why: str, hint: str) -> WhyrunError:
    return error("NOT_ADOPTABLE", f"`{artifact}` cannot be put in place: {why}", hint=hint)


@dataclass(frozen=True, slots=True)
class AdoptionTarget:
    """The artifact, its job instance, and the fingerprint that the adopted version gets.

    `outputs`: the outputs that are recorded with this fingerprint, by ID. `brought`: none are, because a later attempt
    failed; these are those of the run that is restored, and its other outputs come back with this one.
    """

    at: ArtifactAt
    table: JobTable
    position: int
    node: int
    consumed: Consumption
    fingerprint: str
    outputs: Mapping[str, Output]
    brought: bool

    @property
    def others(self) -> Iterator[tuple[int, Output]]:
        """The outputs and leaves that come back with the artifact, leaves first, each with its number."""
        numbers = range(len(self.table.artifacts) if self.brought else 0)
        for a in sorted(numbers, key=lambda a: not self.table.artifacts[a].is_leaf):
            if self.table.artifacts[a].output != self.output:
                yield a, self.outputs[self.table.artifact_id(a, self.position)]

    @property
    def step(self) -> str:
        return self.table.job_id(self.position)

    @property
    def output(self) -> str:
        return self.table.artifacts[self.at.artifact].output

    def spec(self, output: str) -> OutputSpec:
        whole = next(a for a, spec in enumerate(self.table.artifacts) if spec.output == output and not spec.is_leaf)
        column = self.table.output_of(whole)
        leaves = {
            spec.leaf_at(self.position)[1:]: spec.type
            for spec in self.table.artifacts
            if spec.is_leaf and spec.output == output
        }
        return OutputSpec(column.type, column.suffix, leaves, column.append)

    def numbers(self) -> dict[str, int]:
        """Key within the step → number of the artifact in its table."""
        return {spec.key_at(self.position): a for a, spec in enumerate(self.table.artifacts)}

    def path_of(self, artifact: int) -> str | None:
        return published_path(self.table, artifact, self.position)


def locate(graph: Graph, artifact: str) -> ArtifactAt:
    if "*" not in artifact:
        parse_id_of("Artifact", artifact)
    one_id(artifact, graph.artifact_of, "this command", graph)
    at = graph.artifact_of[artifact]
    table = graph.tables[at.table]
    spec = table.artifacts[at.artifact]
    if is_array(spec.type):
        what = "it is an array" if at.element is None else "it is an element of an array"
        hint = (
            "change what the job reads; with the inputs of an earlier run, `whyrun run` takes that run's result again"
        )
        raise not_adoptable(artifact, f"{what}, whose elements only its job makes", hint)
    if spec.is_leaf:
        whole = table.output_id(spec.output, at.position)
        raise not_adoptable(
            artifact,
            "it is a leaf, a part of a JSON output",
            f"adopt the whole: `whyrun adopt {shlex.quote(whole)} FILE.json`",
        )
    return at


Outputs = Mapping[str, Output]  # by ID
NO_OUTPUTS: Outputs = {}


def find_target(
    snapshot: PlanningSnapshot,
    artifact: str,
    at: ArtifactAt,
    earlier: Callable[[str, str], Outputs] = lambda step, fingerprint: NO_OUTPUTS,
) -> AdoptionTarget:
    """Refuse unless all inputs of the job are known, and its other outputs are recorded for these inputs.

    `earlier(step, fingerprint)`: the outputs of the run that is restored, if it made them from these inputs.
    """
    known = PlanView(snapshot, compute_execution_plan(snapshot))
    graph = snapshot.dependency_graph
    node = graph.node(at)
    table, position = graph.table_at(node)
    job = table.job_id(position)
    consumed = known.consumption(node)
    if consumed.inactive:
        raise not_adoptable(artifact, f"`{job}` is inactive", f"`whyrun why {shlex.quote(job)}` says why")
    if consumed.problems:
        name, problem = next(iter(consumed.problems.items()))
        raise not_adoptable(artifact, f"`{name}` of `{job}` cannot be computed: {problem}", "correct the workflow")
    if consumed.waits or not consumed.known:
        waiting = graph.job_id(graph.node(next(consumed.pending)))
        raise not_adoptable(
            artifact,
            f"what `{job}` consumes is not known yet, because `{waiting}` is still to run",
            f"run it first: `whyrun run --target {shlex.quote(waiting)}`",
        )
    fingerprint = known.fingerprint(node, consumed)
    recorded = recorded_outputs(snapshot, node, fingerprint, consumed)
    arrays = any(is_array(output.type) for output in table.outputs)  # they do not come back with another output
    brought = {} if recorded or arrays else earlier(job, fingerprint)
    target = AdoptionTarget(at, table, position, node, consumed, fingerprint, recorded or brought, bool(brought))
    _require_other_outputs(snapshot, target, artifact)
    return target


def _require_other_outputs(snapshot: PlanningSnapshot, target: AdoptionTarget, artifact: str) -> None:
    for a, spec in enumerate(target.table.artifacts):
        if spec.output == target.output:
            continue
        id_ = target.table.artifact_id(a, target.position)
        output = target.outputs.get(id_)
        lost = output is not None and output.value is msgspec.UNSET and output.bytes_key in snapshot.lost
        # The next plan checks the same. An output that it rejects makes the job run again, which would replace the
        # adopted version.
        declared = spec.type, recorded_suffix(target.table, a)
        if output is None or (output.type, output.suffix) != declared or lost:
            raise not_adoptable(
                artifact,
                f"`{id_}`, another output of `{target.step}`, is not available for what the job consumes now",
                "an output is adopted together with the other outputs of a success: "
                f"`whyrun run --target {shlex.quote(target.step)}` makes one; if it fails, correct the job first",
            )


def recorded_outputs(snapshot: PlanningSnapshot, node: int, fingerprint: str, consumed: Consumption) -> Outputs:
    """By ID: the outputs that are recorded with the present fingerprint and undeclared reads."""
    record = snapshot.record(node)

    def holds(attempt: Attempt) -> bool:
        return still_holds(snapshot, node, attempt, consumed.made_now)

    attempt = record.by_fingerprint(fingerprint, holds) if record is not None else None
    return {output.id: output for output in attempt.outputs} if attempt is not None and attempt.has_result else {}


def stored_version(name: str, spec: OutputSpec, version: Output, store: Store) -> list[OutputResult]:
    """An old version from the log and the store; every byte is checked (STORE_DAMAGED)."""
    if spec.type in VALUE_TYPES:
        data = canonical_json(version.value)
        return [OutputResult(name, store.put_bytes(data), len(data), spec.type, version.value)]
    if spec.type == "json":
        store.check(version.sha256)
        return collect_file(name, spec, Path(store.open_path(version.sha256)), store)
    if spec.type == "directory":
        for file in store.read_tree(version.sha256).files:
            store.check(file.sha256)
    else:
        store.check(version.sha256)
    return [OutputResult(name, version.sha256, version.size, spec.type)]
