"""The worker process: `python -m whyrun.execution.worker.main START`, where START is a `WorkerStart` as JSON.

It executes commands one by one until there are no more. It is the same on every backend; backends differ only in how
commands and files reach it.
"""

from __future__ import annotations

import array
import os
import platform
import queue
import select
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from whyrun import __version__
from whyrun.actions.code.editable import bundled_folders
from whyrun.actions.code.source_loader import import_project_from_source
from whyrun.artifacts.stat_cache.rows import Signature
from whyrun.execution.files.scratch import Scratch
from whyrun.execution.protocol.framing import (
    TICKET,
    Acknowledged,
    Assignment,
    WorkerStart,
    decode_assignments,
    decode_command,
    decode_control,
    decode_secrets,
    encode,
    secret_texts,
)
from whyrun.execution.protocol.messages import Cleanup, Command, ExecStep, Ping, Pong, Prepare, Prepared, StepFinished
from whyrun.execution.worker.context import Cancellation, HostLink
from whyrun.execution.worker.failure import failure_of
from whyrun.execution.worker.isolation import become_worker, descendants, end_descendants, end_group, has_children
from whyrun.execution.worker.outbox import Acknowledgements, Outbox
from whyrun.execution.worker.step_runner import StepRunner
from whyrun.execution.worker.streams import Streams

# --- where commands come from ------------------------------------------------------------------------------------
#
# Where a worker takes its commands from: datagrams on the host's machine, command files everywhere else.


_DATAGRAM = 1 << 17
_DESCRIPTOR = array.array("i").itemsize
_BESIDE = socket.CMSG_SPACE(_DESCRIPTOR)


class ReceivedCommand(msgspec.Struct, frozen=True):
    command: Command
    secrets: dict[str, str] = {}
    known: dict[str, Signature] = {}  # input files that the host has hashed


class CommandSource(Protocol):
    def take(self, before_waiting: Callable[[], None]) -> ReceivedCommand | None:
        """The next command; None when there are no more. Calls `before_waiting` if it has to wait for one."""


class Datagrams:
    """Several commands arrive in one datagram. Worker and host both take tickets, and who takes a ticket owns its
    command. So the host can take back every command that has not begun."""

    def __init__(self, descriptor: int, tickets: int, control: int, acknowledgements: Acknowledgements) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._tickets = tickets
        self._ready = select.poll()
        self._ready.register(tickets, select.POLLIN)
        self._ready.register(self._socket, select.POLLIN)
        self._buffer = bytearray(_DATAGRAM)
        self._view = memoryview(self._buffer)
        self._received: deque[tuple[Assignment, int | None]] = deque()
        threading.Thread(target=_read_control, args=(control, acknowledgements.put), daemon=True).start()

    def take(self, before_waiting: Callable[[], None]) -> ReceivedCommand | None:
        number = self._ticket(before_waiting)
        while number is not None:
            if not self._received:
                self._receive()
            assignment, beside = self._received.popleft()
            if assignment.number == number:
                command = assignment.command if assignment.file is None else _read_command(assignment.file)
                assert command is not None
                return ReceivedCommand(command, _secrets(assignment, beside), assignment.known)
            if beside is not None:  # the host took this command back
                os.close(beside)
        return None

    def _ticket(self, before_waiting: Callable[[], None]) -> int | None:
        """Take a ticket: the number of the next command; None when there are no more.

        Receives datagrams while it waits: commands that the host took back must not fill the channel.
        """
        while True:
            try:
                data = os.read(self._tickets, TICKET.size)
            except BlockingIOError:
                before_waiting()
                if self._socket.fileno() in [descriptor for descriptor, _ in self._ready.poll()]:
                    self._receive()
            else:
                return TICKET.unpack(data)[0] if data else None

    def _receive(self) -> None:
        size, beside, *_ = self._socket.recvmsg_into([self._buffer], _BESIDE, socket.MSG_CMSG_CLOEXEC)
        if not size:  # the host has closed the channel, so no more tickets come either
            self._ready.unregister(self._socket)
            return
        descriptor = None
        if beside:
            ((_, _, data),) = beside
            (descriptor,) = array.array("i", data[:_DESCRIPTOR])
        assignments = decode_assignments(self._view[:size])
        self._received.extend((each, descriptor) for each in assignments)
        if assignments[0].secrets:  # it is alone in its datagram; later steps must not find the secrets in memory
            self._view[:size] = bytes(size)


def _secrets(assignment: Assignment, beside: int | None) -> dict[str, str]:
    """`beside`: descriptor of the anonymous memory that holds secrets too long for a datagram."""
    if beside is None:
        return secret_texts(assignment.secrets) if assignment.secrets else {}
    with os.fdopen(beside, "rb") as file:
        file.seek(0)
        return secret_texts(decode_secrets(file.read()))


