"""Where a worker takes its commands from: datagrams on the host's machine, command files everywhere else."""

from __future__ import annotations

import array
import os
import queue
import select
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

import msgspec

from whyrun.artifacts.stat_cache.rows import Signature
from whyrun.execution.protocol.framing import (
    TICKET,
    Acknowledged,
    Assignment,
    decode_assignments,
    decode_command,
    decode_control,
    decode_secrets,
    secret_texts,
)
from whyrun.execution.protocol.messages import Command
from whyrun.execution.worker.isolation import descendants, end_group
from whyrun.execution.worker.outbox import Acknowledgements

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
