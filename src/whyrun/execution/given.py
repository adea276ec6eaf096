"""Where a worker takes its commands from: datagrams on the host's machine, files that lines name everywhere else."""

from __future__ import annotations

import array
import os
import queue
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from whyrun.execution.commands import Command
from whyrun.execution.isolation import descendants, end_group
from whyrun.execution.outbox import Acknowledgements
from whyrun.execution.wire import (
    Acknowledged,
    Assignment,
    decode_assignment,
    decode_command,
    decode_control,
    decode_secrets,
    secret_texts,
)

_DATAGRAM = 1 << 17
_DESCRIPTOR = array.array("i").itemsize
_BESIDE = socket.CMSG_SPACE(_DESCRIPTOR)


@dataclass(frozen=True, slots=True)
class Given:
    command: Command
    secrets: dict[str, str] = field(default_factory=dict)


class CommandSource(Protocol):
    def take(self, before_waiting: Callable[[], None]) -> Given | None:
        """The next command; None when there are no more. `before_waiting` is called if it is not there yet."""


class Datagrams:
    def __init__(self, descriptor: int, control: int, acknowledgements: Acknowledgements) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._buffer = bytearray(_DATAGRAM)
        self._view = memoryview(self._buffer)
        threading.Thread(target=_listen, args=(control, acknowledgements.put), daemon=True).start()

    def take(self, before_waiting: Callable[[], None]) -> Given | None:
        flags = socket.MSG_CMSG_CLOEXEC
        try:
            size, beside, *_ = self._socket.recvmsg_into([self._buffer], _BESIDE, socket.MSG_DONTWAIT | flags)
        except BlockingIOError:
            before_waiting()
            size, beside, *_ = self._socket.recvmsg_into([self._buffer], _BESIDE, flags)
        if not size:
            return None
        assignment = decode_assignment(self._view[:size])
        command = assignment.command if assignment.file is None else _read_command(assignment.file)
        assert command is not None
        return Given(command, _secrets(assignment, beside) if assignment.secrets or beside else {})


def _secrets(assignment: Assignment, beside: list[tuple[int, int, bytes]]) -> dict[str, str]:
    if not assignment.secrets_beside:
        return secret_texts(assignment.secrets)
    ((_, _, data),) = beside
    (descriptor,) = array.array("i", data[:_DESCRIPTOR])
    with os.fdopen(descriptor, "rb") as file:
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
