"""Forks sandboxed workers: `python -m whyrun.execution.backends.sandbox.fork_server FD`, inside a view.

Starting Python and importing the worker takes ten times as long as creating a sandbox, so this process does it once.
For every step, a fork of it enters a new sandbox and drops its rights before anything else. No code of a step ever
runs in this process.

For each request this process forks a *keeper*. The keeper lets bubblewrap create the sandbox, starts the worker in it,
and reports to the host its process ID and, later, its exit status. If host, fork server, keeper or bubblewrap dies, the
sandbox dies too.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import gc
import os
import random
import resource
import select
import signal
import socket
import subprocess
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

import msgspec

from whyrun.execution.backends.sandbox.bubblewrap import INSIDE, Limits, sandbox_argv
from whyrun.execution.backends.sandbox.launcher import (
    DESCRIPTORS,
    REQUEST_LIMIT,
    Exited,
    Request,
    Started,
    StartFailed,
    decode_request,
    encode,
)
from whyrun.execution.protocol.framing import WorkerStart
from whyrun.execution.worker import main as worker

# --- Entering an existing sandbox, as nsenter does, and dropping all rights ------------------------------------------

_libc = ctypes.CDLL(None, use_errno=True)

_NS_GET_PARENT = 0xB702
_NAMESPACES = ("mnt", "pid", "net", "ipc", "uts", "cgroup")
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 1, 4, 24, 38, 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_KEYCTL_JOIN_SESSION_KEYRING = 1
_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "ppc64le": 271, "s390x": 280, "armv7l": 311, "i686": 288}
_CAPABILITY_VERSION = 0x20080522
_OURS = 4  # processes of Whyrun: two that hold the sandbox, the keeper, and the worker's control thread


def die_with_parent(signum: int, parent: int) -> None:
    """Get a signal when the parent dies. `parent`: its process ID; exits at once if it is dead already."""
    _prctl(_PR_SET_PDEATHSIG, signum)
    if os.getppid() != parent:
        os._exit(1)


def enter(process: int) -> None:
    """Join the namespaces of a process that bubblewrap started. Child processes started from now on are in all of
    them."""
    # A shared namespace (the network, if the sandbox has one) must not be joined again.
    its = [name for name in _NAMESPACES if _namespace(process, name) != _namespace("self", name)]
    others = [os.open(f"/proc/{process}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in its]
    user = os.open(f"/proc/{process}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    # bubblewrap creates two user namespaces: one that owns all others, and inside it one that cannot have children.
    outer = fcntl.ioctl(user, _NS_GET_PARENT)
    for descriptor in (outer, *others, user):
        if _libc.setns(descriptor, 0) != 0:
            raise _problem("setns")
        os.close(descriptor)


def _namespace(process: int | str, name: str) -> str:
    return os.readlink(f"/proc/{process}/ns/{name}")


def leave_keyring() -> None:
    """Replace the session keyring by an empty one. Child processes inherit the user's kernel keys (Kerberos tickets,
    passwords of file systems), and no namespace hides them."""
    number = _KEYCTL.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, f"the keyctl system call is unknown on {os.uname().machine}")
    if _libc.syscall(number, _KEYCTL_JOIN_SESSION_KEYRING, None) < 0 and ctypes.get_errno() != errno.ENOSYS:
        raise _problem("keyctl")  # a kernel without the call has no keys


def give_up_rights() -> None:
    """Drop all capabilities, and the ability to get any from a program."""
    last = int(_text("/proc/sys/kernel/cap_last_cap"))
    for capability in range(last + 1):
        _prctl(_PR_CAPBSET_DROP, capability)
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    if _libc.capset(header, (ctypes.c_uint32 * 6)()) != 0:
        raise _problem("capset")
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _prctl(_PR_SET_DUMPABLE, 1)  # the change of rights reset it; without it /proc/self belongs to root


def limit(limits: Limits) -> None:
    """Set resource limits, inside the sandbox: there, processes count in its own user namespace, not for the real user.

    The memory limit applies to each process; `MemoryWatch` watches their sum from outside. It limits private data
    (`DATA`), not address space, of which many programs reserve far more than they use.
    """
    processes = limits.processes + _OURS
    resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
    resource.setrlimit(resource.RLIMIT_DATA, (limits.memory, limits.memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def check_confined() -> None:
    """The last check before a step's code may run. Raises `PermissionError` if the process is not confined."""
    status = dict(line.split(":\t", 1) for line in _text("/proc/self/status").splitlines() if ":\t" in line)
    rights = {status[name].strip() for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}
    if rights != {"0" * 16} or status["NoNewPrivs"].strip() != "1":
        raise PermissionError("rights are left in the sandbox")
    if os.getresuid() != (INSIDE,) * 3 or os.getresgid() != (INSIDE,) * 3:
        raise PermissionError("the sandbox has another user than it should")


