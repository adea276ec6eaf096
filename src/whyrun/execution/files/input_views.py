"""Read-only views of inputs: mounts of the originals, which a step can read and nobody can write through.

A worker enters a mount namespace of its own before its first step, so that no other process sees the mounts, and the
kernel removes them if the worker dies. An ordinary user may do that in a user namespace, where the system allows it.
`python -m whyrun.execution.files.input_views FOLDER` tries it, and prints why it is not possible.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from pathlib import Path

_CLONE_NEWNS, _CLONE_NEWUSER = 0x20000, 0x10000000
_MS_BIND, _MS_REC, _MS_SLAVE = 0x1000, 0x4000, 0x80000
_MNT_DETACH, _UMOUNT_NOFOLLOW = 2, 8
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE, _MOUNT_ATTR_RDONLY = 442, -100, 0x8000, 1
_CAPABILITY_VERSION, _CAP_SYS_ADMIN = 0x20080522, 21
_PATIENCE = 20.0  # seconds

_libc = ctypes.CDLL(None, use_errno=True)


class ReadOnlyViews:
    """The views of the current step."""

    def __init__(self) -> None:
        self._targets: list[str] = []

    def put(self, source: str, target: str) -> None:
        """Show a file or folder at a path that does not exist yet."""
        if os.path.isdir(source):
            os.mkdir(target)
        else:
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC))
        _mount(os.fsencode(source), os.fsencode(target), _MS_BIND | _MS_REC)
        self._targets.append(target)
        _make_read_only(target)

    def remove(self) -> None:
        """After the step. Processes that still read an input keep it."""
        while self._targets:
            target = os.fsencode(self._targets.pop())
            if _libc.umount2(target, _MNT_DETACH | _UMOUNT_NOFOLLOW) and ctypes.get_errno() not in _GONE:
                raise _problem()


_GONE = (errno.ENOENT, errno.EINVAL)  # the step has renamed the folder of its inputs


def enter_namespace() -> None:
    """Give this process, which must have one thread, a mount namespace of its own. Raises `OSError` where the machine
    does not allow it."""
    if _libc.unshare(_CLONE_NEWNS):
        user, group = os.geteuid(), os.getegid()
        if _libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS):
            raise _problem()
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
        _keep_one_capability(_CAP_SYS_ADMIN)
    _mount(None, b"/", _MS_REC | _MS_SLAVE)  # what the system mounts later is seen, and nothing is told to others


def why_impossible(folder: Path) -> str | None:
    """Why workers cannot have views in a folder; None if they can."""
    import subprocess  # only on the host: a worker forks often, and has only what it needs

    command = [sys.executable, "-m", __name__, str(folder)]
    environment = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "PATH": os.defpath}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=_PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return f"no answer after {_PATIENCE:g} seconds"
    return None if done.returncode == 0 else done.stdout.strip() or f"exit status {done.returncode}"


def _try(folder: str) -> str | None:
    """Look at a file through a view, and try to write to it."""
    source, target = f"{folder}/view-{os.getpid()}", f"{folder}/view-{os.getpid()}-of"
    views = ReadOnlyViews()
    try:
        Path(source).touch()
        enter_namespace()
        views.put(source, target)
        os.close(os.open(target, os.O_WRONLY))
    except OSError as problem:
        return None if problem.errno == errno.EROFS else problem.strerror
    finally:
        views.remove()
        for path in (source, target):
            Path(path).unlink(missing_ok=True)
    return "a view can be written to"


def _mount(source: bytes | None, target: bytes, flags: int) -> None:
    if _libc.mount(source, target, None, ctypes.c_ulong(flags), None):
        raise _problem()


def _make_read_only(path: str) -> None:
    """With everything that is mounted below it. (The older `mount` does that for one mount at a time.)"""
    attributes = (ctypes.c_uint64 * 4)(_MOUNT_ATTR_RDONLY, 0, 0, 0)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    if _libc.syscall(_MOUNT_SETATTR, _AT_FDCWD, os.fsencode(path), _AT_RECURSIVE, attributes, size):
        raise _problem()


def _keep_one_capability(number: int) -> None:
    """Of the capabilities that a new user namespace gives: the others would let a step write to the user's read-only
    files."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    mask = 1 << number
    data = (ctypes.c_uint32 * 6)(mask, mask, 0, 0, 0, 0)  # effective, permitted, inheritable: low and high halves
    if _libc.capset(header, data):
        raise _problem()


def _problem() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


if __name__ == "__main__":
    reason = _try(sys.argv[1])
    if reason is not None:
        print(reason)
        sys.exit(1)
