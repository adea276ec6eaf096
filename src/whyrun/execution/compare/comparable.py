"""What `compare` compares with what: each chosen job instance, what it would consume, and the result that stands.

Every instance is looked at for itself, on the recorded artifacts of the instances upstream, whether or not those are
up to date. Where it would consume something other than the recorded result did, the two say nothing about each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec import UNSET

from whyrun.graph.fingerprint import counts, recorded_suffix
from whyrun.graph.graph import ArtifactAt
from whyrun.graph.layers import compute_layers
from whyrun.planning.consume import Consumer, Consumption, Look, Pending, Seen
from whyrun.planning.dirty import Judge, compare_entries
from whyrun.planning.explain import particulars
from whyrun.planning.plan import match_nodes
from whyrun.planning.reasons import Reason
from whyrun.snapshot.records import Attempt, Output, Records
from whyrun.snapshot.snapshot import ActionFacts, Consumed, LogReader, PlanningSnapshot
from whyrun.workflow.model import VALUE_TYPES


@dataclass(frozen=True, slots=True)
class Subject:
    """One job instance to be compared. `against` is the recorded result; None: there is nothing to compare with."""

    node: int
    found: Consumption
    against: Attempt | None = None
    fingerprint: str = ""  # of what would be executed; empty where nothing would be
    not_comparable: str | None = None  # why

    @property
    def executes(self) -> bool:
        return bool(self.fingerprint)


class Recorded:
    """The results that stood at a point of the log, and what each would consume of the others."""

    def __init__(self, snapshot: PlanningSnapshot, records: Records) -> None:
        self.snapshot, self.records = snapshot, records
        self.graph = snapshot.dependency_graph
        self.inactive: set[int] = set()
        self._outputs: dict[int, Mapping[str, Output]] = {}
        if any(table.condition is not None for table in self.graph.tables):
            self._find_inactive()
        self.consumer = Consumer(self.graph, self.look)

    def result(self, node: int) -> Attempt | None:
        """The available result of an instance: that of its latest attempt, if it succeeded."""
        record = self.records.steps.get(self.graph.job_id(node))
        return record.latest if record is not None and record.latest.ok else None

    def look(self, at: ArtifactAt) -> Look:
        node = self.graph.node(at)
        if node in self.inactive:
            return None
        if node not in self._outputs:
            result = self.result(node)
            self._outputs[node] = {} if result is None else {output.id: output for output in result.outputs}
        table = self.graph.tables[at.table]
        output = self._outputs[node].get(self.graph.artifact_id(at))
        spec = table.artifacts[at.artifact]
        if output is None or (output.type, output.suffix) != (spec.type, recorded_suffix(table, at.artifact)):
            return Pending(maybe=False)
        return Seen(output.sha256, output.value if spec.is_leaf or spec.type in VALUE_TYPES else UNSET)

    def _find_inactive(self) -> None:
        """In the order of layers, so that everything upstream is known when an instance is looked at."""
        layers = compute_layers(self.graph)
        consumer = Consumer(self.graph, self.look)
        for node in sorted(range(self.graph.size), key=lambda n: (layers[n], n)):
            if consumer.consume(*self.graph.table_at(node)).inactive:
                self.inactive.add(node)


def find_subjects(snapshot: PlanningSnapshot, records: Records, log: LogReader, ids: Sequence[str]) -> list[Subject]:
    """The instances that `ids` name, or all that are active and have a result; in the order of the graph."""
    recorded = Recorded(snapshot, records)
    graph = snapshot.dependency_graph
    if ids:
        nodes = sorted({node for text in ids for node in match_nodes(graph, text)})
    else:
        candidates = (node for node in range(graph.size) if node not in recorded.inactive)
        nodes = [node for node in candidates if recorded.result(node) is not None]
    results = {node: recorded.result(node) for node in nodes}
    consumed = log.consumed(attempt for attempt in results.values() if attempt is not None)
    judge = Judge(snapshot, {})
    return [_subject(recorded, judge, node, results[node], consumed) for node in nodes]


def _subject(
    recorded: Recorded,
    judge: Judge,
    node: int,
    against: Attempt | None,
    consumed: Mapping[tuple[int, int], Consumed],
) -> Subject:
    graph = recorded.graph
    table, position = graph.table_at(node)
    found = recorded.consumer.consume(table, position)
    if found.inactive:
        return Subject(node, found, against)
    if judge.snapshot.actions[table.name].effectful:
        return Subject(node, found, against, not_comparable="what it does stands outside, and would be done once more")
    if found.problems:
        name, problem = next(iter(found.problems.items()))
        what = "its condition" if name == "if" else f"`{name.removeprefix('.')}`"
        return Subject(node, found, against, not_comparable=f"{what} cannot be computed: {problem}")
    waiting = next(found.pending, None)
    if waiting is not None or not found.known:
        what = graph.artifact_id(waiting) if waiting is not None else f"`{found.unknown[0]}`"
        return Subject(node, found, against, not_comparable=f"{what} is not available")
    if against is not None:
        changes = list(_changes(found, consumed[(against.run, against.seq)], judge.snapshot.actions[table.name]))
        if changes:
            more = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
            why = particulars(changes[0], table.job_id(position)).replace("  ", " ") + more
            return Subject(node, found, against, not_comparable=why)
    print_ = judge.fingerprint(table, position, found)
    return Subject(node, found, against, print_)


def _changes(found: Consumption, before: Consumed, action: ActionFacts) -> Iterator[Reason]:
    """What it would consume otherwise than the result did; a changed action is the point of comparing."""
    for name in sorted({*before, *found.entries} - {".action"}):
        if counts(name, action.uncounted):
            yield from compare_entries(name.removeprefix("."), before.get(name), found.entries.get(name))
