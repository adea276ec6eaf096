"""One worker that shares no folder with the host: sends it steps and fetches their outputs and evidence.

This module has everything that such backends have in common. What differs is in their transports.
"""

from __future__ import annotations

import queue
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import TypeVar

import msgspec

from whyrun import __version__
from whyrun.artifacts.store import Store
from whyrun.connections.redact import Redactor
from whyrun.execution.backends.base import (
    NO_NEEDS,
    Ended,
    Gap,
    LineBuffer,
    PrepareFailed,
    Received,
    Session,
    Source,
    StepNeeds,
    Transport,
    WorkerLost,
)
from whyrun.execution.backends.remote import site
from whyrun.execution.files.scratch import Scratch, drop_links, step_folder, written_marker
from whyrun.execution.protocol.framing import Acknowledged, CommandFile, decode_message, encode, secret_bytes, timestamp
from whyrun.execution.protocol.messages import (
    Cleanup,
    Command,
    ExecStep,
    Message,
    Ping,
    Pong,
    Prepare,
    Prepared,
    StepBegan,
    StepCfg,
    StepFinished,
    StepLost,
    StepReturns,
    WorkerMessage,
)
from whyrun.execution.worker.failure import Failure, StepError, failure_of
from whyrun.execution.worker.outbox import UNNUMBERED
from whyrun.log.decoding import decoded
from whyrun.log.events import UNREADABLE

_Answer = TypeVar("_Answer", Pong, Prepared)

QUIET = 1.0  # seconds without a message after which the transport checks the worker
POLL = 0.1  # seconds between two checks whether the run was stopped
START = 120.0  # seconds for a worker to answer its first ping: it may have to install packages first


@dataclass(frozen=True, slots=True)
class RemoteJob:
    command: ExecStep
    secrets: dict[str, str] = field(default_factory=dict)
    needs: StepNeeds = NO_NEEDS


@dataclass(frozen=True, slots=True)
class _Signal:
    step_id: str
    number: int
    execution: int  # the one that the signal is meant for: a late signal must not end the next step


@dataclass(slots=True)
class _Execution:
    """One execution of a step: which of its messages have been passed on."""

    emit: Callable[[Message], None]
    began: float
    expected: int = 0  # the number of the next message
    ended: StepFinished | StepLost | None = None  # its last message


