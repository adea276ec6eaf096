"""Results follow their content: an instance takes the result of another instance of its job that has no use for it.

An insertion into a loop gives every later instance another index. The result that an instance paid for is then what
the next one would compute. It is taken from there if it is free: no instance of the workflow that has it would compute
it now, or may turn out to. A result is the execution that made it, however often it has moved, and one instance has it
at a time: two instances with one prompt keep two pictures. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from whyrun.graph.tables import JobTable
from whyrun.snapshot.records import Attempt, StepRecord
from whyrun.snapshot.snapshot import PlanningSnapshot

Result = tuple[int, str]  # the run and the step that made it
Print = Callable[[int], str | None]  # by node: the fingerprint that it has now; None: it is not known yet


class MovedResults:
    """Which results the instances of a snapshot may take. `taken` grows as they do."""

    def __init__(self, snapshot: PlanningSnapshot) -> None:
        self._snapshot, self._graph = snapshot, snapshot.dependency_graph
        self._by_job: dict[str, dict[str, list[tuple[str, Attempt]]]] = {}
        self.taken: dict[Result, int] = {}

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
        for other, _ in self._with(table, attempt.fingerprint):
            holder = self._graph.node_of.get(other)
            if holder is None or holder == node or now(holder) not in (None, attempt.fingerprint):
                continue
            if _has_now(self._snapshot.record(holder), other, result):
                return other
        return None

    def first_owner(self, table: JobTable, attempt: Attempt, step: str) -> str:
        """Of the instances that had this result before, the first. For a decision during a run, which must not depend
        on which of them comes first then."""
        result = attempt.result(step)
        nodes = self._graph.node_of
        had = {one for one, a in self._with(table, attempt.fingerprint) if a.result(one) == result and one in nodes}
        return min(had, key=lambda one: nodes[one], default=step)

    def free(self, table: JobTable, node: int, fingerprint: str, now: Print) -> Iterator[tuple[str, Attempt]]:
        """The free results with this fingerprint, each as one of the instances has it, in the order of their runs."""
        by_result: dict[Result, list[tuple[str, Attempt]]] = {}
        for step, attempt in self._with(table, fingerprint):
            if attempt.has_result:
                by_result.setdefault(attempt.result(step), []).append((step, attempt))
        for result in sorted(by_result, key=lambda one: min((a.made_in, a.run, a.seq) for _, a in by_result[one])):
            holders = (self._graph.node_of.get(step) for step, _ in by_result[result])
            held = any(holder is not None and now(holder) in (None, fingerprint) for holder in holders)
            if not held and self.taken.get(result, node) == node:
                yield min(by_result[result], key=lambda one: (one[1].run, one[1].seq, one[0]))

    def _with(self, table: JobTable, fingerprint: str) -> list[tuple[str, Attempt]]:
        """The attempts of the job that had this fingerprint, by instances whose results may move."""
        found = self._by_job.get(table.name)
        if found is None:
            found = self._by_job[table.name] = {}
            for step in self._snapshot.donors.get(table.name, ()):
                record = self._snapshot.records.steps.get(step)
                for attempt in record.attempts() if record is not None else ():
                    found.setdefault(attempt.fingerprint, []).append((step, attempt))
        return found.get(fingerprint, [])


def _has_now(record: StepRecord | None, step: str, result: Result) -> bool:
    """Whether it is the present result of an instance, or that of its last success."""
    present = () if record is None else (record.latest, record.last_success())
    return any(one is not None and one.has_result and one.result(step) == result for one in present)
