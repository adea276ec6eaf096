"""What is known under a plan: the contents that instances would consume, as the plan left them. Pure.

The plan has decided already; nothing is judged again here. Clean instances are as the log says, those with certain
reuse as they will be taken, inactive ones are absent, and everything else is still to be made.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from whyrun.graph.graph import ArtifactAt
from whyrun.planning.consume import Consumer, Consumption, Look, Pending, Seen
from whyrun.planning.dirty import Judge
from whyrun.planning.plan import Plan, PlannedJob
from whyrun.planning.reasons import Forced, More
from whyrun.snapshot.snapshot import PlanningSnapshot
from whyrun.workflow.model import VALUE_TYPES


class KnownState:
    """A snapshot and the plan made from it, to ask about single instances."""

    def __init__(self, snapshot: PlanningSnapshot, plan: Plan) -> None:
        self.snapshot = snapshot
        self.graph = snapshot.dependency_graph
        self.plan = plan
        self.jobs: dict[int, PlannedJob] = {job.node: job for job in plan.jobs}
        self._consumer = Consumer(self.graph, self.look)
        self._judge = Judge(snapshot, {})

    def look(self, at: ArtifactAt) -> Look:
        job = self.jobs.get(self.graph.node(at))
        spec = self.graph.tables[at.table].artifacts[at.artifact]
        if job is None:
            sha = self.snapshot.shas[at.table][at.artifact][at.position]
            assert sha is not None, "a clean instance has all its outputs"
            return Seen(sha, self.snapshot.output(at).value if spec.is_leaf or spec.type in VALUE_TYPES else UNSET)
        if job.state == "inactive":
            return None
        if job.reuse is not None:
            output = job.reuse.outputs[spec.key_at(at.position)]
            return Seen(output.sha256, output.value)
        return Pending(maybe=job.conditional)

    def consumption(self, node: int) -> Consumption:
        return self._consumer.consume(*self.graph.table_at(node))

    def whole(self, job: PlannedJob) -> PlannedJob:
        """The job with every particular of its reasons; the plan keeps 20 of a code, and a count."""
        if not any(isinstance(reason, More) for reason in job.reasons):
            return job
        every = self._judge.reasons(job.node, self.consumption(job.node), most=None)
        every += [reason for reason in job.reasons if isinstance(reason, Forced)]
        return msgspec.structs.replace(job, reasons=tuple(every))

    def fingerprint(self, node: int, found: Consumption) -> str:
        """Of an instance whose consumption is known."""
        table, position = self.graph.table_at(node)
        return self._judge.fingerprint(table, position, found)
