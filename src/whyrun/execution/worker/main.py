"""The worker process: `python -m whyrun.execution.worker.main START`, where START is a `WorkerStart` as JSON.

It executes commands one by one until there are no more. It is the same on every backend; backends differ only in how
commands and files reach it.

Every step runs in a process of its own. Most are forks of this process, which has imported Whyrun and nothing else. If
the code of steps names installed libraries, this process forks another that imports them, takes the commands of such
steps itself, and forks a process for each (`_Kind.LIBRARIES`). Steps that share a process (`isolation: shared`) are
executed by a third, for one job at a time.
"""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import msgspec

from whyrun import __version__
from whyrun.actions.code.editable import bundled_folders
from whyrun.actions.code.source_loader import import_project_from_source
from whyrun.execution.files.input_views import enter_namespace
from whyrun.execution.files.scratch import Scratch
from whyrun.execution.protocol.framing import WorkerStart, encode
from whyrun.execution.protocol.messages import (
    Cleanup,
    ExecStep,
    Ping,
    Pong,
    Prepare,
    Prepared,
    StepFinished,
    StepLost,
)
from whyrun.execution.worker.command_source import (
    CommandFiles,
    CommandSource,
    Control,
    Datagrams,
    ReceivedCommand,
    Successor,
)
from whyrun.execution.worker.context import Cancellation, HostLink
from whyrun.execution.worker.failure import failure_of
from whyrun.execution.worker.outbox import Acknowledgements, Outbox
from whyrun.execution.worker.processes import become_worker, die_like, end_descendants, freeze, has_strays
from whyrun.execution.worker.step_process import Libraries, OpenedStep, seed
from whyrun.execution.worker.step_runner import PROJECT_VARIABLE, StepRunner
from whyrun.execution.worker.streams import Streams
from whyrun.ids import without_indices

if TYPE_CHECKING:
    from whyrun.actions.code.import_facts import Import

_SHOWN = 2000  # bytes of what a failed `prepare` command printed last
_FIRST, _LIBRARIES = "", "libraries"  # kinds of processes; the third is the name of a job


def main(start_json: str) -> None:
    start = msgspec.json.decode(start_json, type=WorkerStart)
    # Steps must not get these channels: their standard streams are files, and their processes inherit no channel.
    control_fd, messages = (_own(descriptor) for descriptor in (start.control_fd, start.messages_fd))
    become_worker()
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the parent may have blocked signals; steps get all of them
    if start.views:
        enter_namespace()
    streams = Streams(Scratch(Path(start.scratch)))
    # This process needed it to find Whyrun; a step must not see it.
    os.environ.pop("PYTHONPATH", None)
    os.environ[PROJECT_VARIABLE] = start.project
    # A Python that a step starts would write `__pycache__` into the project, and so into folders that are inputs.
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.argv = ["whyrun-worker"]
    import_project_from_source(start.project, apart=start.environments)
    # The folders of a copy come first: a package installed there could be the user's own, still edited, source.
    sys.path[:0] = [start.project, *(() if start.live else bundled_folders(start.project))]

    cancellation = Cancellation()
    signal.signal(signal.SIGTERM, cancellation.handle)
    signal.signal(signal.SIGINT, cancellation.handle)
    control = Control(control_fd)
    source: CommandSource
    if start.commands is not None:
        source = CommandFiles(start.commands, control)
    else:
        assert start.commands_fd is not None
        assert start.tickets_fd is not None
        for descriptor in (start.commands_fd, start.tickets_fd):
            os.set_inheritable(descriptor, False)
        source = Datagrams(start.commands_fd, start.tickets_fd, control)
    link = HostLink(Outbox(messages, start.said), control, Acknowledgements(), cancellation)
    worker = Worker(start, source, link, streams)
    if not start.single:
        freeze()
    worker.work()
    worker.clean_up()
    end_descendants()
    if start.single:
        os._exit(0)  # Python would wait for a thread that the step left running


def _own(descriptor: int) -> int:
    """Move a channel away from the standard streams, and keep child processes from inheriting it."""
    if descriptor > 2:
        os.set_inheritable(descriptor, False)
        return descriptor
    own = os.dup(descriptor)
    with open(os.devnull, "r+b", buffering=0) as nothing:
        os.dup2(nothing.fileno(), descriptor)
    return own


