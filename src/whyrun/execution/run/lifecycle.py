"""The lifecycle of every run: create its folder, record its start, execute its steps, complete its evidence."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol

from whyrun import __version__, disk
from whyrun.artifacts.hashing import bytes_sha256, canonical_json
from whyrun.console.lines import TaskStatus, runtime_text, task_text
from whyrun.disk import Area
from whyrun.errors import WhyrunError, error, exit_of, in_short
from whyrun.evidence.composition.run_folder import finish_run
from whyrun.evidence.run_directory import RunDirectory, source_files
from whyrun.execution.backends.base import Backend, HostServices, PrepareFailed, Session
from whyrun.execution.backends.registry import capabilities_of
from whyrun.execution.bundle.bundle import bundle_for
from whyrun.execution.dispatch.environments import fetch_images, make_environments, needed_environments
from whyrun.execution.dispatch.run_secrets import RunSecrets
from whyrun.execution.dispatch.step_builder import known_files
from whyrun.execution.recording.publisher import Publisher
from whyrun.execution.recording.recorder import Recorder, Reporter
from whyrun.execution.run.runner import Runner
from whyrun.execution.run.termination import Interrupts
from whyrun.log import events as ev
from whyrun.log.journal import Clock
from whyrun.log.lock import RunLock
from whyrun.log.outcomes import fold_outcome
from whyrun.log.repair import interruption
from whyrun.log.runs import RunRef, create_run
from whyrun.project import Project

if TYPE_CHECKING:
    from whyrun.execution.bundle.bundle import Bundle
    from whyrun.snapshot.snapshot import PlanningSnapshot

# --- `on_finish` -------------------------------------------------------------------------------------------------
#
# `on_finish` of `whyrun.toml`: a command of the user that gets the status of a finished run.


class OnFinish:
    """Starts the command when the `with` block ends, normally or not, if a run was made in it.

    The lock is released by then, so the command may call `whyrun status` or start another run. It cannot change the
    outcome of the run: its failure is only a note.
    """

    def __init__(self, command: str | Sequence[str] | None, project: Path, reporter: Reporter) -> None:
        self.command, self.project, self.reporter = command, project, reporter
        self.run: Path | None = None  # the folder of the run, once it is complete
        self.workflow = ""

    def completed(self, run: Path, workflow: str) -> None:
        self.run, self.workflow = run, workflow

    def __enter__(self) -> OnFinish:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.command is None or self.run is None:
            return
        self.reporter.finish()  # or the output of the command would be mixed with the progress bar
        try:
            status = (self.run / "status.json").read_bytes()
        except OSError as failed:
            self.reporter.note(
                f"`on_finish` was not started: `status.json` cannot be read: {failed.strerror or failed}"
            )
            return
        try:
            ended = subprocess.run(
                self.command,
                shell=isinstance(self.command, str),
                cwd=self.project,
                input=status,
                stdout=sys.stderr.fileno() if _has_descriptor() else subprocess.DEVNULL,  # our stdout is for data
                env={**os.environ, "WHYRUN_RUN": self.run.name, "WHYRUN_WORKFLOW": self.workflow},
                check=False,
            )
        except OSError as failed:
            self.reporter.note(f"`on_finish` could not be started: {failed.strerror or failed}")
            return
        if ended.returncode:
            self.reporter.note(f"`on_finish` ended with status {ended.returncode}; the run itself is not affected")


def _has_descriptor() -> bool:
    """Whether stderr is a file; in a notebook or a test it may not be."""
    try:
        sys.stderr.fileno()
    except (OSError, ValueError, AttributeError):
        return False
    return True


# --- the lifecycle -----------------------------------------------------------------------------------------------


RunState = Literal["succeeded", "failed", "interrupted"]
MANIFEST = "manifest.yaml"
EXIT_CODES: dict[RunState, int] = {"succeeded": 0, "failed": 1, "interrupted": 130}


class RunSpec(Protocol):
    """What a run does: `WorkflowRun` executes a plan, `ComparisonRun` executes recorded steps again."""

    @property
    def mode(self) -> Literal["run", "compare"]: ...

    @property
    def options(self) -> Mapping[str, Any]:
        """As `run_start` records them."""

    @property
    def total(self) -> int:
        """How many steps the run is about."""

    @property
    def snapshot(self) -> PlanningSnapshot:
        """What it was planned on."""

    @property
    def secrets(self) -> RunSecrets:
        """The secrets of all its steps. None of them may be part of a bundle."""

    @property
    def executed(self) -> Iterable[int]:
        """The nodes whose steps may execute."""

    def run_files(self) -> dict[str, bytes]:
        """`manifest.yaml` and the other files of the run folder beside the sources. Called once: they may be large."""

    def record_start(self, recorder: Recorder) -> None:
        """Record the events that come before those of steps."""

    def runner(self, backend: Backend, publisher: Publisher) -> Runner: ...


@dataclass(frozen=True, slots=True)
class RunEnvironment:
    """What every run needs, whatever it does."""

    project: Project
    reporter: Reporter
    clock: Clock
    lock: RunLock
    backend: Backend
    interrupts: Interrupts
    workers: int
    on_finish: OnFinish


@dataclass(frozen=True, slots=True)
class FinishedRun:
    run: str
    runner: Runner
    state: RunState
    duration: float

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.state]


def execute_run(spec: RunSpec, environment: RunEnvironment) -> FinishedRun:
    """Create the run folder, execute the steps, and complete the evidence even if something goes wrong."""
    started = time.monotonic()
    state: RunState
    project, backend = environment.project, environment.backend
    store, workflow = project.store, project.graph.workflow
    if not store.root.is_dir():  # a first comparison has stored nothing yet
        disk.make_folders(Area.STORE, store.root)
    capabilities, note = capabilities_of(backend.name), environment.reporter.note
    fetch_images(project, spec.executed, capabilities, note)
    if not capabilities.remote:  # elsewhere, workers make them
        make_environments(project, needed_environments(project, spec.executed), note)
    at_once = not capabilities.shares_files
    bundle = bundle_for(project, spec.snapshot.reads.observations, spec.secrets.values.values(), at_once=at_once)
    run, recorder, manifest = _create(spec, environment)
    publisher = Publisher(store, str(project.folder), project.cache, recorder, project.state)
    try:
        spec.record_start(recorder)
        recorder.event(manifest)
        recorder.sync()
        environment.reporter.started(run.name, spec.total)
        runner = spec.runner(backend, publisher)
        backend.open(_backend_session(run, environment, bundle))
        try:
            with environment.interrupts.reaching(runner):
                unready = _prepare(backend, runner, recorder)
                if unready is None:
                    runner.run()
        finally:
            backend.close()
        # Before the end is recorded, so that the log says so if the folder cannot be completed.
        recorder.settle()
        recorder.directory.complete_files(store, recorder.seen)
    except BaseException as original:
        # An error of Whyrun or of the machine, such as a full disk. Complete the evidence as far as possible; a second
        # error must not hide the first. What cannot be completed now is completed like the folder of a killed run.
        try:
            state = "interrupted" if isinstance(original, KeyboardInterrupt) else "failed"
            counts, code = _counts_of_broken(run, recorder), int(exit_of(original))
            _record_end(recorder, state, started, counts, in_short(original), code if state == "failed" else None)
            finish_run(recorder.directory, store, recorder.seen)
            environment.on_finish.completed(run.path, workflow.name)
        except (OSError, WhyrunError) as second:
            original.add_note(f"completing the evidence of {run.name} failed as well: {second}")
        _raise_if_removed(run, original)
        raise
    went_wrong = unready is not None or runner.counts.went_wrong
    state = "interrupted" if runner.termination.interrupts else "failed" if went_wrong else "succeeded"
    try:
        _record_end(recorder, state, started, runner.counts.by_outcome(), unready)
        finish_run(recorder.directory, store, recorder.seen, has_files=True)
        if not run.events_path.exists():  # part of the folder was removed: this run would be recorded nowhere
            raise FileNotFoundError(run.events_path)
    except FileNotFoundError as original:
        _raise_if_removed(run, original)
        raise
    environment.on_finish.completed(run.path, workflow.name)
    project.cache.settle()
    project.save_cache()
    return FinishedRun(run.name, runner, state, time.monotonic() - started)


def _create(spec: RunSpec, environment: RunEnvironment) -> tuple[RunRef, Recorder, ev.ManifestMaterialized]:
    """The run folder with its first event and files. The event of its manifest is recorded later."""
    project, workflow = environment.project, environment.project.graph.workflow
    files = spec.run_files()
    manifest = ev.ManifestMaterialized(path=MANIFEST, size=len(files[MANIFEST]), sha256=bytes_sha256(files[MANIFEST]))
    start = ev.RunStart(
        workflow=workflow.name,
        workflow_sha256=bytes_sha256(canonical_json(dict(workflow.sources))),
        mode=spec.mode,
        options=dict(spec.options),
        backend=environment.backend.name,
        engine_version=__version__,
        host=platform.node(),
        pid=os.getpid(),
        previous_chain="",
    )
    all_files = {**files, **source_files(dict(workflow.sources))}
    run, journal = create_run(project.state, start, environment.clock, all_files)
    environment.lock.announce(run.name, journal)
    directory = RunDirectory(run.path)
    return run, Recorder(journal, directory, project.store, environment.reporter, environment.clock), manifest


def _backend_session(run: RunRef, environment: RunEnvironment, bundle: Callable[[], Bundle]) -> Session:
    project = environment.project
    return Session(
        run.name,
        run.path,
        project.folder,
        project.state.store,
        project.state.scratch,
        environment.workers or os.cpu_count() or 1,
        project.config.prepare,
        environments=project.state.environments,
        views=project.config.inputs == "view",
        host=HostServices(bundle, environment.reporter.note, partial(known_files, project.cache, project.folder)),
    )


def _raise_if_removed(run: RunRef, original: BaseException) -> None:
    """Raise a clear error if somebody removed the run folder."""
    if isinstance(original, FileNotFoundError) and not run.events_path.exists():
        what = f"`{run.path}` was removed or moved away while {run.name} was running"
        hint = "put it back; or remove the rest of it, and run again"
        raise error("DISK_FAILED", what, hint=hint) from original


def _prepare(backend: Backend, runner: Runner, recorder: Recorder) -> str | None:
    """Run the `prepare` command before the first step. If it fails the run ends, and this returns the error."""
    began = time.monotonic()
    try:
        backend.prepare(lambda: runner.termination.interrupts > 0)
    except PrepareFailed as problem:
        error, *printed = str(problem).split("\n")
        recorder.debug(f"prepare failed: {problem}")
        runtime = runtime_text(TaskStatus.FAILED, time.monotonic() - began)
        # The last line that it printed is most often the cause.
        details = [f"PrepareFailed: {error}", *printed[-1:]]
        text = task_text("preparing the backend", runtime=runtime, details=details)
        recorder.status("prepare", TaskStatus.FAILED, text, traceback="\n".join(printed))
        return "\n".join([f"PrepareFailed: {error}", *printed])
    return None


def _record_end(
    recorder: Recorder,
    state: RunState,
    started: float,
    counts: dict[str, int],
    error: str | None,
    exit_code: int | None = None,
) -> None:
    """Record the last event; also after an error of Whyrun itself."""
    duration = round(time.monotonic() - started, 6)
    end = ev.RunComplete(state=state, counts=counts, duration=duration, error=error, exit_code=exit_code)
    recorder.event(end)
    recorder.close()


def _counts_of_broken(run: RunRef, recorder: Recorder) -> dict[str, int]:
    """After an error of Whyrun itself: record the steps that are still open as interrupted, and count all."""
    recorder.flush()
    outcome = fold_outcome(run.events())
    for step in outcome.open_steps:
        recorder.event(interruption(step, outcome.drivers[step]))
        outcome.steps[step] = "interrupted"
    return outcome.counts()
