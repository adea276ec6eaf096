"""The hook of `whyrun.disk` that performs faults, and workers that the host forks, so that they have the hook too."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from crash_fork_server import become, run_and_exit

from whyrun.execution.worker import main as worker


@dataclass(frozen=True)
class Fault:
    """A fault at the `number`th call at the point, counted over all processes of this role."""

    point: str
    number: int
    how: str  # `before` and `after` are kills; short, short then kill, or the name of an errno
    role: str = "host"

    @property
    def area(self) -> str:
        return self.point.partition(".")[0]


class FaultHook:
    """Writes every call at a fault point to a file, one line each, and performs the faults.

    Host and workers append to the same file, so the position of a line is its number among all calls: chance decides
    which of two workers makes a call, but not how many calls they make. Each fault creates a mark first, a file that
    must not exist yet, so the test sees that the fault was performed exactly once. Without `armed` no fault is
    performed.
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
        """The fault that this call triggers, after its mark was made."""
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
            return ForkedWorker(*arguments, keep=(self.hits,), **options)
        return call(*arguments, **options)


class ForkedWorker:
    """A worker that its host forks: as much of a `Popen` as the backend uses."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: dict[str, str],
        cwd: os.PathLike[str],
        stdin: int,
        stdout: Any,
        stderr: Any,
        pass_fds: Sequence[int],
        start_new_session: bool,
        keep: Sequence[int] = (),
    ) -> None:
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            streams = {"stdout": stdout.fileno(), "stderr": stderr.fileno()}

            def work() -> int:
                become(command, cwd=cwd, env=env, keep=(*keep, *pass_fds), **streams)
                worker.main(command[-1])
                return 0

            run_and_exit(work)

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode


def fork_workers(point: str, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """A hook that only forks workers."""
    return ForkedWorker(*arguments, **options) if point == "worker.start" else call(*arguments, **options)
