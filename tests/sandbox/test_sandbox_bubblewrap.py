"""What a step cannot reach from inside a real sandbox, as root and as an ordinary user."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sandbox_lab import ORDINARY, PLANTED, SandboxLab


def lines(text: str) -> list[str]:
    return sorted(text.split())


def test_only_the_allowed_folders_are_there(lab: SandboxLab) -> None:
    top = lines(lab.shell("ls -A /").stdout)
    chain = {Path(path).parts[1] for path in (sys.prefix, sys.base_prefix, str(Path(__file__).parents[2] / "src"))}
    assert set(top) - chain <= {"bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "nix", "proc", "sbin", "tmp",
                                "usr", "whyrun"}  # fmt: skip
    on_the_way = [Path(p).parts[2] for p in (sys.prefix, sys.base_prefix, __file__) if Path(p).parts[1] == "tmp"]
    seen = lines(lab.shell("ls -A /tmp /dev/shm /whyrun/out").stdout)
    assert [line for line in seen if line not in on_the_way] == ["/dev/shm:", "/tmp:", "/whyrun/out:"]


def test_no_secret_of_the_system_is_there(lab: SandboxLab) -> None:
    names = "shadow gshadow sudoers hostname machine-id ssh resolv.conf"
    found = lab.shell(f"cd /etc; ls -d {names}; ls -d /run /var /sys /boot; cat /etc/shadow")
    assert found.stdout == ""
    assert "/etc/shadow" in found.stderr
    assert lab.shell("cat /etc/passwd").stdout == "whyrun:x:1000:1000::/tmp:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n"


def test_the_home_folder_is_not_there(lab: SandboxLab) -> None:
    """At most the folders that lead to the interpreter, and in them nothing else."""
    home = os.path.realpath(os.path.expanduser("~"))
    script = f"import os; print([p for p, d, f in os.walk({home!r}) if f and '/lib/python' not in p])"
    seen = lab.python(script).stdout
    prefixes = (sys.prefix, sys.base_prefix, str(Path(__file__).parents[2] / "src"))
    assert [folder for folder in json.loads(seen.replace("'", '"')) if not folder.startswith(prefixes)] == []


def test_other_folders_are_not_there(lab: SandboxLab, open_folder: Path) -> None:
    other = open_folder / "other.txt"
    other.write_text("readable for everyone")
    other.chmod(0o644)
    found = lab.shell(f"cat {other} {Path(__file__)}")
    assert (found.stdout, found.status) == ("", 1)
    assert found.stderr.count("No such file or directory") == 2


def test_the_environment_of_the_host_is_not_there(lab: SandboxLab) -> None:
    found = lab.shell("env; cat /proc/*/environ | tr '\\0' '\\n'")
    assert PLANTED not in found.stdout
    assert {line.partition("=")[0] for line in found.stdout.splitlines()} == {"PATH", "LANG", "PWD"}
    assert lab.shell('printf %s "$PATH|$LANG|$PWD"').stdout == "/usr/bin:/bin|C.UTF-8|/whyrun/out"


def test_processes_of_the_host_are_not_there(lab: SandboxLab) -> None:
    assert lines(lab.shell("cd /proc; echo [0-9]*").stdout) == ["1", "2", "3"]


def test_only_its_own_streams_are_open(lab: SandboxLab) -> None:
    found = lab.python(
        "import os; print([n for n in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{n}')])"
    )
    assert found.stdout == "['0', '1', '2']\n"


def test_no_right_is_left_and_none_can_be_had(lab: SandboxLab) -> None:
    status = dict(
        line.split(":\t", 1) for line in lab.shell("cat /proc/self/status").stdout.splitlines() if ":\t" in line
    )
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"
    assert status["Uid"].split() == status["Gid"].split() == ["1000"] * 4
    mounts = [line.split() for line in lab.shell("cat /proc/mounts").stdout.splitlines()]
    assert [place for _, place, _, options, *_ in mounts if "nosuid" not in options.split(",")] == []


def test_its_real_user_is_another_than_the_host_where_it_can_be(lab: SandboxLab) -> None:
    real = lab.shell("sleep 1000; true", look=True).real
    (number,) = set(real["Uid"])
    if lab.who == "root":
        assert int(number) > 1_879_000_000
        assert set(real["Gid"]) == {number}
        assert real["Groups"] == []
    else:
        assert int(number) == (ORDINARY if os.geteuid() == 0 else os.geteuid())


@pytest.mark.parametrize(
    "attempt",
    [
        "unshare -U true",
        "unshare -n true",
        "unshare -m true",
        "mount -t tmpfs none /tmp",
        "mount -o remount,rw /usr",
        "umount /usr",
        "chroot / true",
        "hostname other",
        "su -c id",
        "nsenter -t 1 -m true",
        "mknod /tmp/disk b 8 0",
        "renice -n -5 -p 1",
        "echo 1 > /proc/sys/kernel/sysrq",
        "echo 0 > /proc/self/oom_score_adj",
        "chown 0 /tmp",
    ],
)
def test_what_needs_a_right_is_refused(lab: SandboxLab, attempt: str) -> None:
    assert lab.shell(attempt).status != 0, attempt


def test_nothing_outside_is_writable(lab: SandboxLab) -> None:
    package = Path(__file__).parents[2] / "src" / "whyrun"
    places = ["/", "/usr", "/etc", "/dev", "/proc", "/whyrun", sys.prefix, sys.base_prefix, str(package)]
    script = """
