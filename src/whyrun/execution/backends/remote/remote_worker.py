"""One worker at a place that shares no folder with the host: a step there and its evidence back.

All that is the same for every such place is here; what differs is in its transport.
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
from whyrun.execution.backends import site
from whyrun.execution.backends.transport import Ended, Gap, Heard, Lines, PlaceLost, Source, Transport
from whyrun.execution.cfg import StepCfg
from whyrun.execution.commands import (
    NO_NEEDS,
    Cleanup,
    Command,
    ExecStep,
    Message,
    Ping,
    Pong,
    Prepare,
    Prepared,
    PrepareFailed,
    Session,
    StepBegan,
    StepFinished,
    StepLost,
    StepNeeds,
    StepReturns,
    Word,
)
from whyrun.execution.failure import Failure, StepError, failure_of
from whyrun.execution.outbox import UNNUMBERED
from whyrun.execution.scratch import Scratch, drop_links, step_folder, written_marker
from whyrun.execution.secrets import Redactor
from whyrun.execution.wire import Acknowledged, CommandFile, decode_message, encode, secret_bytes, timestamp
from whyrun.log.decoding import decoded
from whyrun.log.events import UNREADABLE

_Answer = TypeVar("_Answer", Pong, Prepared)

QUIET = 1.0  # seconds without a word after which the worker is looked at
LOOK = 0.1  # seconds between two looks at whether to go on
START = 120.0  # seconds for a worker to answer its first ping: a place may have to install things


@dataclass(frozen=True, slots=True)
class RemoteJob:
    command: ExecStep
    secrets: dict[str, str] = field(default_factory=dict)
    needs: StepNeeds = NO_NEEDS


@dataclass(frozen=True, slots=True)
class _Signal:
    step_id: str
    number: int
    performance: int  # which one it is meant for: one that came too late must not end the next


@dataclass(slots=True)
class _Telling:
    """How far a step has been told."""

    say: Callable[[Message], None]
    began: float
    expected: int = 0  # the number of the next message
    finished: StepFinished | None = None


class RemotePost:
    """A worker's post, kept by one thread. `signal`, `acknowledge` and `stop` may be called by others."""

    def __init__(self, session: Session, transport: Transport, sources: str = site.SOURCES) -> None:
        self._session = session
        self._store = Store(session.store)
        self._transport = transport
        self._sources = sources
        self._inbox: queue.SimpleQueue[Heard | _Signal | Acknowledged] = queue.SimpleQueue()
        self._lines = Lines()
        self._numbers = count(1)
        self._there: set[str] = set()  # blobs at the site
        self._ended: set[str] = set()  # steps that this worker executed before
        self._started = False
        self._prepared = False
        self._stopped = False
        self._performance = 0
        self._worker = 0  # how many were started: words of earlier ones are nobody's

    # --- from other threads --------------------------------------------------------------------------------------

    def signal(self, step_id: str, number: int) -> None:
        self._inbox.put(_Signal(step_id, number, self._performance))

    def acknowledge(self, step_id: str, key: str) -> None:
        self._inbox.put(Acknowledged(step_id, key))

    def stop(self) -> None:
        """The backend closes: whatever runs here is ended."""
        self._stopped = True
        self._inbox.put(Gap())

    # --- its worker ----------------------------------------------------------------------------------------------

    def open(self, needs: StepNeeds = NO_NEEDS, stopped: Callable[[], bool] = lambda: False) -> None:
        """A worker that answers. Where one is there already that fits, it is that one."""
        if self._started and self._transport.fits(needs):
            return
        self.close()
        self._worker += 1
        self._keep_signals()
        self._lines.forget()
        self._there.clear()
        self._ended.clear()
        self._prepared = False
        self._transport.start(needs, partial(self._hear, self._worker))
        self._started = True
        self._command(Ping(), {}, {})
        pong = self._answer(Pong, stopped, time.monotonic() + START)
        if pong is not None and pong.version != __version__:
            raise PlaceLost(f"the worker there is whyrun {pong.version}, and this is {__version__}")

    def _hear(self, worker: int, heard: Heard) -> None:
        if worker == self._worker:
            self._inbox.put(heard)

    def _keep_signals(self) -> None:
        """What else is in the inbox is of a worker that is gone."""
        kept = []
        while not self._inbox.empty():
            heard = self._inbox.get()
            if isinstance(heard, _Signal):
                kept.append(heard)
        for one in kept:
            self._inbox.put(one)

    def prepare(self, command: str, stopped: Callable[[], bool]) -> None:
        self._command(Prepare(command), {}, {})
        prepared = self._answer(Prepared, stopped)
        if prepared is not None and prepared.error:
            raise PrepareFailed(prepared.error)
        self._prepared = True

    def _prepare_another(self) -> None:
        """A place that was made later is made ready like the first, if it lasts for more than one step."""
        if self._session.prepare is None or self._prepared or not self._transport.reusable:
            return
        try:
            self.prepare(self._session.prepare, lambda: False)
        except PrepareFailed as failed:
            raise PlaceLost(f"the place could not be made ready: {failed}") from None

    def close(self) -> None:
        if self._started:
            self._started = False
            self._transport.close()

    def part(self) -> None:
        """Let an idle worker end by itself, and leave nothing there."""
        if self._started:
            try:
                self._command(Cleanup(), {}, {})
            except PlaceLost:
                pass  # it has ended already, and with it what it could leave
        self.close()

    def _command(self, command: Command, secrets: dict[str, str], files: dict[str, Source]) -> None:
        name = f"{next(self._numbers)}.json"
        self._transport.put({**files, f"{site.COMMANDS}/{name}": encode(command)})
        self._transport.send(encode(CommandFile(name, secret_bytes(secrets))) + b"\n")

    def _answer(
        self, kind: type[_Answer], stopped: Callable[[], bool], deadline: float | None = None
    ) -> _Answer | None:
        """What the worker answers; None where the run was stopped meanwhile."""
        quiet = time.monotonic()
        while not (stopped() or self._stopped):
            try:
                heard = self._inbox.get(timeout=LOOK)
            except queue.Empty:
                now = time.monotonic()
                if deadline is not None and now > deadline:
                    raise PlaceLost(f"the worker there did not answer within {START:g} s") from None
                if now > quiet + QUIET:
                    quiet = now
                    self._transport.check()
                continue
            if isinstance(heard, _Signal):
                if heard.number == signal.SIGKILL and heard.performance == self._performance:
                    raise PlaceLost("the step was ended before it began")
                continue  # a gentler one is repeated when the step begins
            if isinstance(heard, Ended):
                stderr = self._transport.last_stderr()
                raise PlaceLost(heard.reason + (f"\n{stderr}" if stderr else ""))
            if isinstance(heard, bytes):
                for line in self._lines.add(heard):
                    word = _decoded(line)
                    if isinstance(word, kind):
                        return word
        return None

    # --- a step --------------------------------------------------------------------------------------------------

    def perform(self, job: RemoteJob, say: Callable[[Message], None]) -> None:
        """Execute a step; its last word, or a word on its loss, is always said."""
        try:
            self._perform(job, say)
        finally:
            self._performance += 1

    def _perform(self, job: RemoteJob, say: Callable[[Message], None]) -> None:
        telling = _Telling(say, time.monotonic())
        self._ended.discard(job.command.step_id)  # a further attempt
        redactor = Redactor(job.secrets)
        step = job.command.step_id
        with tempfile.TemporaryDirectory(dir=self._session.tmp, prefix=f"{self._session.run}-back-") as folder:
            try:
                cfg = self._cfg(job.command)
                self.open(job.needs)
                self._prepare_another()
                self._send(job, cfg)
                self._listen(job, telling)
                finished = telling.finished
                assert finished is not None
                say(StepReturns(step))
                finished = self._bring_back(finished, cfg, Path(folder))
            except PlaceLost as lost:
                finished = None
                word = self._lost(job, telling, str(lost), redactor, Path(folder))
            except (OSError, StepError) as problem:  # of the host's own disk: the step is not to blame, but has no end
                finished = None
                word = self._lost(job, telling, f"{type(problem).__name__}: {problem}", redactor, Path(folder))
        if finished is None:
            self.close()
            if telling.expected == 0:  # its beginning was not told: the log wants one all the same
                say(StepBegan(step, job.command.attempt, timestamp()))
            say(word)
            return
        if finished.spent or not self._transport.reusable:
            self.close()
        say(finished)

    def _cfg(self, command: ExecStep) -> StepCfg | None:
        """None: it is not what it should be. The worker gets it all the same, and refuses it, as it does anywhere."""
        try:
            return decoded(site.decode_cfg, (self._session.run_dir / command.cfg_path).read_bytes())
        except (*UNREADABLE, FileNotFoundError):
            return None

    def _send(self, job: RemoteJob, cfg: StepCfg | None) -> None:
        files: dict[str, Source] = {}
        for path, source in site.needed_files(self._session, self._store, job.command, cfg, self._sources).items():
            if path not in self._there:
                files[path] = source
        if self._transport.outlives_host:
            files[site.WHOSE] = written_marker(job.command.step_id, job.command.attempt)
        self._command(job.command, job.secrets, files)
        # The name of a blob is its content. All else may be another the next time.
        self._there.update(path for path in files if path.startswith(f"{self._sources}/"))

    def _listen(self, job: RemoteJob, telling: _Telling) -> None:
        """Until the step's last word has come. Raises `PlaceLost`."""
        while telling.finished is None:
            if self._stopped:
                raise PlaceLost("the run was ended")
            try:
                heard = self._inbox.get(timeout=QUIET)
            except queue.Empty:
                self._transport.check()
                continue
            match heard:
                case bytes():
                    for line in self._lines.add(heard):
                        self._told(line, job, telling)
                case Gap():
                    self._lines.forget()
                    self._fill(job, telling)
                case Ended(reason):
                    self._fill(job, telling)  # its last word may be there, though it did not come through
                    if telling.finished is None:
                        raise PlaceLost(reason)
                case _Signal(step_id, number, performance):
                    if step_id == job.command.step_id and performance == self._performance:
                        self._transport.signal(number)
                case Acknowledged():
                    self._transport.send(encode(heard) + b"\n")

    def _told(self, line: bytes, job: RemoteJob, telling: _Telling) -> None:
        word = _decoded(line)
        if isinstance(word, Pong | Prepared) or telling.finished is not None:
            return
        if word.step_id in self._ended:
            return  # a process that the step left behind: too late to be heard, and no fault of this one
        if word.step_id != job.command.step_id or isinstance(word, StepLost):
            self._transport.signal(signal.SIGKILL)
            raise PlaceLost(f"the worker was ended: it spoke for `{word.step_id}`, which it does not run")
        if isinstance(word, StepBegan | StepFinished) and word.attempt != job.command.attempt:
            return  # of the attempt before this one, by a worker that has been ended since
        if word.n == UNNUMBERED:
            telling.say(word)
            return
        if word.n > telling.expected:
            self._fill(job, telling)
        if word.n == telling.expected:
            telling.expected += 1
            if isinstance(word, StepFinished):
                telling.finished = word
            else:
                telling.say(word)

    def _fill(self, job: RemoteJob, telling: _Telling) -> None:
        """What the connection lost, from the worker's own file. A line that is still being written is left."""
        *lines, _ = self._transport.get(site.SAID).split(b"\n")
        first = _decoded(lines[0]) if lines else None
        if not isinstance(first, StepBegan) or first.attempt != job.command.attempt:
            return  # it has not begun, and this is what its worker said before
        for line in lines:
            word = _decoded(line)
            if isinstance(word, Pong | Prepared) or word.step_id != job.command.step_id:
                continue
            if word.n != UNNUMBERED:  # those may have come already, and nobody could tell
                if word.n > telling.expected:
                    raise PlaceLost(f"message {telling.expected} of `{word.step_id}` is lost")
                self._told(line, job, telling)

    def _bring_back(self, finished: StepFinished, cfg: StepCfg | None, tmp: Path) -> StepFinished:
        """A problem in here is told, but never in place of the step's own error."""
        failure = None
        if finished.error_type is not None:
            failure = Failure(finished.error_type, finished.error, finished.traceback)
            self._there.clear()  # it may have written into what it read
        try:
            if cfg is not None:
                given = {path.removeprefix(f"{self._sources}/").replace("/", "") for path in self._there}
                site.bring_outputs(self._transport, self._store, cfg, finished.outputs, given, tmp)
        except (StepError, OSError) as problem:
            failure = failure_of(problem) if failure is None else failure.also("bringing its outputs back", problem)
        try:
            site.bring_step_folder(self._transport, self._session, finished.step_id, tmp)
        except OSError as problem:
            failure = failure_of(problem) if failure is None else failure.also("keeping its output", problem)
        except PlaceLost as lost:
            if failure is None:
                raise
            failure = failure.also("keeping its output", lost)  # the step's own error is what counts
            self.close()
        self._ended.add(finished.step_id)
        if failure is None:
            return finished
        return msgspec.structs.replace(
            finished, outputs=[], comparisons={}, error=failure.error, error_type=failure.error_type,
            traceback=failure.traceback,
        )  # fmt: skip

    def _lost(self, job: RemoteJob, telling: _Telling, reason: str, redactor: Redactor, tmp: Path) -> StepLost:
        """The word on a step that its worker can no longer give. What can still be had of its files is evidence."""
        stderr = ""
        step = job.command.step_id
        try:
            left = Scratch(tmp / "scratch")
            site.bring_step_folder(self._transport, self._session, step, tmp)
            if self._transport.fetch_tree(site.SCRATCH, left.root):
                drop_links(left.root)
                stderr = left.tail("stderr", redactor)
                left.keep_all(step_folder(self._session.run_dir, step), redactor)
            stderr = stderr or redactor.text(self._transport.last_stderr())
        except PlaceLost:
            pass  # the place is gone with all that was there, which is what `reason` says
        except OSError as problem:
            reason += f" (and its files could not be kept: {problem})"
        shutil.rmtree(tmp / "scratch", ignore_errors=True)
        duration = time.monotonic() - telling.began if telling.expected else 0.0
        return StepLost(step, job.command.attempt, timestamp(), redactor.text(reason), stderr, duration)


def _decoded(line: bytes) -> Word:
    try:
        return decoded(decode_message, line)
    except UNREADABLE as problem:
        raise PlaceLost(f"the worker was ended: it sent what is no message: {problem}") from None
