"""`whyrun adopt` and `whyrun restore`: make a version chosen by the user the current one of an artifact.

This is a small run of mode `adopt`. It records the present fingerprint and bindings of the job, so the version stays
current, also through reuse, until the job's inputs change. It has no plan, but otherwise the evidence of any run.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from whyrun.artifacts.hashing import TREE_START, decode_tree
from whyrun.artifacts.store import Store
from whyrun.console.lines import TaskStatus
from whyrun.errors import WhyrunError, error
from whyrun.execution.adopt.adoptable import (
    NO_OUTPUTS,
    AdoptionTarget,
    Outputs,
    find_target,
    locate,
    not_adoptable,
    stored_version,
)
from whyrun.execution.adopt.keep import DecisionRun, decision_run, user_name
from whyrun.execution.dispatch.step_builder import recorded_bindings
from whyrun.execution.protocol.messages import OutputResult, OutputSpec
from whyrun.execution.recording.publisher import PublishedHashes, Publisher, path_and_section, published_hashes
from whyrun.execution.recording.recorder import Recorder, Reporter
from whyrun.execution.worker.collect import collect_file, collect_value
from whyrun.execution.worker.failure import StepError
from whyrun.graph.fingerprint import recorded_suffix
from whyrun.graph.tables import ArtifactAt
from whyrun.ids import site_of, split_site
from whyrun.log import events as ev
from whyrun.log.decoding import observed_field
from whyrun.log.journal import Clock, utc_now
from whyrun.planning.answers.why import direct_readers
from whyrun.project import Project
from whyrun.snapshot.reads import present_packages, present_reads
from whyrun.snapshot.records import Output
from whyrun.snapshot.snapshot import PlanningSnapshot
from whyrun.workflow.arrays import is_array
from whyrun.workflow.model import FILE_TYPES

# Reads the chosen version into the store: the whole output first, then its leaves.
ReadVersion = Callable[[AdoptionTarget, OutputSpec], list[OutputResult]]


@dataclass(frozen=True, slots=True)
class Adoption:
    """The adopted version. `run` is None if it was the current one already."""

    artifact: str
    run: str | None
    sha256: str
    size: int
    type: str
    path: str | None
    leaves: dict[str, Any]
    displaced: tuple[str, ...]
    dependents: tuple[str, ...]
    others: tuple[str, ...]  # restored with it

    def to_json(self) -> dict[str, Any]:
        return {
            "artifact": self.artifact,
            "run": self.run,
            "sha256": self.sha256,
            "size": self.size,
            "type": self.type,
            "path": self.path,
            "leaves": dict(self.leaves),
            "displaced": list(self.displaced),
            "dependents": list(self.dependents),
            **({"others": list(self.others)} if self.others else {}),
        }


def adopt_file(
    project: Project, artifact: str, file: str | os.PathLike[str], reporter: Reporter, clock: Clock = utc_now
) -> Adoption:
    """Adopt the content of a file or folder."""
    path = Path(file)
    if not path.is_file() and not path.is_dir():  # pipes and devices have no content to store
        what = "is neither a file nor a folder" if path.exists() else "does not exist"
        raise error("FILE_MISSING", f"`{path}` {what}", hint="name the file whose content is to be adopted")
    if path.is_dir() and f"{os.path.realpath(project.state_dir)}/".startswith(f"{os.path.realpath(path).rstrip('/')}/"):
        hint = "name a folder that does not hold it"
        raise not_adoptable(artifact, f"`{path}` holds the state of Whyrun itself", hint)

    def read(target: AdoptionTarget, spec: OutputSpec) -> list[OutputResult]:
        try:
            written_by_us = _version_written_by_whyrun(project, artifact, target, spec, path)
            if written_by_us is not None:
                return written_by_us
            return collect_file(target.output, spec, _own_section(project, target, path), project.store)
        except StepError as problem:
            raise not_adoptable(artifact, f"`{path}` does not fit: {problem}", "change the file") from None
        except OSError as problem:
            if not str(problem.filename or "").startswith(str(path)):
                raise  # an error of the store, whose disk may be full
            hint = "make it readable, then try again"
            raise error("FILE_MISSING", f"`{path}` cannot be read: {problem.strerror}", hint=hint) from problem

    options = {"artifact": artifact, "file": _recorded_path(project, path)}
    return _adopt(project, _Request(artifact, read, options, user_name()), reporter, clock)


def restore_version(project: Project, artifact: str, run: str, reporter: Reporter, clock: Clock = utc_now) -> Adoption:
    """Adopt the version that was current after an earlier run."""
    number = project.state.run(run).number

    def earlier(step: str, fingerprint: str) -> Outputs:
        record = project.history(through=number).records.steps.get(step)
        if record is None or not record.latest.ok or record.latest.fingerprint != fingerprint:
            return NO_OUTPUTS
        return {output.id: output for output in record.latest.outputs}

    def read(target: AdoptionTarget, spec: OutputSpec) -> list[OutputResult]:
        log = project.history(through=number)
        log.check_known(target.step)
        record = log.records.steps.get(target.step)
        outputs = record.latest.outputs if record is not None and record.latest.ok else ()
        version = next((output for output in outputs if output.id == artifact), None)
        if version is None:
            raise not_adoptable(artifact, f"it was not available after {run}", _lists_versions(artifact))
        if version.type != spec.type:
            why = f"in {run} it was of type {version.type}, and is declared as {spec.type} now"
            raise not_adoptable(artifact, why, "restore a version of the same type")
        suffix = recorded_suffix(target.table, target.at.artifact)
        if spec.type in FILE_TYPES and version.suffix != suffix:  # only the step sees the suffix of other types
            before, now = _suffix_text(version.suffix), _suffix_text(suffix)
            why = f"in {run} it was a file {before}, and is declared as one {now} now"
            raise not_adoptable(artifact, why, "restore a version with the same suffix")
        try:
            return stored_version(target.output, spec, version, project.store)
        except StepError as problem:
            why = f"the version of {run} does not fit: {problem}"
            raise not_adoptable(artifact, why, _lists_versions(artifact)) from None

    options, by = {"artifact": artifact, "from": run}, f"{user_name()}, restored from {run}"
    return _adopt(project, _Request(artifact, read, options, by, earlier), reporter, clock)


# --- the run -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Request:
    """What the user asked for. `options` and `by` are recorded."""

    artifact: str
    read: ReadVersion
    options: dict[str, Any]
    by: str
    earlier: Callable[[str, str], Outputs] = lambda step, fingerprint: NO_OUTPUTS


def _adopt(project: Project, request: _Request, reporter: Reporter, clock: Clock) -> Adoption:
    locate(project.settled_graph(), request.artifact)  # an unknown ID is told before the lock is taken
    with decision_run(project, reporter, clock) as decision:
        store = project.store
        snapshot = decision.snapshot()
        at = locate(snapshot.dependency_graph, request.artifact)
        target = find_target(snapshot, request.artifact, at, request.earlier)
        results = request.read(target, target.spec(target.output))
        for number, other in target.others:
            spec = target.table.artifacts[number]
            if not spec.is_leaf:
                stored_version(spec.output, target.spec(spec.output), other, store)  # checks its bytes
        if _is_current(snapshot, target, results[0].sha256):
            return _adoption(snapshot, target, request.artifact, None, results, ())
        return _AdoptionRun(decision, snapshot, request, target, results).execute()


def _is_current(snapshot: PlanningSnapshot, target: AdoptionTarget, sha256: str) -> bool:
    record = snapshot.record(target.node)
    shas = snapshot.shas[target.at.table]
    own = [a for a, spec in enumerate(target.table.artifacts) if spec.output == target.output]
    return (
        record is not None
        and record.latest.ok
        and record.latest.fingerprint == target.fingerprint
        and shas[target.at.artifact][target.position] == sha256
        and all(shas[a][target.position] is not None for a in own)
    )


def _adoption(
    snapshot: PlanningSnapshot,
    target: AdoptionTarget,
    artifact: str,
    run: str | None,
    results: list[OutputResult],
    displaced: tuple[str, ...],
) -> Adoption:
    graph = snapshot.dependency_graph
    whole = results[0]
    numbers = target.numbers()
    leaves = {target.table.artifact_id(numbers[r.key], target.position): r.value for r in results[1:]}
    parts = [ArtifactAt(target.table.number, numbers[r.key], target.position) for r in results]
    dependents = tuple(direct_readers(graph, *parts))
    path = target.path_of(target.at.artifact)
    others = tuple(other.id for number, other in target.others if not target.table.artifacts[number].is_leaf)
    return Adoption(artifact, run, whole.sha256, whole.size, whole.type, path, leaves, displaced, dependents, others)


@dataclass(eq=False)
class _AdoptionRun:
    """The run of one adoption: records its events and publishes the file."""

    decision: DecisionRun
    snapshot: PlanningSnapshot
    request: _Request
    target: AdoptionTarget
    results: list[OutputResult]

    @property
    def project(self) -> Project:
        return self.decision.project

    def execute(self) -> Adoption:
        shown = [(self.target.node, self.target.consumed.shown)]
        with self.decision.recorded(self.snapshot, "adopt", self.request.options, shown) as (run, recorder):
            self._record(recorder)
            recorder.sync()  # before the file is published
            publisher = Publisher(
                self.project.store, str(self.project.folder), self.project.cache, recorder, self.project.state
            )
            try:
                self._publish(publisher)
            except OSError as problem:
                at = f" at `{problem.filename}`" if problem.filename is not None else ""
                what = f"`{self.request.artifact}` is recorded, but cannot be published{at}: {problem.strerror}"
                hint = "make room, or make it writable; `whyrun run` publishes it then"
                raise error("DISK_FAILED", what, hint=hint) from problem
            except WhyrunError as problem:
                (first, *_) = problem.diagnostics
                what = f"`{self.request.artifact}` is recorded, but cannot be published: {first.message}"
                hint = f"{first.hint or 'move the existing file away'}; `whyrun run` publishes it then"
                raise error(first.code, what, hint=hint) from problem
            origin = self.request.options.get("from") or self.request.options["file"]
            action = self.snapshot.actions[self.target.table.name].name
            text = f"{self.target.step} → adopted {self.request.artifact} from {origin}"
            recorder.status(action, TaskStatus.EXECUTES, text)
        events = [event for event in run.events() if isinstance(event, ev.FileDisplaced)]
        displaced = tuple(site_of(event.path, event.section) for event in events)
        return _adoption(self.snapshot, self.target, self.request.artifact, run.name, self.results, displaced)

    def _record(self, recorder: Recorder) -> None:
        target = self.target
        action = self.snapshot.actions[target.table.name]
        bindings = recorded_bindings(
            target.table, target.position, target.consumed, action, self.project.store.put_bytes
        )
        reads = present_reads(self.snapshot, target.node, target.consumed.made_now)
        observed = observed_field(reads, self.project.store.put_bytes) if reads else None
        packages = present_packages(self.snapshot, target.node)
        numbers = target.numbers()
        # The whole output comes last: the fold takes the leaves only with it (see `RunFold.adopt`).
        own = [(numbers[r.key], r.sha256, r.size, r.type, r.value) for r in (*self.results[1:], self.results[0])]
        others = [(number, o.sha256, o.size, o.type, o.value) for number, o in target.others]
        for number, sha256, size, type_, value in (*others, *own):
            path, section = path_and_section(target.path_of(number))
            recorder.event(
                ev.ArtifactAdopted(
                    artifact=target.table.artifact_id(number, target.position),
                    step_id=target.step,
                    sha256=sha256,
                    size=size,
                    type=type_,
                    fingerprint=target.fingerprint,
                    bindings=bindings,
                    by=self.request.by,
                    value=value,
                    suffix=recorded_suffix(target.table, number),
                    path=path,
                    section=section,
                    observed=observed,
                    packages=packages,
                )
            )

    def _publish(self, publisher: Publisher) -> None:
        target, whole = self.target, self.results[0]
        path = target.path_of(target.at.artifact)
        if path is not None:
            publisher.publish(path, whole.sha256, whole.type)
        # The published files of the job's other outputs may come from other inputs: replace those by the recorded
        # versions. Files that the user has changed stay; the next plan reports them.
        published: PublishedHashes | None = None
        for a, spec in enumerate(target.table.artifacts):
            path = target.path_of(a)
            if path is None or spec.output == target.output or is_array(spec.type):
                continue
            output = target.outputs[target.table.artifact_id(a, target.position)]
            existing = publisher.content(path)
            if existing == output.sha256:
                continue
            if existing is not None:
                published = published_hashes(self.project.state) if published is None else published
            if existing is None or (published is not None and published.holds(path, existing)):
                publisher.publish(path, output.sha256, output.type)


def _version_written_by_whyrun(
    project: Project, artifact: str, target: AdoptionTarget, spec: OutputSpec, path: Path
) -> list[OutputResult] | None:
    """Read a blob or a published file, which Whyrun wrote in its own form; None: `path` is an ordinary file.

    Notes name the blob of a displaced file, so users adopt blobs. A blob of a folder lists its files, and a string is
    written as JSON.
    """
    sha = _blob_hash(project.store, path)
    folder = _stored_folder(project.store, sha, path) if sha is not None else None
    if folder is not None and spec.type != "directory":
        raise not_adoptable(artifact, f"`{path}` lists a folder that was saved", "only a `directory` can take it")
    if folder is not None:
        return stored_version(target.output, spec, folder, project.store)
    published = target.path_of(target.at.artifact)
    is_published = published is not None and os.path.realpath(path) == os.path.realpath(project.folder / published)
    if spec.type != "string" or (sha is None and not is_published):
        return None
    try:
        text = msgspec.json.decode(path.read_bytes(), type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # a user has written plain text there
    return collect_value(target.output, spec, text, project.store)


def _blob_hash(store: Store, path: Path) -> str | None:
    """The hash of a blob, if `path` is one of this store."""
    real = Path(os.path.realpath(path))
    sha = "".join(real.parts[-2:])
    return sha if real.is_file() and os.path.realpath(store.path(sha)) == str(real) else None


def _stored_folder(store: Store, sha: str, path: Path) -> Output | None:
    with path.open("rb") as file:
        if file.read(len(TREE_START)) != TREE_START:
            return None
    try:
        return Output("", sha, decode_tree(store.read(sha)).size, "directory")
    except ValueError:
        return None  # an ordinary file that begins like the list of a folder


def _own_section(project: Project, target: AdoptionTarget, path: Path) -> Path:
    """The file to read. If it is the shared file of the artifact itself: a copy of the artifact's section."""
    file, section = split_site(target.path_of(target.at.artifact) or "")
    if (
        section is None
        or not os.path.exists(project.folder / file)
        or not os.path.samefile(path, project.folder / file)
    ):
        return path
    data = project.shared.data(site_of(file, section))
    if data is None:
        raise StepError("MissingOutput", f"it has no section `{section}`")
    return Path(project.store.open_path(project.store.put_bytes(data)))


def _recorded_path(project: Project, path: Path) -> str:
    """Relative to the project, or the name alone for a file outside: the log has no absolute paths."""
    inside = os.path.relpath(os.path.abspath(path), os.path.abspath(project.folder))
    return path.name if inside.split(os.sep)[0] == os.pardir else inside.replace(os.sep, "/")


def _lists_versions(artifact: str) -> str:
    return f"`whyrun history {shlex.quote(artifact)}` lists its versions"


def _suffix_text(suffix: str) -> str:
    return f"with the suffix `{suffix}`" if suffix else "without a suffix"
