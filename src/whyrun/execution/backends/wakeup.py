"""How threads and signal handlers end the wait of the one who listens."""

from __future__ import annotations

import select
import socket
from contextlib import suppress


class Wakeup:
    def __init__(self) -> None:
        self._here, self._there = socket.socketpair()
        for end in (self._here, self._there):
            end.setblocking(False)

    def fileno(self) -> int:
        """To write a byte to."""
        return self._there.fileno()

    def wake(self) -> None:
        with suppress(BlockingIOError, OSError):  # full of wake-ups already, or closed: nobody waits any more
            self._there.send(b"\0")

    def wait(self, seconds: float) -> None:
        poll = select.poll()
        poll.register(self._here, select.POLLIN)
        poll.poll(seconds * 1000)

    def clear(self) -> None:
        with suppress(BlockingIOError):
            self._here.recv(1 << 16)

    def close(self) -> None:
        self._here.close()
        self._there.close()
