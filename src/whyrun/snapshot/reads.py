"""What is known now of the undeclared reads and the packages of earlier attempts. Pure.

An attempt stands for what its step read: its result counts only while these paths hold what they held then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from whyrun.graph.tables import ArtifactAt, JobTable, sources_of
from whyrun.log.reads import Read
from whyrun.snapshot.observations import ABSENT, KnownRead, Observations
from whyrun.snapshot.records import Attempt

if TYPE_CHECKING:
    from whyrun.snapshot.read_states import Made
    from whyrun.snapshot.snapshot import PlanningSnapshot

SHA256_DIGITS = 64
MadeNow = Mapping[ArtifactAt, str]  # the content of artifacts that are read undeclared, as far as it is known
Look = Callable[[KnownRead], str | None]  # what is there now, in the words of `KnownRead.content`


class ReadChange(msgspec.Struct, frozen=True):
    """A path that holds something else than when the step read it. `now`: None if that is not known yet."""

    read: KnownRead
    now: str | None


class PackageChange(msgspec.Struct, frozen=True):
    name: str
    old: str
    new: str | None  # None: it is not installed


class OutdatedPackage(msgspec.Struct, frozen=True, order=True):
    """So many up-to-date results were made with another version than is installed now."""

    name: str
    old: str
    new: str  # empty: it is not installed
    jobs: int


class UnboundRead(msgspec.Struct, frozen=True, order=True):
    """Instances of a job read what another job publishes, and do not bind it."""

    job: str
    path: str
    maker: str


class ObservedReads(msgspec.Struct, frozen=True, eq=False):
    """The part of a snapshot about undeclared reads. `present` and `versions` have only what differs from the log."""

    observations: Observations = msgspec.field(default_factory=Observations)
    present: Mapping[str, str] = {}  # observed: by `KnownRead.key`
    names: Mapping[str, tuple[str, ...]] = {}  # observed: what came or went in folders, by `KnownRead.names_key`
    made: Mapping[str, Made] = {}  # by `KnownRead.key`: what jobs publish there
    versions: Mapping[str, str | None] = {}  # observed: of packages; None: not installed
    counts_packages: bool = False  # `packages = "count"`
    outdated: tuple[OutdatedPackage, ...] = ()
    unbound: tuple[UnboundRead, ...] = ()  # for each pair of jobs, the first path

    def known_reads(self, job: str) -> tuple[Read, ...]:
        """What only strace saw on the job's traced instance; steps that are not traced record it as it is then."""
        return tuple(read.to_read() for read in self.observations.known_reads(job))

    def is_traced(self, job: str) -> bool:
        return job in self.observations.traced


def bound_outputs(table: JobTable) -> frozenset[tuple[int, int]]:
    """The tables and outputs that the first row is given, and the others like it."""
    first = (slot.column.at(0) for slot in table.slots if slot.binding and len(table))
    sources = (source for term in first for source in sources_of(term))
    return frozenset((source.table, source.artifact) for source in sources if isinstance(source, ArtifactAt))


def has_own_packages(table: JobTable) -> bool:
    """Whether its steps have other packages than those that are installed here: they count in its fingerprint."""
    return table.decl.environment is not None or table.decl.container is not None


def package_changes(snapshot: PlanningSnapshot, node: int, attempt: Attempt) -> list[PackageChange]:
    """The packages that this attempt of an instance imported in other versions than are installed now."""
    reads = snapshot.reads
    if not reads.versions or not attempt.packages or has_own_packages(snapshot.dependency_graph.table_at(node)[0]):
        return []
    recorded, now = reads.observations.packages_of(attempt.packages), reads.versions
    return [PackageChange(name, old, now[name]) for name, old in recorded.items() if now.get(name, old) != old]


def read_changes(
    snapshot: PlanningSnapshot, node: int, attempt: Attempt, made_now: MadeNow, look: Look | None = None
) -> Iterator[ReadChange]:
    """What this attempt of an instance read and now finds otherwise.

    `look`: for a decision during a run, whose steps may have changed files since the snapshot was taken.
    """
    reads = snapshot.reads
    for read in reads.observations.reads_of(attempt.reads) if attempt.reads else ():
        made = reads.made.get(read.key)
        if made is not None and read.kind != "folder" and _makes(snapshot, node, made):
            continue  # its own earlier output
        now = _content_now(snapshot, read, made, made_now, look)
        if now is None or now != read.content:
            yield ReadChange(read, now)


def _makes(snapshot: PlanningSnapshot, node: int, made: Made) -> bool:
    return any(snapshot.dependency_graph.node(at) == node for at in made.artifacts)


def _content_now(
    snapshot: PlanningSnapshot, read: KnownRead, made: Made | None, made_now: MadeNow, look: Look | None
) -> str | None:
    known = [at for at in made.artifacts if at in made_now] if made is not None else []
    if made is not None and made.whole and known:
        return made_now[known[0]]
    if any(made_now[at] != snapshot.shas[at.table][at.artifact][at.position] for at in known):
        return None  # it is made anew
    if look is not None:
        return look(read)
    state = snapshot.reads.present.get(read.key)
    return read.content if state is None else state


def still_holds(
    snapshot: PlanningSnapshot, node: int, attempt: Attempt, made_now: MadeNow, look: Look | None = None
) -> bool:
    """Whether an attempt would read the same now; and import the same, if packages count. `look`: see `read_changes`"""
    if snapshot.reads.counts_packages and package_changes(snapshot, node, attempt):
        return False
    if attempt.reads and _reads_other_jobs(snapshot, node, attempt, made_now):
        return False
    return next(read_changes(snapshot, node, attempt, made_now, look), None) is None


def present_reads(snapshot: PlanningSnapshot, node: int, made_now: MadeNow) -> list[Read]:
    """The known reads of an instance, with what is there now: a decision about its results stands for these."""
    record = snapshot.record(node)
    attempt = None if record is None else record.last_success() or record.latest
    if attempt is None:
        return []
    now = {change.read: change.now for change in read_changes(snapshot, node, attempt, made_now)}
    return [
        _as_read(read, now[read]) if read in now else read.to_read()
        for read in snapshot.reads.observations.reads_of(attempt.reads)
    ]


def _as_read(read: KnownRead, now: str | None) -> Read:
    by = read.to_read().by
    if now == ABSENT:
        return Read(read.path, "absent", by=by)
    if now is None or len(now) != SHA256_DIGITS:
        return Read(read.path, "unknown", by=by)
    return Read(read.path, "folder" if read.kind == "folder" else "file", now, by)


def present_packages(snapshot: PlanningSnapshot, node: int) -> dict[str, str]:
    """The packages of an instance in their present versions."""
    record = snapshot.record(node)
    attempt = None if record is None else record.last_success() or record.latest
    recorded = {} if attempt is None else snapshot.reads.observations.packages_of(attempt.packages)
    now = {name: snapshot.reads.versions.get(name, version) for name, version in recorded.items()}
    return {name: version for name, version in now.items() if version is not None}


def _reads_other_jobs(snapshot: PlanningSnapshot, node: int, attempt: Attempt, made_now: MadeNow) -> bool:
    """Whether it read what another job makes and the instance has no edge to, because its last success did not read it:
    that job may be about to make it anew."""
    record = snapshot.record(node)
    if record is not None and (record.last_success() or record.latest).reads == attempt.reads:
        return False
    reads, own = snapshot.reads, snapshot.dependency_graph.table_at(node)[0].number
    made = [reads.made[read.key] for read in reads.observations.reads_of(attempt.reads) if read.key in reads.made]
    return any(at.table != own and at not in made_now for one in made for at in one.artifacts)
