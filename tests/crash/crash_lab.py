"""A project that runs in its own processes, is killed, and is checked afterwards."""

from __future__ import annotations

import fcntl
import json
import os
import pickle
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from crash_fork_server import FORK_SERVER, Forked, clean_environment

from whyrun.artifacts.hashing import bytes_sha256, canonical_json
from whyrun.evidence.run_directory import RunDirectory
from whyrun.ids import file_name
from whyrun.log import events as ev
from whyrun.log.journal import check_chain
from whyrun.log.outcomes import fold_outcome, status_of
from whyrun.log.runs import RunRef
from whyrun.planning.plan import Plan, PlanOptions, compute_execution_plan
from whyrun.project import Project
from whyrun.snapshot.history.replay import replay_snapshot

FILES = Path(__file__).parent / "files"
DRIVER = Path(__file__).parent / "crash_driver.py"
RUN_FILES = {
    "events.jsonl", "metrics.jsonl", "status.json", "manifest.yaml", "plan.json", "cfg", "commands.jsonl", "steps",
    "artifacts", "source", "whyrun.log", "debug.log",
}  # fmt: skip
STEP_FILES = {"script.sh", "query.sql", "stdout.log", "stderr.log", "inputs", "scratch"}
PATIENCE = 300.0  # seconds after which a test gives up; no machine is so slow
Made = TypeVar("Made")
TOPICS = ("alpha", "beta", "gamma", "delta")


@dataclass(frozen=True)
class Reference:
    """What undisturbed runs make, one after the other in one project, and how long the first one took."""

    artifacts: dict[str, dict[str, bytes]]  # by topic
    seconds: float
    operations: dict[str, int]  # topic → file operations of the host


@dataclass(frozen=True)
class Ended:
    """The exit status and the output of a driver process."""

    code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out.strip().splitlines()[-1])
        return found


