"""A project that is run in processes of its own, killed, and looked at afterwards."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whyrun.artifacts.hashing import bytes_sha256, canonical_json
from whyrun.evidence.run_directory import RunDirectory
from whyrun.evidence.status import status_of
from whyrun.ids import file_name
from whyrun.log import events as ev
from whyrun.log.journal import check_chain
from whyrun.log.outcomes import fold_outcome
from whyrun.log.runs import RunRef
from whyrun.planning.plan import Plan, PlanOptions, compute_execution_plan
from whyrun.snapshot.replay import replay_snapshot
from whyrun.snapshot.world import World

FILES = Path(__file__).parent / "files"
DRIVER = Path(__file__).parent / "crash_driver.py"
RUN_FILES = {
    "events.jsonl", "metrics.jsonl", "status.json", "manifest.yaml", "plan.json", "cfg", "commands.jsonl", "steps",
    "artifacts", "source", "whyrun.log", "debug.log",
}  # fmt: skip
STEP_FILES = {"script.sh", "query.sql", "stdout.log", "stderr.log", "inputs", "scratch"}
PATIENCE = 300.0  # seconds after which a test gives up on what must come, on any machine
TOPICS = ("alpha", "beta", "gamma", "delta")


@dataclass(frozen=True)
class Reference:
    """What undisturbed runs make, one after the other in one project; and how long the first took."""

    artifacts: dict[str, dict[str, bytes]]  # by topic
    seconds: float


@dataclass(frozen=True)
class Ended:
    """What a driver process said."""

    code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out.strip().splitlines()[-1])
        return found


class Host:
    """A driver process in a session of its own, like a command on a terminal of its own."""

    def __init__(self, file: Path, sets: tuple[str, ...], crash_at: int | None) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("WHYRUN", "PYTEST"))}
        if crash_at is not None:
            environment["CRASH_AT"] = str(crash_at)
        self.process = subprocess.Popen(
            [sys.executable, str(DRIVER), str(file), *sets],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
            text=True,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait_ready(self) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line == "ready\n", line + self.process.communicate()[1]

    def wait_said(self, text: str, seconds: float = PATIENCE) -> str:
        """Until stderr has this text; what it said so far. (The rest is still there for `ended`.)"""
        assert self.process.stderr is not None
        descriptor = self.process.stderr.fileno()
        said = b""
        deadline = time.monotonic() + seconds
        while text.encode() not in said:
            readable, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(descriptor, 1 << 16) if readable else b""
            assert data, f"{text!r} was not said in {said!r}"
            said += data
        return said.decode()

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def ended(self, seconds: float = PATIENCE) -> Ended:
        out, err = self.process.communicate(timeout=seconds)
        return Ended(self.process.returncode, out, err)

    def kill(self) -> Ended:
        self.process.send_signal(signal.SIGKILL)
        return self.ended()


class Lab:
    def __init__(self, root: Path, name: str = "story") -> None:
        self.root = root
        if not root.exists():
            shutil.copytree(FILES / name, root)
        self.file = root / "workflow.yaml"
        self.sets: tuple[str, ...] = ()

    # --- running -----------------------------------------------------------------------------------------------------

    def start(self, crash_at: int | None = None) -> Host:
        return Host(self.file, self.sets, crash_at)

    def run(self, crash_at: int | None = None) -> Ended:
        return self.start(crash_at).ended()

    def succeed(self) -> Ended:
        ended = self.run()
        assert ended.code == 0, ended.err
        return ended

    # --- looking -----------------------------------------------------------------------------------------------------

    def world(self) -> World:
        return World.open(self.file, sets=self.sets)

    def plan(self) -> Plan:
        return compute_execution_plan(self.world().snapshot(), PlanOptions())

    def runs(self) -> list[RunRef]:
        return self.world().state.runs()

    def events(self, run: RunRef) -> list[ev.AnyEvent]:
        return list(run.events())

    def completed(self) -> dict[str, str]:
        """Step → fingerprint of every step that the log says has completed (or was reused) and not been tried since."""
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
        """Every current artifact with its stored bytes, and every published file with what stands there."""
        world = self.world()
        snapshot = world.snapshot()
        found: dict[str, bytes] = {}
        for id_, record in snapshot.available_artifacts.items():
            found[id_] = world.store.read(record.sha256) if world.store.has(record.sha256) else record.sha256.encode()
        for path in sorted((self.root / "out").rglob("*")):
            if path.is_file():
                found[str(path.relative_to(self.root))] = path.read_bytes()
        return found

    def processes(self) -> list[str]:
        """Every process that speaks of this project in its command line or environment, except ourselves."""
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
        """Scratch folders and half-written files of killed runs are gone (what lies in the store is kept for a day)."""
        state = self.root / ".whyrun"
        if self._scratch():
            self.succeed()  # a worker of a dead run was still ending when the last run cleared up
        assert self._scratch() == []
        # Nor is what was to be derived, which may have writers without a lock; nor a plan that a user saved here.
        derived = (state, *state.glob("*/index"), self.root)
        litter = [p for p in self.root.rglob("*.tmp-*") if state / "store" not in p.parents and p.parent not in derived]
        assert litter == [], f"litter: {litter}"
        assert list(self.root.glob("out/**/.whyrun*")) == []

    def _scratch(self) -> list[Path]:
        return [path for folder in (self.root / ".whyrun" / "tmp").glob("*") for path in folder.glob("*")]

    def check_replay(self) -> None:
        """Every recorded plan can be computed again, to the byte, from its snapshot blob and the log before it."""
        world = self.world()
        for run in world.state.runs():
            computed = next((e for e in run.events() if isinstance(e, ev.PlanComputed)), None)
            start = next(iter(run.events()))
            assert isinstance(start, ev.RunStart)
            if computed is None:
                continue  # killed between its first event and its second
            snapshot = replay_snapshot(world.store.read(computed.snapshot_sha256), world.history(run.number - 1))
            options = PlanOptions(start.options["up"], tuple(start.options["targets"]), tuple(start.options["force"]))
            plan = compute_execution_plan(snapshot, options)
            assert plan.to_bytes() == (run.path / "plan.json").read_bytes(), run.name
            assert plan.digest == f"sha256:{computed.plan_sha256}"


def check_run_folder(run: RunRef) -> None:
    """The must-exist files, nothing else, and each with what it should hold."""
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
    # What a worker did just before the host died may stand in no event but this one.
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
