"""A second process that stats files while this one is busy: the rows of the stat cache, from last to first.

The first process goes through the rows from first to last; where the two meet, the second process ends. It only marks
whole chunks of rows as unchanged. The first process checks every other chunk itself. So without the second process, or
if it is killed, a plan takes longer, and nothing else.
"""

from __future__ import annotations

import mmap
import os
import signal
from contextlib import suppress

from whyrun.artifacts.stat_cache.rows import CHUNK, StatRows

_AT = 8  # bytes for the position of the first process
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_NOT_STARTED, _STARTED, _UNCHANGED, _CHANGED = range(4)


class ParallelStat:
    def __init__(self, rows: StatRows) -> None:
        self._rows = rows
        chunks = -(-len(rows) // CHUNK)
        self._shared = mmap.mmap(-1, _AT + chunks)  # shared by both processes
        parent = os.getpid()
        # Signals wait until the second process has dropped the handlers that it inherits.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            self._process: int | None = os.fork()
            if self._process == 0:
                self._parallel(chunks, parent)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    @classmethod
    def start(cls, rows: StatRows) -> ParallelStat | None:
        """None if this process has threads and cannot fork safely, or has only one core."""
        if not _may_fork():
            return None
        try:
            return cls(rows)
        except OSError:
            return None  # no memory, or too many processes: go on alone

    def _parallel(self, chunks: int, parent: int) -> None:
        """The second process. It never returns. It ends with the first process, because it shares open files such as
        locks."""
        try:
            signal.set_wakeup_fd(-1)
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            if self._rows.root:
                os.chdir(self._rows.root)
            shared, names = self._shared, self._rows.names
            for chunk in range(chunks - 1, -1, -1):
                if chunk <= int.from_bytes(shared[:_AT], "little") or os.getppid() != parent:
                    break
                shared[_AT + chunk] = _STARTED
                first = chunk * CHUNK
                same = self._rows.are_unchanged(names[first : first + CHUNK], first, None)
                shared[_AT + chunk] = _UNCHANGED if same else _CHANGED
        finally:
            os._exit(0)  # in any case: the first process only reads `shared`

    def says_unchanged(self, chunk: int) -> bool:
        """Whether the second process has found a chunk unchanged; False if unknown."""
        if self._shared[_AT + chunk] == _UNCHANGED:
            return True
        self._shared[:_AT] = chunk.to_bytes(_AT, "little")
        if self._shared[_AT + chunk] == _STARTED:
            self._wait()  # it ends after this chunk: the earlier chunks belong to the first process
        return self._shared[_AT + chunk] == _UNCHANGED

    def stop(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.kill(self._process, signal.SIGKILL)
            self._wait()

    def _wait(self) -> None:
        if self._process is not None:
            with suppress(ChildProcessError):  # other code has waited for all children
                os.waitpid(self._process, 0)
            self._process = None


def _may_fork() -> bool:
    """A forked process has one thread but the locks of all threads. So fork only with a single thread."""
    try:
        return len(os.sched_getaffinity(0)) > 1 and len(os.listdir("/proc/self/task")) == 1
    except (AttributeError, OSError):
        return False  # a system without these
