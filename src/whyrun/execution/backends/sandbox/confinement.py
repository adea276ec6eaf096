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
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from whyrun.execution.backends.sandbox.view import INSIDE, Limits

# --- the filter of system calls: which calls a step may not make, and the program for the kernel that refuses them ----
# The kernel runs a classic BPF program before every call. `RULES` is the policy, `NUMBERS` has the numbers of the
# calls, and `program` assembles both. Pure, and the same for every step.
#
# The rules refuse what reaches beyond the sandbox (other processes, kernel keys, virtual machines), what counts against
# no limit (memory without a process), and large parts of the kernel that steps do not need. Calls whose callers have
# another way get ENOSYS, as from a kernel without them; the others EPERM.


# --- policy ----------------------------------------------------------------------------------------------------------

SEGMENT = 1 << 16  # bytes of a System V segment; the kernel allows 4,096 of them
SEMAPHORES = 32  # in a set; the kernel allows 32,000 sets
_UNIX, _INET, _INET6, _NETLINK, _NETLINK_ROUTE = 1, 2, 10, 16, 0
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C


@dataclass(frozen=True, slots=True)
class Argument:
    """A condition on one argument of a call. It compares unsigned numbers."""

    position: int
    above: int | None = None  # holds for larger values, of 64 bits
    one_of: tuple[int, ...] = ()  # holds for these values, of 32 bits
    none_of: tuple[int, ...] = ()  # holds for all values but these, of 32 bits


@dataclass(frozen=True, slots=True)
class Rule:
    """The answer to some calls; if there are conditions, only where all of them hold."""

    answer: int
    calls: tuple[str, ...]
    conditions: tuple[Argument, ...] = ()


RULES = (
    # Memory that belongs to no process, so that it escapes the memory limit.
    Rule(errno.ENOSYS, ("memfd_create", "memfd_secret")),
    Rule(errno.ENOSPC, ("shmget",), (Argument(1, above=SEGMENT),)),
    Rule(errno.ENOSPC, ("semget",), (Argument(1, above=SEMAPHORES),)),
    Rule(errno.ENOSYS, ("msgget",)),
    # Work that the kernel does outside the process, past this filter.
    Rule(errno.ENOSYS, ("io_uring_setup", "io_uring_enter", "io_uring_register")),
    # Keys of the user, which no namespace hides.
    Rule(errno.ENOSYS, ("keyctl", "add_key", "request_key")),
    # Families of sockets that lead to the virtual machine's host (vsock), to hardware or deep into the kernel.
    Rule(errno.EAFNOSUPPORT, ("socket",), (Argument(0, none_of=(_UNIX, _INET, _INET6, _NETLINK)),)),
    Rule(errno.EAFNOSUPPORT, ("socket",), (Argument(0, one_of=(_NETLINK,)), Argument(2, none_of=(_NETLINK_ROUTE,)))),
    # Other processes.
    Rule(errno.EPERM, ("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp", "perf_event_open")),
    # The kernel itself.
    Rule(errno.EPERM, ("bpf", "userfaultfd", "kexec_load", "kexec_file_load", "init_module", "finit_module")),
    Rule(errno.EPERM, ("delete_module", "reboot", "swapon", "swapoff", "acct", "syslog", "iopl", "ioperm")),
    Rule(errno.EPERM, ("settimeofday", "clock_settime", "lookup_dcookie", "quotactl", "quotactl_fd", "fanotify_init")),
    # Other views of the files.
    Rule(errno.EPERM, ("mount", "umount2", "move_mount", "mount_setattr", "open_tree", "open_tree_attr", "fsopen")),
    Rule(errno.EPERM, ("fsconfig", "fsmount", "fspick", "pivot_root", "chroot", "unshare", "setns")),
    Rule(errno.EPERM, ("name_to_handle_at", "open_by_handle_at")),
    # Typing into a terminal as if the user did.
    Rule(errno.EPERM, ("ioctl",), (Argument(1, one_of=(_TIOCSTI, _TIOCLINUX)),)),
)

# Call → its numbers on x86_64 and aarch64; None: the machine does not have it.
NUMBERS: Mapping[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioctl": (16, 29),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "msgget": (68, 186),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "semget": (64, 190),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "shmget": (29, 194),
    "socket": (41, 198),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}


