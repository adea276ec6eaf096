"""Issue 17, number 2: ways out of a sandbox, or past its limits, that outside trials found. As root and as a user."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sandbox_lab import SandboxLab, SandboxProject, give

from whyrun.execution.backends.sandbox.backend import gaps

Make = Callable[[dict[str, str]], SandboxProject]
MB = 1 << 20

# What a hostile step brings along: the C library, and nothing of ours.
_CALL = """
import ctypes, errno, mmap, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
X86 = os.uname().machine == "x86_64"

def call(number, *arguments):
    done = libc.syscall(number, *(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments))
    return "done" if done >= 0 else errno.errorcode[ctypes.get_errno()]
"""


def said(lab: SandboxLab, script: str, **options: object) -> list[str]:
    outcome = lab.python(_CALL + script, **options)
    assert outcome.status == 0, outcome.stderr
    return outcome.stdout.splitlines()


# --- memory that belongs to no process -------------------------------------------------------------------------------


def test_memory_without_a_process_cannot_be_had_from_memfd(lab: SandboxLab) -> None:
    script = """
print(call(319 if X86 else 279, b"hidden", 0), call(447, 0))
try:
    os.ftruncate(os.memfd_create("hidden"), 1 << 30)
except OSError as problem:
    print(problem.strerror)
"""
    assert said(lab, script, memory=200 * MB) == ["ENOSYS ENOSYS", "Function not implemented"]


def test_detached_segments_of_system_v_are_small(lab: SandboxLab) -> None:
    """What PostgreSQL and MPI need works; memory that no process shows does not."""
    script = """
large = libc.shmget(0, ctypes.c_size_t(300 << 20), 0o1600)
print(large, errno.errorcode[ctypes.get_errno()])
print(libc.shmget(0, ctypes.c_size_t(4096), 0o1600) >= 0, libc.shmget(0, ctypes.c_size_t((1 << 32) + 1), 0o1600))
print(libc.semget(0, 17, 0o1600) >= 0, libc.semget(0, 32000, 0o1600), libc.msgget(0, 0o1600))
"""
    assert said(lab, script, memory=200 * MB) == ["-1 ENOSPC", "True -1", "True -1 -1"]


def test_a_step_cannot_ask_to_be_spared_when_memory_runs_out(lab: SandboxLab) -> None:
    script = """
for path in ("/proc/self/oom_score_adj", "/proc/1/oom_score_adj", f"/proc/{os.getpid()}/oom_adj"):
    try:
        with open(path, "w") as file:
            file.write("0")
    except OSError as problem:
        print(problem.strerror)
print(open("/proc/self/oom_score_adj").read().strip(), open("/proc/1/oom_score_adj").read().strip())
"""
    assert said(lab, script) == ["Read-only file system"] * 3 + ["1000 1000"]


# --- disk ------------------------------------------------------------------------------------------------------------

DISK = 20 * MB
_FILL = """
import time
def fill(path, size):
    with open(path, "wb") as file:
        for _ in range(size >> 20):
            file.write(os.urandom(1 << 20))
        file.flush()
        yield
def wait():
    time.sleep(1000)
"""


@pytest.mark.parametrize(
    "script",
    [
        'list(fill("large", 40 << 20)); wait()',
        'for n in range(40): list(fill(f"file-{n}", 1 << 20))\nwait()',
        'for _ in fill("gone", 40 << 20): os.unlink("gone"); wait()',  # only a descriptor leads to it
        'os.mkdir("d", 0o700); list(fill("d/file", 40 << 20)); os.chmod("d", 0o300); wait()',
        'for n in range(200): os.mkdir("d"); os.chdir("d")\nlist(fill("file", 40 << 20)); wait()',
        'file = os.open("reserved", os.O_CREAT | os.O_WRONLY); os.posix_fallocate(file, 0, 40 << 20); wait()',
    ],
    ids=["one file", "many files", "deleted", "unreadable", "deep", "reserved"],
)
def test_a_sandbox_that_fills_the_disk_is_ended(lab: SandboxLab, script: str) -> None:
    outcome = lab.run(sys.executable, "-I", "-c", _CALL + _FILL + script, disk=DISK)
    assert (outcome.status, outcome.stderr) == (-signal.SIGKILL, "")
    lab.clear()


def test_holes_and_second_names_take_no_disk_space(lab: SandboxLab) -> None:
    script = """
os.truncate(os.open("sparse", os.O_CREAT | os.O_WRONLY), 1 << 40)
list(fill("file", 15 << 20))
for n in range(10):
    os.link("file", f"again-{n}")
