"""Measures the memory of all processes of a sandbox together, and ends the sandbox if they use too much.

Control groups could do this, but they belong to the manager of the machine (systemd, a container runtime): a group
that another program creates among them breaks its rules and may escape its limits. A single process also has its own
resource limit; this module watches the sum.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

INTERVAL = 0.1  # seconds between two checks; a limit may be exceeded by what is allocated in between
_COUNTED = (b"RssAnon:", b"RssShmem:")  # not mapped files, whose memory the kernel can reclaim at any time


@dataclass(frozen=True, slots=True)
class _Watched:
    roots: tuple[int, ...]
    limit: int  # bytes
    on_excess: Callable[[], None]


class MemoryWatch:
    """One thread for all sandboxes of a run."""

    def __init__(self) -> None:
        self._watched: dict[object, _Watched] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, key: object, roots: tuple[int, ...], limit: int, on_excess: Callable[[], None]) -> None:
        """Call `on_excess` once if these processes and their descendants use more than `limit` bytes."""
        with self._lock:
            self._watched[key] = _Watched(roots, limit, on_excess)
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
                    sandbox.on_excess()


def used_memory(roots: tuple[int, ...]) -> int:
    """Bytes of private memory of these processes and their descendants. Ended processes count as zero."""
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
