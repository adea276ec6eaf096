"""Earlier results: reuse them instead of executing a step, and restore the stored bytes that a step needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from msgspec import UNSET

from whyrun.artifacts.shared.result import SharedResult
from whyrun.execution.protocol.messages import EarlierVersion
from whyrun.execution.recording.observed import PresentReads, published_by
from whyrun.execution.recording.publisher import Publisher, published_path
from whyrun.graph.tables import ArtifactAt, JobTable
from whyrun.ids import SECTION_MARK
from whyrun.planning.artifact_states import key_of
from whyrun.planning.consume import Consumption, Entry
from whyrun.planning.moved_results import MovedResults
from whyrun.planning.plan import Plan
from whyrun.planning.reuse import Others, Reuse, attempts_by_fingerprint, is_undone, latest_of_others, reusable
from whyrun.snapshot.observations import KnownRead
from whyrun.snapshot.reads import still_holds
from whyrun.snapshot.records import Attempt, Output, run_name
from whyrun.snapshot.snapshot import PlanningSnapshot
from whyrun.workflow import arrays


class ReusableResults:
    def __init__(self, snapshot: PlanningSnapshot, publisher: Publisher) -> None:
        self.snapshot, self.publisher, self.store = snapshot, publisher, publisher.store
        # Results of the shared store, by fingerprint: those of the plan, and those that arrive during the run.
        self._shared: dict[str, SharedResult] = dict(snapshot.shared)
        self._by_fingerprint: Others | None = None
        self._moved, self._planned = MovedResults(snapshot), dict[str, Reuse]()  # by step: what the plan takes
        self._present = PresentReads(publisher.project, publisher.cache)
        self._published: dict[str, frozenset[str]] = {}  # job → the paths that its instances publish
        self._lost = set(snapshot.lost)  # `Output.bytes_key` of bytes that were missing when they were needed

    def announce_sections(self, plan: Plan) -> None:
        """Announce the sections that the plan reuses, so that each shared file is written once, not once a section.

        The log already records each of them at its location, so after a kill the file has nothing that the log lacks.
        """
        for job in plan.planned:
            if job.reuse is None or job.reuse.step != job.id:
                continue
            table, _ = self.snapshot.dependency_graph.table_at(job.node)
            if any(output.append for output in table.outputs):
                for output in job.reuse.outputs.values():
                    if output.path is not None and SECTION_MARK in output.path:
                        self.publisher.announce(output.path, output.sha256)

    def restore_planned(self, plan: Plan) -> None:
        """Before the first step: restore reused bytes that only a published file still has. Another step may publish
        over that file before the step that reuses it has its turn."""
        self._planned |= {job.id: job.reuse for job in plan.planned if job.reuse is not None}
        for job in plan.planned:
            for output in job.reuse.outputs.values() if job.reuse is not None and job.reuse.shared is None else ():
                if output.path is not None and output.value is UNSET:
                    self.has_or_restores(output.sha256, output.type, output.path, output.size)

    def look_at(self, snapshot: PlanningSnapshot) -> None:
        """More instances are known from now on."""
        self.snapshot, self._moved = snapshot, MovedResults(snapshot)
        self._published.clear()
        self._lost.update(snapshot.lost)

    def add_shared(self, result: SharedResult) -> None:
        """The shared store has sent this result; its bytes are in the store."""
        self._shared[result.fingerprint] = result

    def find(self, node: int, table: JobTable, position: int, fingerprint: str, consumed: Consumption) -> Reuse | None:
        """An earlier result to reuse. Checks that its bytes exist, and restores them from published files."""
        made_now = consumed.made_now

        def holds(attempt: Attempt) -> bool:
            return still_holds(self.snapshot, node, attempt, made_now, self._look)

        planned = self._planned.get(table.job_id(position))
        if planned is not None and planned.moved:
            return planned if self._may_move(planned, fingerprint, holds) else None
        record, others = self.snapshot.record(node), self._results_of_other_steps(table)
        if record is None and not others and not self._shared:
            return None
        if is_undone(self.snapshot, table, record, fingerprint, holds):
            return None
        own = record.by_fingerprint(fingerprint, holds) if record is not None else None
        as_planned = own is not None and planned is not None and planned.run == run_name(own.made_in)
        if own is not None and not as_planned and self._moved.moves(table) and not self._still_has(table, node, own):
            return None
        other = latest_of_others(others, fingerprint, holds)
        lost: set[str] = set()
        for attempt in (own, other[1] if other is not None else None):
            for output in attempt.outputs if attempt is not None and attempt.has_result else ():
                if output.value is UNSET and self._is_lost(output, fingerprint):
                    lost.add(output.bytes_key)
        shared = self._available_shared(fingerprint)
        return reusable(table, position, record, fingerprint, others, lost, shared, holds)

    def _may_move(self, planned: Reuse, fingerprint: str, holds: Callable[[Attempt], bool]) -> bool:
        """The plan alone decides that a result moves. Here that must still be right: what the run has made since gives
        the same fingerprint, what its step read undeclared is the same, and its bytes are there."""
        record = self.snapshot.records.steps.get(planned.step)
        if not any(
            one.fingerprint == fingerprint and planned.is_of(one) and holds(one)
            for one in (record.attempts() if record is not None else ())
        ):
            return False
        stored = [output for output in planned.outputs.values() if output.value is UNSET]
        return not any(self._is_lost(output, fingerprint) for output in stored)

    def _still_has(self, table: JobTable, node: int, own: Attempt) -> bool:
        """Whether a result that the step had before is its own: it may have moved to another one since."""
        step = self.snapshot.dependency_graph.job_id(node)
        if self._moved.keeper(table, node, own, lambda _: None) is not None:
            return False
        record = self.snapshot.record(node)
        present = record is not None and own in (record.latest, record.last_success())
        return present or self._moved.first_owner(table, own, step) == step

    def _look(self, read: KnownRead) -> str | None:
        """What an earlier attempt read undeclared, as it is now: steps of this run may have written it."""
        if read.job not in self._published:
            tables = self.snapshot.dependency_graph.tables
            self._published[read.job] = frozenset[str]().union(*(published_by(t) for t in tables if t.name == read.job))
        return self._present.content(read, self._published[read.job])

    def _is_lost(self, output: Output, fingerprint: str) -> bool:
        # Bytes that were lost here and came back from the shared store still count as lost: the result that is reused
        # is the shared one, as the plan says.
        if fingerprint in self._shared and output.bytes_key in self._lost:
            return True
        if self.has_or_restores(output.sha256, output.type, output.path, output.size):
            return False
        self._lost.add(output.bytes_key)
        return True

    def _available_shared(self, fingerprint: str) -> Mapping[str, SharedResult]:
        """The shared result with this fingerprint, if its fetched bytes are still in the store."""
        result = self._shared.get(fingerprint)
        if result is None:
            return {}
        stored = [output for output in result.outputs if output.value is UNSET]
        available = all(self.has_or_restores(output.sha256, output.type, None, output.stored) for output in stored)
        return {fingerprint: result} if available else {}

    def _results_of_other_steps(self, table: JobTable) -> Others:
        if self.snapshot.reuse_scope(table) != "anywhere":
            return {}
        if self._by_fingerprint is None:
            self._by_fingerprint = attempts_by_fingerprint(self.snapshot.records.steps)
        return self._by_fingerprint

    def has_or_restores(self, sha256: str, type_: str, path: str | None, size: int | None = None) -> bool:
        """Whether the store has these bytes, restored from the published file at `path` if need be."""

        def is_stored() -> bool:
            return self.store.has_tree(sha256) if type_ == "directory" else self.store.has(sha256, size)

        if is_stored():
            return True
        if path is not None:
            self.publisher.restore(path, sha256)
        return is_stored()

    def drop_damaged(self, consumed: Consumption, compared: Mapping[str, EarlierVersion]) -> None:
        """A worker reports a digest mismatch in one of its inputs. Check each of them here and drop damaged blobs: the
        worker may have had a copy, and the damage is in this store."""
        for version in compared.values():
            self.store.drop_damaged(version.sha256, version.type)
        for entry, type_, _ in self._stored_inputs(consumed):
            self.store.drop_damaged(entry.sha256, type_)

    def restore_inputs(self, consumed: Consumption) -> None:
        """Restore inputs that the store has lost from their published files, where those are unchanged."""
        for entry, type_, path in self._stored_inputs(consumed):
            self.has_or_restores(entry.sha256, type_, path)

    def _stored_inputs(self, consumed: Consumption) -> Iterator[tuple[Entry, str, str | None]]:
        """The consumed artifacts that live in the store, with their types and published paths."""
        for entries in consumed.entries.values():
            for entry in entries if isinstance(entries, list) else (entries,):
                if isinstance(entry.source, ArtifactAt) and entry.value is UNSET:
                    table = self.snapshot.dependency_graph.tables[entry.source.table]
                    type_ = table.artifacts[entry.source.artifact].type
                    path = published_path(table, entry.source.artifact, entry.source.position)
                    if entry.source.element is not None:
                        element = arrays.Element(key_of(entry.source), entry.sha256, 0, entry.form[1:])
                        path = None if path is None else arrays.published_path(path, element, type_)
                        type_ = arrays.element_type(type_)
                    yield entry, type_, path
