"""The command lines that bubblewrap makes sandboxes with. Pure: what is to be seen comes in as data.

There are two. The *view* is made once for a worker's slot: exactly the allowed paths, and for root another user. What
runs in it is ours (`sandbox_nursery`). The *sandbox* is made out of the view, one for every step, by whom the view
belongs to. So there is one sandbox, for root and for ordinary users. It takes two for root, since bubblewrap that root
starts only pretends to be another user, and a user without rights cannot reach an interpreter below /root.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

INSIDE = 1000  # the number of user and group that a step sees itself as, whoever runs it
HOST_NAME = "whyrun"

# The only rights that root's view keeps, until `setpriv` has used them to give up all.
_TO_BECOME_ANOTHER = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")


@dataclass(frozen=True, slots=True)
class Mount:
    source: str
    place: str

    @classmethod
    def same(cls, path: str) -> Mount:
        return cls(path, path)


@dataclass(frozen=True, slots=True)
class Link:
    target: str
    place: str


@dataclass(frozen=True, slots=True)
class Visible:
    """All that can be seen. What is not named here does not exist. A writable place may lie in a read-only one."""

    read_only: tuple[Mount, ...] = ()
    links: tuple[Link, ...] = ()
    writable: tuple[Mount, ...] = ()

    def __add__(self, other: Visible) -> Visible:
        return Visible(self.read_only + other.read_only, self.links + other.links, self.writable + other.writable)

    def as_placed(self) -> Visible:
        """Seen from where everything is at its place already."""
        read_only = tuple(Mount.same(mount.place) for mount in self.read_only)
        return Visible(read_only, self.links, tuple(Mount.same(mount.place) for mount in self.writable))


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    visible: Visible
    network: bool = False
    environment: tuple[tuple[str, str], ...] = ()
    work_dir: str = "/"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a sandbox may use. Time is the runner's to limit."""

    memory: int  # bytes
    processes: int  # threads count as well
    temporary: int = 64 << 20  # bytes in /tmp, and in /dev/shm, which are memory; TMPDIR is a folder on the disk


@dataclass(frozen=True, slots=True)
class Tools:
    """The programs that are needed."""

    bwrap: str
    setpriv: str
    choom: str


def view_argv(visible: Visible, tools: Tools, command: Sequence[str], real_user: int | None = None) -> list[str]:
    """`real_user`: the number to become, which only root can; None: stay who we are."""
    # Should the machine run out of memory after all, the kernel ends what is in a sandbox before anything else.
    argv = [tools.choom, "-n", "1000", "--"]
    argv += [tools.bwrap, "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    if real_user is not None:
        for capability in _TO_BECOME_ANOTHER:
            argv += ["--cap-add", capability]
    argv += ["--dir", "/tmp", *_mounts(visible)]
    # The kernel lets a user make a /proc of his own only where he sees a whole one.
    argv += ["--bind", "/proc", "/proc", "--dev-bind", "/dev", "/dev", "--remount-ro", "/", "--"]
    if real_user is not None:
        rights = ["--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all", "--no-new-privs"]
        argv += [tools.setpriv, f"--reuid={real_user}", f"--regid={real_user}", "--clear-groups", *rights, "--"]
    return [*argv, *command]


def sandbox_argv(
    spec: SandboxSpec, limits: Limits, tools: Tools, command: Sequence[str], info_fd: int | None = None
) -> list[str]:
    argv = [tools.bwrap, "--unshare-all", "--unshare-user", "--disable-userns"]
    if spec.network:
        argv += ["--share-net"]
    argv += ["--uid", str(INSIDE), "--gid", str(INSIDE), "--hostname", HOST_NAME]
    argv += ["--cap-drop", "ALL", "--new-session", "--die-with-parent"]
    if info_fd is not None:
        argv += ["--info-fd", str(info_fd)]
    argv += ["--clearenv"]
    for name, value in spec.environment:
        argv += ["--setenv", name, value]
    size = str(limits.temporary)
    argv += ["--size", size, "--perms", "1777", "--tmpfs", "/tmp"]  # first: a project may lie below it
    argv += _mounts(spec.visible)
    argv += ["--proc", "/proc", "--dev", "/dev", "--size", size, "--perms", "1777", "--tmpfs", "/dev/shm"]
    # Both are memory too: what could be written there would count against no limit.
    argv += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", spec.work_dir, "--"]
    return [*argv, *command]


def _mounts(visible: Visible) -> list[str]:
    """Folders before what is mounted inside them."""
    mounts = [(mount.place, "--ro-bind", mount.source) for mount in visible.read_only]
    mounts += [(mount.place, "--bind", mount.source) for mount in visible.writable]
    mounts.sort(key=lambda mount: PurePosixPath(mount[0]).parts)
    argv: list[str] = []
    for folder in _folders_between([place for place, _, _ in mounts] + [link.place for link in visible.links]):
        argv += ["--dir", folder]  # of its own accord bubblewrap would make it for its owner alone
    for place, how, source in mounts:
        argv += [how, source, place]
    for link in visible.links:
        argv += ["--symlink", link.target, link.place]
    return argv


def _folders_between(places: Iterable[str]) -> list[str]:
    """The folders above these places that are not part of a mount themselves, topmost first."""
    mounted = {PurePosixPath(place) for place in places}
    above = {folder for place in mounted for folder in place.parents if len(folder.parts) > 1}
    bare = [folder for folder in above - mounted if not mounted.intersection(folder.parents)]
    return [str(folder) for folder in sorted(bare, key=lambda folder: folder.parts)]