time.sleep(0.5)  # longer than the host looks away
print("done")
"""
    assert said(lab, _FILL + script, disk=DISK) == ["done"]
    lab.clear()


def test_what_a_job_may_write_is_limited_and_its_sparse_output_stays_sparse(sandboxed: Make) -> None:
    steps = """
        import time
        def fill():
            with open("large", "wb") as file:
                while True:
                    file.write(bytes(range(256)) * 4096)
        def sparse(context):
            with open(context.output("F"), "wb") as file:
                file.write(b"begin")
                file.seek(16 << 20)
                file.write(b"end")
        """
    workflow = """
        workflow: disk
        jobs:
          Fill:
            uses: python
            with: {call: "steps:fill"}
            sandbox: {disk: 20MB}
            outputs: {F: {type: file}}
          Sparse:
            uses: python
            with: {call: "steps:sparse"}
            sandbox: {disk: 20MB}
            outputs: {F: {type: file, path: sparse.bin}}
        """
    project = sandboxed({"steps.py": steps, "workflow.yaml": workflow})
    code, text = project.run("--jobs", "1")
    assert code == 1, text
    reason = "the worker was killed: its step used more disk space than its sandbox may (20 MB)"
    assert project.failed() == {"Job:Fill": ("FAILED", "WorkerDied", reason)}
    stored = [path for path in project.folder.glob(".whyrun/store/??/*") if path.stat().st_size == (16 << 20) + 3]
    for path in (project.folder / "sparse.bin", *stored):
        assert path.stat().st_size == (16 << 20) + 3
        assert path.stat().st_blocks * 512 < MB
    assert len(stored) == 1
    assert project.left_over() == []


# --- keys ------------------------------------------------------------------------------------------------------------


def test_keys_of_the_user_can_be_neither_seen_nor_linked(lab: SandboxLab) -> None:
    script = """
print(call(250 if X86 else 219, 8, -4, -3), call(248 if X86 else 217, b"user", b"mine", b"x", 1, -3))
print(call(249 if X86 else 218, b"user", b"whyrun-planted", None, 0))
for path in ("/proc/keys", "/proc/key-users"):
    try:
        print(open(path).read())
    except OSError as problem:
        print(problem.strerror)
"""
    assert said(lab, script) == ["ENOSYS ENOSYS", "ENOSYS", "Permission denied", "Permission denied"]


# --- sockets ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", [False, True])
def test_only_sockets_of_a_plain_network_can_be_opened(lab: SandboxLab, network: bool) -> None:
    script = """
def family(number, protocol=0):
    try:
        socket.socket(number, socket.SOCK_DGRAM, protocol).close()
        return "open"
    except OSError as problem:
        return errno.errorcode[problem.errno]

print(*map(family, (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)))
VSOCK, ALG, PACKET, BLUETOOTH, CAN, XDP = 40, 38, 17, 31, 29, 44
print({family(number) for number in (VSOCK, ALG, PACKET, BLUETOOTH, CAN, XDP)}, family(socket.AF_NETLINK, 9))
"""
    assert said(lab, script, network=network) == ["open open open open", "{'EAFNOSUPPORT'} EAFNOSUPPORT"]


def test_with_the_network_a_socket_without_a_file_is_still_not_reachable(lab: SandboxLab) -> None:
    name = f"\0whyrun-trial-{os.getpid()}"
    with closing(socket.socket(socket.AF_UNIX)) as listening:
        listening.bind(name)
        listening.listen()
        script = f"""
try:
    socket.socket(socket.AF_UNIX).connect({name!r})
    print("connected")
except OSError as problem:
    print(problem.strerror)
inside = socket.socket(socket.AF_UNIX)
inside.bind("\\0whyrun-inside-{os.getpid()}")
inside.listen()
socket.socket(socket.AF_UNIX).connect(inside.getsockname())
print("among themselves")
"""
        assert said(lab, script, network=True) == ["Operation not permitted", "among themselves"]


# --- system calls ----------------------------------------------------------------------------------------------------

REFUSED = {  # call → its number on x86_64 and on aarch64, and the answer
    "io_uring_setup": (425, 425, "ENOSYS"),
    "io_uring_enter": (426, 426, "ENOSYS"),
    "io_uring_register": (427, 427, "ENOSYS"),
    "bpf": (321, 280, "EPERM"),
    "userfaultfd": (323, 282, "EPERM"),
    "ptrace": (101, 117, "EPERM"),
    "process_vm_readv": (310, 270, "EPERM"),
    "process_vm_writev": (311, 271, "EPERM"),
    "pidfd_getfd": (438, 438, "EPERM"),
    "kcmp": (312, 272, "EPERM"),
    "perf_event_open": (298, 241, "EPERM"),
    "kexec_load": (246, 104, "EPERM"),
    "kexec_file_load": (320, 294, "EPERM"),
    "mount": (165, 40, "EPERM"),
    "umount2": (166, 39, "EPERM"),
    "move_mount": (429, 429, "EPERM"),
    "open_tree": (428, 428, "EPERM"),
    "fsopen": (430, 430, "EPERM"),
    "fsmount": (432, 432, "EPERM"),
    "mount_setattr": (442, 442, "EPERM"),
    "pivot_root": (155, 41, "EPERM"),
    "unshare": (272, 97, "EPERM"),
    "setns": (308, 268, "EPERM"),
    "finit_module": (313, 273, "EPERM"),
    "open_by_handle_at": (304, 265, "EPERM"),
}


def test_the_kernel_refuses_what_no_step_needs(lab: SandboxLab) -> None:
    numbers = {name: row[:2] for name, row in REFUSED.items()}
    script = f"print({{name: call(row[not X86], 0, 0, 0, 0, 0) for name, row in {numbers!r}.items()}})"
    assert said(lab, script) == [str({name: answer for name, (_, _, answer) in REFUSED.items()})]


def test_every_process_of_the_sandbox_is_filtered(lab: SandboxLab) -> None:
    """Also those that hold it open, which a step could otherwise take over."""
    script = """
