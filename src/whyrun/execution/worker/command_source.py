"""Where a worker takes its commands from: datagrams on the host's machine, files that lines name everywhere else."""

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

from whyrun.artifacts.stat_rows import Signature
from whyrun.execution.commands import Command
from whyrun.execution.isolation import descendants, end_group
from whyrun.execution.outbox import Acknowledgements
from whyrun.execution.wire import (
    TICKET,
    Acknowledged,
    Assignment,
    decode_assignments,
    decode_command,
    decode_control,
    decode_secrets,
    secret_texts,
)

_DATAGRAM = 1 << 17
_DESCRIPTOR = array.array("i").itemsize
_BESIDE = socket.CMSG_SPACE(_DESCRIPTOR)


class Given(msgspec.Struct, frozen=True):
    command: Command
    secrets: dict[str, str] = {}
    known: dict[str, Signature] = {}  # see `known_files`


class CommandSource(Protocol):
    def take(self, before_waiting: Callable[[], None]) -> Given | None:
        """The next command; None when there are no more. `before_waiting` is called if it is not there yet."""


class Datagrams:
    """Commands come several at once, but whoever takes a ticket, this worker or its host, has that one command. So the
    host can take back what has not begun, to the last one."""

    def __init__(self, descriptor: int, tickets: int, control: int, acknowledgements: Acknowledgements) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._tickets = tickets
        self._ready = select.poll()
        self._ready.register(tickets, select.POLLIN)
        self._ready.register(self._socket, select.POLLIN)
        self._buffer = bytearray(_DATAGRAM)
        self._view = memoryview(self._buffer)
        self._received: deque[tuple[Assignment, int | None]] = deque()
        threading.Thread(target=_listen, args=(control, acknowledgements.put), daemon=True).start()

    def take(self, before_waiting: Callable[[], None]) -> Given | None:
        number = self._ticket(before_waiting)
        while number is not None:
            if not self._received:
                self._receive()
            assignment, beside = self._received.popleft()
            if assignment.number == number:
                command = assignment.command if assignment.file is None else _read_command(assignment.file)
                assert command is not None
                return Given(command, _secrets(assignment, beside), assignment.known)
            if beside is not None:  # the host has taken this one back
                os.close(beside)
        return None

    def _ticket(self, before_waiting: Callable[[], None]) -> int | None:
        """The number of a command that is ours now; None when there are no more.

        While it waits it receives commands all the same: those that the host took back must not fill the channel.
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
        if not size:  # the host has closed it, so that no more tickets come either
            self._ready.unregister(self._socket)
            return
        descriptor = None
        if beside:
            ((_, _, data),) = beside
            (descriptor,) = array.array("i", data[:_DESCRIPTOR])
        assignments = decode_assignments(self._view[:size])
        self._received.extend((each, descriptor) for each in assignments)
        if assignments[0].secrets:  # such a command comes alone; the steps after it shall not find them here
            self._view[:size] = bytes(size)


def _secrets(assignment: Assignment, beside: int | None) -> dict[str, str]:
    """`beside`: anonymous memory that came with the command, where its secrets are too long for a datagram."""
    if beside is None:
        return secret_texts(assignment.secrets) if assignment.secrets else {}
    with os.fdopen(beside, "rb") as file:
        file.seek(0)
        return secret_texts(decode_secrets(file.read()))


class CommandFiles:
    def __init__(self, folder: str, control: int, acknowledgements: Acknowledgements) -> None:
        self._folder = folder
        self._given: queue.SimpleQueue[Given] = queue.SimpleQueue()
        self._acknowledgements = acknowledgements
        threading.Thread(target=_listen, args=(control, self._heard), daemon=True).start()

    def _heard(self, line: bytes) -> None:
        word = decode_control(line)
        if isinstance(word, Acknowledged):
            self._acknowledgements.put(line)
        else:
            self._given.put(Given(_read_command(f"{self._folder}/{word.name}"), secret_texts(word.secrets)))

    def take(self, before_waiting: Callable[[], None]) -> Given | None:
        before_waiting()
        return self._given.get()


def _read_command(path: str) -> Command:
    with open(path, "rb") as file:
        data = file.read()
    os.unlink(path)
    return decode_command(data)


def _listen(control: int, heard: Callable[[bytes], None]) -> None:
    """The end of this channel means that the host is gone: then everything here ends too."""
    rest = b""
    while data := os.read(control, 1 << 16):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            heard(line)
    end_group(os.getpgrp(), descendants(os.getpid()))
