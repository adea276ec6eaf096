"""Read-only views of inputs: mounts of the originals, which a step can read and nobody can write through.

A worker enters a mount namespace of its own before its first step, so that no other process sees the mounts, and the
kernel removes them if the worker dies. An ordinary user may do that in a user namespace, where the system allows it.
`python -m whyrun.execution.files.input_views FOLDER` tries it, and prints why it is not possible.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
import sys
from pathlib import Path

from whyrun.artifacts.durable import write_all
from whyrun.artifacts.hashing import is_program, walk_tree
from whyrun.disk import FICLONE

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


# --- private copies of a step's inputs: what a step writes there changes nobody's files, and no name leads to them ----
# Where the file system can share blocks, files of any size are cloned. Elsewhere only small files are copied, and a
# larger one is a link to the original, or a read-only view of it: writing gigabytes before a step would cost more than
# most steps.


LARGEST_FILE = 1 << 20  # bytes
LARGEST_STEP = 64 << 20  # bytes of all copies of one step
_BLOCK = 4096  # every file counts for at least as much: many tiny files take time, too
_CHUNK = 1 << 20


class PrivateCopies:
    """Puts inputs at the paths where a step finds them."""

    def __init__(self, views: ReadOnlyViews | None = None) -> None:
        """`views`: what stands where a file is neither cloned nor copied; None: a link."""
        self._views = views
        self._left = LARGEST_STEP
        self._cannot_clone: set[int] = set()  # devices of originals: another try would only take time

    def begin(self) -> None:
        """Begin another step: its copies have the whole limit."""
        self._left = LARGEST_STEP

    def end(self) -> None:
        """After a step, before its folders are emptied."""
        if self._views is not None:
            self._views.remove()

    def put(self, source: str, target: str) -> None:
        """Put a file or folder at a path that does not exist yet, as a private copy or as a link."""
        descriptor = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            if stat.S_ISDIR(status.st_mode):
                self._put_folder(source, target)
            elif self._takes(_cost(status.st_size)):
                self._put_file(descriptor, status, source, target)
            else:
                self._show(source, target)
        finally:
            os.close(descriptor)

    def _put_folder(self, source: str, target: str) -> None:
        """A folder of its own, in which only large files are links. A link as a whole if it exceeds the limit."""
        files, empty = walk_tree(source)
        if not self._takes(sum(_cost(os.stat(file.location).st_size) for file in files) + _BLOCK * len(empty)):
            self._show(source, target)
            return
        os.mkdir(target)
        for folder in sorted({*empty, *(os.path.dirname(file.path) for file in files)}):
            os.makedirs(f"{target}/{folder}", exist_ok=True)
        for file in files:
            descriptor = os.open(file.location, os.O_RDONLY | os.O_CLOEXEC)
            try:
                self._put_file(descriptor, os.fstat(descriptor), file.location, f"{target}/{file.path}")
            finally:
                os.close(descriptor)

    def _put_file(self, descriptor: int, status: os.stat_result, source: str, target: str) -> None:
        is_large = status.st_size > LARGEST_FILE
        data = os.read(descriptor, 4 if is_large else status.st_size + 1)
        has_bit = bool(status.st_mode & stat.S_IXUSR)
        can_run = has_bit or is_program(data)
        mode = 0o777 if can_run else 0o666  # the umask applies
        if is_large:
            if self._cloned(descriptor, status.st_dev, target, mode):
                return
            if can_run == has_bit:
                self._show(source, target)
                return
            # Else a program out of the store, which a step can start only if the mode says so: a copy has a mode.
        copy = _new_file(target, mode)
        try:
            while data:
                write_all(copy, data)
                data = os.read(descriptor, _CHUNK)
        finally:
            os.close(copy)

    def _cloned(self, source: int, device: int, target: str, mode: int) -> bool:
        if device in self._cannot_clone:
            return False
        copy = _new_file(target, mode)
        try:
            fcntl.ioctl(copy, FICLONE, source)
        except OSError:
            self._cannot_clone.add(device)
            os.unlink(target)
            return False
        finally:
            os.close(copy)
        return True

    def _show(self, source: str, target: str) -> None:
        if self._views is not None:
            self._views.put(source, target)
        else:
            os.symlink(os.path.abspath(source), target)

    def _takes(self, cost: int) -> bool:
        if cost > self._left:
            return False
        self._left -= cost
        return True


def _cost(size: int) -> int:
    """What a file takes of the limit. One above the largest is cloned or linked, so it takes no bytes."""
    return max(size, _BLOCK) if size <= LARGEST_FILE else _BLOCK


def _new_file(path: str, mode: int) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