for process in sorted(filter(str.isdigit, os.listdir("/proc")), key=int):
    status = dict(line.split(":\\t", 1) for line in open(f"/proc/{process}/status") if ":\\t" in line)
    print(process, status["Name"].strip(), status["Seccomp"].strip())
"""
    assert [line.split()[2] for line in said(lab, script)] == ["2", "2", "2"]


def test_a_step_cannot_type_into_a_terminal(lab: SandboxLab) -> None:
    script = """
import fcntl, pty
master, slave = pty.openpty()
for request in (0x5412, 0x541C):
    try:
        print(fcntl.ioctl(slave, request, b"x"))
    except OSError as problem:
        print(problem.strerror)
print(fcntl.ioctl(slave, 0x5413, bytes(8)) == bytes(8))
"""
    assert said(lab, script) == ["Operation not permitted", "Operation not permitted", "True"]


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="only x86_64 has a second table of calls")
def test_calls_by_other_numbers_of_the_same_machine_are_refused(lab: SandboxLab) -> None:
    """The numbers of x32, which mean the same calls."""
    script = "print(call(0x40000000 + 39), call(0x40000000 + 425, 0, 0))"
    assert said(lab, script) == ["ENOSYS ENOSYS"]
    # `int 0x80`: the calls of a 32-bit program, from a page of machine code. getpid, then exit by it.
    code = r"""
page = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))(), flush=True)
"""
    outcome = lab.run(sys.executable, "-I", "-c", _CALL + code)
    assert (outcome.status, outcome.stdout) == (-31, "")  # SIGSYS


def test_what_a_machine_cannot_close_is_told() -> None:
    assert gaps("x86_64", False) == gaps("aarch64", False) == []
    assert [gap.partition(":")[0] for gap in gaps("riscv64", True)] == [
        "sandboxes on this machine (riscv64) do not filter system calls",
        "steps with `network",
    ]


# --- other projects --------------------------------------------------------------------------------------------------


def test_of_another_project_only_what_can_be_imported_is_there(who: str, open_folder: Path) -> None:
    """A `.pth` file, as `pip install -e` writes it, puts that project's folder on the path of the interpreter."""
    home = open_folder / f"pth-{who}"
    other, private = home / "other", "PASSWORD=other-project"
    for name in (".env", "prod.env", "data.csv", "notes/plan.txt", "pkg/.env", "pkg/.git/config", "ns/table.csv",
                 "pkg/deep/.env.local", "pkg/connections.yaml", "venv/pyvenv.cfg", "venv/module.py"):  # fmt: skip
        (other / name).parent.mkdir(parents=True, exist_ok=True)
        (other / name).write_text(private)
    for name in ("single.py", "pkg/__init__.py", "pkg/deep/__init__.py", "ns/inner.py", "pkg/table.json"):
        (other / name).write_text("WORD = 'imported'")
    (other / "dist.egg-info").mkdir()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home / "venv")], check=True)
    (packages,) = (home / "venv" / "lib").glob("python*/site-packages")
    (packages / "_other.pth").write_text(f"{other}\n")
    (home / "out").mkdir()
    python = str(home / "venv" / "bin" / "python")
    lab = SandboxLab(who, give(home / "out", who), python)
    try:
        script = f"""
import os, pkg, pkg.deep, single, ns.inner
def opens(path):
    try:
        open(path).close()
        return True
    except PermissionError:
        return False
print(pkg.WORD, pkg.deep.WORD, single.WORD, ns.inner.WORD)
for folder, folders, files in sorted(os.walk({str(other)!r})):
    folders.sort()
    for name in sorted(files):
        if "__pycache__" not in folder:
            path = os.path.join(folder, name)
            print(os.path.relpath(path, {str(other)!r}), opens(path))
"""
        outcome = lab.run(python, "-I", "-c", script)
        assert outcome.stdout.splitlines() == [
            "imported imported imported imported",
            "single.py True",
            "ns/inner.py True",
            "pkg/.env False",
            "pkg/__init__.py True",
            "pkg/connections.yaml False",
            "pkg/table.json True",
            "pkg/deep/.env.local False",
            "pkg/deep/__init__.py True",
        ], outcome.stderr
        assert private not in lab.shell(f"cat {other}/.env {other}/pkg/.env {other}/pkg/.git/config").stdout
    finally:
        lab.close()
