"""Enters an existing sandbox, as nsenter does, and gives up everything that a step must not have.

bubblewrap creates a sandbox around a first process of its own. A worker that joins it later brings its own rights,
resource limits, kernel keys and system calls along, so it must drop each of them itself.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import resource

from whyrun.execution.backends.sandbox import seccomp
from whyrun.execution.backends.sandbox.bubblewrap import INSIDE, Limits

_libc = ctypes.CDLL(None, use_errno=True)

_NS_GET_PARENT = 0xB702
_NAMESPACES = ("mnt", "pid", "net", "ipc", "uts", "cgroup")
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_CAPBSET_DROP = 1, 4, 22, 24
_PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 38, 47, 4
_SECCOMP_MODE_FILTER = 2
_KEYCTL_JOIN_SESSION_KEYRING = 1
_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "ppc64le": 271, "s390x": 280, "armv7l": 311, "i686": 288}
_CAPABILITY_VERSION = 0x20080522

# Landlock has the same numbers on every machine. What a rule set may name grew with its versions.
_LANDLOCK_CREATE, _LANDLOCK_RESTRICT, _LANDLOCK_VERSION = 444, 446, 1
_SCOPES_SOCKETS = 6  # the first version that knows abstract sockets: Linux 6.12
_SCOPE_ABSTRACT_SOCKET = 1
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


def confine(network: bool) -> None:
    """Give up all rights, for good. In this order: each step needs a call that the next one may forbid."""
    leave_keyring()
    give_up_rights()
    if network and scopes_sockets():
        leave_sockets_of_host()
    if seccomp.is_known(os.uname().machine):
        filter_calls()


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


def scopes_sockets() -> bool:
    """Whether this kernel can keep a process from sockets without a file (`leave_sockets_of_host`)."""
    return int(_libc.syscall(_LANDLOCK_CREATE, None, 0, _LANDLOCK_VERSION)) >= _SCOPES_SOCKETS


def leave_sockets_of_host() -> None:
    """Connect to no abstract socket of a process outside. They belong to the network, which this sandbox shares with
    the host: the user's desktop session listens there."""
    rules = (ctypes.c_uint64 * 3)(0, 0, _SCOPE_ABSTRACT_SOCKET)  # files and ports: no rule, everything as it was
    descriptor = _libc.syscall(_LANDLOCK_CREATE, rules, ctypes.sizeof(rules), 0)
    if descriptor < 0 or _libc.syscall(_LANDLOCK_RESTRICT, descriptor, 0) != 0:
        raise _problem("landlock")
    os.close(descriptor)


def filter_calls() -> None:
    """From here on the kernel refuses the calls of `seccomp.RULES`, to this process and to all that it starts."""

    class Program(ctypes.Structure):  # struct sock_fprog
        _fields_ = (("length", ctypes.c_ushort), ("lines", ctypes.c_char_p))

    lines = seccomp.program(os.uname().machine)
    filter_ = Program(len(lines) // seccomp.LINE, lines)
    if _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(filter_), 0, 0) != 0:
        raise _problem("seccomp")


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
    if seccomp.is_known(os.uname().machine) and status["Seccomp"].strip() != str(_SECCOMP_MODE_FILTER):
        raise PermissionError("system calls are not filtered in the sandbox")
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
