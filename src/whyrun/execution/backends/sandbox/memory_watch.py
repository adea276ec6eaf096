"""How much memory the processes of a sandbox use together, and their end where it is too much.

The kernel could count that itself, in control groups. They are not used: a machine's groups belong to who manages it
(systemd, a container's runtime), and a group that another makes among them breaks their rules, and may escape their
limits. A single process is held by its own limit all the same; this is for what many use together.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

INTERVAL = 0.1  # seconds: what can be filled in that time is what a limit may be overstepped by
_COUNTED = (b"RssAnon:", b"RssShmem:")  # not what is mapped of files: the kernel can have that back at any time


@dataclass(frozen=True, slots=True)
class _Watched:
    roots: tuple[int, ...]
    limit: int  # bytes
    too_much: Callable[[], None]


class MemoryWatch:
    """One thread for all sandboxes of a run."""

    def __init__(self) -> None:
        self._watched: dict[object, _Watched] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, key: object, roots: tuple[int, ...], limit: int, too_much: Callable[[], None]) -> None:
        """`too_much` is called once, if these processes and those below them use more than `limit`."""
        with self._lock:
            self._watched[key] = _Watched(roots, limit, too_much)
            if self._thread is None:
                self._thread = threading.Thread(target=self._look, daemon=True, name="whyrun-memory")
                self._thread.start()

    def forget(self, key: object) -> None:
        with self._lock:
            self._watched.pop(key, None)

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join()

    def _look(self) -> None:
        while not self._closing.wait(INTERVAL):
            with self._lock:
                watched = list(self._watched.items())
            for key, sandbox in watched:
                if used_memory(sandbox.roots) > sandbox.limit:
                    self.forget(key)
                    sandbox.too_much()


def used_memory(roots: tuple[int, ...]) -> int:
    """Bytes that these processes and all below them have for themselves. Those that have ended use none."""
    used = 0
    queue = list(roots)
    while queue:
        process = queue.pop()
        with suppress(OSError):  # it has ended meanwhile
            with open(f"/proc/{process}/status", "rb") as file:
                for line in file:
                    if line.startswith(_COUNTED):
                        used += int(line.split()[1]) * 1024
            for thread in os.listdir(f"/proc/{process}/task"):
                with open(f"/proc/{process}/task/{thread}/children", "rb") as file:
                    queue += map(int, file.read().split())
    return used