class RemoteWorker:
    """The host's side of one worker, used by one thread. Other threads may call `signal`, `acknowledge`, `stop`."""

    def __init__(self, session: Session, transport: Transport, sources: str = site.SOURCES) -> None:
        self._session = session
        self._store = Store(session.store)
        self._transport = transport
        self._sources = sources
        self._inbox: queue.SimpleQueue[Received | _Signal | Acknowledged] = queue.SimpleQueue()
        self._lines = LineBuffer()
        self._numbers = count(1)
        self._sent_blobs: set[str] = set()  # their paths at the site
        self._ended: set[str] = set()  # steps that this worker has executed
        self._started = False
        self._prepared = False
        self._stopped = False
        self._executions = 0  # steps executed so far
        self._generation = 0  # workers started so far: messages of earlier ones are dropped

    # --- from other threads -------------------------------------------------------------------------------------

    def signal(self, step_id: str, number: int) -> None:
        self._inbox.put(_Signal(step_id, number, self._executions))

    def acknowledge(self, step_id: str, key: str) -> None:
        self._inbox.put(Acknowledged(step_id, key))

    def stop(self) -> None:
        """The backend closes: end the running step."""
        self._stopped = True
        self._inbox.put(Gap())

    # --- the worker ---------------------------------------------------------------------------------------------

    def open(self, needs: StepNeeds = NO_NEEDS, stopped: Callable[[], bool] = lambda: False) -> None:
        """Start a worker and wait for its answer, unless a running one fits."""
        if self._started and self._transport.fits(needs):
            return
        self.close()
        self._generation += 1
        self._drop_old_messages()
        self._lines.clear()
        self._sent_blobs.clear()
        self._ended.clear()
        self._prepared = False
        self._transport.start(needs, partial(self._receive, self._generation))
        self._started = True
        self._command(Ping(), {}, {})
        pong = self._answer(Pong, stopped, time.monotonic() + START)
        if pong is not None and pong.version != __version__:
            raise WorkerLost(f"the worker there is whyrun {pong.version}, and this is {__version__}")

    def _receive(self, generation: int, received: Received) -> None:
        if generation == self._generation:
            self._inbox.put(received)

    def _drop_old_messages(self) -> None:
        """Empty the inbox of the messages of a worker that is gone. Signals stay."""
        signals = []
        while not self._inbox.empty():
            received = self._inbox.get()
            if isinstance(received, _Signal):
                signals.append(received)
        for each in signals:
            self._inbox.put(each)

    def prepare(self, command: str, stopped: Callable[[], bool]) -> None:
        self._command(Prepare(command), {}, {})
        prepared = self._answer(Prepared, stopped)
        if prepared is not None and prepared.error:
            raise PrepareFailed(prepared.error)
        self._prepared = True

    def _prepare_another(self) -> None:
        """Run the `prepare` command in a worker that was started later, if it executes more than one step."""
        if self._session.prepare is None or self._prepared or not self._transport.reusable:
            return
        try:
            self.prepare(self._session.prepare, lambda: False)
        except PrepareFailed as failed:
            raise WorkerLost(f"the worker could not be prepared: {failed}") from None

    def close(self) -> None:
        if self._started:
            self._started = False
            self._transport.close()

    def clean_up(self) -> None:
        """Let an idle worker remove its files and end by itself."""
        if self._started:
            try:
                self._command(Cleanup(), {}, {})
            except WorkerLost:
                pass  # it has ended already
        self.close()

    def _command(self, command: Command, secrets: dict[str, str], files: dict[str, Source]) -> None:
        name = f"{next(self._numbers)}.json"
        self._transport.put({**files, f"{site.COMMANDS}/{name}": encode(command)})
        self._transport.send(encode(CommandFile(name, secret_bytes(secrets))) + b"\n")

    def _answer(
        self, kind: type[_Answer], stopped: Callable[[], bool], deadline: float | None = None
    ) -> _Answer | None:
        """Wait for the worker's answer; None if the run was stopped meanwhile."""
        quiet = time.monotonic()
        while not (stopped() or self._stopped):
            try:
                received = self._inbox.get(timeout=POLL)
            except queue.Empty:
                now = time.monotonic()
                if deadline is not None and now > deadline:
                    raise WorkerLost(f"the worker there did not answer within {START:g} s") from None
                if now > quiet + QUIET:
                    quiet = now
                    self._transport.check()
                continue
            if isinstance(received, _Signal):
                if received.number == signal.SIGKILL and received.execution == self._executions:
                    raise WorkerLost("the step was ended before it began")
                continue  # the runner repeats any other signal when the step begins
            if isinstance(received, Ended):
                stderr = self._transport.last_stderr()
                raise WorkerLost(received.reason + (f"\n{stderr}" if stderr else ""))
            if isinstance(received, bytes):
                for line in self._lines.add(received):
                    message = _decoded(line)
                    if isinstance(message, kind):
                        return message
        return None

    # --- a step -------------------------------------------------------------------------------------------------

    def perform(self, job: RemoteJob, emit: Callable[[Message], None]) -> None:
        """Execute a step. The last message is `StepFinished` or `StepLost` in any case."""
        try:
            self._perform(job, emit)
        finally:
            self._executions += 1

    def _perform(self, job: RemoteJob, emit: Callable[[Message], None]) -> None:
        execution = _Execution(emit, time.monotonic())
        self._ended.discard(job.command.step_id)  # a further attempt
        redactor = Redactor(job.secrets)
        step = job.command.step_id
        with tempfile.TemporaryDirectory(dir=self._session.tmp, prefix=f"{self._session.run}-back-") as folder:
            try:
                cfg = self._cfg(job.command)
                self.open(job.needs)
                self._prepare_another()
                self._send(job, cfg)
                self._listen(job, execution)
                finished = execution.ended
                assert finished is not None
                emit(StepReturns(step))
                finished = self._fetch_results(finished, cfg, Path(folder))
            except WorkerLost as lost:
                finished = None
                lost_message = self._lost(job, execution, str(lost), redactor, Path(folder))
            except (
                OSError,
                StepError,
            ) as problem:  # of the host's disk: the step is not to blame, but is lost
                finished = None
                lost_message = self._lost(
                    job, execution, f"{type(problem).__name__}: {problem}", redactor, Path(folder)
                )
        if finished is None:
            self.close()
            if execution.expected == 0:  # no `StepBegan` was passed on, which the log needs
                emit(StepBegan(step, job.command.attempt, timestamp()))
            emit(lost_message)
            return
        if not self._transport.reusable:
            self.close()
        emit(finished)

    def _cfg(self, command: ExecStep) -> StepCfg | None:
        """The step's cfg; None if it is damaged. The worker gets it anyway and reports the error, as everywhere."""
        try:
            return decoded(site.decode_cfg, (self._session.run_dir / command.cfg_path).read_bytes())
        except (*UNREADABLE, FileNotFoundError):
            return None

    def _send(self, job: RemoteJob, cfg: StepCfg | None) -> None:
        files: dict[str, Source] = {}
        for path, source in site.needed_files(self._session, self._store, job.command, cfg, self._sources).items():
            if path not in self._sent_blobs:
                files[path] = source
        if self._transport.outlives_host:
            files[site.MARKER] = written_marker(job.command.step_id, job.command.attempt)
        self._command(job.command, job.secrets, files)
        # A blob's name is its hash, so it need not be sent again. Any other file may have changed by the next step.
        self._sent_blobs.update(path for path in files if path.startswith(f"{self._sources}/"))

    def _listen(self, job: RemoteJob, execution: _Execution) -> None:
        """Pass on messages until the step has finished. Raises `WorkerLost`."""
        while execution.ended is None:
            if self._stopped:
                raise WorkerLost("the run was ended")
            try:
                received = self._inbox.get(timeout=QUIET)
            except queue.Empty:
                self._transport.check()
                continue
            match received:
                case bytes():
                    for line in self._lines.add(received):
                        self._take(line, job, execution)
                case Gap():
                    self._lines.clear()
                    self._fill(job, execution)
                case Ended(reason):
                    self._fill(job, execution)  # its last message may be in the file, though it did not arrive
                    if execution.ended is None:
                        raise WorkerLost(reason)
                case _Signal(step_id, number, number_of_execution):
                    if step_id == job.command.step_id and number_of_execution == self._executions:
                        self._transport.signal(number)
                case Acknowledged():
                    self._transport.send(encode(received) + b"\n")

    def _take(self, line: bytes, job: RemoteJob, execution: _Execution) -> None:
        message = _decoded(line)
        if isinstance(message, Pong | Prepared) or execution.ended is not None:
            return
        if message.step_id in self._ended:
            return  # from a process that an earlier step left running; ignored
        if message.step_id != job.command.step_id:
            self._transport.signal(signal.SIGKILL)
            raise WorkerLost(f"the worker was ended: it sent a message of `{message.step_id}`, which it does not run")
        if isinstance(message, StepBegan | StepFinished | StepLost) and message.attempt != job.command.attempt:
            return  # from an earlier attempt, by a worker that has been ended since
        if message.n == UNNUMBERED:
            execution.emit(message)
            return
        if message.n > execution.expected:
            self._fill(job, execution)
        if message.n == execution.expected:
            execution.expected += 1
            if isinstance(message, StepFinished | StepLost):
                execution.ended = message
            else:
                execution.emit(message)

    def _fill(self, job: RemoteJob, execution: _Execution) -> None:
        """Read the messages that the connection lost from the worker's own file. Ignores an incomplete last line."""
        *lines, _ = self._transport.get(site.SAID).split(b"\n")
        first = _decoded(lines[0]) if lines else None
        if not isinstance(first, StepBegan) or first.attempt != job.command.attempt:
            return  # the step has not begun; the file still has the messages of an earlier one
        for line in lines:
            message = _decoded(line)
            if isinstance(message, Pong | Prepared) or message.step_id != job.command.step_id:
                continue
            if message.n != UNNUMBERED:  # without a number nobody can tell whether it has arrived already
                if message.n > execution.expected:
                    raise WorkerLost(f"message {execution.expected} of `{message.step_id}` is lost")
                self._take(line, job, execution)

    def _fetch_results(
        self, finished: StepFinished | StepLost, cfg: StepCfg | None, tmp: Path
    ) -> StepFinished | StepLost:
        """Fetch the outputs and the step's folder. A problem here never replaces the step's own error."""
        if isinstance(finished, StepLost):
            self._sent_blobs.clear()  # the step may have changed them
            site.fetch_step_folder(self._transport, self._session, finished.step_id, tmp)
            self._ended.add(finished.step_id)
            return finished
        failure = None
        if finished.error_type is not None:
            failure = Failure(finished.error_type, finished.error, finished.traceback)
            self._sent_blobs.clear()  # the failed step may have changed them
        try:
            if cfg is not None:
                sent = {path.removeprefix(f"{self._sources}/").replace("/", "") for path in self._sent_blobs}
                site.fetch_outputs(self._transport, self._store, cfg, finished.outputs, sent, tmp)
        except (StepError, OSError) as problem:
            failure = failure_of(problem) if failure is None else failure.also("bringing its outputs back", problem)
        try:
            site.fetch_step_folder(self._transport, self._session, finished.step_id, tmp)
        except OSError as problem:
            failure = failure_of(problem) if failure is None else failure.also("keeping its output", problem)
        except WorkerLost as lost:
            if failure is None:
                raise
            failure = failure.also("keeping its output", lost)  # the step's own error matters more
            self.close()
        self._ended.add(finished.step_id)
        if failure is None:
            return finished
        return msgspec.structs.replace(
            finished, outputs=[], comparisons={}, error=failure.error, error_type=failure.error_type,
            traceback=failure.traceback,
        )  # fmt: skip

    def _lost(self, job: RemoteJob, execution: _Execution, reason: str, redactor: Redactor, tmp: Path) -> StepLost:
        """The last message of a step whose worker is lost. Keeps the files that can still be fetched as evidence."""
        stderr = ""
        step = job.command.step_id
        try:
            left = Scratch(tmp / "scratch")
            site.fetch_step_folder(self._transport, self._session, step, tmp)
            if self._transport.fetch_tree(site.SCRATCH, left.root):
                drop_links(left.root)
                stderr = left.tail("stderr", redactor)
                left.keep_all(step_folder(self._session.run_dir, step), redactor)
            stderr = stderr or redactor.text(self._transport.last_stderr())
        except WorkerLost:
            pass  # all files are gone with the worker; `reason` says why
        except OSError as problem:
            reason += f" (and its files could not be kept: {problem})"
        shutil.rmtree(tmp / "scratch", ignore_errors=True)
        duration = time.monotonic() - execution.began if execution.expected else 0.0
        return StepLost(step, job.command.attempt, timestamp(), redactor.text(reason), stderr, duration)


def _decoded(line: bytes) -> WorkerMessage:
    try:
        return decoded(decode_message, line)
    except UNREADABLE as problem:
        raise WorkerLost(f"the worker was ended: it sent an invalid message: {problem}") from None
