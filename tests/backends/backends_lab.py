"""Projects whose runs use one of the backends, started by the real command in a separate process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loopback.faults import Faults
from loopback.server import Loopback
from parity_lab import BACKENDS, COMMAND, ENVIRONMENT

from project_lab import PATIENCE, Lab, has_ended
from whyrun.log import events as ev
from whyrun.log.journal import read_events

# Runs end within this, whatever else the machine does.
LONG = 300.0

# Of the files that a run folder has (docs/log.md), those that each has.
EVERY_RUN = {
    "commands.jsonl", "debug.log", "events.jsonl", "manifest.yaml", "metrics.jsonl", "plan.json",
    "source/workflow.yaml", "status.json", "whyrun.log",
}  # fmt: skip


@dataclass(frozen=True)
class Environment:
    """What is around a backend: the variables and words by which it is found, and the server that plays E2B."""

    variables: dict[str, str]
    words: tuple[str, ...]
    server: Loopback | None = None


@contextmanager
def environment_of(backend: str, folder: Path) -> Iterator[Environment]:
    words = BACKENDS[backend].words
    if backend == "e2b":
        (folder / "e2b").mkdir()
        # Lines and characters are cut anywhere.
        with Loopback(folder / "e2b", Faults(chunk=8191)) as server:
            yield Environment(server.environment(), words, server)
        return
    with BACKENDS[backend].environment() as variables:
        yield Environment(variables, words)


@dataclass
class Ended:
    """A run of the command that has ended, and its evidence."""

    code: int
    said: str
    folder: Path
    peak: int  # bytes: the most memory that the host process had

    @property
    def events(self) -> list[ev.AnyEvent]:
        return list(read_events(self.folder / "events.jsonl"))

    def of(self, kind: type[ev.Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "status.json").read_bytes())
        return found

    @property
    def failures(self) -> list[tuple[str, str, str, bool]]:
        """Every failed attempt in the order of the log: step, status, error type, whether another follows."""
        return [(e.step_id, e.status, e.error_type, bool(e.will_retry)) for e in self.of(ev.StepFailed)]

    @property
    def completed(self) -> list[str]:
        return sorted(e.step_id for e in self.of(ev.StepComplete))

    def file(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()


class Running:
    """The command while it runs."""

    def __init__(self, lab: BackendLab, words: tuple[str, ...]) -> None:
        self.lab = lab
        self._said = lab.root.parent / f"{lab.root.name}-{len(list(lab.root.parent.iterdir()))}.said"
        with open(self._said, "wb") as said:
            self.process = subprocess.Popen(
                [*COMMAND, *words],
                cwd=lab.root,
                env={**ENVIRONMENT, **lab.environment.variables},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )
        self.peak = 0

    @property
    def said(self) -> str:
        return self._said.read_text(errors="replace")

    def wait_for(self, seen: Callable[[], Any], what: str, seconds: float = 2 * PATIENCE) -> None:
        deadline = time.monotonic() + seconds
        while not seen():
            assert self.process.poll() is None, f"the run ended too early: {self.said}"
            assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s: {self.said}"
            time.sleep(0.02)

    def wait_for_task(self, message: str, times: int = 1) -> None:
        """Until the log has the task of a step with this message; so what it says reaches the host while it runs."""
        self.wait_for(lambda: len([m for m in self.lab.tasks() if m == message]) >= times, message)

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def ended(self, seconds: float = LONG) -> Ended:
        try:
            deadline = time.monotonic() + seconds
            while self.process.poll() is None:
                assert time.monotonic() < deadline, f"no end within {seconds:g} s: {self.said}"
                self.look()
                time.sleep(0.02)
        finally:
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGKILL)
                self.process.wait()
        return Ended(self.process.returncode, self.said, self.lab.last_run, self.peak)

    def look(self) -> int:
        """The most memory that the process has had so far."""
        try:
            text = Path(f"/proc/{self.process.pid}/status").read_text()
        except OSError:  # it has just ended
            return self.peak
        found = [int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("VmHWM:")]
        self.peak = max([self.peak, *found])
        return self.peak


class BackendLab(Lab):
    """A project folder; `run_on_backend` runs it on its backend."""

    def __init__(self, root: Path, backend: str, environment: Environment) -> None:
        super().__init__(root)
        self.backend, self.environment = backend, environment

    def start(self, *words: str, command: str = "run") -> Running:
        return Running(self, (command, *self.environment.words, *words))

    def run_on_backend(self, *words: str, command: str = "run", code: int = 0) -> Ended:
        ended = self.start("--quiet", *words, command=command).ended()
        assert ended.code == code, ended.said
        return ended

    @property
    def last_run(self) -> Path:
        return sorted(self.root.glob(".whyrun/*/runs/r*"))[-1]

    def tasks(self) -> list[str]:
        """The messages of all tasks in the log of the last run."""
        return [event["message"] for event in self.log() if event["event"] == "task"]

    def log(self) -> list[dict[str, Any]]:
        """The events of the last run, also while they are being written."""
        logs = sorted(self.root.glob(".whyrun/*/runs/r*/events.jsonl"))
        if not logs:
            return []
        *lines, _ = logs[-1].read_bytes().split(b"\n")
        return [json.loads(line) for line in lines]

    def left_over(self) -> list[str]:
        """What is in the folder for what is under way. After a run there is nothing, but for the folder itself."""
        return sorted(str(p.relative_to(self.root)) for p in (self.root / ".whyrun").glob("tmp/*/**/*"))


def run_files(folder: Path) -> set[str]:
    """Every file and link of a run folder by its path; folders only where they are empty."""
    found = set()
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_dir():
            found.add(path.relative_to(folder).as_posix())
        elif not any(path.iterdir()):
            found.add(f"{path.relative_to(folder).as_posix()}/")
    return found


def named(mark: str) -> list[int]:
    """The processes of this machine, whatever they are in, that gave themselves this name."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if Path(f"/proc/{name}/comm").read_text() == f"{mark}\n" and not has_ended(int(name)):
                    found.append(int(name))
            except OSError:  # it has ended meanwhile
                continue
    return found


def parents(pid: int) -> list[int]:
    """The process that started it, the one that started that, and so on."""
    found = []
    while pid > 1:
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
        except OSError:  # it has ended meanwhile
            break
        found.append(pid)
    return found


def children(pid: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and not has_ended(int(name)) and parents(int(name))[:1] == [pid]:
            found.append(int(name))
    return found


def program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:  # the first of all processes may have none
        return ""
