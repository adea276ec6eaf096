"""Sandboxes, seen from the host: the nursery of a worker's slot, and what runs in a sandbox of its own."""

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

from whyrun.actions.child import whyrun_home
from whyrun.execution.backends.bubblewrap import Limits, SandboxSpec, Tools, Visible, view_argv
from whyrun.execution.backends.sandbox_words import Born, NotBorn, Over, Request, Said, decode_said, encode

_PATIENCE = 5.0  # seconds for a killed sandbox to be gone
_BIRTH = 60.0  # seconds for a sandbox to stand, on a machine with much else to do

# Numbers that no user has: beyond those of people, services and containers. One for every slot of every process that
# runs sandboxes, so that no two sandboxes on this machine ever belong to the same user.
FIRST_USER, _SLOTS = 1_879_100_000, 32


class SandboxFailed(Exception):
    """It could not be made, and bubblewrap or the kernel says why."""


def real_user(slot: int, process: int | None = None) -> int | None:
    """The user that a sandbox really belongs to. Only root can choose one; for others it is themselves (None)."""
    if os.geteuid() != 0:
        return None
    with open("/proc/self/uid_map") as file:
        known = [(int(line.split()[0]), int(line.split()[2])) for line in file]
    return user_number((process or os.getpid()) * _SLOTS + slot % _SLOTS, known)


def user_number(number: int, known: Sequence[tuple[int, int]]) -> int | None:
    """`known`: the first of the users that exist here, and how many; in a container, root may have few of them. Where
    he is alone, he is an ordinary user for those outside, and stays who he is."""
    wanted = FIRST_USER + number
    if any(first <= wanted < first + size for first, size in known):
        return wanted
    first, size = max(known, key=lambda users: users[1])
    return first + size - 1 - number % (size // 2) if size > 1 else None  # from above, where nobody is


def hand_over(folder: str, user: int | None) -> None:
    """Let the sandbox's user write here. A link is handed over as such, and not what it leads to."""
    if user is None:
        return
    os.chown(folder, user, user, follow_symlinks=False)
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.chown(os.path.join(parent, name), user, user, follow_symlinks=False)


class SandboxProcess:
    """A worker or another program in a sandbox of its own. Only `signal` and `end` may come from other threads."""

    def __init__(self, told: int, last_words: Callable[[], str]) -> None:
        self._told = told  # where its keeper speaks
        self._last_words = last_words  # of the nursery
        self._rest = b""
        self._lock = threading.Lock()
        self._born: Born | None = None
        self._failed = ""
        self._first: int | None = None  # a descriptor of the first process: its number could become another's
        self._status: int | None = None

    def born(self, timeout: float = _BIRTH) -> Born:
        """Wait until it runs."""
        with self._lock:
            if self._born is None:
                if not self._failed:
                    match self._next(timeout):
                        case Born() as born:
                            with suppress(ProcessLookupError):
                                self._first = os.pidfd_open(born.first)
                            self._born = born
                            return born
                        case NotBorn(reason):
                            self._failed = reason
                        case _:
                            self._failed = self._last_words()
                raise SandboxFailed(self._failed)
            return self._born

    def wait(self, timeout: float | None = None) -> int | None:
        """How it ended (negative: by which signal); None if it has not yet. Then all that was in it is gone."""
        self.born()
        with self._lock:
            if self._status is None:
                match self._next(timeout):
                    case Over(status):
                        self._status = status
                    case NotBorn(reason):
                        raise SandboxFailed(reason)
                    case None if self._closed:
                        self._status = -signal.SIGKILL  # its keeper was killed, and with it all of it
                    case _:
                        return None
            return self._status

    def signal(self, signum: int) -> None:
        """To the process group of what runs in it; SIGKILL ends the whole sandbox."""
        born = self._born or self.born()
        with suppress(ProcessLookupError):
            if signum != signal.SIGKILL and self._status is None:
                os.killpg(born.worker, signum)
            elif signum == signal.SIGKILL and self._first is not None:
                signal.pidfd_send_signal(self._first, signal.SIGKILL)

    def end(self) -> None:
        """End everything in it, whatever it did to escape. Returns when it is gone."""
        try:
            self.signal(signal.SIGKILL)
            self.wait(_PATIENCE)
        except SandboxFailed:
            pass  # there never was anything
        for descriptor in (self._told, self._first):
            if descriptor is not None:
                os.close(descriptor)

    _closed = False

    def _next(self, timeout: float | None) -> Said | None:
        deadline = None if timeout is None else time.monotonic() + timeout
        poll = select.poll()  # `select` knows no descriptor above 1023
        poll.register(self._told, select.POLLIN)
        while b"\n" not in self._rest:
            rest = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
            if not poll.poll(rest):
                return None
            data = os.read(self._told, 1 << 16)
            if not data:
                self._closed = True
                return None
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return decode_said(line)


class Nursery:
    """One for every slot of workers. `visible` is all that any sandbox of it can be given to see."""

    def __init__(self, visible: Visible, tools: Tools, user: int | None, mark: str = "/") -> None:
        """`mark`: its HOME, by which those who clean up after a killed host know it."""
        self._tools = tools
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._stderr = os.memfd_create("whyrun-nursery")
        command = [sys.executable, "-P", "-m", "whyrun.execution.backends.sandbox_nursery", str(theirs.fileno())]
        environment = {"PATH": os.defpath, "LANG": "C.UTF-8", "HOME": mark}
        home = whyrun_home()
        if home is not None:
            environment["PYTHONPATH"] = home
        with theirs:
            self._process = subprocess.Popen(
                view_argv(visible, tools, command, user),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                env=environment,
                cwd="/",
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # Ctrl-C on the host's terminal does not reach it
            )

    def start(
        self,
        spec: SandboxSpec,
        limits: Limits,
        *,
        facts: str = "",
        command: Sequence[str] = (),
        stdin: int,
        stdout: int,
        stderr: int,
    ) -> SandboxProcess:
        """The worker with these facts, or a program, in a new sandbox. The descriptors stay the caller's."""
        told, told_end = os.pipe()
        request = encode(Request(spec, limits, self._tools, facts, list(command)))
        try:
            socket.send_fds(self._requests, [request], [stdin, stdout, stderr, told_end])
        except (BrokenPipeError, ConnectionError):
            os.close(told)
            raise SandboxFailed(self.last_words()) from None
        finally:
            os.close(told_end)
        return SandboxProcess(told, self.last_words)

    def lives(self) -> bool:
        return self._process.poll() is None

    def last_words(self) -> str:
        """Why nothing is heard of it."""
        try:
            status = self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            return "the nursery of sandboxes does not answer"
        said = os.pread(self._stderr, 1 << 20, 0).decode("utf-8", "replace").strip()
        return said or f"the nursery of sandboxes exited with status {status}"

    def close(self) -> None:
        """Every sandbox that came from here ends with it."""
        self._requests.close()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._stderr)
