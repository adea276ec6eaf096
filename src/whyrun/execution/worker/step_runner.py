"""Executes one step, from its command to its last message. The same code runs on every backend."""

from __future__ import annotations

import hashlib
import os
import signal
import time
import warnings
from contextvars import copy_context
from pathlib import Path

import msgspec

from whyrun import disk
from whyrun.actions.builtin import SAVES_SCRIPT
from whyrun.actions.builtin.shell import as_text
from whyrun.actions.code.source_loader import Version, take_recorded_reads
from whyrun.actions.registry.load import LoadedAction, forget_project_code, load_action
from whyrun.artifacts.compare.result import Comparison
from whyrun.artifacts.durable import write_all
from whyrun.artifacts.stat_cache.file_times import ClockSkews, FileClock
from whyrun.artifacts.stat_cache.rows import Signature
from whyrun.artifacts.store import Store
from whyrun.connections.redact import NOTHING_SECRET, Redactor
from whyrun.execution.files.scratch import step_folder
from whyrun.execution.protocol.framing import WorkerStart, encode, timestamp
from whyrun.execution.protocol.messages import ExecStep, OutputResult, StepCfg, StepFinished
from whyrun.execution.worker.collect import collect_outputs
from whyrun.execution.worker.context import HostLink, StepContext, StepLogger
from whyrun.execution.worker.failure import Failure, StepError, failure_of
from whyrun.execution.worker.isolation import (
    Baseline,
    ImportedCode,
    PeakMemory,
    Resources,
    become_worker,
    descendants,
    end_descendants,
    has_children,
)
from whyrun.execution.worker.materialize import (
    CHANGED_DURING_RUN,
    STORED_BYTES,
    InputGuard,
    Materializer,
    check_bindings,
    check_cardinality,
    check_secrets,
    parameters_of,
    with_secrets,
)
from whyrun.execution.worker.streams import Streams

_decode_cfg = msgspec.json.Decoder(StepCfg).decode
_SMALL = 1 << 16  # bytes


class _Done(msgspec.Struct, frozen=True):
    """The result of a step. A fresh process sends it to its worker as JSON."""

    outputs: list[OutputResult]
    failure: Failure | None
    metrics: dict[str, float]
    numbered: int
    comparisons: dict[str, Comparison] = {}
    loaded: dict[str, Version | None] = {}


_decode_done = msgspec.json.Decoder(_Done).decode


