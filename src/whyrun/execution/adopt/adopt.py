"""Putting a user's own version of an artifact in place: `adopt` and `restore`.

A small run of mode `adopt`, recorded with the fingerprint and bindings of now: so the version stays, through reuse
too, until what the job consumes changes. It has no plan; its evidence is otherwise that of any run.
"""

from __future__ import annotations

import os
import platform
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from whyrun import __version__
from whyrun.artifacts.hashing import bytes_sha256, canonical_json
from whyrun.console.lines import TaskStatus
from whyrun.errors import WhyrunError, error
from whyrun.evidence.run_directory import RunDirectory, source_files
from whyrun.execution.adoptable import (
    AdoptionTarget,
    find_target,
    locate,
    not_adoptable,
    standing_outputs,
    stored_version,
)
from whyrun.execution.cfg import OutputSpec
from whyrun.execution.collect import collect_file
from whyrun.execution.commands import OutputResult
from whyrun.execution.failure import StepError
from whyrun.execution.kept_version import kept_version
from whyrun.execution.leftovers import complete_killed_run
from whyrun.execution.prepare import manifest, recorded_bindings
from whyrun.execution.publisher import PublishedHashes, Publisher, published_hashes, recorded_place
from whyrun.execution.recorder import Recorder, Reporter
from whyrun.graph.fingerprint import recorded_suffix
from whyrun.graph.graph import ArtifactAt
from whyrun.ids import site_of, split_site
from whyrun.log import events as ev
from whyrun.log.journal import Clock, utc_now
from whyrun.log.lock import RunLock
from whyrun.log.outcomes import fold_outcome
from whyrun.log.repair import repair
from whyrun.log.runs import RunRef, create_run
from whyrun.planning.why import direct_readers
from whyrun.snapshot.snapshot import PlanningSnapshot
from whyrun.snapshot.world import World
from whyrun.workflow.model import FILE_TYPES

Ending = Literal["succeeded", "failed"]
Take = Callable[[AdoptionTarget, OutputSpec], list[OutputResult]]  # the version: the whole output, then its leaves


@dataclass(frozen=True, slots=True)
class Adoption:
    """What was put in place. `run` is None where that version stood there already."""

    artifact: str
    run: str | None
    sha256: str
    size: int
    type: str
    path: str | None
    leaves: dict[str, Any]
    displaced: tuple[str, ...]
    dependents: tuple[str, ...]

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
        }


def adopt_file(
    world: World, artifact: str, file: str | os.PathLike[str], reporter: Reporter, clock: Clock = utc_now
) -> Adoption:
    """Take the content of a file (or folder) as the artifact."""
    path = Path(file)
    if not path.is_file() and not path.is_dir():  # pipes and devices have no content that could be kept
        what = "is neither a file nor a folder" if path.exists() else "does not exist"
        raise error("FILE_MISSING", f"`{path}` {what}", hint="name the file whose content is to be adopted")
    if path.is_dir() and f"{os.path.realpath(world.state_dir)}/".startswith(f"{os.path.realpath(path).rstrip('/')}/"):
        hint = "name a folder that does not hold it"
        raise not_adoptable(artifact, f"`{path}` holds the state of Whyrun itself", hint)

    def take(target: AdoptionTarget, spec: OutputSpec) -> list[OutputResult]:
        try:
            kept = kept_version(world, artifact, target, spec, path)
            if kept is not None:
                return kept
            return collect_file(target.output, spec, _own_section(world, target, path), world.store)
        except StepError as problem:
            raise not_adoptable(artifact, f"`{path}` does not fit: {problem}", "change the file") from None
        except OSError as problem:
            if not str(problem.filename or "").startswith(str(path)):
                raise  # of the store, whose disk may be full
            hint = "make it readable, then try again"
            raise error("FILE_MISSING", f"`{path}` cannot be read: {problem.strerror}", hint=hint) from problem

    return _adopt(world, artifact, take, {"artifact": artifact, "file": _shown(world, path)}, _user(), reporter, clock)


