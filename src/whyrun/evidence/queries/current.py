"""Current artifacts, from the records of the snapshot; and published files whose job is inactive or removed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from msgspec import UNSET

from whyrun.graph.tables import ArtifactAt, Graph
from whyrun.ids import parse_id, site_of
from whyrun.log.lean_events import ArtifactAdopted, ArtifactAvailable, scan
from whyrun.log.runs import RunRef, log_without_start
from whyrun.log.tombstones import Tombstone
from whyrun.planning.id_matching import unknown_id
from whyrun.planning.plan import Plan
from whyrun.snapshot.records import Output, Records, StepRecord, run_name
from whyrun.snapshot.snapshot import PlanningSnapshot
from whyrun.workflow.arrays import element_type, elements_of, is_array, published_path

ArtifactState = Literal["available", "missing", "failed", "inactive", "running"]


@dataclass(frozen=True, slots=True)
class CurrentArtifact:
    """`change`: why an artifact that was made is missing: deleted changed lost. `job_state`: as in the plan."""

    id: str
    state: ArtifactState
    type: str
    job: str
    job_state: str  # clean planned inactive, or reused
    run: str | None = None
    sha256: str | None = None
    size: int | None = None
    path: str | None = None
    change: str | None = None
    origin: str | None = None  # reused, adopted, kept
    value: Any = UNSET  # of leaves and value outputs

    def to_json(self) -> dict[str, Any]:
        written = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "value"}
        record = {name: value for name, value in written.items() if value is not None}
        return record if self.value is UNSET else {**record, "value": self.value}


@dataclass(frozen=True, slots=True)
class StaleFile:
    """A published file whose job is inactive or removed now."""

    path: str
    artifact: str
    run: str
    why: Literal["inactive", "removed"]
    edited: bool  # its content differs from every version that a run published

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def job_states(plan: Plan) -> dict[int, str]:
    """Node → planned, reused, open, deferred or inactive. Nodes that are not in it are clean."""
    return {j.node: "reused" if j.state == "planned" and j.reuse is not None else j.state for j in plan.jobs}


def current_artifacts(
    snapshot: PlanningSnapshot, plan: Plan, nodes: Iterable[int] | None = None
) -> Iterator[CurrentArtifact]:
    """Every declared artifact (of these nodes), in the order of the graph."""
    states = job_states(plan)
    graph = snapshot.dependency_graph
    for node in range(graph.size) if nodes is None else nodes:
        table, p = graph.table_at(node)
        job = table.job_id(p)
        record = snapshot.records.steps.get(job)
        for a, spec in enumerate(table.artifacts):
            paths = None if spec.is_leaf else table.output_of(a).paths
            path = None if paths is None or p in table.open_rows else paths[p]
            available = snapshot.shas[table.number][a][p] is not None
            state = states.get(node, "clean")
            whole = _artifact(snapshot, table.artifact_id(a, p), spec.type, job, state, record, available, path)
            if is_array(spec.type) and whole.run is not None and record is not None and state != "inactive":
                yield from _array(snapshot, ArtifactAt(table.number, a, p), whole, record)
            else:
                yield whole


def current_artifact(snapshot: PlanningSnapshot, plan: Plan, node: int, id_: str) -> CurrentArtifact:
    """That of this ID, of an instance. Any key may be written behind an array; one without an element is an error."""
    found = {one.id: one for one in current_artifacts(snapshot, plan, [node])}
    if id_ not in found:
        raise unknown_id(id_, list(found))
    return found[id_]


def _array(
    snapshot: PlanningSnapshot, at: ArtifactAt, whole: CurrentArtifact, record: StepRecord
) -> Iterator[CurrentArtifact]:
    """The list, and each of its elements."""
    made = {output.id: output for output in record.latest.outputs}
    if not record.latest.ok or (whole.change == "retyped" and made[whole.id].type != whole.type):
        yield whole
        return
    missing = {id_: change for id_, _, change in snapshot.missing_elements(at)}
    gone = next(iter(missing.values()), None)
    yield replace(whole, change=gone)
    for element in elements_of(made[whole.id].value):
        id_, change = whole.id + element.text, missing.get(whole.id + element.text)
        yield replace(
            whole,
            id=id_,
            state="available" if change is None else "missing",
            type=element_type(whole.type),
            sha256=element.sha256,
            size=element.size,
            path=None if whole.path is None else published_path(whole.path, element, whole.type),
            change=change,
            value=element.value,
        )


def _artifact(
    snapshot: PlanningSnapshot,
    id_: str,
    type_: str,
    job: str,
    job_state: str,
    record: StepRecord | None,
    available: bool,
    path: str | None,
) -> CurrentArtifact:
    if job_state == "inactive":
        return CurrentArtifact(id_, "inactive", type_, job, job_state)
    if record is None:
        return CurrentArtifact(id_, "missing", type_, job, job_state, path=path)
    latest = record.latest
    run = run_name(latest.run)
    if not latest.ok:
        state: ArtifactState = "running" if job in snapshot.running_steps else "failed"
        return CurrentArtifact(id_, state, type_, job, job_state, run, path=path)
    output: Output | None = next((o for o in latest.outputs if o.id == id_), None)
    if output is None:
        return CurrentArtifact(id_, "missing", type_, job, job_state, path=path)
    number, how = latest.source_of(id_)
    run, origin = run_name(number), how or None
    if available:
        return CurrentArtifact(
            id_, "available", type_, job, job_state, run, output.sha256, output.size, path, None, origin, output.value
        )
    change = "lost" if path is None else snapshot.files.get(path, "retyped")
    if path is None and output.value is not UNSET:
        change = "retyped"
    elif change == "deleted" and output.path != path:
        change = "unpublished"
    return CurrentArtifact(id_, "missing", type_, job, job_state, run, output.sha256, output.size, path, change, origin)


def count_leftover_files(records: Records, graph: Graph, exists: Callable[[str], bool]) -> int:
    """The number of existing files that removed jobs published and no current job publishes. Cheap: only the records of
    removed jobs are read."""
    gone = records.steps.keys() - graph.node_of.keys()
    open_jobs = _open_jobs(graph)
    gone = {step for step in gone if parse_id(step).job not in open_jobs} if open_jobs else gone
    if not gone:
        return 0
    made = [success for step in gone if (success := records.steps[step].last_success()) is not None]
    published = {output.path for success in made for output in success.outputs if output.path}
    wanted = {path for table in graph.tables for output in table.outputs for path in output.paths or ()}
    return sum(map(exists, published - wanted))


def stale_files(
    snapshot: PlanningSnapshot,
    plan: Plan,
    runs: list[RunRef],
    sha256_of: Callable[[str], str | None],
    pruned: Iterable[Tombstone] = (),
) -> list[StaleFile]:
    """Files and sections of inactive or removed jobs (or outputs, or paths) that still exist.

    `sha256_of(site)`: None if it does not exist.
    """
    graph = snapshot.dependency_graph
    inactive = {job.node for job in plan.jobs if job.state == "inactive"}
    wanted: set[str] = set()
    unwanted: set[str] = set()
    for table in graph.tables:
        for output in table.outputs:
            for p, path in enumerate(output.paths or ()):
                kept = unwanted if table.base + p in inactive else wanted
                kept.update(_files_of(snapshot.record(table.base + p), path) if is_array(output.type) else (path,))
    published: dict[str, tuple[str, str, set[str]]] = {}
    for stone in pruned:
        for one in stone.published:
            if one.site not in wanted:
                published[one.site] = (one.artifact, stone.run, {one.sha256})
    open_jobs = _open_jobs(graph)
    for run in runs:
        for event in _published(run):
            site = site_of(event.path or "", event.section)
            if site in wanted or (open_jobs and parse_id(event.artifact).job in open_jobs):
                continue
            hashes = published[site][2] if site in published else set()
            published[site] = (event.artifact, run.name, hashes | {event.sha256})
    stale = []
    for path in sorted(published):
        artifact, last_run, hashes = published[path]
        sha = sha256_of(path)
        if sha is not None:
            stale.append(
                StaleFile(path, artifact, last_run, "inactive" if path in unwanted else "removed", sha not in hashes)
            )
    return stale


def _open_jobs(graph: Graph) -> set[str]:
    """Jobs with a loop that is not known yet. Which files they publish shows in a run, so none is a leftover."""
    return {table.name for table in graph.tables if table.open_rows}


def _files_of(record: StepRecord | None, folder: str) -> Iterator[str]:
    """The files that the last success published in the folder of an array."""
    success = None if record is None else record.last_success()
    for output in () if success is None else success.outputs:
        if output.path is not None and output.path.startswith(f"{folder}/"):
            yield output.path


def _published(run: RunRef) -> Iterator[ArtifactAvailable | ArtifactAdopted]:
    try:
        for events in scan(run.events_path):
            for event in events:
                if isinstance(event, ArtifactAvailable | ArtifactAdopted) and event.path is not None:
                    yield event
    except FileNotFoundError:
        if run.tombstone() is None:  # else it was pruned after the runs were listed
            raise log_without_start(run) from None
