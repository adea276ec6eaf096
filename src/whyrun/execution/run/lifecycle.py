"""The one way a run goes, whatever it is about: folder, first events, steps, last event, and the evidence complete."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from whyrun import __version__, disk
from whyrun.artifacts.hashing import bytes_sha256, canonical_json
from whyrun.artifacts.store import Store
from whyrun.console.lines import TaskStatus, runtime_text, task_text
from whyrun.disk import Area
from whyrun.errors import WhyrunError, error
from whyrun.evidence.run_directory import RunDirectory, source_files
from whyrun.execution.commands import Backend, PrepareFailed, Session
from whyrun.execution.interrupts import Interrupts
from whyrun.execution.known_files import known_files
from whyrun.execution.on_finish import OnFinish
from whyrun.execution.publisher import Publisher
from whyrun.execution.recorder import Recorder, Reporter
from whyrun.execution.run_secrets import NO_SECRETS, RunSecrets
from whyrun.execution.runner import Runner
from whyrun.execution.travels import bundle_for
from whyrun.log import events as ev
from whyrun.log.journal import Clock
from whyrun.log.lock import RunLock
from whyrun.log.outcomes import fold_outcome
from whyrun.log.repair import interruption
from whyrun.log.runs import RunRef, create_run
from whyrun.planning.explain import printable
from whyrun.snapshot.world import World

RunState = Literal["succeeded", "failed", "interrupted"]
MANIFEST = "manifest.yaml"
EXIT_CODES: dict[RunState, int] = {"succeeded": 0, "failed": 1, "interrupted": 130}


@dataclass(frozen=True, slots=True)
class Undertaking:
    """What a run is about."""

    mode: Literal["run", "compare"]
    options: Mapping[str, Any]
    papers: Callable[[], dict[str, bytes]]  # `manifest.yaml` and what else is written beside the sources; made once
    total: int  # steps
    begin: Callable[[Recorder], None]  # the events that come before those of steps
    runner: Callable[[Recorder, Publisher], Runner]
    secrets: RunSecrets = NO_SECRETS  # of all its steps: none of them may be in what goes to a remote place


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a run has around it, whatever it is about."""

    world: World
    reporter: Reporter
    clock: Clock
    lock: RunLock
    backend: Backend
    interrupts: Interrupts
    workers: int
    on_finish: OnFinish


@dataclass(frozen=True, slots=True)
class Conducted:
    run: str
    runner: Runner
    state: RunState
    duration: float

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.state]