def made_once(folder: Path, make: Callable[[Path], Made]) -> Made:
    """What `make(folder)` returns. Of all processes that ask with the same folder, the first one calls it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    kept = folder.with_suffix(".pickle")
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            folder.mkdir()
            kept.write_bytes(pickle.dumps(make(folder)))
    made: Made = pickle.loads(kept.read_bytes())
    return made


class Host:
    """A process of `crash_driver` in a session of its own, like a command on a terminal of its own.

    It is forked, and so are its workers; or with `fresh` a new interpreter, with workers that are new interpreters.
    """

    def __init__(self, file: Path, sets: tuple[str, ...], crash_at: int | None, crash_by: int, fresh: bool) -> None:
        environment = clean_environment()
        if crash_at is not None:
            environment |= {"CRASH_AT": str(crash_at), "CRASH_BY": str(int(crash_by))}
        argv = [str(file), *sets]
        command = [sys.executable, str(DRIVER), *argv]
        self._out, out = os.pipe()
        self._err, err = os.pipe()
        self.process: Forked | subprocess.Popen[bytes]
        if fresh:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment, start_new_session=True
            )
        else:
            self.process = FORK_SERVER.start(
                "driver", {"argv": argv}, command=command, cwd=os.getcwd(), env=environment, stdout=out, stderr=err
            )
        os.close(out)
        os.close(err)

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait_ready(self) -> None:
        said = b""
        while said != b"ready\n":
            data = os.read(self._out, 1)
            assert data, (said, self.ended())
            said += data

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def ended(self, seconds: float = PATIENCE) -> Ended:
        """Reads both streams to their end, and the exit status."""
        deadline = time.monotonic() + seconds
        said = {self._out: b"", self._err: b""}
        open_ = set(said)
        while open_:
            readable, _, _ = select.select(open_, [], [], max(0.0, deadline - time.monotonic()))
            assert readable, f"process {self.pid} does not end; it said {said}"
            for descriptor in readable:
                data = os.read(descriptor, 1 << 16)
                said[descriptor] += data
                if not data:
                    os.close(descriptor)
                    open_.remove(descriptor)
        code = self.process.wait(max(0.0, deadline - time.monotonic()))
        return Ended(code, said[self._out].decode(), said[self._err].decode())

    def kill(self) -> Ended:
        os.kill(self.pid, signal.SIGKILL)
        return self.ended()


class Lab:
    def __init__(self, root: Path, name: str = "story") -> None:
        self.root = root
        if not root.exists():
            shutil.copytree(FILES / name, root)
        self.file = root / "workflow.yaml"
        self.sets: tuple[str, ...] = ()

    # --- running -----------------------------------------------------------------------------------------------------

    def start(self, crash_at: int | None = None, crash_by: int = signal.SIGKILL, *, fresh: bool = False) -> Host:
        """`crash_at`: it sends itself the signal `crash_by` before so many file operations; see crash_driver."""
        return Host(self.file, self.sets, crash_at, crash_by, fresh)

    def run(self, crash_at: int | None = None, crash_by: int = signal.SIGKILL) -> Ended:
        return self.start(crash_at, crash_by).ended()

    def succeed(self) -> Ended:
        ended = self.run()
        assert ended.code == 0, ended.err
        return ended

    # --- looking -----------------------------------------------------------------------------------------------------

    def opened(self) -> Project:
        return Project.open(self.file, sets=self.sets)

    def plan(self) -> Plan:
        return compute_execution_plan(self.opened().snapshot(), PlanOptions())

    def runs(self) -> list[RunRef]:
        return self.opened().state.runs()

    def events(self, run: RunRef) -> list[ev.AnyEvent]:
        return list(run.events())

    def completed(self) -> dict[str, str]:
        """Step → fingerprint of every step that, by the log, completed or was reused and was not tried again."""
        found: dict[str, str] = {}
        for run in self.runs():
            fingerprints: dict[str, str] = {}
            for event in run.events():
                match event:
                    case ev.StepStart():
                        fingerprints[event.step_id] = event.fingerprint
                        found.pop(event.step_id, None)
                    case ev.StepComplete():
                        found[event.step_id] = fingerprints[event.step_id]
                    case ev.StepSkipped(why="reused"):
                        assert event.fingerprint is not None
                        found[event.step_id] = event.fingerprint
                    case _:
                        pass
        return found

    def executed(self, run: RunRef) -> dict[str, str]:
        return {e.step_id: e.fingerprint for e in run.events() if isinstance(e, ev.StepStart)}

    def artifacts(self) -> dict[str, bytes]:
        """Every current artifact with its stored bytes, and every published file with its content."""
        opened = self.opened()
        snapshot = opened.snapshot()
        found: dict[str, bytes] = {}
        for id_, record in snapshot.available_artifacts.items():
            found[id_] = opened.store.read(record.sha256) if opened.store.has(record.sha256) else record.sha256.encode()
        for path in sorted((self.root / "out").rglob("*")):
            if path.is_file():
                found[str(path.relative_to(self.root))] = path.read_bytes()
        return found

    def processes(self) -> list[str]:
        """Every other process that has this project in its command line or environment."""
        found = []
        needle = os.fsencode(str(self.root))
        for name in os.listdir("/proc"):
            if not name.isdigit() or int(name) == os.getpid():
                continue
            try:
                command = Path(f"/proc/{name}/cmdline").read_bytes()
                if needle in command or needle in Path(f"/proc/{name}/environ").read_bytes():
                    found.append(f"{name}: {command!r}")
            except OSError:
                continue  # it ended meanwhile, or is not ours
        return found

    # --- checks ------------------------------------------------------------------------------------------------------

    def check_nobody_left(self, seconds: float = PATIENCE) -> None:
        deadline = time.monotonic() + seconds
        while left := self.processes():
            assert time.monotonic() < deadline, left
            time.sleep(0.02)

    def check_evidence(self) -> None:
        runs = self.runs()
        assert [run.number for run in runs] == list(range(1, len(runs) + 1))
        check_chain([run.events_path for run in runs])
        for run in runs:
            check_run_folder(run)
        self.check_no_litter()

    def check_no_litter(self) -> None:
        """Scratch folders and half-written files of killed runs are gone. (The store keeps its own for a day.)"""
        state = self.root / ".whyrun"
        if self._scratch():
            self.succeed()  # a worker of a dead run was still ending when the last run cleared up
        assert self._scratch() == []
        # Derived files may have writers without a lock, and a user may have saved a plan here: those do not count.
        derived = (state, *state.glob("*/index"), self.root)
        litter = [p for p in self.root.rglob("*.tmp-*") if state / "store" not in p.parents and p.parent not in derived]
        assert litter == [], f"litter: {litter}"
        assert list(self.root.glob("out/**/.whyrun*")) == []

    def _scratch(self) -> list[Path]:
        return [path for folder in (self.root / ".whyrun" / "tmp").glob("*") for path in folder.glob("*")]

    def check_replay(self) -> None:
        """Every recorded plan can be computed again, to the byte, from its snapshot blob and the log before it."""
        opened = self.opened()
        for run in opened.state.runs():
            computed = next((e for e in run.events() if isinstance(e, ev.PlanComputed)), None)
            start = next(iter(run.events()))
            assert isinstance(start, ev.RunStart)
            if computed is None:
                continue  # killed between its first event and its second
            snapshot = replay_snapshot(opened.store.read(computed.snapshot_sha256), opened.history(run.number - 1))
            options = PlanOptions(start.options["up"], tuple(start.options["targets"]), tuple(start.options["force"]))
            plan = compute_execution_plan(snapshot, options)
            assert plan.to_bytes() == (run.path / "plan.json").read_bytes(), run.name
            assert plan.digest == f"sha256:{computed.plan_sha256}"


def check_run_folder(run: RunRef) -> None:
    """The folder has its mandatory files with the right content, and no others."""
    directory = RunDirectory(run.path)
    assert directory.missing_files() == []
    names = {entry.name for entry in run.path.iterdir()}
    assert names <= RUN_FILES, f"{run.name} holds what is not its own: {sorted(names - RUN_FILES)}"
    events = list(run.events())
    assert directory.events.read_bytes().endswith(b"\n")
    outcome = fold_outcome(events)
    assert outcome.end is not None
    assert outcome.open_steps == []
    written, folded = directory.status.read_bytes(), canonical_json(status_of(outcome)) + b"\n"
    assert written == folded, f"{run.name}: {written!r} is not {folded!r}"
    for file in (directory.commands, directory.metrics):
        for line in file.read_bytes().splitlines():
            json.loads(line)
    for event in events:
        if isinstance(event, ev.CfgMaterialized | ev.ManifestMaterialized):
            assert bytes_sha256((run.path / event.path).read_bytes()) == event.sha256
    # Of a worker's last actions before the host died, the log may have only this event.
    sent = {Path(e.path).stem for e in events if isinstance(e, ev.CfgMaterialized)}
    steps = {entry.name: entry for entry in directory.steps.iterdir()} if directory.steps.exists() else {}
    assert set(steps) <= sent
    for name, step in steps.items():
        inside = {entry.name for entry in step.iterdir()}
        assert inside, f"{run.name}: steps/{name} is empty"
        assert inside <= STEP_FILES
    check_links(run, outcome)


def check_links(run: RunRef, outcome: Any) -> None:
    """`artifacts/<step>/…` for exactly the steps that succeeded with outputs; every link leads to stored bytes."""
    folder = run.path / "artifacts"
    linked = {entry.name for entry in folder.iterdir()} if folder.exists() else set()
    made = {
        file_name(event.step_id.partition(":")[2])
        for event in run.events()
        if isinstance(event, ev.ArtifactAvailable) and outcome.steps[event.step_id] in ("completed", "skipped")
    }
    assert linked == made
    for path in folder.rglob("*") if folder.exists() else ():
        assert not re.match(r"\.?tmp-", path.name), path
        if not path.is_dir() or path.is_symlink():
            assert path.is_symlink()
            blob = path.resolve(strict=True)
            assert bytes_sha256(blob.read_bytes()) == blob.parent.name + blob.name