def restore_version(world: World, artifact: str, run: str, reporter: Reporter, clock: Clock = utc_now) -> Adoption:
    """Take the version that was current after an earlier run."""
    number = world.state.run(run).number

    def take(target: AdoptionTarget, spec: OutputSpec) -> list[OutputResult]:
        log = world.history(through=number)
        log.check_known(target.step)
        record = log.records.steps.get(target.step)
        outputs = record.latest.outputs if record is not None and record.latest.ok else ()
        found = next((output for output in outputs if output.id == artifact), None)
        if found is None:
            raise not_adoptable(artifact, f"it was not available after {run}", _lists_versions(artifact))
        if found.type != spec.type:
            why = f"in {run} it was of type {found.type}, and is declared as {spec.type} now"
            raise not_adoptable(artifact, why, "restore a version of the same type")
        suffix = recorded_suffix(target.table, target.at.artifact)
        if spec.type in FILE_TYPES and found.suffix != suffix:  # of others it is only the step that sees it
            why = f"in {run} it was a file {_ending(found.suffix)}, and is declared as one {_ending(suffix)} now"
            raise not_adoptable(artifact, why, "restore a version with the same suffix")
        try:
            return stored_version(target.output, spec, found, world.store)
        except StepError as problem:
            why = f"the version of {run} does not fit: {problem}"
            raise not_adoptable(artifact, why, _lists_versions(artifact)) from None

    by = f"{_user()}, restored from {run}"
    return _adopt(world, artifact, take, {"artifact": artifact, "from": run}, by, reporter, clock)


# --- the run -----------------------------------------------------------------------------------------------------


def _adopt(
    world: World,
    artifact: str,
    take: Take,
    options: dict[str, Any],
    by: str,
    reporter: Reporter,
    clock: Clock,
) -> Adoption:
    at = locate(world.graph, artifact)
    world.actions  # noqa: B018  # everything that is invalid is found before the lock is taken
    with RunLock.of(world.state, clock) as lock:
        state, store = world.state, world.store
        report = repair(state, lock, clock, lambda run: complete_killed_run(run, store, state.scratch))
        if report is not None:
            reporter.note(f"{report.run} was cut short; its log was repaired")
        snapshot = world.snapshot()
        target = find_target(snapshot, artifact, at)
        results: list[OutputResult] = take(target, target.spec())
        if _is_in_place(snapshot, target, results[0].sha256):
            return _adoption(snapshot, target, artifact, None, results, ())
        return _Recording(world, snapshot, target, artifact, results, options, by, reporter, clock, lock).run()


def _is_in_place(snapshot: PlanningSnapshot, target: AdoptionTarget, sha256: str) -> bool:
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
    return Adoption(artifact, run, whole.sha256, whole.size, whole.type, path, leaves, displaced, dependents)


