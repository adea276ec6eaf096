"""What the steps of a run may consume: results of this run, recorded results, and which sources failed."""

from __future__ import annotations

from msgspec import UNSET

from whyrun.execution.run.step_states import SUCCEEDED, StepStates
from whyrun.graph.tables import ArtifactAt, JobTable
from whyrun.planning.consume import ArtifactState, Available, Consumer, Pending
from whyrun.planning.plan import Plan
from whyrun.snapshot.records import run_name
from whyrun.snapshot.snapshot import PlanningSnapshot
from whyrun.workflow.model import VALUE_TYPES


class StepResults:
    """Answers `consume` with what is known now: the planner's own function decides, on the results of this run."""

    def __init__(self, snapshot: PlanningSnapshot, plan: Plan, states: StepStates) -> None:
        self._snapshot, self._graph, self._states = snapshot, snapshot.dependency_graph, states
        self._inactive = {job.node for job in plan.jobs if job.state == "inactive"}
        self._made: dict[int, dict[str, Available]] = {}  # node → output → result, where a later step may read it
        self._failed_of: dict[int, set[int]] = {}  # table → its failed or blocked steps, once all have ended
        self.consumer = Consumer(self._graph, self.look, lambda at: states.has_ended(self._graph.node(at)))

    def look(self, at: ArtifactAt) -> ArtifactState:
        node = self._graph.node(at)
        if node in self._states:
            state = self._states[node]
            if state in SUCCEEDED:
                return self._made[node][self._graph.tables[at.table].artifacts[at.artifact].key_at(at.position)]
            if state == "inactive":
                return None
            # A failed candidate of `first` has failed; it is not absent.
            return Pending(maybe=not self._states.has_ended(node))
        if node in self._inactive:
            return None
        sha = self._snapshot.shas[at.table][at.artifact][at.position]
        assert sha is not None, "an instance outside the plan is clean or inactive"
        spec = self._graph.tables[at.table].artifacts[at.artifact]
        return Available(sha, self._snapshot.output(at).value if spec.is_leaf or spec.type in VALUE_TYPES else UNSET)

    def add(self, node: int, made: dict[str, Available]) -> None:
        self._made[node] = made

    def drop(self, node: int) -> None:
        """The step has failed after all."""
        self._made.pop(node, None)

    def from_run(self, node: int) -> str | None:
        """The run that made a node's artifacts; None: this one."""
        record = self._snapshot.record(node) if node not in self._states else None
        return run_name(record.latest.run) if record is not None else None

    def failed_needs(self, table: JobTable) -> set[int]:
        """The failed steps among those that this job `needs`. All of them have ended, so each job is searched once."""
        for number in table.needs:
            if number not in self._failed_of:
                needed = self._graph.tables[number]
                nodes = range(needed.base, needed.base + len(needed))
                self._failed_of[number] = {n for n in nodes if self._states.has_failed(n)}
        return {node for number in table.needs for node in self._failed_of[number]}