class Worker:
    """One process that executes steps: the first of a worker, or one that takes commands in its place."""

    def __init__(self, start: WorkerStart, source: CommandSource, link: HostLink, streams: Streams) -> None:
        self._start, self._source, self._link, self._streams = start, source, link, streams
        self._runner = StepRunner(start, link, streams)
        self._kind = _FIRST
        self._libraries = Libraries(start.project, streams.written)
        self._successors: dict[str, Successor] = {}  # by kind; at most one that runs steps of a job
        # The last message of a step goes out with the first of the next, if that is there.
        self._unsent = b""

    def work(self) -> tuple[bytes, list[int]] | None:
        """Execute commands until there are no more (None), or one is not for this kind of process: what to pass on."""
        outbox = self._link.outbox
        while (received := self._source.take(self._flush)) is not None:
            match received.command:
                case ExecStep() as command:
                    step = self._runner.open(command, received.secrets)
                    kind = self._kind_for(step)
                    if kind == self._kind:
                        if kind == _LIBRARIES and (not_ahead := self._libraries.import_ahead(self._named(step))):
                            self._streams.discard()
                            return self._leave(received, not_ahead)
                        self._execute(step, received)
                    elif self._kind != _FIRST:
                        return self._leave(received)
                    elif not self._let(kind, received):
                        break
                case _ if self._kind != _FIRST:
                    return self._leave(received)
                case Prepare(command=command_line):
                    outbox.write(encode(_prepare(command_line, self._start)) + b"\n")
                case Ping():
                    import platform

                    outbox.write(encode(Pong(__version__, platform.python_version())) + b"\n")
                case Cleanup():
                    break
        self._flush()
        return None

    def clean_up(self) -> None:
        self._runner.clean_up()

    def take_control(self) -> None:
        """This process runs steps itself, so a thread reads the control channel."""
        self._source.leave_control()
        self._link.control.read_in_thread(self._link.acknowledgements.put)

    # --- steps ---------------------------------------------------------------------------------------------------

    def _execute(self, step: OpenedStep, received: ReceivedCommand) -> None:
        # Before `StepBegan` goes out, or a signal that follows at once would be missed.
        self._link.cancellation.begin()
        unsent, self._unsent = self._unsent, b""
        self._link.outbox.began(step.command, unsent)
        if self._start.single and not step.secrets:
            self.take_control()
        ended = self._runner.execute(step, received.known)
        if isinstance(ended, StepLost) and self._link.outbox.cut_off:
            die_like(-signal.SIGKILL)  # nothing can be said after half a message
        self._unsent = _encoded(ended)

    def _kind_for(self, step: OpenedStep) -> str:
        """In which kind of process the step is executed, or forked."""
        if self._start.single or step.is_a_program or step.has_own_environment:
            return _FIRST
        if step.command.shared:
            return without_indices(step.command.step_id)
        return _LIBRARIES if self._named(step) else _FIRST

    def _named(self, step: OpenedStep) -> list[Import]:
        return self._libraries.to_import(self._runner.libraries(step))

    def _flush(self) -> None:
        message, self._unsent = self._unsent, b""
        self._link.outbox.write(message)

    # --- the processes that take commands ------------------------------------------------------------------------

    def _leave(self, received: ReceivedCommand, not_ahead: str = "") -> tuple[bytes, list[int]]:
        self._flush()
        return self._source.pass_on(received, not_ahead)

    def _let(self, kind: str, received: ReceivedCommand) -> bool:
        """Let another process take commands, beginning with this one, until one is not for it. Returns False if there
        are no more."""
        self._flush()
        successor = self._successors.get(kind)
        if successor is None:
            successor = self._successors[kind] = Successor.fork(
                self._link.control, lambda channel: self._serve(kind, channel)
            )
            self._runner.spared.add(successor.pid)
        # That process of libraries forks the steps, and reminds them itself.
        remind = None if kind == _LIBRARIES else partial(self._link.cancellation.remind, successor.pid)
        back = successor.take_over(*self._source.pass_on(received), remind)
        if kind != _LIBRARIES:  # one process for consecutive steps of a job
            self._end(kind)
        self._streams.reopen()
        if back is None:
            return False
        batch = self._source.adopt(*back)
        if batch.not_ahead:
            self._libraries.not_ahead.add(batch.not_ahead)
            self._end(_LIBRARIES)  # it has imported the library already
        return True

    def _end(self, kind: str) -> None:
        self._runner.spared.discard(self._successors.pop(kind).pid)
        end_descendants(self._runner.spared)

    def _serve(self, kind: str, channel: Successor) -> NoReturn:
        """In the process that takes commands instead of the first one."""
        status = 1
        try:
            become_worker()
            self._link.after_fork()
            self._kind, self._successors = kind, {}
            self._runner.in_fork(shares=kind != _LIBRARIES)
            while (given := channel.receive()) is not None:
                self._streams.reopen()
                self._source.adopt(*given)
                if kind != _LIBRARIES:
                    seed()
                    self._link.cancellation.runs_step()
                    self.take_control()
                channel.give_back(self.work())
            status = 0
        finally:
            os._exit(status)


def _encoded(finished: StepFinished | StepLost) -> bytes:
    try:
        return encode(finished) + b"\n"
    except Exception as problem:  # a value that no check caught: the step fails, and the worker continues
        failure = failure_of(problem)
        failed = StepFinished(
            finished.step_id,
            finished.attempt,
            finished.ts,
            finished.duration,
            [],
            {},
            f"the result of the step cannot be encoded: {failure.error}",
            failure.error_type,
            n=finished.n,
        )
        return encode(failed) + b"\n"


def _prepare(command: str, start: WorkerStart) -> Prepared:
    """Run the `prepare` command of `whyrun.toml` in the project folder. Its output goes to a file, because it may be
    long; an error message shows the end of it."""
    import subprocess
    import tempfile

    with tempfile.TemporaryFile(dir=Scratch(Path(start.scratch)).tmp) as printed:
        try:
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", command],
                cwd=start.project,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                check=False,
            )
        except OSError as problem:
            return Prepared(f"bash cannot be started: {problem.strerror}")
        finally:
            if has_strays():
                end_descendants()
        if done.returncode == 0:
            return Prepared()
        printed.seek(max(0, printed.seek(0, 2) - _SHOWN))
        last = printed.read().decode("utf-8", "replace").strip()
    how = f"exit status {done.returncode}" if done.returncode > 0 else f"signal {-done.returncode}"
    return Prepared(f"`{command}` ended with {how}" + (f"\n{last}" if last else ""))


if __name__ == "__main__":
    main(sys.argv[1])