@dataclass(frozen=True, slots=True)
class _Machine:
    column: int  # in `NUMBERS`
    audit: int  # how the kernel names its calls
    beyond: int | None = None  # calls from this number on mean others of the same machine once more (x32)


_MACHINES = {
    "x86_64": _Machine(0, 0xC000003E, 0x4000_0000),
    "aarch64": _Machine(1, 0xC00000B7),
}

# --- assembler -------------------------------------------------------------------------------------------------------

# Where the kernel puts the call: `struct seccomp_data`. Both machines have the low half of a number first.
_NUMBER, _AUDIT, _ARGUMENTS = 0, 4, 16

_LOAD, _JUMP_EQUAL, _JUMP_ABOVE, _JUMP_AT_LEAST, _RETURN = 0x20, 0x15, 0x25, 0x35, 0x06
_ALLOW, _FAIL, _KILL = 0x7FFF_0000, 0x0005_0000, 0x8000_0000

_Line = tuple[int, int, int, int]  # operation, lines to skip if it holds and if not, number
_FORMAT = "=HBBI"
LINE = struct.calcsize(_FORMAT)  # bytes


def is_known(machine: str) -> bool:
    """Whether there is a filter for this kind of processor (`os.uname().machine`)."""
    return machine in _MACHINES


@cache
def filter_program(machine: str) -> bytes:
    """The filter, as the kernel and `bwrap --seccomp` take it."""
    kind = _MACHINES[machine]
    # A program for another kind of machine (32 bits) has other numbers, which this filter does not know: end it.
    lines: list[_Line] = [_load(_AUDIT), (_JUMP_EQUAL, 1, 0, kind.audit), _answer(_KILL), _load(_NUMBER)]
    if kind.beyond is not None:
        lines += [(_JUMP_AT_LEAST, 0, 1, kind.beyond), _answer(_FAIL | errno.ENOSYS)]
    for rule in RULES:
        for call in rule.calls:
            number = NUMBERS[call][kind.column]
            if number is not None:
                lines += _block(number, rule)
    lines.append(_answer(_ALLOW))
    return b"".join(struct.pack(_FORMAT, *line) for line in lines)


def _block(number: int, rule: Rule) -> Iterable[_Line]:
    """The lines for one call. Afterwards the number of the call is loaded again."""
    body: list[_Line] = []
    for condition in reversed(rule.conditions):
        body = _test(condition, len(body) + 1) + body
    refuse = _answer(_FAIL | rule.answer)
    if not body:
        return [(_JUMP_EQUAL, 0, 1, number), refuse]
    return [(_JUMP_EQUAL, 0, len(body) + 2, number), *body, refuse, _load(_NUMBER)]


def _test(condition: Argument, rest: int) -> list[_Line]:
    """Lines that end behind themselves if the condition holds, and otherwise skip the `rest` that follows."""
    low = _ARGUMENTS + 8 * condition.position
    if condition.above is not None:
        return [
            _load(low + 4),
            (_JUMP_ABOVE, 2, 0, condition.above >> 32),  # holds
            _load(low),
            (_JUMP_ABOVE, 0, rest, condition.above & 0xFFFF_FFFF),
        ]
    values = condition.one_of or condition.none_of
    lines = [_load(low)]
    for left, value in zip(range(len(values) - 1, -1, -1), values, strict=True):
        if condition.none_of:
            lines.append((_JUMP_EQUAL, left + rest, 0, value))
        else:
            lines.append((_JUMP_EQUAL, left, 0 if left else rest, value))
    return lines


def _load(offset: int) -> _Line:
    return (_LOAD, 0, 0, offset)


def _answer(action: int) -> _Line:
    return (_RETURN, 0, 0, action)


# --- entering a sandbox -----------------------------------------------------------------------------------------------


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
    if is_known(os.uname().machine):
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

    lines = filter_program(os.uname().machine)
    filter_ = Program(len(lines) // LINE, lines)
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
    if is_known(os.uname().machine) and status["Seccomp"].strip() != str(_SECCOMP_MODE_FILTER):
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
