"""What every place must be able to do for its worker. A transport moves files, starts the worker and carries its words;
it decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from whyrun.execution.commands import StepNeeds

LONGEST_LINE = 1 << 26  # bytes
LARGEST_READ = 1 << 26  # bytes of a file that the host takes into its memory

Source = bytes | Path  # what is put at a place: the bytes themselves, or a file or folder of the host


class PlaceLost(Exception):
    """The worker, or the place where it was, is gone. The text says how that was seen."""


@dataclass(frozen=True, slots=True)
class Gap:
    """The connection was cut and is there again: something may have been said in between."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The worker said its last word."""

    reason: str


Heard = bytes | Gap | Ended


class Transport(Protocol):
    """One worker at one place, used by one thread. Every call may block and may raise `PlaceLost`.

    Paths are those of `site`: relative, with `/`, whatever the place calls its folders.
    """

    reusable: bool  # whether its worker may execute a second step
    outlives_host: bool  # whether what lies there can still be found when the host was killed

    def start(self, needs: StepNeeds, tell: Callable[[Heard], None]) -> None:
        """Start the worker. From here on `tell` gets what it says, in pieces of any size, from any thread."""

    def fits(self, needs: StepNeeds) -> bool:
        """Whether the worker that was started can be given a step with these needs."""

    def send(self, line: bytes) -> None: ...

    def put(self, files: Mapping[str, Source]) -> None: ...

    def get(self, path: str, limit: int = LARGEST_READ) -> bytes:
        """The content of a file; empty if there is none. `PlaceLost` if it has more bytes than that."""

    def fetch(self, path: str, target: Path) -> bool:
        """Bring a file; False if there is none. Links are not followed: what a step left is not to be trusted."""

    def fetch_tree(self, path: str, target: Path) -> bool:
        """Bring a folder with all that is in it (links as links); False if there is none."""

    def remove(self, path: str) -> None:
        """A file or folder, if it is there."""

    def signal(self, signum: int) -> None:
        """To all processes of the step; SIGKILL ends the worker as well."""

    def check(self) -> None:
        """Called when nothing was heard for a while: raises `PlaceLost` unless the worker is known to be there."""

    def last_stderr(self) -> str:
        """The last that the worker process itself printed, if that can be known."""

    def close(self) -> None: ...


class Lines:
    """Chunks of any size, put together to lines: a chunk may end in the middle of a line, or of a character."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, chunk: bytes) -> list[bytes]:
        *lines, rest = chunk.split(b"\n")
        if lines:
            lines[0] = b"".join((*self._parts, lines[0]))
            self._parts, self._size = [], 0
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
        if self._size > LONGEST_LINE:
            raise PlaceLost("the worker sent a line without end")
        return lines

    def forget(self) -> None:
        """After a gap: what was begun will not be completed."""
        self._parts, self._size = [], 0
