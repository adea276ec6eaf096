"""Results follow their content: an instance takes the result of another instance of its job that has no use for it.

An insertion into a loop gives every later instance another index. The result that an instance paid for is then what
the next one would compute. It is taken from there if it is free: no instance of the workflow that has it would compute
it now, or may turn out to. A result is the execution that made it, however often it has moved, and one instance has it
at a time: two instances with one prompt keep two pictures. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from whyrun.graph.tables import JobTable
from whyrun.snapshot.records import Attempt, StepRecord
from whyrun.snapshot.snapshot import PlanningSnapshot

Result = tuple[int, str]  # the run and the step that made it
Print = Callable[[int], str | None]  # by node: the fingerprint that it has now; None: it is not known yet


class MovedResults:
    """Which results the instances of a snapshot may take. `take` tells which one does."""

    def __init__(self, snapshot: PlanningSnapshot) -> None:
        self._snapshot, self._graph = snapshot, snapshot.dependency_graph
        self._by_job: dict[str, dict[str, dict[Result, list[tuple[str, Attempt]]]]] = {}  # then by fingerprint
        self._queues: dict[tuple[str, int, str], _Queue] = {}
        self.taken: dict[Result, int] = {}
        self._taken_by: dict[int, Result] = {}

    def moves(self, table: JobTable) -> bool:
        return self._snapshot.reuse_scope(table) == "job" and table.name in self._snapshot.donors

    def is_whole(self, table: JobTable, planned: Iterable[int]) -> bool:
        """Whether all instances of a job are planned at once. If a loop is not known yet, or an earlier plan of the run
        has some of them (`planned`), nothing moves: what the others will need or have taken is not known."""
        return not table.open_rows and not any(table.base <= node < table.base + len(table) for node in planned)

    def keeper(self, table: JobTable, node: int, attempt: Attempt, now: Print) -> str | None:
        """The instance that has this result now, which `node` made or had before; None if it may be taken again."""
        step = self._graph.job_id(node)
        result = attempt.result(step)
        taker = self.taken.get(result, node)
        if taker != node:
            return self._graph.job_id(taker)
        if _has_now(self._snapshot.record(node), step, result):
            return None
        for other, _ in self._with(table, attempt.fingerprint).get(result, ()):
            holder = self._graph.node_of.get(other)
            if holder is None or holder == node or now(holder) not in (None, attempt.fingerprint):
                continue
            if _has_now(self._snapshot.record(holder), other, result):
                return other
        return None

    def first_owner(self, table: JobTable, attempt: Attempt, step: str) -> str:
        """Of the instances that had this result before, the first. For a decision during a run, which must not depend
        on which of them comes first then."""
        nodes = self._graph.node_of
        had = {one for one, _ in self._with(table, attempt.fingerprint).get(attempt.result(step), ()) if one in nodes}
        return min(had, key=lambda one: nodes[one], default=step)

    def take(self, result: Result, node: int) -> None:
        self.taken[result] = node
        self._taken_by[node] = result

    def free(
        self, table: JobTable, node: int, layer: Callable[[], int], fingerprint: str, now: Print
    ) -> Iterator[tuple[str, Attempt]]:
        """The free results with this fingerprint, each as one of the instances has it, in the order of their runs."""
        by_result = self._with(table, fingerprint)
        if not by_result:
            return
        own = self._taken_by.get(node)  # by an earlier judgment of the same instance
        if own in by_result:
            yield _earliest(by_result[own])
        for result in self._unheld_by_any(table, layer(), fingerprint, now).untaken(self.taken):
            yield _earliest(by_result[result])

    def _unheld_by_any(self, table: JobTable, layer: int, fingerprint: str, now: Print) -> _Queue:
        """The results that no instance would compute now. They are the same for all instances of a layer, so they are
        found once: a hundred thousand instances may have one content."""
        key = (table.name, layer, fingerprint)
        if key not in self._queues:
            nodes, found = self._graph.node_of, dict[Result, tuple[int, int, int]]()
            for result, holders in self._with(table, fingerprint).items():
                of = [(one, nodes.get(step)) for step, one in holders]
                if any(one.has_result for one, _ in of) and not any(
                    node is not None and now(node) in (None, fingerprint) for one, node in of if one.has_result
                ):
                    found[result] = min((one.made_in, one.run, one.seq) for one, _ in of if one.has_result)
            self._queues[key] = _Queue(sorted(found, key=lambda result: found[result]))
        return self._queues[key]

    def _with(self, table: JobTable, fingerprint: str) -> dict[Result, list[tuple[str, Attempt]]]:
        """The attempts of the job that had this fingerprint, of the instances whose results may move: by result."""
        by_print = self._by_job.get(table.name)
        if by_print is None:
            by_print = self._by_job[table.name] = {}
            for step in self._snapshot.donors.get(table.name, ()):
                record = self._snapshot.records.steps.get(step)
                for attempt in record.attempts() if record is not None else ():
                    of_print = by_print.setdefault(attempt.fingerprint, {})
                    of_print.setdefault(attempt.result(step), []).append((step, attempt))
        return by_print.get(fingerprint, {})


class _Queue:
    """Results in the order in which they are taken."""

    def __init__(self, results: list[Result]) -> None:
        self._results, self._start = results, 0

    def untaken(self, taken: Mapping[Result, int]) -> Iterator[Result]:
        while self._start < len(self._results) and self._results[self._start] in taken:
            self._start += 1
        return (result for result in islice(self._results, self._start, None) if result not in taken)


def _earliest(holders: Iterable[tuple[str, Attempt]]) -> tuple[str, Attempt]:
    return min(((s, a) for s, a in holders if a.has_result), key=lambda one: (one[1].run, one[1].seq, one[0]))


def _has_now(record: StepRecord | None, step: str, result: Result) -> bool:
    """Whether it is the present result of an instance, or that of its last success."""
    present = () if record is None else (record.latest, record.last_success())
    return any(one is not None and one.has_result and one.result(step) == result for one in present)
