"""What all reasons share: the case that a reason is found from, and the particulars that it consists of. Pure.

The reasons themselves are in `planning.reasons`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from typing import Any, ClassVar, Protocol, TypeVar

import msgspec

from whyrun.graph.tables import ArtifactAt, Graph, JobTable
from whyrun.planning.consume import Consumption, GroupState
from whyrun.snapshot.records import StepRecord
from whyrun.snapshot.snapshot import PlanningSnapshot

# An artifact by table, row and output. Sorts in the order of the graph: [9] before [10].
ArtifactKey = tuple[int, int, int]


def artifact_key(at: ArtifactAt) -> ArtifactKey:
    return at.table, at.position, at.artifact


# --- what a reason is found from ---------------------------------------------------------------------------------


class PendingMembers(msgspec.Struct, frozen=True):
    """The pending jobs and failed artifacts among the members of some fan-ins, sorted and as sets."""

    nodes: list[int]
    node_set: set[int]
    failed: list[ArtifactKey]
    failed_set: set[ArtifactKey]


class PendingFanIns:
    """Computes the pending members of fan-ins once for all instances that share them."""

    def __init__(self, snapshot: PlanningSnapshot) -> None:
        self.snapshot = snapshot
        self._members: dict[tuple[int, ...], PendingMembers] = {}

    def members(self, groups: Sequence[GroupState]) -> PendingMembers:
        key = tuple(map(id, groups))  # the consumer keeps the states, so no other object gets their ids
        members = self._members.get(key)
        if members is None:
            graph = self.snapshot.dependency_graph
            pending = {at for group in groups for at in group.pending}
            nodes = {graph.node(at) for at in pending}
            failed = {artifact_key(at) for at in pending if self.snapshot.has_failed(graph.node(at))}
            members = self._members[key] = PendingMembers(sorted(nodes), nodes, sorted(failed), failed)
        return members


class Case(msgspec.Struct, frozen=True):
    """One active job instance, as the judge sees it when it looks for reasons."""

    snapshot: PlanningSnapshot
    fan_ins: PendingFanIns
    node: int
    table: JobTable
    position: int
    record: StepRecord | None
    consumption: Consumption
    forced_by: str | None  # the text of the `--force` option that names it

    @property
    def graph(self) -> Graph:
        return self.snapshot.dependency_graph


# --- reasons and their particulars -------------------------------------------------------------------------------


class ReasonBase(msgspec.Struct, frozen=True):
    """One particular of one reason. Each kind has a `code`, a `find` that looks for it and a `text` for people."""

    code: ClassVar[str]
    when: ClassVar[str]  # the row of docs/planning.md
    if_none: ClassVar[str]  # says for `explain --trace` why `find` found nothing
    waits_for_upstream: ClassVar[bool] = False  # it names a job upstream that has no result yet
    # Why an instance with this reason takes no earlier result, even if one has its fingerprint. None: it may take one.
    # Planning, the run and the shared store obey it, and `explain --trace` prints it.
    no_reuse: ClassVar[str | None] = None

    @classmethod
    def suspects(cls, snapshot: PlanningSnapshot, forced: Mapping[int, str]) -> Iterable[int]:
        """Instances to judge for this reason although the snapshot does not suspect them: their latest attempt
        succeeded with their fingerprint, and they have all outputs. The judge asks once per plan, also if nothing has
        changed. So a look at every record costs time in each plan of a large workflow."""
        del snapshot, forced
        return ()

    @classmethod
    def why_none(cls, case: Case) -> str:
        del case
        return cls.if_none

    @property
    def forbids_reuse(self) -> str | None:
        """`no_reuse`, where that depends on the particulars."""
        return self.no_reuse

    @property
    def outdates_result(self) -> bool:
        """Whether the job needs another result, executed or reused, even if everything upstream comes out as before."""
        return self.forbids_reuse is not None

    def producer(self, graph: Graph) -> int | None:
        """The job upstream that this reason leads to, if any."""
        del graph
        return None


R_co = TypeVar("R_co", bound=ReasonBase, covariant=True)


class Particulars(Protocol[R_co]):
    """What `find` returns. It may make the reasons only when they are read: a fan-in may have thousands."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[R_co]: ...


class MergedParticulars(Particulars[R_co]):
    """Reasons made from two sorted, disjoint lists, one shared with other instances."""

    def __init__(self, shared: Sequence[Any], own: Sequence[Any], make: Callable[[Any], R_co]) -> None:
        self._shared, self._own, self._make = shared, own, make

    def __len__(self) -> int:
        return len(self._shared) + len(self._own)

    def __iter__(self) -> Iterator[R_co]:
        return map(self._make, merge(self._shared, self._own))
