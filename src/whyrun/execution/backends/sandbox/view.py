"""The view: which files of this machine a sandbox shows. Programs and libraries, the interpreter, some settings."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import msgspec

import whyrun
from whyrun.actions.code.editable import is_own, path_in_project, whyrun_home
from whyrun.errors import error
from whyrun.execution.bundle.bundle import may_hold_secrets

# --- builds the command lines of bubblewrap. Pure: the visible paths are arguments ------------------------------------
# There are two kinds. The *view* is created once for each worker slot: exactly the allowed paths and, for root, another
# user. Only Whyrun's fork server runs in it. The *sandbox* is created from inside the view, one for each step, so root
# and ordinary users get the same sandbox. Root needs both: a bubblewrap that root starts only pretends to be another
# user, and a real other user cannot reach an interpreter below /root.


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


# --- the view ---------------------------------------------------------------------------------------------------------


_PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")

# Settings in /etc that programs need: loader, certificates, fonts. Nothing that names the users of this machine.
_SETTINGS = (
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "alternatives",
    "localtime",
    "timezone",
    "mime.types",
    "fonts",
    "ssl/certs",
    "ssl/openssl.cnf",
    "ca-certificates",
    "pki/ca-trust",
    "pki/tls/certs",
    "R",
)
_NETWORK = ("resolv.conf", "hosts", "nsswitch.conf", "services", "protocols", "gai.conf")

# Names of the user's kernel keys, which the namespaces of a sandbox do not hide.
_KEYS = ("/proc/keys", "/proc/key-users")

# Of a project that a `.pth` file adds to Python's path.
_MODULES, _DESCRIPTIONS, _NAMESPACES = (".py", ".pyi", ".so"), (".dist-info", ".egg-info"), 2  # levels of folders

_QUIET_ETC, _NETWORK_ETC = "/run/whyrun/etc", "/run/whyrun/etc-network"
_STUBS = Path(__file__).parent / "etc"  # passwd, group and hosts of a machine without other users


@dataclass(frozen=True, slots=True)
class Machine:
    """The files of this machine that all sandboxes of a run see."""

    seen: Visible  # at their own paths

    def for_fork_server(self) -> Visible:
        return self.seen + _settings(_QUIET_ETC, network=False) + _settings(_NETWORK_ETC, network=True)

    def for_sandbox(self, network: bool) -> Visible:
        """As seen from the fork server's view. All of /etc is one mount, because each mount costs every step time."""
        etc = Mount(_NETWORK_ETC if network else _QUIET_ETC, "/etc")
        keys = tuple(Mask(path) for path in _KEYS if os.path.exists(path))
        return self.seen.as_mounted() + Visible((etc,), masks=keys)


def programs() -> Visible:
    mounts: list[Mount] = []
    links: list[Link] = []
    for path in _PROGRAMS:
        if os.path.islink(path):
            links.append(Link(os.readlink(path), path))  # on most systems /lib is a link into /usr
        elif os.path.isdir(path):
            mounts.append(Mount.same(path))
    return Visible(tuple(mounts), tuple(links))


def _settings(etc: str, network: bool) -> Visible:
    """The content of /etc, assembled at another path."""
    here = [name for name in (*_SETTINGS, *(_NETWORK if network else ())) if os.path.exists(f"/etc/{name}")]
    stubs = ("passwd", "group", *(() if network else ("hosts", "nsswitch.conf")))
    mounts = [Mount(os.path.realpath(f"/etc/{name}"), f"{etc}/{name}") for name in here]
    return Visible((*mounts, *(Mount(str(_STUBS / name), f"{etc}/{name}") for name in stubs)))


class _Interpreter(msgspec.Struct):
    """What an interpreter reports about itself."""

    own: list[str]  # the folders of its installation
    path: list[str]  # `sys.path`
    links: list[tuple[str, str]]  # links to its program: target, path


_QUESTION = """
import json, os, sys, sysconfig
links, program = [], sys.executable
while os.path.islink(program):
    links.append((os.readlink(program), program))
    program = os.path.normpath(os.path.join(os.path.dirname(program), os.readlink(program)))
own = [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix, *sysconfig.get_paths().values()]
print(json.dumps({"own": own, "path": [entry for entry in sys.path if entry], "links": links}))
"""


