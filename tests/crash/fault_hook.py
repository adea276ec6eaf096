"""What is done at a fault point, and workers that are forked, so that faults and records reach them as well.

A forked worker runs the same code in the same way as one that is started anew: its descriptors, environment, session
and folder are what `Popen` would have given it. It only comes without the time of starting an interpreter.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from whyrun.execution import worker


@dataclass(frozen=True)
class Fault:
    """At the `number`th time that processes of this role, all together, come to the point."""

    point: str
    number: int
    how: str  # `before` and `after` are kills; short, short then kill, or the name of an errno
    role: str = "host"


class FaultHook:
    """Notes every point that is come to in a file, one line each, and does what it was told at some of them.

    Host and workers append to the same file, so the place of a line is its number among all: which of two workers comes
    to a point is a matter of chance, how often they do is not. Each fault leaves a mark before it is done, a file that
    must not be there yet: whoever asked for it sees that it was, and once. Without `armed` all is noted and none done.
    """

    def __init__(self, hits: int, faults: Sequence[Fault], mark: str = "", armed: bool = True) -> None:
        self.host = os.getpid()
        self.hits = hits
        self.faults = faults
        self.mark = mark
        self.armed = armed
        self._own = count()

    def __call__(self, point: str, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        role = "host" if os.getpid() == self.host else "worker"
        line = f"{role} {point} {os.getpid()}.{next(self._own)}\n".encode()
        os.write(self.hits, line)
        fault = self.due(role, point, line)
        if fault is None:
            return self.perform(point, call, arguments, options)
        if fault.how == "short":
            descriptor, data = arguments
            return call(descriptor, data[: len(data) // 2])
        if fault.how == "short then kill":
            descriptor, data = arguments
            call(descriptor, data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        if fault.how == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        if fault.how == "after":
            try:
                self.perform(point, call, arguments, options)
            finally:
                os.kill(os.getpid(), signal.SIGKILL)
        number = getattr(errno, fault.how)
        raise OSError(number, os.strerror(number))

    def due(self, role: str, point: str, line: bytes) -> Fault | None:
        """The fault for which it is time, with its mark."""
        here = [(index, fault) for index, fault in enumerate(self.faults) if (fault.role, fault.point) == (role, point)]
        if not here or not self.armed:
            return None
        lines = os.pread(self.hits, os.fstat(self.hits).st_size, 0).splitlines(keepends=True)
        same = [each for each in lines if each.startswith(f"{role} {point} ".encode())]
        for index, fault in here:
            if same.index(line) + 1 == fault.number:
                mark = os.open(f"{self.mark}.{index}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
                os.write(mark, str(fault).encode())
                os.close(mark)
                return fault
        return None

    def perform(self, point: str, call: Callable[..., Any], arguments: Sequence[Any], options: dict[str, Any]) -> Any:
        if point == "worker.start":
            return ForkedWorker(*arguments, keep=self.hits, **options)
        return call(*arguments, **options)


class ForkedWorker:
    """As much of a `Popen` as the backend uses."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        keep: int,
        env: dict[str, str],
        cwd: os.PathLike[str],
        stdin: int,
        stdout: Any,
        stderr: Any,
        pass_fds: Sequence[int],
        start_new_session: bool,
    ) -> None:
        self.returncode: int | None = None
        streams = stdout.fileno(), stderr.fileno()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                signal.set_wakeup_fd(-1)
                for number in (signal.SIGINT, signal.SIGTERM):
                    signal.signal(number, signal.SIG_DFL)
                os.setsid()
                nothing = os.open(os.devnull, os.O_RDONLY)
                for source, target in ((nothing, 0), (streams[0], 1), (streams[1], 2)):
                    os.dup2(source, target)
                kept = {0, 1, 2, keep, *pass_fds}
                for name in os.listdir("/proc/self/fd"):
                    if int(name) not in kept:
                        close_quietly(int(name))
                os.chdir(cwd)
                os.environ.clear()
                os.environ.update(env)
                sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115  # those of the host went elsewhere
                sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
                worker.main(command[-1])
                sys.stdout.flush()
                sys.stderr.flush()
                status = 0
            finally:
                os._exit(status)

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode


def close_quietly(descriptor: int) -> None:
    try:
        os.close(descriptor)
    except OSError:
        pass  # the listing itself had it open
