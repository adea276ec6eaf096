"""Where a worker takes its commands from: datagrams on the host's machine, command files everywhere else; and the
control channel, which reaches a step while it runs and whose end means that the host is gone.

One process of a worker at a time takes commands. It can pass all that it has received to another (`Successor`).
"""

from __future__ import annotations

import array
import os
import select
import socket
from _queue import SimpleQueue
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn, Protocol

import msgspec

from whyrun import disk
from whyrun.artifacts.durable import write_all
from whyrun.artifacts.stat_cache.rows import Signature
from whyrun.execution.protocol.framing import (
    TICKET,
    Acknowledged,
    Assignment,
    decode_assignments,
    decode_command,
    decode_control,
    decode_secrets,
    encode,
    secret_bytes,
    secret_texts,
)
from whyrun.execution.protocol.messages import Command
from whyrun.execution.worker.processes import descendants, die_like, end_group, fork, opened_pidfd

_DATAGRAM = 1 << 17
_CHUNK = 1 << 16
_SECOND = 1000  # milliseconds
_DESCRIPTOR = array.array("i").itemsize
_BESIDE = socket.CMSG_SPACE(_DESCRIPTOR)

NO_PUMPS: Mapping[int, Callable[[], object]] = {}


class ReceivedCommand(msgspec.Struct, frozen=True):
    command: Command
    secrets: dict[str, str] = {}
    known: dict[str, Signature] = {}  # input files that the host has hashed


