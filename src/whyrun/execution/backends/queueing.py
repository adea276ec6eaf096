"""Helpers that every backend's queue uses: wake the waiting runner, and take queued commands out again."""

from __future__ import annotations

import select
import socket
from collections import deque
from collections.abc import Set
from contextlib import suppress
from typing import Protocol, TypeVar

from whyrun.execution.protocol.messages import ExecStep


class Wakeup:
    """Ends the runner's wait for messages early. Threads call `wake`; signal handlers write a byte to `fileno`."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        for end in (self._reader, self._writer):
            end.setblocking(False)

    @property
    def reader(self) -> socket.socket:
        """Becomes readable on a wake-up: for a backend that waits for several descriptors at once."""
        return self._reader

    def fileno(self) -> int:
        """The descriptor to write a byte to."""
        return self._writer.fileno()

    def wake(self) -> None:
        with suppress(BlockingIOError, OSError):  # a wake-up is pending already, or the backend is closed
            self._writer.send(b"\0")

    def wait(self, seconds: float) -> None:
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        poll.poll(seconds * 1000)

    def clear(self) -> None:
        with suppress(BlockingIOError):
            self._reader.recv(1 << 16)

    def close(self) -> None:
        self._reader.close()
        self._writer.close()


class QueuedJob(Protocol):
    @property
    def command(self) -> ExecStep: ...


J = TypeVar("J", bound=QueuedJob)


def remove_queued(queue: deque[J], steps: Set[str]) -> list[ExecStep]:
    """Remove the commands of these steps from the queue and return them."""
    removed = [job.command for job in queue if job.command.step_id in steps]
    remaining = [job for job in queue if job.command.step_id not in steps]
    queue.clear()
    queue.extend(remaining)
    return removed
