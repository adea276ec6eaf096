"""One sandbox: a private folder, and processes that see a clean environment. Real ones, on this machine."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from loopback.exchange import Refused
from loopback.faults import Faults
from loopback.processes import Listener, Process

MEMORY = 512  # MiB
HOME = "/" + "home/user"  # how callers may name it; its real place is `Sandbox.home`


@dataclass
class Template:
    """What sandboxes are made from. The base template of E2B has pip, and no package that we need."""

    packages: Collection[str] | None = ("pip", "msgspec")  # None: all that this machine has, as if built for the tests
    environment: dict[str, str] = field(default_factory=lambda: {"PIP_NO_INDEX": "1"})  # tests reach no network


class Sandbox:
    def __init__(
        self,
        root: Path,
        request: dict[str, Any],
        faults: Faults,
        deleted: Callable[[Sandbox], None],
        template: Template,
    ) -> None:
        self._deleted = deleted
        self.id = "i" + secrets.token_hex(10)
        self.token = secrets.token_hex(16)
        self.template = request["templateID"]
        self.metadata = request.get("metadata", {})
        self.request = request
        self.faults = faults
        self.root = root / self.id
        self.home = self.root / "home" / "user"
        self.home.mkdir(parents=True)
        (self.root / "tmp").mkdir()
        python = _install_python(self.root / "usr", template.packages)
        # A login shell sets PATH anew, so here.
        (self.home / ".bash_profile").write_text(f"export PATH={python.parent}:$PATH\n")
        self.environment = {
            "PATH": os.defpath,
            "HOME": str(self.home),
            "USER": "user",
            "LOGNAME": "user",
            "TMPDIR": str(self.root / "tmp"),
            **template.environment,
            **request.get("envVars", {}),
        }
        self.began = time.time()
        self.longest_life = 3600.0
        self.alive = True
        self.processes: dict[int, Process] = {}
        self.started: list[Process] = []
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self.ends = self.began
        self.set_timeout(request.get("timeout", 15))

    # --- its life ------------------------------------------------------------------------------------------------

    def set_timeout(self, seconds: float) -> None:
        """It is killed when this time is over. As at E2B, the longest life cuts it off without a word."""
        left = self.longest_life - (time.time() - self.began)
        if left < 0:
            raise Refused(400, "Max instance length exceeded")
        seconds = min(seconds, left)
        self.ends = time.time() + seconds
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(seconds, self.kill)
        self._timer.daemon = True
        self._timer.start()

    def kill(self) -> None:
        """As if the machine were switched off: processes and files are gone at once."""
        with self._lock:
            if not self.alive:
                return
            self.alive = False
        assert self._timer is not None
        self._timer.cancel()
        for process in list(self.processes.values()):
            process.vanish()
        while remaining := self.real_processes():
            for pid in remaining:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        self._deleted(self)
        # What a process wrote while it was being killed may come in between.
        while self.root.exists():
            shutil.rmtree(self.root, ignore_errors=True)

    def real_processes(self) -> list[int]:
        """Everything that runs in it, told by its folder: as the working folder, or in the environment."""
        mark = os.fsencode(self.root)
        found = []
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    inside = mark in file.read() or os.readlink(f"/proc/{name}/cwd").startswith(str(self.root))
            except OSError:  # gone meanwhile, or somebody else's
                continue
            if inside:
                found.append(int(name))
        return found

    # --- its files -----------------------------------------------------------------------------------------------

    def real(self, path: str) -> Path:
        """Where a path of the sandbox lies here: relative ones in the home folder, absolute ones below its root."""
        if path.startswith("~"):
            path = HOME + path[1:]
        if not path.startswith("/"):
            return Path(os.path.normpath(self.home / path))
        inside = Path(os.path.normpath(path))
        if inside.is_relative_to(self.root):
            return inside
        return self.root / inside.relative_to("/")

    # --- its processes -------------------------------------------------------------------------------------------

    def start(self, config: dict[str, Any], tag: str | None, stdin: bool) -> tuple[Process, Listener]:
        cwd = self.real(config["cwd"]) if config.get("cwd") else self.home
        environment = {**self.environment, **config.get("envs", {})}
        process = Process(config, tag, environment, str(cwd), stdin, self._ended)
        with self._lock:
            self.processes[process.pid] = process
            self.started.append(process)
        listener = Listener()
        process.begin(listener)
        return process, listener

    def _ended(self, pid: int) -> None:
        with self._lock:
            self.processes.pop(pid, None)

    # --- what it says of itself ----------------------------------------------------------------------------------

    def created(self) -> dict[str, Any]:
        return {
            "templateID": self.template,
            "sandboxID": self.id,
            "clientID": "loopback",
            "envdVersion": "0.6.7",
            "envdAccessToken": self.token,
        }

    def detail(self) -> dict[str, Any]:
        return {
            **self.created(),
            "startedAt": _rfc3339(self.began),
            "endAt": _rfc3339(self.ends),
            "cpuCount": 2,
            "memoryMB": MEMORY,
            "diskSizeMB": 1024,
            "state": "running",
            "metadata": self.metadata,
        }


def _install_python(folder: Path, packages: Collection[str] | None) -> Path:
    """What a template brings: a Python of its own, so that what is installed there is gone with the sandbox. Of the
    packages of the Python that runs the tests it has these, and no other; `None` is all of them, without Whyrun."""
    library = folder / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    library.mkdir(parents=True)
    host = Path(sysconfig.get_path("purelib"))
    if packages is None:  # their own `.pth` files, one of which names the source of Whyrun, are not read from here
        (library / "packages.pth").write_text(f"{host}\n")
    for name in packages or ():
        for path in (host / name, *host.glob(f"{name}-*.dist-info")):
            (library / path.name).symlink_to(path)
    (folder / "pyvenv.cfg").write_text(f"home = {os.path.dirname(sys._base_executable)}\n")
    python = folder / "bin" / "python3"
    python.parent.mkdir()
    python.symlink_to(sys._base_executable)
    for name in packages or ():  # a package may bring a program of its name
        if (program := Path(sysconfig.get_path("scripts"), name)).is_file():
            (python.parent / name).symlink_to(program)
    return python


def _rfc3339(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
