"""The snapshot: everything that the planner may know.

The planner reads nothing else and changes nothing. Observations are kept only where they differ from the log, so that a
snapshot can be recorded and rebuilt (`history.replay`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec
from msgspec.structs import replace

from whyrun.artifacts.hash_column import HashColumn
from whyrun.graph.tables import (
    ArtifactAt,
    Graph,
    JobTable,
)
from whyrun.snapshot.observations import KnownRead
from whyrun.snapshot.reads import ObservedReads
from whyrun.snapshot.records import Attempt, InputRecord, MadeInRun, Output, Records, StepRecord, run_name
from whyrun.workflow.arrays import Element, ListIndex, elements_of, published_path
from whyrun.workflow.inputs import InputValue
from whyrun.workflow.model import ReuseScope

if TYPE_CHECKING:
    from decimal import Decimal

    from whyrun.artifacts.shared.result import SharedResult

JobStatus = Literal["succeeded", "failed", "never_run", "running"]
Consumed = Mapping[str, Any]  # slot name → [{"id", "sha256", "as"?, "value"?}] or {"count", "digest", "blob"}


class ArtifactAvailabilityRecord(msgspec.Struct, frozen=True):
    id: str
    sha256: str
    size: int
    type: str
    run: str
    seq: int
    step_id: str
    path: str | None = None


class ProducerAttemptRecord(msgspec.Struct, frozen=True):
    step_id: str
    status: JobStatus
    run: str | None = None
    attempt: int | None = None
    error_type: str | None = None
    error: str | None = None


class InputStateRecord(msgspec.Struct, frozen=True):
    id: str
    sha256: str
    recorded_sha256: str | None


NAMED_FILES = 16  # of an action, listed in the record of every step


class EnvironmentFacts(msgspec.Struct, frozen=True):
    """The locked packages that a job's steps run with."""

    lock: str  # the file, relative to the project
    sha256: str  # of the lock
    packages: Mapping[str, str]  # by name: the version


class ContainerFacts(msgspec.Struct, frozen=True):
    """The container that a job's steps run in."""

    image: str  # as written
    reference: str | None  # by which an engine finds exactly this content; None: the tag was not resolved yet
    network: bool
    engine: str | None


class ActionFacts(msgspec.Struct, frozen=True):
    """What planning knows of a job's action."""

    name: str
    sha256: str
    deterministic: bool = False
    files: Mapping[str, str] = msgspec.field(default_factory=dict)  # its code in the project: path → hash
    uncounted: tuple[str, ...] = ()  # parameters that do not count in the fingerprint
    versions: Mapping[str, str] = msgspec.field(default_factory=dict)  # of packages, for code outside the project
    effectful: bool = False  # it changes something outside of the project, such as a database
    # For a run. What counts of them is in `sha256`.
    environment: EnvironmentFacts | None = None
    container: ContainerFacts | None = None
    in_project: bool = False  # its steps run in the project folder


class BlobCheck(msgspec.Struct, frozen=True):
    """Bytes to look for in the store, or in a published file with the same content."""

    sha256: str
    size: int
    type: str
    path: str | None
    key: str  # `Output.bytes_key`


class Observer(Protocol):
    """Looks at files and stored bytes. It reports only what differs from the log."""

    @property
    def counts_packages(self) -> bool:
        """Whether the project wants another version of an imported package to count as a change."""

    def changed_files(self, paths: Sequence[str], sha256s: Sequence[str | None]) -> Mapping[str, str]:
        """path → "deleted" or "changed", for published files whose content is not the recorded one."""

    def changed_sections(self, sites: Sequence[str], sha256s: Sequence[str | None]) -> Mapping[str, str]:
        """The same for sections of shared files, by their sites; called only if there are any."""

    def lost_blobs(self, checks: Sequence[BlobCheck]) -> Iterable[str]:
        """The keys of those whose bytes are lost."""

    def contents(
        self, files: Sequence[str], others: Collection[str], folders: Mapping[str, tuple[str, Collection[str]]]
    ) -> Mapping[str, str]:
        """What undeclared reads would find now: the hash of each file, and by key that of the names in a folder
        (without the names given with it); `absent`, or in words what else is there. Called only if there are any.

        `others`: paths where nothing was, or nobody knows what. A folder there is not hashed.
        """

    def name_changes(self, read: KnownRead, own: Collection[str], known: Collection[str]) -> Sequence[str]:
        """What came or went in a folder that was listed, if that can be known: see `log.reads.name_changes`.

        `own`: names that do not count there."""

    def versions(self, packages: Collection[str]) -> Mapping[str, str | None]:
        """The versions of packages as they are installed now; called only if steps recorded any."""


