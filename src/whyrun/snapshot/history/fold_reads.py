"""EVENTS → RECORDS, for what steps read without declaring it and the packages that they imported. Pure."""

from __future__ import annotations

from collections.abc import Callable

from whyrun.errors import error
from whyrun.log.lean_events import NOTHING, ArtifactAdopted, ResultKept, StepComplete, StepFailed
from whyrun.snapshot.index import split_step
from whyrun.snapshot.records import Attempt, Records, StepRecord

GetBlob = Callable[[str], bytes]
WithReads = StepComplete | StepFailed | ArtifactAdopted | ResultKept


def no_blobs(sha256: str) -> bytes:
    """For folds that plan nothing: a long list of reads counts as lost."""
    raise error("STORE_DAMAGED", f"the blob {sha256} was not asked for")


class ReadsFold:
    """Folds the observations of one run. It raises ValueError for those that a log must not hold."""

    def __init__(self, records: Records, run: int, get_blob: GetBlob) -> None:
        """`get_blob`: the long lists of reads, which are in the store."""
        self.records, self.run, self.get_blob = records, run, get_blob
        self.steps: list[str] = []  # executed
        self.traced: set[int] = set()  # attempts, by the line of their start

    def numbers(self, event: WithReads) -> tuple[int, int]:
        """Of its reads and of its packages: see `Observations`."""
        observations, reads, packages = self.records.observations, 0, 0
        if event.observed is not NOTHING:
            job, _ = split_step(event.step_id)
            reads = observations.add_event_reads(job, bytes(event.observed), self.get_blob)
        if event.packages is not NOTHING:
            packages = observations.add_packages(bytes(event.packages))
        return reads, packages

    def ended(self, step: str, attempt: Attempt, *, traced: bool) -> None:
        self.steps.append(step)
        if traced:
            self.traced.add(attempt.seq)
            if attempt.ok:
                observations = self.records.observations
                observations.traced[split_step(step)[0]] = self.run, observations.strace_only(attempt.reads)

    def finish(self) -> None:
        """Steps that were not traced have read, too, what only strace saw on the traced instance of their job.

        This is known at the end of the run only: the traced instance may end last.
        """
        observations = self.records.observations
        for step in dict.fromkeys(self.steps) if observations.traced else ():
            _, more = observations.traced.get(split_step(step)[0], (0, 0))
            record = self.records.steps.get(step) if more else None
            for attempt in _executed(record, self.run) if record is not None else ():
                reads = attempt.reads if attempt.seq in self.traced else observations.joined(attempt.reads, more)
                if record is not None and reads != attempt.reads:
                    attempt.reads = reads
                    record.settled = _without_superseded(record.settled, attempt)
                    if record.settled == [record.latest]:
                        record.settled = None


def _executed(record: StepRecord, run: int) -> list[Attempt]:
    """The executed attempts of a run that a record holds, oldest first."""
    held = (*(record.settled or ()), *(record.unadopted or ()), record.success, record.latest)
    found = {one.seq: one for one in held if one is not None and one.run == run and not one.origin}
    return [found[seq] for seq in sorted(found)]


def _without_superseded(settled: list[Attempt] | None, attempt: Attempt) -> list[Attempt] | None:
    """Without the earlier attempts of the kind that this one has become."""
    place = next((i for i, one in enumerate(settled or ()) if one is attempt), None)
    if settled is None or place is None:
        return settled
    return [one for one in settled[:place] if one.kind != attempt.kind] + settled[place:]
