"""What is done at a fault point, and workers that are forked, so that faults and records reach them as well.

A forked worker runs the same code in the same way as one that is started anew: its descriptors, environment, session
and folder are what `Popen` would have given it. It only comes without the time of starting an interpreter.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from whyrun.execution import worker


@dataclass(frozen=True)
class Fault:
    """At the `number`th time that a process of this role comes to the point. `how`: `before` and `after` are kills."""

    point: str
    number: int
    how: str  # before after short, or the name of an errno
    role: str = "host"


class FaultHook:
    """Notes every point that is come to in a file, one line each, and does what it was told at one of them."""

    def __init__(self, hits: int, fault: Fault | None) -> None:
        self.host = os.getpid()
        self.hits = hits
        self.fault = fault
        self.counts: Counter[str] = Counter()

    def __call__(self, point: str, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        role = "host" if os.getpid() == self.host else "worker"
        self.counts[point] += 1
        os.write(self.hits, f"{role} {point}\n".encode())
        due = (
            self.fault is not None
            and (self.fault.role, self.fault.point, self.fault.number) == (role, point, self.counts[point])
        )  # fmt: skip
        if not due or self.fault is None:
            return self.perform(point, call, arguments, options)
        if self.fault.how == "short":
            descriptor, data = arguments
            return call(descriptor, data[: len(data) // 2])
        if self.fault.how == "short then kill":
            descriptor, data = arguments
            call(descriptor, data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault.how == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault.how == "after":
            try:
                self.perform(point, call, arguments, options)
            finally:
                os.kill(os.getpid(), signal.SIGKILL)
        number = getattr(errno, self.fault.how)
        raise OSError(number, os.strerror(number))

    def perform(self, point: str, call: Callable[..., Any], arguments: Sequence[Any], options: dict[str, Any]) -> Any:
        if point == "worker.start":
            self.counts_of_host = self.counts
            return ForkedWorker(*arguments, keep=self.hits, begin=self.begin_worker, **options)
        return call(*arguments, **options)

    def begin_worker(self) -> None:
        self.counts = Counter()


class ForkedWorker:
    """As much of a `Popen` as the backend uses."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        keep: int,
        begin: Callable[[], None],
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
                begin()
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
