"""Which job instances are dirty, inactive or clean, and for which reasons. Pure.

`Judge.judge_all` starts from the suspects of the snapshot and of the reasons, and follows the edges downstream of every
verdict that is not clean. An instance that it does not reach is clean. `Judge.judge` judges one instance, after
everything upstream.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from whyrun.graph.fingerprint import counted, prefix
from whyrun.graph.layers import compute_layers
from whyrun.graph.tables import ArtifactAt, Graph, JobTable
from whyrun.ids import OPEN
from whyrun.planning.artifact_states import ArtifactState, Available, Pending
from whyrun.planning.consume import Consumer, Consumption
from whyrun.planning.input_changes import InputChanged
from whyrun.planning.reason_base import Case, PendingFanIns
from whyrun.planning.reasons import (
    KINDS,
    Forced,
    Reason,
    UpstreamDirty,
    UpstreamFailed,
    find_reasons,
    why_executed,
)
from whyrun.planning.reuse import Candidate, Others, Reuse, attempts_by_fingerprint, candidates, is_undone
from whyrun.snapshot.reads import still_holds
from whyrun.snapshot.records import Attempt, MadeOutput
from whyrun.snapshot.snapshot import PlanningSnapshot
from whyrun.workflow.arrays import is_value_type

if TYPE_CHECKING:
    from whyrun.artifacts.shared.result import SharedResult
    from whyrun.errors import Diagnostic
    from whyrun.planning.moved_results import MovedResults

EMPTY: Mapping[str, Any] = MappingProxyType({})  # shared, because a plan may have a million jobs


class Verdict(msgspec.Struct, frozen=True):
    state: Literal["clean", "dirty", "inactive"]
    reasons: tuple[Reason, ...] = ()
    reuse: Reuse | None = None
    conditional: bool = False  # the run decides its condition
    maybe: bool = False  # it may turn out to be inactive, by its own condition or by that of a source
    bindings: Mapping[str, Any] = msgspec.field(default_factory=dict)
    # for inactive instances: the condition and its values, or the absent source
    because: Mapping[str, Any] = msgspec.field(default_factory=lambda: EMPTY)
    is_open: bool = False  # it stands for all instances of a loop that is not known yet
    made: Mapping[str, MadeOutput] | None = None  # of a stage: what the run has made, by artifact


CLEAN = Verdict("clean")


def last_recorded(snapshot: PlanningSnapshot, at: ArtifactAt) -> str | None:
    """The hash of what the last success made, whether or not it is still there. See `recorded_results`."""
    record, id_ = snapshot.record(snapshot.dependency_graph.node(at)), snapshot.dependency_graph.artifact_id(at)
    success = record.last_success() if record is not None else None
    return next((output.sha256 for output in success.outputs if output.id == id_), None) if success else None


def missing_of_clean(graph: Graph, at: ArtifactAt) -> str:
    """The message for a bug: an instance was not judged, although an output of it is missing."""
    return (
        f"{graph.job_id(graph.node(at))} is clean, but its {graph.artifact_id(at)} is not available; "
        "`snapshot/suspects.py` should have found it"
    )


class Judge:
    def __init__(
        self,
        snapshot: PlanningSnapshot,
        forced: Mapping[int, str],
        shared_results: Mapping[str, SharedResult] | None = None,
        standing: Mapping[int, Verdict] | None = None,
    ) -> None:
        """`standing`: of a stage, the verdicts of earlier plans of the run on what they run."""
        self.snapshot = snapshot
        self.standing = standing or {}
        self.shared_results = snapshot.shared if shared_results is None else shared_results
        self.graph = snapshot.dependency_graph
        self.forced = forced
        self.verdicts: dict[int, Verdict] = {}
        self.consumer = Consumer(self.graph, self.artifact_state)
        self._prefixes: dict[int, str] = {}
        self._fan_ins = PendingFanIns(snapshot)
        self._any_attempt: Others | None = None
        self._layers: Sequence[int] | None = None
        self._whole: dict[int, bool] = {}  # by table
        self.problems: dict[str, Diagnostic] = {}  # artifact ID → why its value cannot be the values of a loop
        self._made = {self.graph.node_of[job]: outputs for job, outputs in snapshot.made.items()}

    @cached_property
    def _moved(self) -> MovedResults:
        from whyrun.planning.moved_results import MovedResults  # imported late: only something to do needs it

        return MovedResults(self.snapshot)

    @cached_property
    def suspects(self) -> frozenset[int]:
        """The instances to judge in any case: those that may have changed, and those that a reason names."""
        named = (node for kind in KINDS for node in kind.suspects(self.snapshot, self.forced))
        return frozenset((*self.snapshot.suspects, *named, *self.standing))

    def judge_all(self, layers: Sequence[int]) -> None:
        """Find the verdict on every instance that is not trivially clean: start from the suspects, and follow the edges
        downstream of every verdict that is not clean."""
        self._layers = layers
        waiting = set(self.suspects)
        by_layer: dict[int, list[int]] = {}  # a layer is judged as a whole, because all dependents are in later ones
        for node in waiting:
            by_layer.setdefault(layers[node], []).append(node)
        ahead = list(by_layer)
        heapq.heapify(ahead)
        followed: set[int] = set()  # ids of lists of dependents; all members of a fan-in share one
        while ahead:
            for node in sorted(by_layer.pop(heapq.heappop(ahead))):
                verdict = self.verdicts[node] = self.judge(node)
                if verdict.state == "clean":
                    continue
                for base, rows in self.graph.dependent_rows(node):
                    if len(rows) > 1:
                        if id(rows) in followed:
                            continue
                        followed.add(id(rows))
                    for dependent in (base + row for row in rows):
                        if dependent not in waiting:
                            waiting.add(dependent)
                            if layers[dependent] not in by_layer:
                                heapq.heappush(ahead, layers[dependent])
                            by_layer.setdefault(layers[dependent], []).append(dependent)

    def artifact_state(self, at: ArtifactAt) -> ArtifactState:
        """The state of an artifact, after its producer was judged."""
        verdict = self.verdicts.get(self.graph.node(at), CLEAN)
        if verdict.state == "inactive":
            return None
        if verdict.state == "clean":
            sha = self.snapshot.shas[at.table][at.artifact][at.position]
            assert sha is not None, missing_of_clean(self.graph, at)
            spec = self.graph.tables[at.table].artifacts[at.artifact]
            return Available(sha, self.snapshot.output(at).value if spec.is_leaf or is_value_type(spec.type) else UNSET)
        if verdict.made is not None:
            made = verdict.made[self.graph.artifact_id(at)]
            return Available(made.sha256, made.value)
        if verdict.reuse is not None:
            output = verdict.reuse.outputs[self.graph.tables[at.table].artifacts[at.artifact].key_at(at.position)]
            return Available(output.sha256, output.value)
        return Pending(verdict.maybe)

    def judge(self, node: int) -> Verdict:
        if node in self._made:
            made = self._made[node]
            return Verdict("inactive") if made is None else Verdict("dirty", made=made)
        verdict, standing = self._judge(node), self.standing.get(node)
        if standing is None or (verdict.state == "dirty" and (verdict.reuse is None or standing.reuse is not None)):
            return verdict
        # What an earlier plan runs is not made yet, whatever is known of it by now: the run decides.
        return replace(standing, maybe=standing.maybe or verdict.maybe or verdict.state == "inactive")

    def _judge(self, node: int) -> Verdict:
        table, position = self.graph.table_at(node)
        of_loop = self.of_loop(node, table, position) if table.gates else None
        if of_loop is not None:
            return of_loop
        consumption = self.consumer.consume(table, position)
        if consumption.inactive_by is not None:
            return Verdict("inactive", because={"source": consumption.inactive_by})
        if consumption.decision is not None and not consumption.decision.result:
            assert table.condition is not None
            because = {"condition": table.condition.expression.text, "inputs": consumption.decision.inputs}
            return Verdict("inactive", because=because)
        case = self.case(node, consumption)
        reasons = find_reasons(case)
        if not reasons:
            return CLEAN
        return Verdict(
            "dirty",
            tuple(reasons),
            self.reuse(case, reasons),
            consumption.undecided,
            consumption.maybe,
            consumption.shown,
        )

    def of_loop(self, node: int, table: JobTable, position: int) -> Verdict | None:
        """The verdict on `[?]`, which stands for all instances of a loop that is not known; None for other rows."""
        for place, column in table.gates:
            source = column.at(position)
            if not isinstance(source, ArtifactAt):
                continue  # the job that would make it does not exist for these indices: an empty loop
            state, id_ = self.artifact_state(source), self.graph.artifact_id(source)
            if table.rows[position][place] is not OPEN:
                assert isinstance(state, Available), f"{id_} is not known; see `settling`"
                continue
            if state is None:
                return Verdict("inactive", because={"source": id_})
            refused = self.graph.results.refused.get(id_)
            if refused is not None and isinstance(state, Available) and refused.sha256 == state.sha256:
                self.problems[id_] = refused.problem
            return self._open(node, table, position, table.decl.loops[place], source, state)
        return None

    def _open(
        self, node: int, table: JobTable, position: int, loop: str, source: ArtifactAt, state: Available | Pending
    ) -> Verdict:
        case = self.case(node, Consumption(singles={source: None} if isinstance(state, Pending) else {}))
        reasons: list[Reason] = []
        if isinstance(state, Available):  # an earlier result is taken, with another list than the last one
            id_ = self.graph.artifact_id(source)
            reasons.append(InputChanged(loop, id_, id_, last_recorded(self.snapshot, source), state.sha256))
        for kind in (UpstreamFailed, UpstreamDirty, Forced):
            reasons.extend(kind.find(case))
        return Verdict("dirty", tuple(reasons), maybe=True, is_open=True)

    def case(self, node: int, consumption: Consumption) -> Case:
        table, position = self.graph.table_at(node)
        record, forced_by = self.snapshot.record(node), self.forced.get(node)
        return Case(self.snapshot, self._fan_ins, node, table, position, record, consumption, forced_by)

    # -- reuse --

    def prefix(self, table: JobTable, position: int) -> str:
        action = self.snapshot.actions[table.name]
        if any(spec.leaf_by_row is not None for spec in table.artifacts):
            return prefix(table, action.sha256, position, action.uncounted)
        if table.number not in self._prefixes:
            self._prefixes[table.number] = prefix(table, action.sha256, 0, action.uncounted)
        return self._prefixes[table.number]

    def fingerprint(self, table: JobTable, position: int, consumption: Consumption) -> str:
        """Only for an instance that has a known consumption."""
        slots = counted(table, self.snapshot.actions[table.name].uncounted)
        return consumption.fingerprint(self.prefix(table, position), slots)

    def reuse(self, case: Case, reasons: Sequence[Reason]) -> Reuse | None:
        """The earlier result that a dirty instance takes instead of being executed."""
        if self.why_no_reuse(case, reasons) is None:
            for candidate in self.reuse_candidates(case):
                if candidate.reuse is not None:
                    if candidate.result is not None and self._moved.moves(case.table):
                        self._moved.take(candidate.result, case.node)
                    return candidate.reuse
        return None

    def why_no_reuse(self, case: Case, reasons: Sequence[Reason]) -> str | None:
        """Why no earlier result is considered for a dirty instance with these reasons; None if candidates are."""
        because = why_executed(reasons)
        if because is not None:
            return because
        if not case.consumption.known:
            return "what it would consume is not known yet; the run decides"
        return "whether it is active is not known yet; the run decides" if case.consumption.maybe else None

    def reuse_candidates(self, case: Case) -> Iterator[Candidate]:
        """Earlier results with the fingerprint that the instance would have."""
        table, position, record = case.table, case.position, case.record
        others = self.any_attempt() if self.snapshot.reuse_scope(table) == "anywhere" else {}
        moves = _Moves(self, case) if self._moved.moves(table) and self._plans_whole(table) else None
        if record is None and not others and not self.shared_results and moves is None:
            return  # no result exists that could be taken, so the fingerprint is not needed
        print_ = self.fingerprint(table, position, case.consumption)
        made_now = case.consumption.made_now

        def holds(attempt: Attempt) -> bool:
            return still_holds(self.snapshot, case.node, attempt, made_now)

        if is_undone(self.snapshot, table, record, print_, holds):
            yield Candidate("earlier results", rejected="their effect outside the project may have been replaced since")
            return
        lost = self.snapshot.lost
        yield from candidates(table, position, record, print_, others, lost, self.shared_results, holds, moves)

    def _plans_whole(self, table: JobTable) -> bool:
        if table.number not in self._whole:
            self._whole[table.number] = self._moved.is_whole(table, (*self._made, *self.standing))
        return self._whole[table.number]

    def present_fingerprint(self, node: int, layer: int) -> str | None:
        """The fingerprint of an instance as it is known while this layer is judged; None if it is not known."""
        table, position = self.graph.table_at(node)
        if self.layers[node] > layer or (table.gates and self.of_loop(node, table, position) is not None):
            return None
        consumption = self.consumer.consume(table, position)
        is_active = consumption.inactive_by is None and (consumption.decision is None or consumption.decision.result)
        certain = is_active and consumption.known and not consumption.maybe
        return self.fingerprint(table, position, consumption) if certain else None

    @property
    def layers(self) -> Sequence[int]:
        if self._layers is None:
            self._layers = compute_layers(self.graph)
        return self._layers

    def any_attempt(self) -> Others:
        """Adopted and kept results count for their own instance only."""
        if self._any_attempt is None:
            self._any_attempt = attempts_by_fingerprint(self.snapshot.records.steps)
        return self._any_attempt


class _Moves:
    """What one instance may take of the results of its job."""

    def __init__(self, judge: Judge, case: Case) -> None:
        self._judge, self._table, self._node = judge, case.table, case.node
        self._prints: dict[int, str | None] = {}

    def _now(self, node: int) -> str | None:
        if node not in self._prints:
            self._prints[node] = self._judge.present_fingerprint(node, self._layer())
        return self._prints[node]

    def _layer(self) -> int:
        return self._judge.layers[self._node]

    def keeper(self, own: Attempt) -> str | None:
        return self._judge._moved.keeper(self._table, self._node, own, self._now)

    def free(self, fingerprint: str) -> Iterable[tuple[str, Attempt]]:
        return self._judge._moved.free(self._table, self._node, self._layer, fingerprint, self._now)


# --- Which results of other users to ask the shared store for --------------------------------------------------------
#
# The fingerprint of an instance is known only once everything that it consumes is known, and each result that the
# store has makes more of them known. So this goes through the graph layer by layer and asks once for each layer.

# Fingerprints, each with a step that has it → the results that the store has.
Ask: TypeAlias = "Callable[[Mapping[str, str]], Mapping[str, SharedResult]]"


def is_shareable(snapshot: PlanningSnapshot, table: JobTable) -> bool:
    """Whether other users may take results of this job, and this project theirs.

    Only if the fingerprint covers everything: the job or action is `deterministic`, has no effect outside the project,
    and receives no secret and no connection, because no fingerprint contains their values. Nor does it contain the
    packages that a step happened to import: where they count, only those of an environment or container are known.
    """
    action = snapshot.actions[table.name]
    if snapshot.reuse_scope(table) != "anywhere" or action.effectful or has_secrets(snapshot, table):
        return False
    return not snapshot.reads.counts_packages or bool(table.decl.environment or table.decl.container)


def has_secrets(snapshot: PlanningSnapshot, table: JobTable) -> bool:
    return bool(table.decl.secrets) or table.name in snapshot.dependency_graph.connected


def with_shared_results(snapshot: PlanningSnapshot, ask: Ask) -> PlanningSnapshot:
    """The snapshot with the shared results that planning can use."""
    graph = snapshot.dependency_graph
    if not any(is_shareable(snapshot, table) for table in graph.tables):
        return snapshot
    results: dict[str, SharedResult] = {}
    layers = compute_layers(graph)
    judge = Judge(snapshot, {}, results)
    waiting: defaultdict[int, set[int]] = defaultdict(set)  # by layer
    for node in judge.suspects:
        waiting[layers[node]].add(node)
    asked: set[str] = set()
    while waiting:
        nodes = sorted(waiting.pop(min(waiting)))
        wanted: dict[int, str] = {}
        for node in nodes:
            verdict = judge.verdicts[node] = judge.judge(node)
            may_reuse = why_executed(verdict.reasons) is None and not verdict.maybe
            if verdict.state == "dirty" and verdict.reuse is None and may_reuse and not verdict.is_open:
                fingerprint = _wanted_fingerprint(snapshot, judge, node)
                if fingerprint is not None:
                    wanted[node] = fingerprint
        new: dict[str, str] = {}
        for node, fingerprint in wanted.items():
            if fingerprint not in asked:
                new.setdefault(fingerprint, graph.job_id(node))
        if new:
            asked.update(new)
            results.update(ask(new))
        for node, fingerprint in wanted.items():
            if fingerprint in results:
                judge.verdicts[node] = judge.judge(node)  # now it reuses the shared result
        for node in nodes:
            if judge.verdicts[node].state != "clean":
                for base, rows in graph.dependent_rows(node):
                    for row in rows:
                        waiting[layers[base + row]].add(base + row)
    return snapshot.with_shared(results)


def _wanted_fingerprint(snapshot: PlanningSnapshot, judge: Judge, node: int) -> str | None:
    """The fingerprint of an instance, if it is known and planning would take a shared result with it."""
    table, position = snapshot.dependency_graph.table_at(node)
    if not is_shareable(snapshot, table):
        return None
    consumption = judge.consumer.consume(table, position)
    if not consumption.known:
        return None
    record, fingerprint = snapshot.record(node), judge.fingerprint(table, position, consumption)
    own = record.by_fingerprint(fingerprint) if record is not None else None
    return None if own is not None and not own.has_result else fingerprint
