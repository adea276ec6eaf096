"""Results of earlier runs: to be taken instead of executing, or to be put back where a step needs their bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import UNSET

from whyrun.artifacts.shared_result import SharedResult
from whyrun.execution.commands import EarlierVersion
from whyrun.execution.publisher import Publisher, published_path
from whyrun.graph.graph import ArtifactAt, JobTable
from whyrun.ids import SECTION_MARK
from whyrun.planning.consume import Consumption, Entry
from whyrun.planning.plan import Plan
from whyrun.planning.reuse import Reuse, is_undone, reusable, successes_by_fingerprint
from whyrun.snapshot.records import Attempt, Output
from whyrun.snapshot.snapshot import PlanningSnapshot


class EarlierResults:
    def __init__(self, snapshot: PlanningSnapshot, publisher: Publisher) -> None:
        self.snapshot, self.publisher, self.store = snapshot, publisher, publisher.store
        self._others: Mapping[str, tuple[str, Attempt]] | None = None
        self._gone = set(snapshot.lost)  # `Output.bytes_key` of bytes that were not there when they were looked for

    def announce_sections(self, plan: Plan) -> None:
        """Sections that will surely be reused go into their file together, however many were taken out of it.

        The log holds each of them for its place already, so a kill in between leaves nothing that is not ours.
        """
        for job in plan.planned:
            if job.reuse is None or job.reuse.step != job.id:
                continue
            table, _ = self.snapshot.dependency_graph.table_at(job.node)
            if any(output.append for output in table.outputs):
                for output in job.reuse.outputs.values():
                    if output.path is not None and SECTION_MARK in output.path:
                        self.publisher.announce(output.path, output.sha256)

    def fetch_back(self, plan: Plan) -> None:
        """Before any step: what the plan reuses and only a published file still holds. Another step may publish its own
        there before it is the turn of the one that reuses."""
        for job in plan.planned:
            for output in job.reuse.outputs.values() if job.reuse is not None and job.reuse.shared is None else ():
                if output.path is not None and output.value is UNSET:
                    self.is_there(output.sha256, output.type, output.path, output.size)

    def find(self, node: int, table: JobTable, position: int, fingerprint: str) -> Reuse | None:
        """An earlier result to take; its bytes are looked for now, and fetched back from published files."""
        record, others = self.snapshot.record(node), self._others_of(table)
        if record is None and not others and not self.snapshot.shared:
            return None  # nobody has made anything that could be taken
        if is_undone(self.snapshot, table, record, fingerprint):
            return None
        own = record.by_fingerprint(fingerprint) if record is not None else None
        other = others.get(fingerprint)
        lost: set[str] = set()
        for attempt in (own, other[1] if other is not None else None):
            for output in attempt.outputs if attempt is not None and attempt.has_result else ():
                if output.value is UNSET and self._is_lost(output, fingerprint):
                    lost.add(output.bytes_key)
        return reusable(table, position, record, fingerprint, others, lost, self._shared(fingerprint))

    def _is_lost(self, output: Output, fingerprint: str) -> bool:
        """Lost, too, is what is there again because it came from others: they gave it, as the plan says."""
        if fingerprint in self.snapshot.shared and output.bytes_key in self._gone:
            return True
        if self.is_there(output.sha256, output.type, output.path, output.size):
            return False
        self._gone.add(output.bytes_key)
        return True

    def _shared(self, fingerprint: str) -> Mapping[str, SharedResult]:
        """What others have of it; its bytes were fetched before it was said to be there."""
        result = self.snapshot.shared.get(fingerprint)
        if result is None:
            return {}
        kept = [output for output in result.outputs if output.value is UNSET]
        there = all(self.is_there(output.sha256, output.type, None, output.stored) for output in kept)
        return {fingerprint: result} if there else {}

    def _others_of(self, table: JobTable) -> Mapping[str, tuple[str, Attempt]]:
        if not self.snapshot.actions[table.name].deterministic:
            return {}
        if self._others is None:
            self._others = successes_by_fingerprint(self.snapshot.records.steps)
        return self._others

    def is_there(self, sha256: str, type_: str, path: str | None, size: int | None = None) -> bool:
        """Are these bytes in the store, or can they be fetched back from the published file?"""

        def there() -> bool:
            return self.store.has_tree(sha256) if type_ == "directory" else self.store.has(sha256, size)

        if there():
            return True
        if path is not None:
            self.publisher.restore(path, sha256)
        return there()

    def drop_damaged(self, found: Consumption | None, compared: Mapping[str, EarlierVersion]) -> None:
        """A step says that something it was given has other bytes than it should. The step may have been anywhere, and
        have had a copy: what is wrong is the store here."""
        for version in compared.values():
            self.store.drop_damaged(version.sha256, version.type)
        for one, type_, _ in self._stored(found) if found is not None else ():
            self.store.drop_damaged(one.sha256, type_)

    def _stored(self, found: Consumption) -> Iterator[tuple[Entry, str, str | None]]:
        """What is consumed and lies in the store: with its type, and where it is published."""
        for entry in found.entries.values():
            for one in entry if isinstance(entry, list) else (entry,):
                if isinstance(one.source, ArtifactAt) and one.value is UNSET:
                    table = self.snapshot.dependency_graph.tables[one.source.table]
                    path = published_path(table, one.source.artifact, one.source.position)
                    yield one, table.artifacts[one.source.artifact].type, path

    def put_back(self, found: Consumption) -> None:
        """An artifact whose stored bytes are gone, but whose published file is still right, goes back to the store."""
        for one, type_, path in self._stored(found):
            self.is_there(one.sha256, type_, path)