class Batch(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one process of a worker passes to the next that takes commands: the command in its hand, and all others
    that it has received."""

    in_hand: Assignment
    waiting: list[Assignment] = []
    rest: bytes = b""  # the beginning of the next line of the control channel
    not_ahead: str = ""  # a library that cannot be imported before a fork


decode_batch = msgspec.json.Decoder(Batch).decode


# --- the control channel -----------------------------------------------------------------------------------------


class Control:
    """The host's control channel: acknowledgements and, without datagrams, the names of command files."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor: int | None = descriptor
        self.rest = b""
        self.files: SimpleQueue[Assignment] = SimpleQueue()  # commands that have arrived
        self.folder = ""  # of command files

    def receive(self) -> list[bytes]:
        """The acknowledgements that arrive next. When the channel ends, the host is gone: ends this worker and its
        processes."""
        assert self.descriptor is not None
        data = os.read(self.descriptor, _CHUNK)
        if not data:
            end_worker()
        *lines, self.rest = (self.rest + data).split(b"\n")
        return [line for line in lines if not self._is_command(line)]

    def _is_command(self, line: bytes) -> bool:
        control = decode_control(line)
        if isinstance(control, Acknowledged):
            return False
        path = f"{self.folder}/{control.name}"
        self.files.put(Assignment(0, read_command(path), secrets=control.secrets))
        return True

    def wait_for(
        self,
        *ended: int,
        relay: int | None = None,
        pumps: Mapping[int, Callable[[], object]] = NO_PUMPS,
        each_second: Callable[[], object] | None = None,
    ) -> None:
        """Wait until one of these descriptors becomes readable: a child process has ended, or answers. `relay`: where
        to write acknowledgements for it; None: they stay in the channel, of which only the end counts. `pumps`: what to
        call when other descriptors become readable. `each_second`: what to call whenever nothing came for a second."""
        poll = select.poll()
        for descriptor in (*ended, *pumps):
            poll.register(descriptor, select.POLLIN)
        if self.descriptor is not None:
            poll.register(self.descriptor, select.POLLIN if relay is not None else 0)
        pause = None if each_second is None else _SECOND
        while not {*ended}.intersection(ready := [descriptor for descriptor, _ in poll.poll(pause)]):
            if each_second is not None and not ready:
                each_second()
            for pump in filter(None, map(pumps.get, ready)):
                pump()
            if self.descriptor not in ready:
                continue
            if relay is None:
                end_worker()
            for line in self.receive() if relay is not None else ():
                try:
                    write_all(relay, line + b"\n")  # type: ignore[arg-type]
                except BrokenPipeError:
                    pass  # the step's process has just died

    def read_in_thread(self, take_line: Callable[[bytes], None]) -> None:
        """For a process that runs steps itself: a step that waits for an acknowledgement cannot read the channel."""
        from threading import Thread  # not before the forks of a worker, see decision 0055

        Thread(target=self._read, args=(take_line,), daemon=True).start()

    def _read(self, take_line: Callable[[bytes], None]) -> None:
        while True:
            for line in self.receive():
                take_line(line)


def end_worker() -> None:
    end_group(os.getpgrp(), descendants(os.getpid()))


# --- commands ----------------------------------------------------------------------------------------------------


class CommandSource(Protocol):
    def take(self, before_waiting: Callable[[], None]) -> ReceivedCommand | None:
        """The next command; None when there are no more. Calls `before_waiting` if it has to wait for one."""

    def pass_on(self, received: ReceivedCommand, not_ahead: str = "") -> tuple[bytes, list[int]]:
        """The command in hand and all that waits, for another process of this worker: an encoded `Batch`, and
        descriptors."""

    def leave_control(self) -> None:
        """From here on a thread of this process reads the control channel."""

    def adopt(self, data: bytes, descriptors: Sequence[int]) -> Batch:
        """Continue where the other process has stopped. The first command to take is the one in its hand."""


class Datagrams:
    """Several commands arrive in one datagram. Worker and host both take tickets, and who takes a ticket owns its
    command. So the host can take back every command that has not begun."""

    def __init__(self, descriptor: int, tickets: int, control: Control) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._tickets = tickets
        self._control = control
        self._ready = select.poll()
        self._ready.register(tickets, select.POLLIN)
        self._ready.register(self._socket, select.POLLIN)
        assert control.descriptor is not None
        self._ready.register(control.descriptor, select.POLLIN)
        self._buffer = bytearray(_DATAGRAM)
        self._view = memoryview(self._buffer)
        self._received: deque[tuple[Assignment, int | None]] = deque()
        self._in_hand: ReceivedCommand | None = None

    def leave_control(self) -> None:
        assert self._control.descriptor is not None
        self._ready.unregister(self._control.descriptor)

    def take(self, before_waiting: Callable[[], None]) -> ReceivedCommand | None:
        received, self._in_hand = self._in_hand, None
        if received is not None:
            return received
        number = self._ticket(before_waiting)
        while number is not None:
            if not self._received:
                self._receive()
            assignment, beside = self._received.popleft()
            if assignment.number == number:
                return _taken(assignment, beside)
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
                ready = [descriptor for descriptor, _ in self._ready.poll()]
                if self._socket.fileno() in ready:
                    self._receive()
                if self._control.descriptor in ready:
                    self._control.receive()  # an acknowledgement for a step that has ended
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

    def pass_on(self, received: ReceivedCommand, not_ahead: str = "") -> tuple[bytes, list[int]]:
        batch = Batch(_in_hand(received), [each for each, _ in self._received], not_ahead=not_ahead)
        beside = [descriptor for _, descriptor in self._received if descriptor is not None]
        self._received.clear()
        return encode(batch), beside

    def adopt(self, data: bytes, descriptors: Sequence[int]) -> Batch:
        batch = decode_batch(data)
        beside = iter(descriptors)
        for each in batch.waiting:
            self._received.append((each, next(beside) if each.secrets_beside else None))
        self._in_hand = _taken(batch.in_hand, None)
        return batch


class CommandFiles:
    """Commands are files in a folder. Lines of the control channel name them."""

    def __init__(self, folder: str, control: Control) -> None:
        control.folder = folder
        self._control = control
        self._in_thread = False

    def leave_control(self) -> None:
        self._in_thread = True

    def take(self, before_waiting: Callable[[], None]) -> ReceivedCommand | None:
        before_waiting()
        while not self._in_thread and self._control.files.empty():
            self._control.receive()
        return _taken(self._control.files.get(), None)

    def pass_on(self, received: ReceivedCommand, not_ahead: str = "") -> tuple[bytes, list[int]]:
        files = self._control.files
        waiting = [files.get() for _ in range(files.qsize())]
        batch = Batch(_in_hand(received), waiting, self._control.rest, not_ahead)
        self._control.rest = b""
        return encode(batch), []

    def adopt(self, data: bytes, descriptors: Sequence[int]) -> Batch:
        batch = decode_batch(data)
        for each in (batch.in_hand, *batch.waiting):
            self._control.files.put(each)
        self._control.rest = batch.rest
        return batch


def _in_hand(received: ReceivedCommand) -> Assignment:
    return Assignment(0, received.command, secrets=secret_bytes(received.secrets), known=received.known)


def _taken(assignment: Assignment, beside: int | None) -> ReceivedCommand:
    command = assignment.command if assignment.file is None else read_command(assignment.file)
    assert command is not None
    return ReceivedCommand(command, _secrets(assignment, beside), assignment.known)


def _secrets(assignment: Assignment, beside: int | None) -> dict[str, str]:
    """`beside`: descriptor of the anonymous memory that holds secrets too long for a datagram."""
    if beside is None:
        return secret_texts(assignment.secrets) if assignment.secrets else {}
    with os.fdopen(beside, "rb") as file:
        file.seek(0)
        return secret_texts(decode_secrets(file.read()))


def read_command(path: str) -> Command:
    with open(path, "rb") as file:
        data = file.read()
    os.unlink(path)
    return decode_command(data)


# --- another process that takes commands -------------------------------------------------------------------------

_MOST_DESCRIPTORS = 250  # in one message, by the kernel: 253
_BATCH, _NO_MORE = b"b", b"."


class Successor:
    """A process that takes commands instead of the worker's first one, for as long as they are for it. Both ends of
    its channel are here."""

    def __init__(self, channel: socket.socket, pid: int, control: Control) -> None:
        self._channel = channel
        self.pid = pid
        self._control = control

    @classmethod
    def fork(cls, control: Control, serve: Callable[[Successor], NoReturn]) -> Successor:
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = fork()
        if pid == 0:
            ours.close()
            serve(cls(its, os.getpid(), control))
        its.close()
        ours.setblocking(False)  # a process that a step left running may hold the other end open
        return cls(ours, pid, control)

    def take_over(
        self, data: bytes, descriptors: list[int], each_second: Callable[[], object] | None
    ) -> tuple[bytes, list[int]] | None:
        """Let it take commands, beginning with these. Returns what it gives back; None if there are no more.

        If it dies, this process dies in the same way: nobody knows which commands it had received.
        """
        try:
            self._send(data, descriptors)
        except ConnectionError:
            pass  # it has died, which the next lines notice
        with opened_pidfd(self.pid) as died:
            self._control.wait_for(self._channel.fileno(), died, each_second=each_second)
        received = self._receive()
        if received is None:
            _, status = os.waitpid(self.pid, 0)
            die_like(os.waitstatus_to_exitcode(status))
        return received or None

    # --- in the other process ------------------------------------------------------------------------------------

    def receive(self) -> tuple[bytes, list[int]] | None:
        """None: the first process has no more commands, or is gone."""
        return self._receive() or None

    def give_back(self, batch: tuple[bytes, list[int]] | None) -> None:
        if batch is None:
            self._channel.send(_NO_MORE)
        else:
            self._send(*batch)

    # --- both ----------------------------------------------------------------------------------------------------

    def _send(self, data: bytes, descriptors: list[int]) -> None:
        """As anonymous memory, because the commands may have secrets, and no message is long enough for all of them."""
        memory = disk.memory_file("whyrun-commands")
        write_all(memory, data)
        socket.send_fds(self._channel, [_BATCH], [memory, *descriptors])
        for descriptor in (memory, *descriptors):
            os.close(descriptor)

    def _receive(self) -> tuple[bytes, list[int]] | tuple[()] | None:
        """Empty: no more commands. None: the other process is gone."""
        try:
            kind, descriptors, _, _ = socket.recv_fds(self._channel, len(_BATCH), _MOST_DESCRIPTORS)
        except (ConnectionError, BlockingIOError):
            return None
        if not kind:
            return None
        if kind == _NO_MORE:
            return ()
        memory, *others = descriptors
        with os.fdopen(memory, "rb") as file:
            file.seek(0)
            return file.read(), others