@dataclass(eq=False)
class _Recording:
    """The run of one adoption: its events, the published file, and the evidence complete whatever happens."""

    world: World
    snapshot: PlanningSnapshot
    target: AdoptionTarget
    artifact: str
    results: list[OutputResult]
    options: dict[str, Any]
    by: str
    reporter: Reporter
    clock: Clock
    lock: RunLock

    def run(self) -> Adoption:
        started = time.monotonic()
        graph, store = self.snapshot.dependency_graph, self.world.store
        shown = [(self.target.node, self.target.found.shown)]
        manifest_data = manifest(graph, shown, self.snapshot.actions)
        run, journal = create_run(
            self.world.state,
            ev.RunStart(
                workflow=graph.workflow.name,
                workflow_sha256=bytes_sha256(canonical_json(dict(graph.workflow.sources))),
                mode="adopt",
                options=self.options,
                backend="local",
                engine_version=__version__,
                host=platform.node(),
                pid=os.getpid(),
                previous_chain="",
            ),
            self.clock,
            {"manifest.yaml": manifest_data, **source_files(dict(graph.workflow.sources))},
        )
        self.lock.announce(run.name, journal)
        directory = RunDirectory(run.path)
        recorder = Recorder(journal, directory, store, self.reporter, self.clock)
        try:
            recorder.event(
                ev.ManifestMaterialized(
                    path="manifest.yaml", size=len(manifest_data), sha256=bytes_sha256(manifest_data)
                )
            )
            self._record(recorder)
            recorder.sync()  # published only once that lasts
            publisher = Publisher(store, str(self.world.project), self.world.cache, recorder, self.world.state)
            try:
                self._publish(publisher)
            except OSError as problem:
                at = f" at `{problem.filename}`" if problem.filename is not None else ""
                what = f"`{self.artifact}` is recorded, but cannot be published{at}: {problem.strerror}"
                hint = "make room, or make it writable; `whyrun run` publishes it then"
                raise error("DISK_FAILED", what, hint=hint) from problem
            except WhyrunError as problem:
                (first, *_) = problem.diagnostics
                what = f"`{self.artifact}` is recorded, but cannot be published: {first.message}"
                hint = f"{first.hint or 'move away what stands there'}; `whyrun run` publishes it then"
                raise error(first.code, what, hint=hint) from problem
            origin = self.options.get("from") or self.options["file"]
            action = self.snapshot.actions[self.target.table.name].name
            recorder.status(action, TaskStatus.EXECUTES, f"{self.target.step} → adopted {self.artifact} from {origin}")
        except BaseException as original:
            # What goes wrong while the evidence is completed never hides what went wrong first.
            try:
                self._finish(run, recorder, directory, "failed", started)
            except (OSError, WhyrunError) as second:
                original.add_note(f"completing the evidence of {run.name} failed as well: {second}")
            raise
        self._finish(run, recorder, directory, "succeeded", started)
        self.world.cache.settle()
        self.world.save_cache()
        events = [event for event in run.events() if isinstance(event, ev.FileDisplaced)]
        displaced = tuple(site_of(event.path, event.section) for event in events)
        return _adoption(self.snapshot, self.target, self.artifact, run.name, self.results, displaced)

    def _record(self, recorder: Recorder) -> None:
        target = self.target
        action = self.snapshot.actions[target.table.name]
        bindings = recorded_bindings(target.table, target.position, target.found, action, self.world.store.put_bytes)
        numbers = target.numbers()
        # The whole comes last: only with it does the fold take the leaves (see `RunFold.adopt`).
        for result in (*self.results[1:], self.results[0]):
            number = numbers[result.key]
            path, section = recorded_place(target.path_of(number))
            recorder.event(
                ev.ArtifactAdopted(
                    artifact=target.table.artifact_id(number, target.position),
                    step_id=target.step,
                    sha256=result.sha256,
                    size=result.size,
                    type=result.type,
                    fingerprint=target.fingerprint,
                    bindings=bindings,
                    by=self.by,
                    value=result.value,
                    suffix=recorded_suffix(target.table, number),
                    path=path,
                    section=section,
                )
            )

    def _publish(self, publisher: Publisher) -> None:
        target, whole = self.target, self.results[0]
        path = target.path_of(target.at.artifact)
        if path is not None:
            publisher.publish(path, whole.sha256, whole.type)
        # The job's other outputs may stand there as other inputs made them. Files that are the user's own stay: nobody
        # asked for them to be replaced, and the next plan tells of them.
        standing = standing_outputs(self.snapshot, target)
        recorded: PublishedHashes | None = None
        for a, spec in enumerate(target.table.artifacts):
            path = target.path_of(a)
            if path is None or spec.output == target.output:
                continue
            output = standing[target.table.artifact_id(a, target.position)]
            found = publisher.content(path)
            if found == output.sha256:
                continue
            if found is not None:
                recorded = published_hashes(self.world.state) if recorded is None else recorded
            if found is None or (recorded is not None and recorded.holds(path, found)):
                publisher.publish(path, output.sha256, output.type)

    def _finish(self, run: RunRef, recorder: Recorder, directory: RunDirectory, state: Ending, started: float) -> None:
        recorder.flush()
        outcome = fold_outcome(run.events())
        duration = round(time.monotonic() - started, 6)
        recorder.event(ev.RunComplete(state=state, counts=outcome.counts(), duration=duration))
        recorder.close()
        directory.finish(self.world.store)


def _own_section(world: World, target: AdoptionTarget, path: Path) -> Path:
    """The file to take; of the shared file itself, only the target's own section."""
    file, section = split_site(target.path_of(target.at.artifact) or "")
    if section is None or not os.path.exists(world.project / file) or not os.path.samefile(path, world.project / file):
        return path
    data = world.shared.data(site_of(file, section))
    if data is None:
        raise StepError("MissingOutput", f"it has no section `{section}`")
    return Path(world.store.open_path(world.store.put_bytes(data)))


def _shown(world: World, path: Path) -> str:
    """Relative to the project where it lies inside; else its name alone: no machine's paths in the log."""
    inside = os.path.relpath(os.path.abspath(path), os.path.abspath(world.project))
    return path.name if inside.split(os.sep)[0] == os.pardir else inside.replace(os.sep, "/")


def _lists_versions(artifact: str) -> str:
    return f"`whyrun history {shlex.quote(artifact)}` lists its versions"


def _ending(suffix: str) -> str:
    return f"with the suffix `{suffix}`" if suffix else "without a suffix"


def _user() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in many containers
        return str(os.getuid())