class LogReader(Protocol):
    """The folded log, with details of single records on demand."""

    @property
    def records(self) -> Records: ...

    def consumed(self, attempts: Iterable[Attempt]) -> Mapping[tuple[int, int], Consumed]:
        """(run, seq) → the bindings recorded there."""

    def check_ids(self) -> None:
        """Read every ID of the log; LOG_DAMAGED with file and line at the first that is not canonical."""


# Asks actions for the runtime of instances: seconds by node, for the actions that give an estimate.
Estimator = Callable[[Sequence[int]], Mapping[int, float]]


class Price(msgspec.Struct, frozen=True):
    """What an instance would cost. `costs`: currency → amount, as text; None: unknown."""

    costs: Mapping[str, str] | None
    source: Literal["action", "prices", "history", "unknown"]


class Pricer(Protocol):
    def __call__(self, nodes: Sequence[int]) -> Mapping[int, Price]:
        """By node: what is known without the log, or that an instance costs something unknown."""

    def unit_price(self, item: str) -> tuple[Decimal, str] | None:
        """The price of one unit of an item, with its currency."""

    def notes(self, nodes: Sequence[int]) -> list[str]:
        """What is probably a mistake in the price list, or in the estimates of these instances."""


class PlanningSnapshot(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Built once (`build_planning_snapshot`) and never changed: more knowledge makes a new snapshot (`with_…`)."""

    dependency_graph: Graph
    records: Records
    actions: Mapping[str, ActionFacts]  # by job name
    files: Mapping[str, str]  # observed: published site → "deleted" | "changed"
    lost: frozenset[str]  # observed: `Output.bytes_key` of bytes that are gone
    running: str | None = None  # observed: the last run, if it is going on and has open steps
    suspects: Sequence[int] = ()
    consumed: Mapping[tuple[int, int], Consumed] = msgspec.field(default_factory=dict)
    rows: Sequence[Sequence[StepRecord | None]] = ()  # [table][row]: what the log says of it
    shas: Sequence[Sequence[HashColumn]] = ()  # [table][artifact][row]: recorded, and still there
    shared: Mapping[str, SharedResult] = msgspec.field(default_factory=dict)  # found in a shared store, by fingerprint
    reads: ObservedReads = msgspec.field(default_factory=ObservedReads)
    made: MadeInRun = msgspec.field(default_factory=dict)  # of a stage: what its source and the steps before it made
    estimator: Estimator | None = None  # for estimates, which are no part of a plan
    pricer: Callable[[], Pricer] | None = None  # as well
    # By job: the instances whose results may move to others, also those that the workflow does not have any more.
    donors: Mapping[str, Sequence[str]] = msgspec.field(default_factory=dict)
    moving: bool = True  # False: of a run before results could move

    @property
    def log_position(self) -> dict[str, Any] | None:
        return {"run": run_name(self.records.run), "seq": self.records.seq} if self.records.run else None

    def with_shared(self, results: Mapping[str, SharedResult]) -> PlanningSnapshot:
        """With these results of a shared store instead of those known so far."""
        return replace(self, shared=dict(results))

    def with_estimates(self, estimator: Estimator, pricer: Callable[[], Pricer]) -> PlanningSnapshot:
        return replace(self, estimator=estimator, pricer=pricer)

    def reuse_scope(self, table: JobTable) -> ReuseScope:
        """Whose results an instance may take: its own, also those of its job that nobody has, or those of any job."""
        scope = table.decl.reuse
        if scope is None:
            action = self.actions[table.name]
            scope = "anywhere" if action.deterministic else "job" if not action.effectful else "instance"
        return scope if self.moving or scope != "job" else "instance"

    # -- one instance --

    def record(self, node: int) -> StepRecord | None:
        if not self.records.steps:
            return None
        table, position = self.dependency_graph.table_at(node)
        return self.rows[table.number][position]

    @property
    def running_steps(self) -> frozenset[str]:
        """The steps that are being executed now. Their latest attempt is recorded as interrupted until it ends."""
        return self.records.open if self.running is not None else frozenset()

    def is_running(self, node: int) -> bool:
        return self.running is not None and self.dependency_graph.job_id(node) in self.records.open

    def has_failed(self, node: int) -> bool:
        """Whether its latest attempt has ended without success."""
        record = self.record(node)
        return record is not None and not record.latest.ok and not self.is_running(node)

    def output(self, at: ArtifactAt) -> Output:
        """The record of an available artifact."""
        table = self.dependency_graph.tables[at.table]
        record = self.rows[at.table][at.position]
        assert record is not None
        wanted = table.artifact_id(at.artifact, at.position)
        return next(o for o in record.latest.outputs if o.id == wanted)

    def elements(self, at: ArtifactAt) -> Collection[Element]:
        """The elements of an available array, as its list names them."""
        return self._lists.elements(at.whole, self.output(at.whole).value).values()

    def missing_elements(self, at: ArtifactAt) -> Iterator[tuple[str, str | None, str]]:
        """(ID, path, change) of the elements of a recorded array that are not there: deleted changed lost …"""
        table, record = self.dependency_graph.tables[at.table], self.rows[at.table][at.position]
        assert record is not None
        made = {output.id: output for output in record.latest.outputs}
        whole, paths = table.artifact_id(at.artifact, at.position), table.output_of(at.artifact).paths
        for element in elements_of(made[whole].value):
            output = made.get(whole + element.text)
            folder = None if paths is None else paths[at.position]
            path = None if folder is None else published_path(folder, element, made[whole].type)
            change = "lost" if output is None else self.files.get(path or "")
            if change == "deleted" and output is not None and output.path != path:
                change = "unpublished"
            if change is None and output is not None and path is None and output.sha256 in self.lost:
                change = None if output.value is not msgspec.UNSET else "lost"
            if change is not None:
                yield whole + element.text, path, change

    def element(self, at: ArtifactAt) -> Element | None:
        """The element of an available array that has this key."""
        assert at.element is not None
        return self._lists.element(at.whole, self.output(at.whole).value, at.element)

    @cached_property
    def _lists(self) -> ListIndex:
        return ListIndex()

    def value(self, at: ArtifactAt) -> Any:
        if at.element is not None and (element := self.element(at)) is not None:
            return element.value if element.value is not msgspec.UNSET else element.sha256
        output = self.output(at)
        return output.value if output.value is not msgspec.UNSET else output.sha256

    # -- views of the whole, computed on demand --

    @cached_property
    def available_artifacts(self) -> Mapping[str, ArtifactAvailabilityRecord]:
        found = {}
        for table in self.dependency_graph.tables:
            for a in range(len(table.artifacts)):
                shas = self.shas[table.number][a]
                for p, id_ in enumerate(table.artifact_ids(a)):
                    if shas[p] is not None:
                        latest = self.records.steps[table.job_id(p)].latest
                        output = next(o for o in latest.outputs if o.id == id_)
                        found[id_] = ArtifactAvailabilityRecord(
                            id_, output.sha256, output.size, output.type, run_name(latest.run), latest.seq,
                            table.job_id(p), output.path,
                        )  # fmt: skip
        return found

    @cached_property
    def failed_artifacts(self) -> frozenset[str]:
        return frozenset(
            table.artifact_id(a, p)
            for table in self.dependency_graph.tables
            for p in range(len(table))
            if self.has_failed(table.base + p)
            for a in range(len(table.artifacts))
        )

    @cached_property
    def latest_job_status(self) -> Mapping[str, ProducerAttemptRecord]:
        found = {}
        for table in self.dependency_graph.tables:
            for job in table.job_ids():
                record = self.records.steps.get(job)
                if record is None:
                    found[job] = ProducerAttemptRecord(job, "never_run")
                    continue
                latest = record.latest
                if job in self.running_steps:
                    found[job] = ProducerAttemptRecord(job, "running", run_name(latest.run), latest.number)
                    continue
                failed = (latest.error_type, latest.error) if not latest.ok else (None, None)
                status: JobStatus = "succeeded" if latest.ok else "failed"
                found[job] = ProducerAttemptRecord(job, status, run_name(latest.run), latest.number, *failed)
        return found

    @cached_property
    def input_state(self) -> Mapping[str, InputStateRecord]:
        found = {}
        for id_, value in leaf_inputs(self.dependency_graph.inputs):
            recorded = self.records.inputs.get(id_)
            found[id_] = InputStateRecord(id_, value.sha256, recorded.sha256 if recorded else None)
        return found

    @cached_property
    def inputs_changed(self) -> list[str]:
        """Inputs and elements whose content differs from the last recorded one, and recorded ones that are gone."""
        if not self.records.inputs_of:
            return []
        return sorted(changed_inputs(self.dependency_graph.inputs, self.records.inputs))


def leaf_inputs(inputs: Mapping[str, InputValue]) -> Iterator[tuple[str, InputValue]]:
    """Each input by its canonical ID; of an array, its elements instead of the array. Not those that are absent."""
    for id_, value in inputs.items():
        if value.elements is None:
            if not value.is_absent:
                yield id_, value
        elif any(item.elements is not None for item in value.elements):
            yield from leaf_inputs(dict(value.members(id_)))
        else:
            yield from (member for member in value.members(id_) if not member[1].is_absent)


def changed_inputs(inputs: Mapping[str, InputValue], recorded: Mapping[str, InputRecord]) -> Iterable[str]:
    now = dict(leaf_inputs(inputs))
    for id_, value in now.items():
        before = recorded.get(id_)
        if before is None or before.sha256 != value.sha256:
            yield id_
    for id_, before in recorded.items():
        if id_ not in now and before.sha256:  # an empty hash records a removal
            yield id_
