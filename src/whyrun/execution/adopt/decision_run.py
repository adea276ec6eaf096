"""The run of a decision of the user: an adoption, or results that are kept. It executes nothing and has no plan.

It repairs the log first, as every run does, and leaves the evidence of any run: see `recorded`.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from whyrun import __version__
from whyrun.artifacts.hashing import bytes_sha256, canonical_json
from whyrun.errors import WhyrunError, exit_of, in_short
from whyrun.evidence.composition.run_folder import finish_run
from whyrun.evidence.run_directory import RunDirectory, source_files
from whyrun.execution.dispatch.step_builder import manifest
from whyrun.execution.recording.recorder import Recorder, Reporter
from whyrun.execution.run.preflight import complete_killed_run
from whyrun.log import events as ev
from whyrun.log.journal import Clock
from whyrun.log.lock import RunLock
from whyrun.log.outcomes import fold_outcome
from whyrun.log.repair import repair
from whyrun.log.runs import RunRef, create_run
from whyrun.project import Project
from whyrun.snapshot.snapshot import PlanningSnapshot


@dataclass(frozen=True, slots=True)
class DecisionRun:
    """One decision, while the lock of its workflow is held."""

    project: Project
    reporter: Reporter
    clock: Clock
    lock: RunLock

    def snapshot(self) -> PlanningSnapshot:
        """The present state, after a repair of the log if a run was killed."""
        state, store = self.project.state, self.project.store
        report = repair(state, self.lock, self.clock, lambda run: complete_killed_run(run, store, state.scratch))
        if report is not None:
            self.reporter.note(f"{report.run} was cut short; its log was repaired")
        return self.project.snapshot()

    @contextmanager
    def recorded(
        self,
        snapshot: PlanningSnapshot,
        mode: Literal["adopt", "decide"],
        options: Mapping[str, Any],
        shown: Sequence[tuple[int, Mapping[str, Any]]],
    ) -> Iterator[tuple[RunRef, Recorder]]:
        """Begin the run, and complete its evidence, also after an error. `shown`: its jobs with what they consume."""
        started = time.monotonic()
        graph, store = snapshot.dependency_graph, self.project.store
        manifest_data = manifest(graph, shown, snapshot.actions)
        sources = dict(graph.workflow.sources)
        run, journal = create_run(
            self.project.state,
            ev.RunStart(
                workflow=graph.workflow.name,
                workflow_sha256=bytes_sha256(canonical_json(sources)),
                mode=mode,
                options=dict(options),
                backend="local",
                engine_version=__version__,
                host=platform.node(),
                pid=os.getpid(),
                previous_chain="",
            ),
            self.clock,
            {"manifest.yaml": manifest_data, **source_files(sources)},
        )
        self.lock.announce(run.name, journal)
        directory = RunDirectory(run.path)
        recorder = Recorder(journal, directory, store, self.reporter, self.clock)
        try:
            size, sha256 = len(manifest_data), bytes_sha256(manifest_data)
            recorder.event(ev.ManifestMaterialized(path="manifest.yaml", size=size, sha256=sha256))
            yield run, recorder
        except BaseException as original:
            # A second error while the evidence is completed must not hide the first.
            try:
                self._finish(run, recorder, directory, started, original)
            except (OSError, WhyrunError) as second:
                original.add_note(f"completing the evidence of {run.name} failed as well: {second}")
            raise
        self._finish(run, recorder, directory, started)
        self.project.cache.settle()
        self.project.save_cache()

    def _finish(
        self,
        run: RunRef,
        recorder: Recorder,
        directory: RunDirectory,
        started: float,
        problem: BaseException | None = None,
    ) -> None:
        recorder.flush()
        end = ev.RunComplete(
            state="succeeded" if problem is None else "failed",
            counts=fold_outcome(run.events()).counts(),
            duration=round(time.monotonic() - started, 6),
            error=in_short(problem) if problem is not None else None,
            exit_code=int(exit_of(problem)) if problem is not None else None,
        )
        recorder.event(end)
        recorder.close()
        finish_run(directory, self.project.store)


@contextmanager
def decision_run(project: Project, reporter: Reporter, clock: Clock) -> Iterator[DecisionRun]:
    """Take the lock. Every error of the workflow itself is reported before."""
    project.actions  # noqa: B018
    with RunLock.of(project.state, clock) as lock:
        yield DecisionRun(project, reporter, clock, lock)


def user_name() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in many containers
        return str(os.getuid())
