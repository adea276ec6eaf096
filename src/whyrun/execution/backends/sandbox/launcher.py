"""The host's side of sandboxes: starts the fork server of a worker slot, and controls the processes in sandboxes."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from whyrun.execution.backends.base import with_whyrun
from whyrun.execution.backends.sandbox.view import Limits, SandboxSpec, Tools, Visible, view_argv

# --- The messages between launcher and fork server -------------------------------------------------------------------

REQUEST_LIMIT = 1 << 17  # bytes
DESCRIPTORS = 4  # stdin, stdout and stderr of the worker, and the pipe for the keeper's messages


class Request(msgspec.Struct, frozen=True):
    spec: SandboxSpec
    limits: Limits
    tools: Tools
    start: str = ""  # the worker's argument
    command: list[str] = []  # a program to run instead of the worker


class Started(msgspec.Struct, tag=True, frozen=True):
    """The worker runs. Process IDs are those of the host."""

    worker: int  # leader of its process group
    first: int  # the sandbox ends with this process


class StartFailed(msgspec.Struct, tag=True, frozen=True):
    reason: str


class Exited(msgspec.Struct, tag=True, frozen=True):
    status: int  # negative: the signal that killed the worker


FromKeeper = Started | StartFailed | Exited

encode = msgspec.json.Encoder().encode
decode_request = msgspec.json.Decoder(Request).decode
decode_from_keeper: Callable[[bytes], FromKeeper] = msgspec.json.Decoder(FromKeeper).decode


# --- The launcher ----------------------------------------------------------------------------------------------------

_PATIENCE = 5.0  # seconds for a killed sandbox to be gone
_START = 60.0  # seconds for a sandbox to start on a busy machine

# User IDs beyond those of people, services and containers. There is one for every slot of every process that runs
# sandboxes, so that no two sandboxes on this machine belong to the same user.
FIRST_USER, _SLOTS = 1_879_100_000, 32


class SandboxFailed(Exception):
    """A sandbox could not be created. The text has the reason from bubblewrap or the kernel."""


def real_user(slot: int, process: int | None = None) -> int | None:
    """The real user ID of a sandbox. Only root can choose one; for other users it is None: their own."""
    if os.geteuid() != 0:
        return None
    with open("/proc/self/uid_map") as file:
        known = [(int(line.split()[0]), int(line.split()[2])) for line in file]
    return user_number((process or os.getpid()) * _SLOTS + slot % _SLOTS, known)


def user_number(number: int, known: Sequence[tuple[int, int]]) -> int | None:
    """`known`: ranges of user IDs that exist here, each as first and count. In a container root may have only few. If
    root has only its own, it is an ordinary user outside the container, and no other is chosen (None)."""
    wanted = FIRST_USER + number
    if any(first <= wanted < first + size for first, size in known):
        return wanted
    first, size = max(known, key=lambda users: users[1])
    return first + size - 1 - number % (size // 2) if size > 1 else None  # from the upper end, where no users are


def hand_over(folder: str, user: int | None) -> None:
    """Make the sandbox's user the owner of a folder and its content. Changes links themselves, not their targets."""
    if user is None:
        return
    os.chown(folder, user, user, follow_symlinks=False)
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.chown(os.path.join(parent, name), user, user, follow_symlinks=False)