def interpreter_view(python: str = sys.executable, home: str | None = None, project: str | None = None) -> Visible:
    """The folders that a fresh interpreter needs: its own, those on its path, and Whyrun's.

    `home` and `project` must not be visible as a whole. A folder on the path that contains one of them is left out, and
    so is a folder of the project, such as `src`: the project's modules come with the bundle. An interpreter whose
    installation contains one of them is an error.

    A folder on the path that is not part of the installation belongs to another project (a `.pth` file added it).
    Only what can be imported from it is visible.
    """
    guarded = [os.path.realpath(folder) for folder in (home or os.path.expanduser("~"), project) if folder]
    answer = subprocess.run([python, "-I", "-c", _QUESTION], stdout=subprocess.PIPE, check=True)
    interpreter = msgspec.json.decode(answer.stdout, type=_Interpreter)
    for folder in interpreter.own:
        if _holds_any(folder, guarded):
            raise error(
                "SANDBOX_UNAVAILABLE",
                f"Python is installed in `{folder}`, together with what a sandbox must not show",
                hint="install Whyrun in a virtual environment: python3 -m venv .venv && .venv/bin/pip install whyrun",
            )
    package = os.path.dirname(os.path.abspath(whyrun.__file__))
    searched = [*interpreter.path, *filter(None, [whyrun_home()])]
    seen = [entry for entry in searched if not _holds_any(entry, guarded) and not _is_of_project(entry, project)]
    installed = [os.path.realpath(folder) for folder in (*_PROGRAMS, *interpreter.own)]
    foreign = [entry for entry in seen if not any(_within(os.path.realpath(entry), folder) for folder in installed)]
    modules = [path for entry in foreign for path in importable(entry)]
    paths = [*interpreter.own, *(entry for entry in seen if entry not in foreign), *modules, package]
    shown: list[str] = list(_PROGRAMS)
    names = {name for path in paths for name in (os.path.abspath(path), os.path.realpath(path))}
    for path in sorted(names, key=lambda name: (len(name), name)):
        if os.path.exists(path) and not any(_within(path, folder) for folder in shown):
            shown.append(path)
    links = [Link(*link) for link in interpreter.links if not any(_within(link[1], folder) for folder in shown)]
    of_others = {name for path in modules for name in (os.path.abspath(path), os.path.realpath(path))}
    masks = tuple(mask for path in shown if path in of_others for mask in private_entries(path))
    return Visible(tuple(Mount.same(path) for path in shown[len(_PROGRAMS) :]), tuple(links), masks=masks)


def importable(folder: str, depth: int = 0) -> list[str]:
    """The modules, packages and package descriptions in a folder of Python's path, or the file itself (a zip).

    A folder without `__init__.py` is a namespace at best, with files of all kinds: only modules in it are visible.
    """
    if not os.path.isdir(folder):
        return [folder]
    found: list[str] = []
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_file():
            found += [entry.path] if entry.name.endswith(_MODULES) else []
        elif entry.name.endswith(_DESCRIPTIONS):
            found.append(entry.path)
        elif entry.name.isidentifier():
            if os.path.exists(f"{entry.path}/__init__.py"):
                found.append(entry.path)
            elif depth < _NAMESPACES and entry.is_dir(follow_symlinks=False) and not _is_environment(entry.path):
                found += importable(entry.path, depth + 1)
    return found


def private_entries(package: str) -> list[Mask]:
    """What lies in a package and may hold secrets or state, by the rule for bundles."""
    masks: list[Mask] = []
    for folder, folders, files in os.walk(package):
        masks += [Mask(f"{folder}/{name}") for name in files if may_hold_secrets(name)]
        hidden = [name for name in folders if may_hold_secrets(name)]
        masks += [Mask(f"{folder}/{name}", is_folder=True) for name in hidden if not os.path.islink(f"{folder}/{name}")]
        folders[:] = [name for name in folders if name not in hidden]
    return masks


def search_path(path: str, visible: Visible) -> str:
    """The folders of PATH that are visible."""
    shown = [mount.target for mount in visible.read_only] + [link.target for link in visible.links]
    return os.pathsep.join(
        folder for folder in path.split(os.pathsep) if any(_within(folder, target) for target in shown)
    )


def is_shown(program: str) -> bool:
    """Whether every sandbox shows it."""
    return any(_within(program, folder) for folder in _PROGRAMS)


def _is_environment(folder: str) -> bool:
    return os.path.exists(f"{folder}/pyvenv.cfg")


def _is_of_project(entry: str, project: str | None) -> bool:
    inside = path_in_project(entry, project) if project is not None else None
    return inside is not None and project is not None and is_own(inside, project)


def _holds_any(folder: str, guarded: list[str]) -> bool:
    return any(_within(other, os.path.realpath(folder)) for other in guarded)


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
