"""Builds the command lines of bubblewrap. Pure: the visible paths are arguments.

There are two kinds. The *view* is created once for each worker slot: exactly the allowed paths and, for root, another
user. Only Whyrun's fork server runs in it. The *sandbox* is created from inside the view, one for each step, so root
and ordinary users get the same sandbox. Root needs both: a bubblewrap that root starts only pretends to be another
user, and a real other user cannot reach an interpreter below /root.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

INSIDE = 1000  # user and group ID that a step sees, whoever runs it
HOST_NAME = "whyrun"

# The capabilities that root's view keeps until `setpriv` has used them to drop all.
_TO_BECOME_ANOTHER = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")


@dataclass(frozen=True, slots=True)
class Mount:
    source: str
    target: str

    @classmethod
    def same(cls, path: str) -> Mount:
        return cls(path, path)


@dataclass(frozen=True, slots=True)
class Link:
    points_to: str
    target: str


@dataclass(frozen=True, slots=True)
class Mask:
    """A path inside a mount that nobody can open."""

    path: str
    is_folder: bool = False


@dataclass(frozen=True, slots=True)
class Visible:
    """The visible paths; nothing else exists. A writable mount may lie inside a read-only one."""

    read_only: tuple[Mount, ...] = ()
    links: tuple[Link, ...] = ()
    writable: tuple[Mount, ...] = ()
    masks: tuple[Mask, ...] = ()

    def __add__(self, other: Visible) -> Visible:
        return Visible(
            self.read_only + other.read_only,
            self.links + other.links,
            self.writable + other.writable,
            self.masks + other.masks,
        )

    def as_mounted(self) -> Visible:
        """The same, for a sandbox created inside the view, where everything is mounted and masked already."""
        read_only = tuple(Mount.same(mount.target) for mount in self.read_only)
        return Visible(read_only, self.links, tuple(Mount.same(mount.target) for mount in self.writable))


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    visible: Visible
    network: bool = False
    environment: tuple[tuple[str, str], ...] = ()
    work_dir: str = "/"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a sandbox may use. The runner limits its time."""

    memory: int  # bytes
    processes: int  # threads count as well
    disk: int  # bytes that its files may take
    temporary: int = 64 << 20  # bytes in /tmp and in /dev/shm, which are memory; TMPDIR is on the disk


@dataclass(frozen=True, slots=True)
class Tools:
    """Paths of the programs that sandboxes need."""

    bwrap: str
    setpriv: str
    choom: str


def view_argv(visible: Visible, tools: Tools, command: Sequence[str], real_user: int | None = None) -> list[str]:
    """`real_user`: the user ID to switch to, which only root can; None: stay the same user."""
    # If the machine runs out of memory, the kernel kills sandboxed processes first.
    argv = [tools.choom, "-n", "1000", "--"]
    argv += [tools.bwrap, "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    if real_user is not None:
        for capability in _TO_BECOME_ANOTHER:
            argv += ["--cap-add", capability]
    argv += ["--dir", "/tmp", *_mounts(visible), *_masks(visible)]
    # The kernel lets a user mount a new /proc only where a complete one is visible.
    argv += ["--bind", "/proc", "/proc", "--dev-bind", "/dev", "/dev", "--remount-ro", "/", "--"]
    if real_user is not None:
        rights = ["--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all", "--no-new-privs"]
        argv += [tools.setpriv, f"--reuid={real_user}", f"--regid={real_user}", "--clear-groups", *rights, "--"]
    return [*argv, *command]


def sandbox_argv(
    spec: SandboxSpec,
    limits: Limits,
    tools: Tools,
    command: Sequence[str],
    info_fd: int | None = None,
    call_filter: int | None = None,
) -> list[str]:
    """`info_fd`: where bubblewrap writes the process ID; `call_filter`: from where it reads the seccomp program."""
    argv = [tools.bwrap, "--unshare-all", "--unshare-user", "--disable-userns"]
    if spec.network:
        argv += ["--share-net"]
    argv += ["--uid", str(INSIDE), "--gid", str(INSIDE), "--hostname", HOST_NAME]
    argv += ["--cap-drop", "ALL", "--new-session", "--die-with-parent"]
    if info_fd is not None:
        argv += ["--info-fd", str(info_fd)]
    if call_filter is not None:
        argv += ["--seccomp", str(call_filter)]
    argv += ["--clearenv"]
    for name, value in spec.environment:
        argv += ["--setenv", name, value]
    size = str(limits.temporary)
    argv += ["--size", size, "--perms", "1777", "--tmpfs", "/tmp"]  # first, because a project may lie below it
    argv += _mounts(spec.visible)
    argv += ["--proc", "/proc", "--dev", "/dev", "--size", size, "--perms", "1777", "--tmpfs", "/dev/shm"]
    argv += _masks(spec.visible)
    argv += _masks(spec.visible)
    # In /proc a step could take back that the kernel ends it first when memory runs out. The other two are memory:
    # writes there would count against no limit.
    argv += ["--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", spec.work_dir, "--"]
    return [*argv, *command]


def _mounts(visible: Visible) -> list[str]:
    """Mount options, outer folders first."""
    mounts = [(mount.target, "--ro-bind", mount.source) for mount in visible.read_only]
    mounts += [(mount.target, "--bind", mount.source) for mount in visible.writable]
    mounts.sort(key=lambda mount: PurePosixPath(mount[0]).parts)
    argv: list[str] = []
    for folder in _folders_between([target for target, _, _ in mounts] + [link.target for link in visible.links]):
        argv += ["--dir", folder]  # bubblewrap itself would create it with access for its owner only
    for target, how, source in mounts:
        argv += [how, source, target]
    for link in visible.links:
        argv += ["--symlink", link.points_to, link.target]
    return argv


def _masks(visible: Visible) -> list[str]:
    argv: list[str] = []
    for mask in visible.masks:
        if mask.is_folder:
            argv += ["--perms", "0000", "--tmpfs", mask.path, "--remount-ro", mask.path]
        else:
            argv += ["--ro-bind", "/dev/null", mask.path]  # no device can be opened in a mount of bubblewrap
    return argv


def _folders_between(targets: Iterable[str]) -> list[str]:
    """The parent folders of these targets that lie in no mount, topmost first."""
    mounted = {PurePosixPath(target) for target in targets}
    above = {folder for target in mounted for folder in target.parents if len(folder.parts) > 1}
    bare = [folder for folder in above - mounted if not mounted.intersection(folder.parents)]
    return [str(folder) for folder in sorted(bare, key=lambda folder: folder.parts)]