class SandboxProcess:
    """A worker, or another program, in its own sandbox. Other threads may call only `signal` and `end`."""

    def __init__(self, reports: int, why_silent: Callable[[], str]) -> None:
        self._reports = reports  # the pipe with its keeper's messages
        self._why_silent = why_silent  # of the fork server
        self._rest = b""
        self._lock = threading.Lock()
        self._started: Started | None = None
        self._failed = ""
        self._first: int | None = None  # pidfd of the first process: a process ID could be reused
        self._status: int | None = None

    def started(self, timeout: float = _START) -> Started:
        """Wait until the process runs. Raises `SandboxFailed`."""
        with self._lock:
            if self._started is None:
                if not self._failed:
                    match self._next(timeout):
                        case Started() as started:
                            with suppress(ProcessLookupError):
                                self._first = os.pidfd_open(started.first)
                            self._started = started
                            return started
                        case StartFailed(reason):
                            self._failed = reason
                        case _:
                            self._failed = self._why_silent()
                raise SandboxFailed(self._failed)
            return self._started

    def wait(self, timeout: float | None = None) -> int | None:
        """The exit status (negative: the signal); None if it still runs. After the exit nothing is left in the
        sandbox."""
        self.started()
        with self._lock:
            if self._status is None:
                match self._next(timeout):
                    case Exited(status):
                        self._status = status
                    case StartFailed(reason):
                        raise SandboxFailed(reason)
                    case None if self._closed:
                        self._status = -signal.SIGKILL  # its keeper was killed, and the sandbox with it
                    case _:
                        return None
            return self._status

    @property
    def is_orphaned(self) -> bool:
        """Whether its end was not reported: its keeper was killed, maybe with the fork server and all other keepers."""
        return self._closed

    def signal(self, signum: int) -> None:
        """Signal the process group. SIGKILL ends the whole sandbox."""
        started = self._started or self.started()
        with suppress(ProcessLookupError):
            if signum != signal.SIGKILL and self._status is None:
                os.killpg(started.worker, signum)
            elif signum == signal.SIGKILL and self._first is not None:
                signal.pidfd_send_signal(self._first, signal.SIGKILL)

    def end(self) -> None:
        """Kill all processes of the sandbox, including those that left the group. Returns when they are gone."""
        try:
            self.signal(signal.SIGKILL)
            self.wait(_PATIENCE)
        except SandboxFailed:
            pass  # it never started
        for descriptor in (self._reports, self._first):
            if descriptor is not None:
                os.close(descriptor)

    _closed = False

    def _next(self, timeout: float | None) -> FromKeeper | None:
        deadline = None if timeout is None else time.monotonic() + timeout
        poll = select.poll()  # `select` cannot handle descriptors above 1023
        poll.register(self._reports, select.POLLIN)
        while b"\n" not in self._rest:
            rest = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
            if not poll.poll(rest):
                return None
            data = os.read(self._reports, 1 << 16)
            if not data:
                self._closed = True
                return None
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return decode_from_keeper(line)


class ForkServer:
    """The fork server of one worker slot. `visible`: all paths that its sandboxes may get."""

    def __init__(self, visible: Visible, tools: Tools, user: int | None, mark: str = "/") -> None:
        """`mark`: its HOME, by which the next run finds it after the host was killed."""
        self._tools = tools
        self._requests, server_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._stderr = os.memfd_create("whyrun-fork-server")
        command = [
            sys.executable,
            "-P",
            "-m",
            "whyrun.execution.backends.sandbox.fork_server",
            str(server_end.fileno()),
        ]
        environment = with_whyrun({"PATH": os.defpath, "LANG": "C.UTF-8", "HOME": mark})
        with server_end:
            self._process = subprocess.Popen(
                view_argv(visible, tools, command, user),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                env=environment,
                cwd="/",
                pass_fds=(server_end.fileno(),),
                start_new_session=True,  # Ctrl-C on the host's terminal does not reach it
            )

    def start(
        self,
        spec: SandboxSpec,
        limits: Limits,
        *,
        start: str = "",
        command: Sequence[str] = (),
        stdin: int,
        stdout: int,
        stderr: int,
    ) -> SandboxProcess:
        """Start the worker with this argument, or a program, in a new sandbox. The caller closes the descriptors."""
        reports, reports_end = os.pipe()
        request = encode(Request(spec, limits, self._tools, start, list(command)))
        try:
            socket.send_fds(self._requests, [request], [stdin, stdout, stderr, reports_end])
        except (BrokenPipeError, ConnectionError):
            os.close(reports)
            raise SandboxFailed(self.why_silent()) from None
        finally:
            os.close(reports_end)
        return SandboxProcess(reports, self.why_silent)

    def is_running(self) -> bool:
        return self._process.poll() is None

    def why_silent(self) -> str:
        """Why the fork server sends nothing."""
        try:
            status = self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            return "the fork server of the sandboxes does not answer"
        printed = os.pread(self._stderr, 1 << 20, 0).decode("utf-8", "replace").strip()
        return printed or f"the fork server of the sandboxes exited with status {status}"

    def close(self) -> None:
        """End the fork server, and with it all its sandboxes."""
        self._requests.close()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._stderr)
