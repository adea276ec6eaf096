"""A second process that looks at files while this one is busy: the rows of the stat-cache, from the last to the first.

Whoever asks goes through them from the first to the last. Where the two meet, the second process ends. It only says
of whole chunks of rows that all files in them are as recorded; whatever it does not say is looked at here. So it can
be left out, end early or be killed, and costs time and nothing else.
"""

from __future__ import annotations

import mmap
import os
import signal
from contextlib import suppress

from whyrun.artifacts.stat_rows import CHUNK, StatRows

WORTH_A_PROCESS = 8192  # rows: below, a second process saves less than it costs
_AT = 8  # bytes for where the first process is
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_NOT_LOOKED_AT, _BEGUN, _AS_RECORDED, _OTHERWISE = range(4)


class SecondLook:
    def __init__(self, rows: StatRows) -> None:
        self._rows = rows
        chunks = -(-len(rows) // CHUNK)
        self._shared = mmap.mmap(-1, _AT + chunks)  # of both processes
        parent = os.getpid()
        # A signal that comes in between is for the first process alone: the handlers of the second are still its own.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            self._process: int | None = os.fork()
            if self._process == 0:
                self._second(chunks, parent)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    @classmethod
    def start(cls, rows: StatRows) -> SecondLook | None:
        """None where it does not pay, or where a process with threads would have to be copied."""
        if len(rows) < WORTH_A_PROCESS or not _may_fork():
            return None
        try:
            return cls(rows)
        except OSError:
            return None  # no memory, too many processes: then alone

    def _second(self, chunks: int, parent: int) -> None:
        """The other process. It never returns: what it was copied from goes on elsewhere. It ends with the first,
        whose open files (such as a lock) it shares."""
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
                shared[_AT + chunk] = _BEGUN
                first = chunk * CHUNK
                same = self._rows.are_as_recorded(names[first : first + CHUNK], first, None)
                shared[_AT + chunk] = _AS_RECORDED if same else _OTHERWISE
        finally:
            os._exit(0)  # whatever happened: the first process takes nothing from it but what is in `shared`

    def says_as_recorded(self, chunk: int) -> bool:
        """Whether the second process has found a chunk as recorded; False if that is not known."""
        if self._shared[_AT + chunk] == _AS_RECORDED:
            return True
        self._shared[:_AT] = chunk.to_bytes(_AT, "little")
        if self._shared[_AT + chunk] == _BEGUN:
            self._wait()  # for this chunk: the ones before it are the first process's
        return self._shared[_AT + chunk] == _AS_RECORDED

    def stop(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.kill(self._process, signal.SIGKILL)
            self._wait()

    def _wait(self) -> None:
        if self._process is not None:
            with suppress(ChildProcessError):  # somebody else has waited for all children
                os.waitpid(self._process, 0)
            self._process = None


def _may_fork() -> bool:
    """A copy of a process has only the thread that made it, and the locks of all: so only where there is one thread."""
    try:
        return len(os.sched_getaffinity(0)) > 1 and len(os.listdir("/proc/self/task")) == 1
    except (AttributeError, OSError):
        return False  # a system without these