class StepRunner:
    """Executes steps one after the other. Each finds the worker as the first one did."""

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
        self._materializer = Materializer(self._sources, self._scratch, self._guard)
        self._actions: dict[str, LoadedAction] = {}
        self._imported = ImportedCode(self._project)
        self._spared: frozenset[int] = frozenset()  # processes of module-level pools, which stay for the next step
        # For error messages. The longest first: scratch and run folder usually lie inside the project. The evidence
        # also calls it `scratch/`, so a path in a message leads to the file.
        self._shown = [
            (f"{start.scratch}/", "scratch/"),
            (f"{start.run_dir}/", ""),
            (f"{start.project.rstrip('/')}/", ""),
            (f"{start.inputs.rstrip('/')}/", ""),
        ]
        self._baseline = Baseline(str(self._scratch.work))
        self._peak = PeakMemory()
        self._mark = self._scratch.marker()

    def execute(self, command: ExecStep, secrets: dict[str, str], known: dict[str, Signature]) -> StepFinished:
        began = time.perf_counter()
        self._guard.begin()
        self._guard.trust(known)
        self._mark(command.step_id, command.attempt)
        redactor = Redactor(secrets) if secrets else NOTHING_SECRET
        action, fresh = "", False
        try:
            # Again, though it was emptied after the last step: what that left running may have written since then.
            self._scratch.empty()
            os.chdir(self._scratch.work)
            self._link.acknowledgements.begin()
            check_secrets(secrets)
            cfg = self._read_cfg(command)
            action, fresh = cfg.action, bool(cfg.env or cfg.secrets or secrets)
            if not fresh:
                self._imported.enter(cfg.action, cfg.with_)
            done = (self._in_fresh_process if fresh else self._perform)(command, cfg, secrets, redactor)
        except BaseException as problem:  # whatever a step raises fails the step, never the worker
            done = _Done([], failure_of(problem), {}, self._link.outbox.numbered)
        self._link.cancellation.end()
        duration = time.perf_counter() - began
        failure = self._tidy(command, action, fresh, done.failure, redactor)
        metrics = {"step_duration_ms": round(duration * 1000, 3), **done.metrics}
        number, spent = done.numbered + 1, self._baseline.is_lost()
        if failure is None:
            return StepFinished(
                command.step_id, command.attempt, timestamp(), duration, done.outputs, metrics, n=number,
                comparisons=done.comparisons, loaded=self._loaded() | done.loaded, spent=spent,
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
            spent=spent,
        )

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

    def _perform(
        self, command: ExecStep, cfg: StepCfg, secrets: dict[str, str], redactor: Redactor, fresh: bool = False
    ) -> _Done:
        self._peak.reset()
        before = Resources.now()
        outputs: list[OutputResult] = []
        comparisons: dict[str, Comparison] = {}
        failure: Failure | None = None
        try:
            outputs = self._outputs_of(command, cfg, secrets, redactor, fresh)
            if command.compare:
                comparisons = self._compare(command, cfg, outputs, redactor)
        except BaseException as problem:  # see `execute`
            failure = self._with_changed_blobs(failure_of(problem))
        loaded = self._loaded() if fresh else {}
        return _Done(outputs, failure, Resources.now().since(before), self._link.outbox.numbered, comparisons, loaded)

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
        self, command: ExecStep, cfg: StepCfg, secrets: dict[str, str], redactor: Redactor, fresh: bool
    ) -> list[OutputResult]:
        check_bindings(cfg, command)
        inputs = self._materializer.inputs(cfg)
        parameters = parameters_of(cfg, inputs)
        if secrets or cfg.secrets:
            parameters = with_secrets(parameters, secrets)
        for name, value in cfg.env.items():
            os.environ[name] = as_text(with_secrets(value, secrets))
        context = StepContext(
            command,
            cfg.outputs,
            parameters,
            self._project,
            self._scratch,
            self._link,
            redactor,
        )
        process = os.getpid()
        try:
            self._link.cancellation.arm()
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
        if fresh or cfg.action == "shell":
            # Before outputs are collected, so that no process writes into stored files.
            self._end_strays(True)
        os.chdir(self._scratch.work)
        self._guard.check_unchanged()
        return collect_outputs(cfg.outputs, action.outputs, returned, self._scratch, self._store, redactor, cfg.action)

    def _action(self, uses: str) -> LoadedAction:
        action = self._actions.get(uses)
        if action is None:
            action = self._actions[uses] = load_action(uses, self._project)
        return action

    # --- a fresh process -----------------------------------------------------------------------------------

    def _in_fresh_process(self, command: ExecStep, cfg: StepCfg, secrets: dict[str, str], redactor: Redactor) -> _Done:
        """Run a step with `env` or secrets in a fork, so that no setting and no secret stays in the worker's memory.
        Nothing of the project is imported in the fork, because a module may read the environment on import."""
        # Not a pipe: a process that the step leaves running would hold it open, and the worker would wait for it.
        result = disk.memory_file("whyrun-result")
        relay, relay_end = os.pipe()
        # Block signals: the child would lose an order to stop that arrives before it can handle it.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))
        with warnings.catch_warnings():
            # The worker's only other thread waits in a read and holds no lock.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            status = 1
            try:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                os.close(relay_end)
                become_worker()
                self._spared = frozenset()
                self._peak = PeakMemory()
                self._link.acknowledgements.read_from(relay)
                self._link.outbox.after_fork()
                self._link.cancellation.adopt_thread()
                if self._imported:
                    self._actions.clear()
                    forget_project_code()
                done = self._perform(command, cfg, secrets, redactor, fresh=True)
                self._streams.flush()
                write_all(result, encode(done))
                status = 0
            finally:
                os._exit(status)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if self._link.cancellation.requested:
            os.kill(child, signal.SIGTERM)  # the signal arrived before the child existed
        self._link.acknowledgements.relay_to(relay_end)
        _, status = os.waitpid(child, 0)
        self._link.acknowledgements.relay_to(None)
        os.close(relay)
        os.close(relay_end)
        with os.fdopen(result, "rb") as file:
            file.seek(0)
            data = file.read()
        if status != 0 or not data:
            _die_like(status)
        return _decode_done(data)

    # --- after the step -----------------------------------------------------------------------------------------

    def _tidy(
        self, command: ExecStep, action: str, fresh: bool, failure: Failure | None, redactor: Redactor
    ) -> Failure | None:
        """Restore the worker, end processes that the step left, keep its evidence, empty the scratch folder.

        A problem here is reported beside the step's own error, never instead of it.
        """
        failed = failure is not None
        tidying = ["restoring the worker", "ending its processes", "keeping its output"]
        if action in SAVES_SCRIPT:
            tidying.append("keeping its script")
        if failed:
            tidying.append("keeping its files")
        tidying.append("emptying the scratch folder")
        for doing in tidying:
            try:
                self._tidy_one(doing, command, failed or fresh or action == "shell", redactor)
            except Exception as second:  # reported beside the step's own error, never instead of it
                failure = failure_of(second) if failure is None else failure.also(doing, second)
        return failure

    def _tidy_one(self, doing: str, command: ExecStep, end_strays: bool, redactor: Redactor) -> None:
        match doing:
            case "restoring the worker":
                self._baseline.restore()
                if self._baseline.path_changed:
                    self._imported.path_changed()
            case "ending its processes":
                self._end_strays(end_strays)
            case "keeping its output":
                if self._streams.written():
                    self._streams.keep(step_folder(self._run_dir, command.step_id), redactor)
                self._streams.attach()
            case "keeping its script":
                self._scratch.keep_script(step_folder(self._run_dir, command.step_id), redactor)
            case "keeping its files":
                self._scratch.keep_partial(step_folder(self._run_dir, command.step_id), redactor)
            case "emptying the scratch folder":
                self._scratch.empty()

    def _end_strays(self, all_new: bool) -> None:
        if not has_children():
            return
        if all_new:
            end_descendants(self._spared)
        self._spared = frozenset(descendants(os.getpid()))

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


def _die_like(status: int) -> None:
    """End this worker as the step's fresh process ended, so that the host sees a lost step."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        signal.signal(number, signal.SIG_DFL) if number not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status) or 1)