def conduct(undertaking: Undertaking, around: Surroundings) -> Conducted:
    started = time.monotonic()
    world, backend = around.world, around.backend
    store, state, workflow = world.store, world.state, world.graph.workflow
    if not store.root.is_dir():  # a first comparison has stored nothing yet
        disk.make_folders(Area.STORE, store.root)
    bundle = bundle_for(backend.name, world, undertaking.secrets)
    papers = undertaking.papers()
    of_manifest = ev.ManifestMaterialized(
        path=MANIFEST, size=len(papers[MANIFEST]), sha256=bytes_sha256(papers[MANIFEST])
    )
    run, journal = create_run(
        state,
        ev.RunStart(
            workflow=workflow.name,
            workflow_sha256=bytes_sha256(canonical_json(dict(workflow.sources))),
            mode=undertaking.mode,
            options=dict(undertaking.options),
            backend=backend.name,
            engine_version=__version__,
            host=platform.node(),
            pid=os.getpid(),
            previous_chain="",
        ),
        around.clock,
        {**papers, **source_files(dict(workflow.sources))},
    )
    del papers  # of a large plan they are large, and written now
    around.lock.announce(run.name, journal)
    directory = RunDirectory(run.path)
    recorder = Recorder(journal, directory, store, around.reporter, around.clock)
    publisher = Publisher(store, str(world.project), world.cache, recorder, state)
    try:
        undertaking.begin(recorder)
        recorder.event(of_manifest)
        recorder.sync()
        around.reporter.started(run.name, undertaking.total)
        runner = undertaking.runner(recorder, publisher)
        backend.open(
            Session(
                run.name,
                run.path,
                world.project,
                state.store,
                state.scratch,
                around.workers or os.cpu_count() or 1,
                world.config.prepare,
                bundle=bundle,
                note=around.reporter.note,
                known_files=partial(known_files, world.cache, world.project),
            )
        )
        try:
            with around.interrupts.reaching(runner):
                unready = _make_ready(backend, runner, recorder)
                if unready is None:
                    runner.run()
                    if (uncounted := runner.code.uncounted()) is not None:
                        around.reporter.note(uncounted)
                else:
                    runner.counts.not_started = undertaking.total
        finally:
            backend.close()
    except BaseException as original:
        # An error of our own or of the machine (a full disk). The evidence is completed as far as it can be, and
        # whatever goes wrong with that never hides what went wrong first.
        try:
            _finish(recorder, directory, store, "failed", started, _counts_of_broken(run, recorder))
            around.on_finish.completed(run.path, workflow.name)
        except (OSError, WhyrunError) as second:
            original.add_note(f"completing the evidence of {run.name} failed as well: {second}")
        _tell_if_removed(run, original)
        raise
    wrong = unready is not None or runner.counts.went_wrong
    outcome: RunState = "interrupted" if runner.interrupts else "failed" if wrong else "succeeded"
    try:
        _finish(recorder, directory, store, outcome, started, runner.counts.by_outcome(), unready)
    except FileNotFoundError as original:
        _tell_if_removed(run, original)
        raise
    around.on_finish.completed(run.path, workflow.name)
    world.cache.settle()
    world.save_cache()
    return Conducted(run.name, runner, outcome, time.monotonic() - started)


def _tell_if_removed(run: RunRef, original: BaseException) -> None:
    if isinstance(original, FileNotFoundError) and not run.events_path.exists():
        what = f"`{run.path}` was removed or moved away while {run.name} went on"
        hint = "put it back; or remove what is left of it, and run again"
        raise error("DISK_FAILED", what, hint=hint) from original


def _make_ready(backend: Backend, runner: Runner, recorder: Recorder) -> str | None:
    """Before the first step. A place that is not ready ends the run: no step could be trusted there."""
    began = time.monotonic()
    try:
        backend.prepare(lambda: runner.interrupts > 0)
    except PrepareFailed as problem:
        error, *printed = str(problem).split("\n")
        recorder.debug(f"prepare failed: {problem}")
        runtime = runtime_text(TaskStatus.FAILED, time.monotonic() - began)
        # The last that it printed is most often why.
        said = [printable(line) for line in printed[-1:]]
        text = task_text("making the place ready", runtime=runtime, details=[f"PrepareFailed: {error}", *said])
        recorder.status("prepare", TaskStatus.FAILED, text, traceback="\n".join(printed))
        return "\n".join([f"PrepareFailed: {error}", *printed])
    return None


def _finish(
    recorder: Recorder,
    directory: RunDirectory,
    store: Store,
    outcome: RunState,
    started: float,
    counts: dict[str, int],
    error: str | None = None,
) -> None:
    """The last event and the rest of the folder; also when the run itself broke."""
    duration = round(time.monotonic() - started, 6)
    recorder.event(ev.RunComplete(state=outcome, counts=counts, duration=duration, error=error))
    recorder.close()
    directory.finish(store, recorder.seen)


def _counts_of_broken(run: RunRef, recorder: Recorder) -> dict[str, int]:
    """End what an error of our own left open: the runner itself ends all it started."""
    recorder.flush()
    found = fold_outcome(run.events())
    for step in found.open_steps:
        recorder.event(interruption(step, found.drivers[step]))
        found.steps[step] = "interrupted"
    return found.counts()