import os, sys
for place in sys.argv[1:]:
    try:
        open(os.path.join(place, "planted"), "w")
    except OSError as problem:
        print(problem.strerror)
    else:
        print("could write to", place)
"""
    refused = lab.run(sys.executable, "-I", "-c", script, *places).stdout.splitlines()
    assert set(refused) <= {"Read-only file system", "Permission denied", "No such file or directory"}
    assert len(refused) == len(places)
    assert lab.shell("echo kept > /whyrun/out/note; echo > /tmp/note; echo > /dev/shm/note").status == 0
    assert (lab.folder / "note").read_text() == "kept\n"
    (lab.folder / "note").unlink()


def test_the_program_that_runs_it_cannot_be_written_to(lab: SandboxLab) -> None:
    """Neither through its own entry in /proc, which other sandboxes were left by."""
    script = """
import os
for how in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC):
    try:
        os.open("/proc/self/exe", how)
    except OSError as problem:
        print(problem.strerror)
descriptor = os.open("/proc/self/exe", os.O_PATH)
try:
    os.chmod(f"/proc/self/fd/{descriptor}", 0o777)
except OSError as problem:
    print(problem.strerror)
"""
    said = lab.python(script).stdout.splitlines()
    assert len(said) == 4
    assert set(said) <= {"Read-only file system", "Permission denied", "Text file busy"}
    assert said[3] == "Read-only file system"


# --- the network -----------------------------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[int]:
    """Somebody who answers on this machine's loopback."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:

        def answer() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with closing(connection):
                    connection.sendall(b"hello")

        thread = threading.Thread(target=answer)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


_CALL = """
import socket, sys
try:
    print(socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5).recv(100).decode())
except OSError as problem:
    print(problem.strerror)
"""


def test_no_server_is_reachable_unless_the_network_is_asked_for(lab: SandboxLab, server: int) -> None:
    call = (sys.executable, "-I", "-c", _CALL, str(server))
    assert lab.run(*call).stdout == "Connection refused\n"
    assert lab.run(*call, network=True).stdout == "hello\n"


def test_there_is_no_way_out_and_no_name_is_known(lab: SandboxLab) -> None:
    script = """
import socket
print(sorted(name for _, name in socket.if_nameindex()), socket.gethostbyname("localhost"), socket.gethostname())
for attempt in (lambda: socket.create_connection(("1.1.1.1", 53), 5), lambda: socket.gethostbyname("example.org")):
    try:
        attempt()
        print("got out")
    except OSError:
        print("no")
"""
    assert lab.python(script).stdout == "['lo'] 127.0.0.1 whyrun\nno\nno\n"


def test_a_socket_without_a_file_is_not_reachable(lab: SandboxLab) -> None:
    name = f"\0whyrun-test-{os.getpid()}"
    with closing(socket.socket(socket.AF_UNIX)) as listening:
        listening.bind(name)
        listening.listen()
        script = f"import socket; socket.socket(socket.AF_UNIX).connect({name!r})"
        assert "ConnectionRefusedError" in lab.python(script).stderr


def test_names_can_be_found_where_the_network_is_asked_for(lab: SandboxLab) -> None:
    known = [path for path in ("/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf") if os.path.exists(path)]
    assert lab.shell(f"cat {' '.join(known)}", network=True).stdout == "".join(Path(p).read_text() for p in known)