def _prctl(option: int, argument: int) -> None:
    if _libc.prctl(option, argument, 0, 0, 0) != 0:
        raise _problem(f"prctl {option}")


def _problem(call: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{call}: {os.strerror(number)}")


def _text(path: str) -> str:
    with open(path) as file:
        return file.read()


# --- The fork server -----------------------------------------------------------------------------------------------

# Modules that most steps import.
_WARM = ("whyrun.actions.builtin.python", "whyrun.actions.builtin.shell", "runpy")

# The first process of a sandbox, which exists as long as this process.
_HOLDER = ["/bin/sh", "-c", "echo ready; read -r _"]


def main(descriptor: int) -> None:
    os.set_inheritable(descriptor, False)
    host = socket.socket(fileno=descriptor)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers report their own end, so nobody waits for them
    for name in _WARM:
        import_module(name)
    msgspec.json.Decoder(WorkerStart)  # msgspec caches what it derives from a type
    gc.collect()
    gc.freeze()  # keeps the memory of this process shared with all forks
    fork_server = os.getpid()
    while True:
        data, descriptors, _, _ = socket.recv_fds(host, REQUEST_LIMIT, DESCRIPTORS)
        if not data:
            return
        if os.fork() == 0:
            host.close()
            _keep(decode_request(data), fork_server, descriptors)
        for received in descriptors:
            os.close(received)


def _keep(request: Request, fork_server: int, descriptors: list[int]) -> NoReturn:
    *streams, reports = descriptors
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        die_with_parent(signal.SIGKILL, fork_server)
        sandbox, first = _make_sandbox(request)
        first_process = os.pidfd_open(first)  # a process ID could be reused
        enter(first)
        child = os.fork()
        if child == 0:
            _run_worker(request, streams, reports)
        for stream in streams:
            os.close(stream)
        os.write(reports, encode(Started(child, first)) + b"\n")
        _, status = os.waitpid(child, 0)
        with suppress(ProcessLookupError):  # the host may have killed it
            signal.pidfd_send_signal(first_process, signal.SIGKILL)
        # The kernel kills all processes of the sandbox with the first one, which ends last. bubblewrap itself does not
        # wait for that in every case.
        gone = select.poll()
        gone.register(first_process, select.POLLIN)
        gone.poll()
        sandbox.wait()
        os.write(reports, encode(Exited(os.waitstatus_to_exitcode(status))) + b"\n")
    except BaseException as problem:
        os.write(reports, encode(StartFailed(f"{type(problem).__name__}: {problem}")) + b"\n")
    finally:
        os._exit(0)


def _make_sandbox(request: Request) -> tuple[subprocess.Popen[bytes], int]:
    info, info_end = os.pipe()
    process = subprocess.Popen(
        sandbox_argv(request.spec, request.limits, request.tools, _HOLDER, info_end),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={},
        cwd="/",
        pass_fds=(info_end,),
    )
    os.close(info_end)
    assert process.stdout is not None
    assert process.stderr is not None
    if not process.stdout.readline():
        printed = process.stderr.read().decode("utf-8", "replace").strip()
        raise OSError(printed or f"bubblewrap exited with status {process.wait()}")
    with os.fdopen(info, "rb") as file:
        return process, msgspec.json.decode(file.read())["child-pid"]


def _run_worker(request: Request, streams: list[int], reports: int) -> NoReturn:
    """In the forked process, inside the sandbox, still with all rights: drop them and run the worker."""
    status = 1
    try:
        os.setsid()
        os.chdir(request.spec.work_dir)
        limit(request.limits)
        leave_keyring()
        give_up_rights()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(3, max(reports, *streams, 1024) + 1)
        os.environ.clear()
        os.environ.update(request.spec.environment)
        check_confined()
        random.seed()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if request.command:
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            os.execvp(request.command[0], request.command)
        worker.main(request.start)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException as problem:
        os.write(2, "".join(traceback.format_exception(problem)).encode("utf-8", "replace"))
    finally:
        os._exit(status)


if __name__ == "__main__":
    main(int(sys.argv[1]))
