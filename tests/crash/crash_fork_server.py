"""Forks processes that have imported Whyrun already: `FORK_SERVER.start(...)`.

Starting an interpreter and importing costs more than most runs of these tests. A forked process behaves like a started
one: it has its own session, folder, streams and environment, it dies as a whole from SIGKILL, and /proc shows the
command line and the environment that it would have been started with. The repair after a crash looks for workers there.

`python crash_fork_server.py FD PADDING` is the process that forks. Each pytest process starts one when it needs it.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

ROOM = 64 << 10  # bytes that /proc shows of the command line of a forked process, and of its environment
LARGEST_REQUEST = 1 << 18


class Forked:
    """A forked process: what `subprocess.Popen` has of pid, `poll` and `wait`."""

    def __init__(self, pid: int, ending: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ending = ending  # a pipe: the server writes the exit status into it

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._ending], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._ending], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired([f"forked process {self.pid}"], timeout or 0.0)
            self.returncode = int(os.read(self._ending, 100))
            os.close(self._ending)
        return self.returncode


class ForkServer:
    """Started with the first request. It ends with the tests."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(
        self,
        what: str,
        arguments: Mapping[str, Any],
        *,
        command: Sequence[str],
        cwd: str | os.PathLike[str],
        env: Mapping[str, str],
        stdout: int,
        stderr: int,
        pass_fds: Sequence[int] = (),
    ) -> Forked:
        """`what` names a function of `TASKS`. The process looks as if `command` had been started with `env`."""
        there = self._socket if self._socket is not None else self._begin()
        request = {
            "what": what, "arguments": dict(arguments), "command": list(command), "cwd": os.fspath(cwd),
            "env": dict(env), "pass_fds": list(pass_fds),
        }  # fmt: skip
        data = json.dumps(request).encode()
        assert len(data) < LARGEST_REQUEST
        reading, writing = os.pipe()
        try:
            socket.send_fds(there, [data], [writing, stdout, stderr, *pass_fds])
        finally:
            os.close(writing)
        return Forked(int(there.recv(100)), reading)

    def _begin(self) -> socket.socket:
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        mine.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * LARGEST_REQUEST)
        command = [sys.executable, __file__, str(its.fileno()), "x" * ROOM]
        env = {**clean_environment(), "ROOM": "x" * ROOM}
        self._process = subprocess.Popen(command, pass_fds=[its.fileno()], env=env, start_new_session=True)
        its.close()
        self._socket = mine
        atexit.register(self.stop)
        return mine

    def stop(self) -> None:
        if self._process is not None and self._socket is not None:
            self._socket.close()  # the server ends when there is nobody to ask
            self._process.wait()
            self._process = self._socket = None


def clean_environment() -> dict[str, str]:
    """The environment of the tests without the variables that only they have."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("WHYRUN", "PYTEST"))}


FORK_SERVER = ForkServer()


@contextmanager
def forked_workers() -> Iterator[None]:
    """Runs of this process have workers that the fork server forks."""
    from whyrun import disk

    def start_worker(point: str, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        if point != "worker.start":
            return call(*arguments, **options)
        (command,) = arguments
        streams = {name: options[name].fileno() for name in ("stdout", "stderr")}
        settings = {name: options[name] for name in ("cwd", "env", "pass_fds")}
        return FORK_SERVER.start("worker", {"facts": command[-1]}, command=command, **settings, **streams)

    assert disk.hook is None
    disk.hook = start_worker
    try:
        yield
    finally:
        disk.hook = None


# --- in the forked process ----------------------------------------------------------------------------------------


def become(
    command: Sequence[str],
    *,
    cwd: str | os.PathLike[str],
    env: Mapping[str, str],
    stdout: int,
    stderr: int,
    keep: Iterable[int],
) -> None:
    """Make the forked process what `Popen` would have started. Descriptors other than `keep` are closed."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (stdout, 1), (stderr, 2)):
        os.dup2(source, target)
    kept = {0, 1, 2, *keep}
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            close_quietly(int(name))
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    show(command, env)
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115  # those of the parent buffer what belongs elsewhere
    sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115