class CommandFiles:
    """Commands are files in a folder. Lines of the control channel name them."""

    def __init__(self, folder: str, control: int, acknowledgements: Acknowledgements) -> None:
        self._folder = folder
        self._commands: queue.SimpleQueue[ReceivedCommand] = queue.SimpleQueue()
        self._acknowledgements = acknowledgements
        threading.Thread(target=_read_control, args=(control, self._take_line), daemon=True).start()

    def _take_line(self, line: bytes) -> None:
        control = decode_control(line)
        if isinstance(control, Acknowledged):
            self._acknowledgements.put(line)
        else:
            command = _read_command(f"{self._folder}/{control.name}")
            self._commands.put(ReceivedCommand(command, secret_texts(control.secrets)))

    def take(self, before_waiting: Callable[[], None]) -> ReceivedCommand | None:
        before_waiting()
        return self._commands.get()


def _read_command(path: str) -> Command:
    with open(path, "rb") as file:
        data = file.read()
    os.unlink(path)
    return decode_command(data)


def _read_control(control: int, take_line: Callable[[bytes], None]) -> None:
    """Pass on the lines of the control channel. When it ends, the host is gone: end this worker and its processes."""
    rest = b""
    while data := os.read(control, 1 << 16):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            take_line(line)
    end_group(os.getpgrp(), descendants(os.getpid()))


# --- the process -------------------------------------------------------------------------------------------------


_SHOWN = 2000  # bytes of what a failed `prepare` command printed last


def main(start_json: str) -> None:
    start = msgspec.json.decode(start_json, type=WorkerStart)
    # Steps must not get these channels: their standard streams are files, and their processes inherit no channel.
    control, messages = (_own(descriptor) for descriptor in (start.control_fd, start.messages_fd))
    become_worker()
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the parent may have blocked signals; steps get all of them
    streams = Streams(Scratch(Path(start.scratch)))
    # This process needed it to find Whyrun; a step must not see it.
    os.environ.pop("PYTHONPATH", None)
    sys.argv = ["whyrun-worker"]
    import_project_from_source(start.project)
    # The folders of a copy come first: a package installed there could be the user's own, still edited, source.
    sys.path[:0] = [start.project, *(() if start.live else bundled_folders(start.project))]

    cancellation = Cancellation()
    signal.signal(signal.SIGTERM, cancellation.handle)
    signal.signal(signal.SIGINT, cancellation.handle)
    acknowledgements = Acknowledgements()
    source: CommandSource
    if start.commands is not None:
        source = CommandFiles(start.commands, control, acknowledgements)
    else:
        assert start.commands_fd is not None
        assert start.tickets_fd is not None
        for descriptor in (start.commands_fd, start.tickets_fd):
            os.set_inheritable(descriptor, False)
        source = Datagrams(start.commands_fd, start.tickets_fd, control, acknowledgements)
    link = HostLink(Outbox(messages, start.said), acknowledgements, cancellation)
    runner = StepRunner(start, link, streams)
    spent = _work(source, link, runner, start)
    if has_children():
        end_descendants()
    if spent:
        os._exit(0)  # Python would wait for a thread that a step left running


def _own(descriptor: int) -> int:
    """Move a channel away from the standard streams, and keep child processes from inheriting it."""
    if descriptor > 2:
        os.set_inheritable(descriptor, False)
        return descriptor
    own = os.dup(descriptor)
    with open(os.devnull, "r+b", buffering=0) as nothing:
        os.dup2(nothing.fileno(), descriptor)
    return own


def _work(source: CommandSource, link: HostLink, runner: StepRunner, start: WorkerStart) -> bool:
    """Execute commands until there are no more. Returns True if it stopped because a step left a state that cannot be
    restored."""
    outbox = link.outbox
    unsent, spent = b"", False  # the last message of a step goes out with the first of the next, if that is there

    def flush() -> None:
        nonlocal unsent
        message, unsent = unsent, b""
        outbox.write(message)

    while not spent and (received := source.take(flush)) is not None:
        match received.command:
            case ExecStep() as command:
                # Before `StepBegan` goes out, or a signal that follows at once would be missed.
                link.cancellation.begin()
                outbox.began(command, unsent)
                finished = runner.execute(command, received.secrets, received.known)
                unsent, spent = _encoded(finished), finished.spent
            case Prepare(command=command_line):
                outbox.write(encode(_prepare(command_line, start)) + b"\n")
            case Ping():
                outbox.write(encode(Pong(__version__, platform.python_version())) + b"\n")
            case Cleanup():
                break
    outbox.write(unsent)
    runner.clean_up()
    return spent


def _encoded(finished: StepFinished) -> bytes:
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
            spent=finished.spent,
        )
        return encode(failed) + b"\n"


def _prepare(command: str, start: WorkerStart) -> Prepared:
    """Run the `prepare` command of `whyrun.toml` in the project folder. Its output goes to a file, because it may be
    long; an error message shows the end of it."""
    import tempfile  # it imports `random`, which the worker would then seed anew for every step

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
            if has_children():
                end_descendants()
        if done.returncode == 0:
            return Prepared()
        printed.seek(max(0, printed.seek(0, 2) - _SHOWN))
        last = printed.read().decode("utf-8", "replace").strip()
    how = f"exit status {done.returncode}" if done.returncode > 0 else f"signal {-done.returncode}"
    return Prepared(f"`{command}` ended with {how}" + (f"\n{last}" if last else ""))


if __name__ == "__main__":
    main(sys.argv[1])
