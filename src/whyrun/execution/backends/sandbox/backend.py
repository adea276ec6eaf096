"""Runs the worker in bubblewrap sandboxes: no files but the step's inputs and the interpreter, no network, no rights.

Every step gets a new sandbox. The backend creates the next one while a step runs.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path

from whyrun.actions.code.editable import BUNDLED
from whyrun.artifacts.durable import write_all
from whyrun.errors import Diagnostic, InvalidError
from whyrun.execution.backends.base import Received, Session, Source, StepNeeds, WorkerLost
from whyrun.execution.backends.remote import site
from whyrun.execution.backends.remote.process import ProcessTransport
from whyrun.execution.backends.remote.remote_worker import RemoteWorker
from whyrun.execution.backends.remote.threaded import ThreadedBackend
from whyrun.execution.backends.sandbox.confinement import is_known, scopes_sockets
from whyrun.execution.backends.sandbox.instance import (
    Measured,
    SandboxInstance,
    Watch,
    copy_visible,
    make_visible,
    private_folder,
    visible_folder,
)
from whyrun.execution.backends.sandbox.launcher import ForkServer, SandboxFailed, real_user
from whyrun.execution.backends.sandbox.view import (
    Limits,
    Machine,
    Mount,
    SandboxSpec,
    Tools,
    Visible,
    interpreter_view,
    is_shown,
    programs,
    sandbox_argv,
    search_path,
    view_argv,
)
from whyrun.execution.bundle.bundle import PROJECT, unpack
from whyrun.execution.files.scratch import Scratch

_CODE_SUFFIXES = (".py", ".pyi", ".so")
PROCESSES = 512  # unless the job says otherwise
_INSIDE = "/whyrun"  # the path of the site inside the sandbox
# Paths that only the fork server sees.
_SITES, _CODE, _ENVIRONMENTS = "/run/whyrun/sites", "/run/whyrun/code", "/run/whyrun/environments"


def sandbox_backend() -> SandboxBackend:
    """Raises an error if this machine cannot create sandboxes: no step runs unconfined instead."""
    problem = why_unavailable()
    if problem is not None:
        raise InvalidError([problem])
    tools = find_tools()
    assert not isinstance(tools, Diagnostic)
    return SandboxBackend(tools)


class SandboxBackend(ThreadedBackend):
    def __init__(self, tools: Tools) -> None:
        super().__init__("sandbox", self._post)
        self._tools = tools
        self._making = threading.Lock()
        self._common: _Common | None = None
        self._transports: list[SandboxTransport] = []

    def _post(self, session: Session) -> RemoteWorker:
        with self._making:
            if self._common is None:
                self._common = _Common(session, self._tools)
            transport = SandboxTransport(self._common, len(self._transports))
            self._transports.append(transport)
        return RemoteWorker(session, transport)

    def close(self) -> None:
        super().close()
        for transport in self._transports:
            transport.shut_down()
        if self._common is not None:
            self._common.close()


class _Common:
    """What all sandboxes of a run share: the code, the view of the machine, and the memory watch."""

    def __init__(self, session: Session, tools: Tools) -> None:
        self.session, self.tools = session, tools
        self.watch = Watch()
        self._told = set[str]()
        self.free_disk = shutil.disk_usage(session.tmp.parent).free
        self.machine = Machine(programs() + interpreter_view(project=str(session.project)))
        # Made by the host, and read-only for steps; none, if no job has one.
        made = session.environments is not None and session.environments.is_dir()
        self.environments = [str(session.environments)] if made else []
        self._folder = session.tmp / f"{session.run}-code-{os.getpid()}"
        # Sandboxes show only the folder below, which all of their users must be able to read. Nobody else comes here.
        self._folder.mkdir(mode=0o700, parents=True)
        bundle = session.bundle()
        unpack(bundle.data, str(self._folder / "bundle"), bundle.sha256)
        self.code = self._folder / "bundle" / PROJECT
        _remove_other_files(self.code, bundle.code)
        visible_folder(self.code)
        make_visible(self.code)

    def tell_gaps(self, network: bool) -> None:
        """Tell the user, once, what this machine cannot keep a step from."""
        for gap in gaps(os.uname().machine, network and not scopes_sockets()):
            if gap not in self._told:
                self._told.add(gap)
                self.session.note(gap)

    def close(self) -> None:
        self.watch.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _remove_other_files(project: Path, code: frozenset[str]) -> None:
    """Keep only code: a step that reads an undeclared file must fail, so that its author declares it."""
    for path in sorted(project.rglob("*")) if project.is_dir() else ():
        name = path.relative_to(project).as_posix()
        if not path.is_dir() and not name.endswith(_CODE_SUFFIXES) and name not in {*code, BUNDLED}:
            path.unlink()


class SandboxTransport(ProcessTransport):
    reusable = False

    def __init__(self, common: _Common, slot: int) -> None:
        session = common.session
        self._common = common
        self._user = real_user(slot)
        self._sites = session.tmp / f"{session.run}-sandbox-{os.getpid()}-{slot}"
        self._numbers = count(1)
        self._making = threading.Lock()
        self._fork_server: ForkServer | None = None
        self._instance: SandboxInstance | None = None
        self._spare: Future[SandboxInstance] | None = None  # for the next step, created while one runs
        self._background = ThreadPoolExecutor(2, "whyrun-sandbox")
        super().__init__(self._sites / "0", session.project)

    # --- the worker ---------------------------------------------------------------------------------------------

    def start(self, needs: StepNeeds, deliver: Callable[[Received], None]) -> None:
        self._common.tell_gaps(needs.network)
        instance = self._take_spare(needs)
        try:
            if instance is None:
                instance = self._create_instance(needs)
            self._instance, self.root = instance, instance.root
            started = instance.process.started()
        except SandboxFailed as failed:
            self.close()
            raise WorkerLost(f"the sandbox could not be created: {failed}") from None
        instance.listen(deliver)
        processes = (started.first, started.worker)
        measured = Measured(processes, instance.root / site.WRITTEN, instance.limits, instance.exceeds)
        self._common.watch.add(instance, measured)
        self._spare = self._background.submit(self._create_instance, needs)

    def _take_spare(self, needs: StepNeeds) -> SandboxInstance | None:
        spare, self._spare = self._spare, None
        if (
            spare is None or spare.exception() is not None
        ):  # a failure repeats, and is reported, when the step creates its own
            return None
        instance = spare.result()
        if self._suits(instance, needs) and instance.is_waiting():
            return instance
        self._background.submit(instance.close)
        return None

    def _create_instance(self, needs: StepNeeds) -> SandboxInstance:
        fork_server = self._running_fork_server()
        name = str(next(self._numbers))
        site_path = f"{_SITES}/{name}"
        own = Visible(
            read_only=(
                Mount(f"{site_path}/in", f"{_INSIDE}/in"),
                Mount(_CODE, f"{_INSIDE}/{site.PROJECT}"),
                *(Mount(_ENVIRONMENTS, f"{_INSIDE}/{site.ENVIRONMENTS}") for _ in self._common.environments),
            ),
            writable=(Mount(f"{site_path}/out", f"{_INSIDE}/out"),),
        )
        visible = self._common.machine.for_sandbox(needs.network) + own
        scratch = Scratch(Path(_INSIDE) / site.SCRATCH)
        environment = {
            "PATH": search_path(os.environ.get("PATH", os.defpath), visible),
            "HOME": str(scratch.home),
            "TMPDIR": str(scratch.tmp),
            "LANG": "C.UTF-8",
        }
        spec = SandboxSpec(visible, needs.network, tuple(environment.items()), str(scratch.work))
        return SandboxInstance(self._sites / name, _INSIDE, fork_server, spec, self._limits(needs), self._user)

    def _running_fork_server(self) -> ForkServer:
        """The fork server of this slot. Starts a new one if it was killed."""
        with self._making:
            if self._fork_server is not None and not self._fork_server.is_running():
                self._fork_server.close()
                self._fork_server = None
            if self._fork_server is None:
                private_folder(self._sites, self._user)
                own = Visible(
                    read_only=(
                        Mount(str(self._common.code), _CODE),
                        *(Mount(folder, _ENVIRONMENTS) for folder in self._common.environments),
                    ),
                    writable=(Mount(str(self._sites), _SITES),),
                )
                visible = self._common.machine.for_fork_server() + own
                mark = str(Scratch(self._sites).home)
                self._fork_server = ForkServer(visible, self._common.tools, self._user, mark)
            return self._fork_server

    def fits(self, needs: StepNeeds) -> bool:
        return self._instance is not None and not self._instance.over and self._suits(self._instance, needs)

    def _suits(self, instance: SandboxInstance, needs: StepNeeds) -> bool:
        return (instance.spec.network, instance.limits) == (needs.network, self._limits(needs))

    def _limits(self, needs: StepNeeds) -> Limits:
        return Limits(
            needs.memory or _half_of_memory(),
            needs.processes or PROCESSES,
            needs.disk or self._common.free_disk // 2,
        )

    def send(self, line: bytes) -> None:
        try:
            write_all(self._current().stdin, line)
        except OSError as problem:
            raise WorkerLost(f"the worker takes no more commands: {problem.strerror}") from None

    def signal(self, signum: int) -> None:
        self._current().process.signal(signum)

    def close(self) -> None:
        """Kill everything in the sandbox at once. A background thread waits for its end and removes its folder."""
        instance, self._instance = self._instance, None
        if instance is not None:
            self._common.watch.forget(instance)
            with suppress(SandboxFailed):
                instance.process.signal(signal.SIGKILL)
            self._background.submit(instance.close)
            if instance.process.is_orphaned:
                self._begin_anew()

    def _begin_anew(self) -> None:
        """The fork server may have been killed. It and the spare sandbox can seem alive a little longer, but whatever
        they are asked for would be lost, and an attempt of a step with it."""
        spare, self._spare = self._spare, None
        if spare is not None and spare.exception() is None:
            self._background.submit(spare.result().close)
        with self._making:
            fork_server, self._fork_server = self._fork_server, None
        if fork_server is not None:
            self._background.submit(fork_server.close)

    def shut_down(self) -> None:
        """End the sandbox, the spare one and the fork server: no step follows."""
        self.close()
        spare, self._spare = self._spare, None
        if spare is not None and spare.exception() is None:
            spare.result().close()
        self._background.shutdown()
        if self._fork_server is not None:
            self._fork_server.close()
        if self._sites.exists():
            Scratch(self._sites).remove()

    def _current(self) -> SandboxInstance:
        if self._instance is None:
            raise WorkerLost("no worker runs")
        return self._instance

    # --- files --------------------------------------------------------------------------------------------------

    def put(self, files: Mapping[str, Source]) -> None:
        """Called only before a step begins: only our worker was in the sandbox, so no link can lead elsewhere."""
        for path, source in files.items():
            copy_visible(source, self.root / path)


def _half_of_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


# --- Can this machine create sandboxes and, if not, what to do? ------------------------------------------------------


def gaps(machine: str, sockets: bool) -> list[str]:
    """`machine`: the kind of processor; `sockets`: whether a step can reach abstract sockets of the host."""
    found = []
    if not is_known(machine):
        found.append(f"sandboxes on this machine ({machine}) do not filter system calls: its processor has no filter")
    if sockets:
        found.append(
            "steps with `network: true` can reach abstract Unix sockets of this machine: "
            "keeping them out needs Linux 6.12 with Landlock"
        )
    return found


_PROGRAMS = ("bwrap", "setpriv", "choom")
_TRIAL_TIME = 30.0  # seconds

_INSTALL = {
    "apt-get": "apt-get install bubblewrap",
    "dnf": "dnf install bubblewrap",
    "zypper": "zypper install bubblewrap",
    "pacman": "pacman -S bubblewrap",
    "apk": "apk add bubblewrap util-linux",
}


def find_tools(path: str | None = None) -> Tools | Diagnostic:
    """`path`: the folders to search instead of PATH."""
    if sys.platform != "linux":
        return _unavailable("sandboxes need Linux", None)
    paths = {name: shutil.which(name, path=path) for name in _PROGRAMS}
    if paths["bwrap"] is None:
        command = next((text for name, text in _INSTALL.items() if shutil.which(name)), None)
        hint = f"install it: {command}" if command else "install the package `bubblewrap` of your system"
        return _unavailable("bubblewrap (`bwrap`) is not installed", hint)
    missing = [name for name, program in paths.items() if program is None]
    if missing:
        return _unavailable(f"`{missing[0]}` is not installed", "install the package `util-linux` of your system")
    # Paths as a sandbox sees them: it does not show folders such as /etc/alternatives.
    seen = {name: p if is_shown(p) else os.path.realpath(p) for name, p in paths.items() if p is not None}
    hidden = [program for program in seen.values() if not is_shown(program)]
    if hidden:
        return _unavailable(f"`{hidden[0]}` is not installed where the system's programs are", None)
    return Tools(**seen)


def why_unavailable(path: str | None = None) -> Diagnostic | None:
    """Why this machine cannot create sandboxes, found out by creating one; None if it can."""
    tools = find_tools(path)
    if isinstance(tools, Diagnostic):
        return tools
    seen = programs()
    limits = Limits(1 << 30, 64, 1 << 30)
    sandbox = sandbox_argv(SandboxSpec(seen.as_mounted()), limits, tools, ["/bin/sh", "-c", "exit 0"])
    try:
        trial = subprocess.run(
            view_argv(seen, tools, sandbox, real_user(0)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={"PATH": os.defpath},
            cwd="/",
            timeout=_TRIAL_TIME,
        )
    except subprocess.TimeoutExpired:
        return _unavailable(f"bubblewrap created no sandbox within {_TRIAL_TIME:g} s", None)
    return None if trial.returncode == 0 else explain(trial.stderr.decode("utf-8", "replace"))


def explain(stderr: str) -> Diagnostic:
    last = stderr.strip().splitlines()[-1] if stderr.strip() else "it printed nothing"
    message = f"bubblewrap cannot create a sandbox here: {last}"
    if "Unknown option" in stderr:
        return _unavailable(message, "bubblewrap 0.8 or newer is needed")
    if "ermission" in stderr or "not permitted" in stderr or "No space left" in stderr:
        return _unavailable(message, _forbidden())
    return _unavailable(message, None)


def _forbidden() -> str:
    if _setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
        return "user namespaces are restricted: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    if _setting("/proc/sys/kernel/unprivileged_userns_clone") == "0":
        return "user namespaces are forbidden: sysctl -w kernel.unprivileged_userns_clone=1"
    if _setting("/proc/sys/user/max_user_namespaces") == "0":
        return "user namespaces are forbidden: sysctl -w user.max_user_namespaces=10000"
    return "the system or the container around Whyrun forbids user namespaces; a container must allow nested ones"


def _setting(path: str) -> str:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


def _unavailable(message: str, hint: str | None) -> Diagnostic:
    return Diagnostic("SANDBOX_UNAVAILABLE", message, hint=hint)