def show(command: Sequence[str], env: Mapping[str, str]) -> None:
    """Let /proc/<pid>/cmdline and environ show these, in the memory that the padding of the server reserves."""
    with open("/proc/self/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    texts = (command, [f"{name}={value}" for name, value in env.items()])
    for at, members in zip((45, 47), texts, strict=True):  # arg_start, arg_end, env_start, env_end
        start, end = int(fields[at]), int(fields[at + 1])
        data = b"".join(os.fsencode(member) + b"\0" for member in members)
        assert len(data) < end - start, "the padding of the fork server is too small"
        ctypes.memmove(start, data.ljust(end - start, b"\0"), end - start)


def close_quietly(descriptor: int) -> None:
    try:
        os.close(descriptor)
    except OSError:
        pass  # the listing of /proc/self/fd had it open, and has closed it


def run_and_exit(task: Callable[[], int]) -> None:
    """End the forked process with the status of the task, or by SIGINT, as the interpreter would."""
    status = 1
    try:
        try:
            status = task()
        except SystemExit as ending:
            status = int(ending.code or 0)
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


# --- the server ---------------------------------------------------------------------------------------------------


def serve(descriptor: int) -> None:
    from fork_tasks import TASKS

    sys.path.pop(0)  # the folder of this file: a started process does not have it
    there = socket.socket(fileno=descriptor)
    os.set_inheritable(descriptor, False)
    gc.collect()
    gc.freeze()  # so that no fork copies these pages
    living: dict[int, tuple[int, int]] = {}  # pidfd → (pid, the pipe for its exit status)
    ended: dict[int, int] = {}  # the pipe → pid
    poll = select.poll()
    poll.register(there, select.POLLIN)
    while True:
        for ready, _ in poll.poll():
            if ready in living:
                poll.unregister(ready)
                os.close(ready)
                pid, ending = living.pop(ready)
                tell_status(pid, ending)
                ended[ending] = pid
                poll.register(ending, 0)  # an error says that nobody reads it any more
                continue
            if ready in ended:
                poll.unregister(ready)
                os.close(ready)
                os.waitpid(ended.pop(ready), 0)
                continue
            data, received, _, _ = socket.recv_fds(there, LARGEST_REQUEST, 20)
            if not data:
                return
            pid = os.fork()
            if pid == 0:
                run_and_exit(lambda: perform(TASKS, json.loads(data), received[1:]))  # noqa: B023
            for each in received[1:]:
                os.close(each)
            pidfd = os.pidfd_open(pid)
            living[pidfd] = pid, received[0]
            poll.register(pidfd, select.POLLIN)
            there.send(str(pid).encode())


def tell_status(pid: int, ending: int) -> None:
    """The process stays a zombie until its `Forked` was waited for, so that no other process gets its number."""
    status = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert status is not None
    code = status.si_status if status.si_code == os.CLD_EXITED else -status.si_status
    try:
        os.write(ending, str(code).encode())
    except BrokenPipeError:
        pass  # the test ended without waiting for it


def perform(tasks: Mapping[str, Callable[..., int]], request: dict[str, Any], received: Sequence[int]) -> int:
    stdout, stderr, *passed = received
    wanted: list[int] = request["pass_fds"]
    # First out of the way: a number that is wanted may be taken by another descriptor.
    high = [fcntl.fcntl(each, fcntl.F_DUPFD, max([*wanted, *received, 2]) + 1) for each in (stdout, stderr, *passed)]
    for source, target in zip(high[2:], wanted, strict=True):
        os.dup2(source, target)
    become(request["command"], cwd=request["cwd"], env=request["env"], stdout=high[0], stderr=high[1], keep=wanted)
    return tasks[request["what"]](**request["arguments"])


if __name__ == "__main__":
    serve(int(sys.argv[1]))
