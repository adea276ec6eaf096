"""Executes one step, from its command to its last message. The same code runs on every backend."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from whyrun.actions.builtin import BUILTIN, SAVES_SCRIPT
from whyrun.actions.builtin.shell import as_text
from whyrun.actions.code.source_loader import Version, compile_ahead, take_compiled, take_recorded_reads
from whyrun.actions.registry.load import LoadedAction, libraries_of, load_action, look_up
from whyrun.artifacts.compare.result import Comparison
from whyrun.artifacts.stat_cache.rows import ClockSkews, FileClock, Signature
from whyrun.artifacts.store import Store
from whyrun.connections.redact import NOTHING_SECRET, Redactor
from whyrun.errors import WhyrunError, in_short
from whyrun.execution.files.input_views import PrivateCopies, ReadOnlyViews
from whyrun.execution.files.project_folder import ProjectFolder
from whyrun.execution.files.scratch import step_folder
from whyrun.execution.protocol.framing import WorkerStart, describe_exit, encode, timestamp
from whyrun.execution.protocol.messages import (
    IN_PROJECT,
    ExecStep,
    OutputResult,
    StepCfg,
    StepFinished,
    StepLost,
    own_paths,
)
from whyrun.execution.reads.eyes import Eyes
from whyrun.execution.worker.collect import collect_outputs
from whyrun.execution.worker.context import HostLink, StepContext, StepLogger, output_path
from whyrun.execution.worker.failure import Failure, StepError, failure_of
from whyrun.execution.worker.materialize import (
    CHANGED_DURING_RUN,
    STORED_BYTES,
    InputGuard,
    Materializer,
    check_bindings,
    check_cardinality,
    check_secrets,
    input_files,
    parameters_of,
    published_files,
    with_secrets,
)
from whyrun.execution.worker.processes import PeakMemory, Resources, end_descendants, has_strays
from whyrun.execution.worker.step_process import OpenedStep, StepDied, run_in_own_process
from whyrun.execution.worker.streams import Streams

if TYPE_CHECKING:
    from whyrun.actions.code.import_facts import Import
    from whyrun.actions.description import ActionInfo

_decode_cfg = msgspec.json.Decoder(StepCfg).decode
PROJECT_VARIABLE = "WHYRUN_PROJECT"  # names the project folder to a step: the user's own, or the copy where it runs
_SMALL = 1 << 16  # bytes


class _Done(msgspec.Struct, frozen=True):
    """The result of a step. The process of a step sends it to its worker as JSON."""

    outputs: list[OutputResult]
    failure: Failure | None
    metrics: dict[str, float]
    comparisons: dict[str, Comparison] = {}
    loaded: dict[str, Version | None] = {}
    compiled: list[str] = []
    glimpsed: list[bytes] = []


_decode_done = msgspec.json.Decoder(_Done).decode


class StepRunner:
    """Executes steps one after the other, each in a process of its own."""

    def __init__(self, start: WorkerStart, link: HostLink, streams: Streams) -> None:
        self._run_dir = Path(start.run_dir)
        self._project = Path(start.project)
        self._live = start.live
        self._store = Store(start.store)
        self._sources = Store(start.sources) if start.sources != start.store else self._store
        self._scratch = streams.scratch
        self._streams = streams
        self._link = link
        clock, skews = FileClock(start.scratch), ClockSkews(start.scratch)
        self._guard = InputGuard(Path(start.inputs), away=start.inputs != start.project, clock=clock, skews=skews)
        self._eyes = Eyes(start, clock)
        self._copies = PrivateCopies(ReadOnlyViews() if start.views else None)
        self._materializer = Materializer(self._sources, self._scratch, self._guard, self._copies)
        self._actions: dict[str, LoadedAction] = {}
        self._found: dict[str, ActionInfo | None] = {}
        self._libraries: dict[tuple[str, ...], tuple[Import, ...]] = {}
        self._compiled: list[str] = []  # project files that the processes of steps had to compile
        self._single = start.single
        self._runs_steps = start.single  # in this process
        self._shares = False  # it runs several, which may leave something for each other
        self.spared: set[int] = set()  # processes of this worker that take commands, too
        # For error messages. The longest first: scratch and run folder usually lie inside the project. The evidence
        # also calls it `scratch/`, so a path in a message leads to the file.
        self._shown = [
            (f"{start.scratch}/", "scratch/"),
            (f"{start.run_dir}/", ""),
            (f"{start.project.rstrip('/')}/", ""),
            (f"{start.inputs.rstrip('/')}/", ""),
        ]
        self._project_folder = ProjectFolder(self._scratch, start.project, start.inputs, live=start.live)
        self._environments, self._engine_settings = Path(start.environments), start.engine
        self._peak = PeakMemory()
        self._mark = self._scratch.marker()

    def in_fork(self, shares: bool) -> None:
        """In a process that takes commands instead of the worker's first one. `shares`: it runs the steps of a job."""
        self._runs_steps = self._shares = shares
        self._peak = PeakMemory()
        self.spared = set()

    def open(self, command: ExecStep, secrets: dict[str, str]) -> OpenedStep:
        try:
            return OpenedStep(command, secrets, self._read_cfg(command))
        except BaseException as problem:  # it fails the step, never the worker
            return OpenedStep(command, secrets, None, problem)

    def libraries(self, step: OpenedStep) -> tuple[Import, ...]:
        """The installed libraries that the step's code names."""
        assert step.cfg is not None
        uses, with_ = step.cfg.action, step.cfg.with_
        code = (str(with_.get("call", "")), str(with_.get("script", ""))) if uses == "python" else ()
        if (uses, *code) not in self._libraries:
            self._libraries[(uses, *code)] = libraries_of(uses, with_, self._project, self._look_up(uses))
        return self._libraries[(uses, *code)]

    def _named(self, step: OpenedStep) -> Iterable[str]:
        """Libraries that the step's code names, where its process may have had them from the beginning."""
        if self._single or step.cfg is None or step.is_a_program:
            return ()
        return (one.module[0] for one in self.libraries(step))

    def execute(self, step: OpenedStep, known: dict[str, Signature]) -> StepFinished | StepLost:
        began = time.perf_counter()
        command = step.command
        self._guard.begin()
        self._guard.trust(known)
        # What runs in a container belongs to the engine, which nobody watches.
        trace = command.trace and (step.cfg is None or step.cfg.container is None)
        folder, copy = self._folder_of(step.cfg), self._works_in_copy(step.cfg)
        self._eyes.begin(step.cfg.action if step.cfg is not None else "", trace, folder, copy=copy)
        self._mark(command.step_id, command.attempt)
        redactor = Redactor(step.secrets) if step.secrets else NOTHING_SECRET
        died: StepDied | None = None
        try:
            # Again, though it was emptied after the last step: what that left running may have written since then.
            self._scratch.empty()
            os.chdir(self._scratch.work)
            self._link.acknowledgements.begin()
            check_secrets(step.secrets)
            if step.cfg is None:
                assert step.problem is not None
                raise step.problem
            done = self._performed(step, step.cfg, redactor)
        except StepDied as problem:
            died, done = problem, _Done([], None, {})
        except BaseException as problem:  # whatever a step raises fails the step, never the worker
            done = _Done([], failure_of(problem), {})
        self._link.cancellation.end()
        duration = time.perf_counter() - began
        number = self._link.outbox.numbered + 1
        if died is not None:
            self._eyes.end()
            return self._lost(step, died, duration, number, redactor)
        reads = self._eyes.reads(done.glimpsed, self._named(step))
        failure = self._tidy(step, done.failure, redactor)
        metrics = {"step_duration_ms": round(duration * 1000, 3), **done.metrics}
        if failure is None:
            return StepFinished(
                command.step_id, command.attempt, timestamp(), duration, done.outputs, metrics, n=number,
                comparisons=done.comparisons, loaded=done.loaded, reads=reads,
            )  # fmt: skip
        failure = self._presentable(failure, redactor)
        return StepFinished(
            command.step_id,
            command.attempt,
            timestamp(),
            duration,
            [],
            metrics,
            failure.error,
            failure.error_type,
            failure.traceback,
            number,
            reads=reads,
        )

    def _lost(self, step: OpenedStep, died: StepDied, duration: float, number: int, redactor: Redactor) -> StepLost:
        """The last message of a step whose process has died. Keeps its logs and scratch files as evidence."""
        held_back = self._streams.held_back()
        reason, stderr = describe_exit(died.status), self._scratch.tail("stderr", redactor) + held_back
        problem = self._tidy(step, None, redactor, failed=True)
        if problem is not None:  # a full disk must not hide the loss itself
            reason += f" (and its files could not be kept: {problem.error})"
        command = step.command
        return StepLost(command.step_id, command.attempt, timestamp(), redactor.text(reason), stderr, duration, number)

    def clean_up(self) -> None:
        self._scratch.empty()

    def _read_cfg(self, command: ExecStep) -> StepCfg:
        path = f"{self._run_dir}/{command.cfg_path}"
        try:
            data = _read_whole(path)
        except OSError as problem:
            raise StepError("CfgMismatch", f"`{command.cfg_path}` cannot be read: {problem.strerror}") from None
        if hashlib.sha256(data).hexdigest() != command.cfg_sha256:
            message = f"`{command.cfg_path}` does not have the hash that the command names ({command.cfg_sha256})"
            raise StepError("CfgMismatch", message)
        cfg = _decode_cfg(data)
        if cfg.step_id != command.step_id:
            raise StepError("CfgMismatch", f"`{command.cfg_path}` is the cfg of `{cfg.step_id}`")
        return cfg

    # --- the step itself ------------------------------------------------------------------------------------------

    def _performed(self, step: OpenedStep, cfg: StepCfg, redactor: Redactor) -> _Done:
        check_bindings(cfg, step.command)
        inputs = self._materializer.inputs(cfg)
        # What a step with secrets prints is redacted by a process that waits for it.
        if (self._runs_steps and not redactor) or (step.is_a_program and not step.has_own_environment):
            self._peak.reset()
            return self._perform(step, cfg, inputs, redactor)
        if cfg.action in BUILTIN:
            self._action(cfg.action)  # our own code, so that not each process imports it
        compile_ahead(self._compiled)
        self._compiled = []
        if redactor:
            self._streams.redact(redactor)
        result = run_in_own_process(
            self._link,
            lambda: self._flushed(self._perform(step, cfg, inputs, redactor)),
            {**self._streams.pumps(), **self._eyes.pumps()},
        )
        done = _decode_done(result)
        self._compiled = done.compiled
        return done

    def _flushed(self, done: _Done) -> bytes:
        self._streams.flush()
        return encode(done)

    def _perform(self, step: OpenedStep, cfg: StepCfg, inputs: dict[str, Any], redactor: Redactor) -> _Done:
        before = Resources.now()
        parameters = parameters_of(cfg, inputs)
        outputs: list[OutputResult] = []
        comparisons: dict[str, Comparison] = {}
        failure: Failure | None = None
        context = StepContext(
            step.command,
            cfg.outputs,
            parameters,
            self._project,
            self._scratch,
            self._link,
            redactor,
            self._streams.unwritten,
            self._eyes.launcher,
        )
        try:
            if step.secrets or cfg.secrets:
                parameters.update(with_secrets(parameters, step.secrets))
            outputs = self._outputs_of(step, cfg, inputs, parameters, context, redactor)
            if step.command.compare:
                comparisons = self._compare(step.command, cfg, outputs, redactor)
        except BaseException as problem:  # see `execute`
            failure = self._with_changed_blobs(failure_of(problem))
        metrics = Resources.now().since(before, context.peak_of_program)
        return _Done(outputs, failure, metrics, comparisons, self._loaded(), take_compiled(), self._eyes.glimpsed())

    def _with_changed_blobs(self, failure: Failure) -> Failure:
        """Adds that the step's stored inputs changed. Such a step often fails for another reason, for instance because
        an input is gone."""
        if failure.error_type != CHANGED_DURING_RUN:
            try:
                changed = self._guard.changed_blobs()
            except OSError as second:
                return failure.also("checking its inputs", second)
            for change in changed:
                failure = failure.beside(f"{change}; {STORED_BYTES}")
        return failure

    def _loaded(self) -> dict[str, Version | None]:
        return take_recorded_reads(str(self._project)) if self._live else {}

    def _compare(
        self, command: ExecStep, cfg: StepCfg, outputs: list[OutputResult], redactor: Redactor
    ) -> dict[str, Comparison]:
        from whyrun.execution.worker.output_comparison import OutputComparer  # only for steps that compare

        comparer = OutputComparer(self._sources, self._store, self._scratch, self._action(cfg.action), redactor)
        return comparer.compare(command.compare, cfg.outputs, outputs)

    def _outputs_of(
        self,
        step: OpenedStep,
        cfg: StepCfg,
        inputs: dict[str, Any],
        parameters: dict[str, Any],
        context: StepContext,
        redactor: Redactor,
    ) -> list[OutputResult]:
        self._enter(cfg, context, step.secrets)
        process = os.getpid()
        try:
            self._look_up(cfg.action)  # which reads files of the project itself
            self._link.cancellation.arm()
            with self._eyes.watching(cfg.action):
                action = self._action(cfg.action)
                context.also_known = action.outputs
                if cfg.merged:
                    check_cardinality(cfg, inputs, context)
                # In a copy of the context: settings such as `decimal.getcontext().prec` end with the step.
                returned = copy_context().run(action.call, parameters, context, StepLogger(context))
        finally:
            self._link.cancellation.disarm()
            if os.getpid() != process:
                os._exit(0)  # a fork that returned from the action: only the original process may continue
            context.close()
        self._end_strays()  # before outputs are collected, so that no process writes into stored files
        os.chdir(self._scratch.work)
        if cfg.workdir == IN_PROJECT:
            self._project_folder.collect({p: output_path(self._scratch, cfg.outputs, n) for n, p in own_paths(cfg)})
        self._guard.check_unchanged()
        return collect_outputs(cfg.outputs, action.outputs, returned, self._scratch, self._store, redactor, cfg.action)

    def _enter(self, cfg: StepCfg, context: StepContext, secrets: dict[str, str]) -> None:
        """What the process of the step enters before its action: an environment, its variables, its folder."""
        if cfg.environment is not None:
            from whyrun.environments.entering import enter_locked  # imported late: most steps have no environment

            try:
                enter_locked(self._environments, self._project, cfg.environment.lock, cfg.environment.sha256)
            except WhyrunError as failed:
                raise StepError("EnvironmentFailed", in_short(failed)) from None
        context.container, context.engine_settings = cfg.container, self._engine_settings
        context.variables = {name: as_text(with_secrets(value, secrets)) for name, value in cfg.env.items()}
        os.environ.update(context.variables)
        if cfg.workdir == IN_PROJECT:
            self._project_folder.make_ready((path for _, path in own_paths(cfg)), input_files(cfg.inputs.values()))
            for path, spec in published_files(cfg.inputs.values()):
                self._project_folder.give(path, partial(self._sources.export, spec.sha256, type=spec.type))
            context.work_dir = self._project_folder.path
            os.chdir(context.work_dir)

    def _folder_of(self, cfg: StepCfg | None) -> Path:
        return self._project_folder.path if cfg is not None and cfg.workdir == IN_PROJECT else self._scratch.work

    def _works_in_copy(self, cfg: StepCfg | None) -> bool:
        return cfg is not None and cfg.workdir == IN_PROJECT and not self._live

    def _action(self, uses: str) -> LoadedAction:
        action = self._actions.get(uses)
        if action is None:
            action = self._actions[uses] = load_action(uses, self._project, self._look_up(uses))
        return action

    def _look_up(self, uses: str) -> ActionInfo | None:
        if uses not in self._found:
            self._found[uses] = look_up(uses, self._project)
        return self._found[uses]

    # --- after the step -----------------------------------------------------------------------------------------

    def _tidy(
        self, step: OpenedStep, failure: Failure | None, redactor: Redactor, failed: bool = False
    ) -> Failure | None:
        """End processes that the step left, keep its evidence, empty the scratch folder.

        A problem here is reported beside the step's own error, never instead of it.
        """
        failed = failed or failure is not None
        tidying = ["ending its processes", "keeping its output"]
        if step.cfg is not None and step.cfg.workdir == IN_PROJECT:
            tidying.append("putting back what stood at its outputs' paths")
        if step.cfg is not None and step.cfg.action in SAVES_SCRIPT:
            tidying.append("keeping its script")
        if failed:
            tidying.append("keeping its files")
        tidying.append("emptying the scratch folder")
        for doing in tidying:
            try:
                self._tidy_one(doing, step, redactor)
            except Exception as second:  # reported beside the step's own error, never instead of it
                failure = failure_of(second) if failure is None else failure.also(doing, second)
        return failure

    def _tidy_one(self, doing: str, step: OpenedStep, redactor: Redactor) -> None:
        folder = step_folder(self._run_dir, step.command.step_id)
        match doing:
            case "ending its processes":
                os.chdir(self._scratch.work)
                self._end_strays()
            case "keeping its output":
                self._streams.end_redaction()
                if self._streams.written():
                    self._streams.keep(folder, redactor)
                self._streams.attach()
            case "putting back what stood at its outputs' paths":
                self._project_folder.leave()
            case "keeping its script":
                self._scratch.keep_script(folder, redactor)
            case "keeping its files":
                self._scratch.keep_partial(folder, redactor)
            case "emptying the scratch folder":
                self._copies.end()
                self._scratch.empty()

    def _end_strays(self) -> None:
        """Steps that share a process also share what they start, such as a pool of processes."""
        if not self._shares and has_strays(self.spared):
            end_descendants(self.spared)

    def _presentable(self, failure: Failure, redactor: Redactor) -> Failure:
        error, trace = failure.error, failure.traceback
        for path, shown in (*self._materializer.names.items(), *self._shown):
            if path != "/":
                error, trace = error.replace(path, shown), trace.replace(path, shown)
        return Failure(redactor.text(failure.error_type), redactor.text(error), redactor.text(trace)).shortened()


def _read_whole(path: str) -> bytes:
    """Read a small file with as few system calls as possible."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(descriptor, _SMALL)
        while len(data) >= _SMALL and (more := os.read(descriptor, _SMALL)):
            data += more
        return data
    finally:
        os.close(descriptor)
