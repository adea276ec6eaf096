"""What can go wrong between a host and a sandbox, to be switched on and off while a test runs."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field


class ConnectionLost(Exception):
    """This connection is to be closed without another byte."""


@dataclass
class Faults:
    """Of one sandbox. A new sandbox gets a copy of the server's."""

    chunk: int = 4093  # bytes of output that one frame carries at most: lines and characters are cut anywhere
    frame_delay: float = 0.0  # seconds before each frame
    request_delay: float = 0.0  # seconds before each answer
    drop_streams_after: list[int] = field(default_factory=list)  # bytes of output, one entry a stream that is opened
    drop_requests: Counter[str] = field(default_factory=Counter)  # route → how many more are dropped, undone
    lose_answers: Counter[str] = field(default_factory=Counter)  # route → how many more are done, without an answer
    port_closed: bool = False  # the sandbox runs, and nobody answers in it

    def copy(self) -> Faults:
        return Faults(
            self.chunk,
            self.frame_delay,
            self.request_delay,
            list(self.drop_streams_after),
            Counter(self.drop_requests),
            Counter(self.lose_answers),
            self.port_closed,
        )


def due(counter: Counter[str], route: str) -> bool:
    """Whether it is this request's turn; it counts then."""
    if counter[route] <= 0:
        return False
    counter[route] -= 1
    return True


class Network:
    """The wire of one server. While it is cut, nothing arrives and nothing is refused, on either side."""

    def __init__(self) -> None:
        self._whole = threading.Event()
        self._whole.set()
        self.closed = False

    def cut(self) -> None:
        self._whole.clear()

    def mend(self) -> None:
        self._whole.set()

    def close(self) -> None:
        self.closed = True
        self._whole.set()

    def pass_through(self) -> None:
        self._whole.wait()
        if self.closed:
            raise ConnectionLost
