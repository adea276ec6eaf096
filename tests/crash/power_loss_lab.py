"""A recorded command, a power cut at any moment, and the checks that must hold afterwards."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import msgspec
from crash_lab import check_links
from fault_lab import FaultLab, FaultRunner, Scenario, copy_of, prepared
from msgspec import UNSET
from power_loss_model import Disk
from power_loss_record import Entry, printed_text, read_record

from project_lab import Heard
from whyrun.evidence.run_directory import RunDirectory
from whyrun.evidence.verify.verify import verify
from whyrun.execution.run.session import repair_killed_run
from whyrun.log import events as ev
from whyrun.log.journal import utc_now
from whyrun.log.lock import Holder, RunLock
from whyrun.log.outcomes import fold_outcome
from whyrun.log.runs import RunRef
from whyrun.log.sync_mark import Synced, last_synced
from whyrun.planning.plan import Plan, PlanOptions, compute_execution_plan
from whyrun.project import Project

PARSED = (
    "project",
    "config",
    "reading",
    "workflow",
    "graph",
    "actions",
    "_observed",
    "inputs",
)  # same for all cuts
STATE = (".whyrun", "out")  # where commands write
RUNS = ".whyrun/fault/runs"
LOCK = ".whyrun/fault/lock"
OWN_TEXT = b"a text of the user's own\n"


@dataclass(frozen=True)
class Recorded:
    """A command that was recorded, and the project as it was before."""

    scenario: Scenario
    root: Path
    initial: Path
    inodes: dict[str, int]  # of the files that were there before
    entries: list[Entry]

    @property
    def sets(self) -> tuple[str, ...]:
        return tuple(self.scenario.settings[1:])

    def disk(self) -> Disk:
        return Disk(self.root, self.initial, self.inodes)


@dataclass(frozen=True)
class Cut:
    """The power failed after `moment` operations."""

    moment: int
    tree: dict[str, bytes | str | None]
    durable: dict[str, bytes]  # run → what is certainly there of its log, with all that it speaks of
    printed: str  # for the user, before
    relied_on: Synced | None  # what the lock said when it was last synced itself

    def without_lock(self) -> Cut:
        """The same cut, but the file `lock` did not reach the disk: it is seldom synced by itself."""
        tree = {path: b"" if path == LOCK else data for path, data in self.tree.items()}
        return replace(self, tree=tree, relied_on=None)


def record(scenario: Scenario, folder: Path, runner: FaultRunner) -> Recorded:
    folder.mkdir()
    initial = prepared(scenario, folder / "initial", runner)
    lab = copy_of(initial, folder / "project")
    there = [path for path in lab.root.rglob("*") if path.is_file() and not path.is_symlink()]
    inodes = {str(path.relative_to(lab.root)): path.stat().st_ino for path in there}
    ended = runner.run(lab.root, list(scenario.command), record=folder / "record")
    assert ended.code in (0, 1), ended.err
    return Recorded(scenario, lab.root, initial.root, inodes, read_record(folder / "record"))


def cuts(recorded: Recorded, number: int, seed: int) -> list[Cut]:
    """Spread evenly over the whole record, each at a random moment of its part and with a tree of its own."""
    chance = random.Random(seed)
    moments = [1 + int((k + chance.random()) / number * len(recorded.entries)) for k in range(number)]
    return cuts_at(recorded, moments, chance)


def cuts_at(recorded: Recorded, moments: list[int], chance: random.Random) -> list[Cut]:
    """A cut at each of these moments, which are in order."""
    disk = recorded.disk()
    runs = os.listdir(recorded.root / RUNS)  # those that it leaves: what it prunes is to go
    found: list[Cut] = []
    done = 0
    of_all: dict[object, dict[str, int]] = {}  # syncs of the whole file system → how long the logs were as they began
    of_lock: set[object] = set()  # syncs of the lock
    relied_on: Synced | None = None
    lasting = dict.fromkeys(runs, 0)  # run → bytes of its log that were synced together with all that they speak of
    for moment in moments:
        for entry in recorded.entries[done:moment]:
            disk.apply(entry)
            if entry[0] == "sync begins" and entry[2] is None:
                of_all[entry[1]] = {run: len(disk.written_content(f"{RUNS}/{run}/events.jsonl")) for run in runs}
            elif entry[0] == "sync begins" and entry[3] == f"{recorded.root}/{LOCK}":
                of_lock.add(entry[1])
            elif entry[0] == "sync ends" and entry[1] in of_lock:
                relied_on = msgspec.json.decode(disk.durable_content(LOCK), type=Holder).synced
            elif entry[0] == "sync ends" and entry[1] in of_all:
                # Not all that is durable now: another sync, of the log alone, may have ended meanwhile, with lines
                # whose bytes came after this one began.
                for run, size in of_all.pop(entry[1]).items():
                    size = min(size, len(disk.durable_content(f"{RUNS}/{run}/events.jsonl")))
                    lasting[run] = max(lasting[run], size)
        done = moment
        # What is written while the bytes are synced, and then synced with the log, may speak of bytes that are not.
        # The first line is there together with the name of the run's folder.
        logs = {run: disk.durable_content(f"{RUNS}/{run}/events.jsonl") for run in runs}
        durable = {run: log[: max(lasting[run], log.find(b"\n") + 1)] for run, log in logs.items()}
        found.append(Cut(moment, disk.perhaps(chance), durable, printed_text(recorded.entries[:moment]), relied_on))
    return found


def outputs_taken(events: Iterable[ev.AnyEvent]) -> dict[str, set[str]]:
    """Step whose result is that of others → the outputs that are recorded of it."""
    taken: dict[str, set[str]] = {}
    for event in events:
        if isinstance(event, ev.StepSkipped) and event.shared is not None:
            taken[event.step_id] = set()
        elif isinstance(event, ev.ArtifactAvailable) and event.step_id in taken:
            taken[event.step_id].add(event.artifact)
    return taken


class CutLab(FaultLab):
    """Checks one cut after the other in one folder. Files that no cut changes are parsed once."""

    def __init__(self, recorded: Recorded, root: Path, runner: FaultRunner) -> None:
        shutil.copytree(recorded.initial, root, symlinks=True)
        super().__init__(root, runner)
        self.recorded = recorded
        self.sets = recorded.sets
        self.first: Project | None = None
        opened = self.opened()
        opened.graph, opened.actions  # noqa: B018
        self.first = opened
        self.known = {run.name for run in self.runs()}
        self.executes_before = self.to_execute(self.plan())

    def opened(self) -> Project:
        fresh = Project.open(self.file, sets=self.sets)
        if self.first is not None:
            fresh.__dict__.update({name: self.first.__dict__[name] for name in PARSED if name in self.first.__dict__})
        return fresh

    def put(self, cut: Cut) -> None:
        for name in STATE:
            shutil.rmtree(self.root / name, ignore_errors=True)
        for path, content in cut.tree.items():
            if not path.startswith(STATE):
                continue
            place = self.root / path
            if content is None:
                place.mkdir(exist_ok=True)
            elif isinstance(content, str):
                place.symlink_to(content)
            else:
                place.write_bytes(content)

    # --- what must hold ------------------------------------------------------------------------------------------

    def check(self, cut: Cut) -> None:
        """Open, repair, plan and verify the project after the cut."""
        self.check_lock(cut)
        opened, heard = self.opened(), Heard()
        with RunLock.of(opened.state, utc_now) as lock:
            report = repair_killed_run(opened, lock, heard.note, utc_now)
        assert (report is not None) == any("its log was repaired" in note for note in heard.notes)
        self.check_logs(cut)
        self.check_bytes(opened)
        self.check_kept_inputs(cut, opened)
        self.check_plan(cut, compute_execution_plan(opened.snapshot(), PlanOptions()))
        self.check_users_own(opened)
        self.check_sound()
        for run in self.runs():
            self.check_folder(run)

    def check_lock(self, cut: Cut) -> None:
        """The lock still holds at least what it held when it was last synced."""
        if cut.relied_on is not None:
            found = last_synced(self.root / LOCK)
            assert found is not None, "the lock says nothing any more"
            assert found.run == cut.relied_on.run
            assert found.seq >= cut.relied_on.seq or found.seq == 0, "it says less than was relied on"  # 0: ended well

    def check_logs(self, cut: Cut) -> None:
        """Synced lines still exist."""
        there = {run.name: run.events_path.read_bytes() for run in self.runs()}
        for name, durable in cut.durable.items():
            lines = durable[: durable.rfind(b"\n") + 1]
            assert there.get(name, b"").startswith(lines), f"{name}: synced lines are lost"

    def check_bytes(self, opened: Project) -> None:
        """The outputs of every complete step are in the store and undamaged."""
        for run in self.runs():
            made: dict[str, list[str]] = {}
            for event in run.events():
                if isinstance(event, ev.ArtifactAvailable) and event.value is UNSET:  # no value or leaf
                    made.setdefault(event.step_id, []).append(event.sha256)
                elif isinstance(event, ev.StepStart | ev.StepFailed):
                    made.pop(event.step_id, None)
            for sha in (sha for shas in made.values() for sha in shas):
                opened.store.check(sha)

    def check_kept_inputs(self, cut: Cut, opened: Project) -> None:
        """Those that were synced are in the store. That none is torn `check_sound` checks."""
        for run in self.runs():
            synced = cut.durable.get(run.name, b"").count(b"\n")
            for event in run.events():
                if isinstance(event, ev.InputRecorded) and event.seq <= synced and event.size is not None:
                    opened.store.check(event.sha256)

    def check_plan(self, cut: Cut, plan: Plan) -> None:
        """The plan executes exactly the incomplete steps; every step that was reported to the user is complete."""
        executes = self.to_execute(plan)
        synced = self.synced_completes(cut)
        if self.recorded.scenario.command[0] == "run":
            new = [run for run in self.runs() if run.name not in self.known]
            done = {step for run in new for step in self.done_in(run.events()) | self.taken_in(run.events())}
            assert executes <= self.executes_before - done, "complete in the log, and planned again"
            if not self.known:  # later, what came out as before needs no execution of its dependents
                assert executes == self.executes_before - done, "not complete, and not planned"
            assert not {job.id for job in plan.planned} & synced, "complete and synced, and planned again"
        else:
            assert executes in (self.executes_before, self.executes_after), "half of it was taken"
        said = set(re.findall(r" EXECUTES (Job:\S+) in ", cut.printed))
        assert said <= synced, "told to be complete, and not synced"

    @property
    def executes_after(self) -> set[str]:
        return self.to_execute(FaultLab(self.recorded.root, self.runner).with_sets(self.sets).plan())

    @staticmethod
    def to_execute(plan: Plan) -> set[str]:
        return {job.id for job in plan.planned if job.reuse is None}

    @staticmethod
    def done_in(events: object) -> set[str]:
        """Steps whose latest attempt in a run is complete."""
        done: set[str] = set()
        for event in events:  # type: ignore[attr-defined]
            if isinstance(event, ev.StepStart | ev.StepFailed):
                done.discard(event.step_id)
            elif isinstance(event, ev.StepComplete):
                done.add(event.step_id)
        return done

    def taken_in(self, events: Iterable[ev.AnyEvent]) -> set[str]:
        """Steps whose result is that of others. It may still have to be published: then they are reused once more."""
        all_of, there = self.outputs_taken, outputs_taken(events)
        return {step for step, outputs in there.items() if outputs == all_of[step]}

    @cached_property
    def outputs_taken(self) -> dict[str, set[str]]:
        runs = FaultLab(self.recorded.root, self.runner).runs()
        return {step: found for run in runs for step, found in outputs_taken(run.events()).items()}

    def synced_completes(self, cut: Cut) -> set[str]:
        """Steps that are complete in what was synced of the recorded run, and not begun again in what was not."""
        done: set[str] = set()
        for run in self.runs():
            if run.name not in self.known:
                synced = cut.durable[run.name].count(b"\n")
                done |= self.done_in(event for event in run.events() if event.seq <= synced)
        return done

    def check_users_own(self, opened: Project) -> None:
        """Each file and section of the user is in its place, or in the store with an event that names it."""
        saved = {data for _, _, data in self.displaced()}
        text = self.root / "out" / "text.txt"
        assert OWN_TEXT in saved or (text.exists() and text.read_bytes() == OWN_TEXT), "the user's text is lost"
        shared = json.loads((self.root / "out" / "shared.json").read_bytes())
        assert shared["mine"] == {"kept": 1.5}
        assert shared["Left"] == "the user's, too" or b'"the user\'s, too"\n' in saved

    def check_folder(self, run: RunRef) -> None:
        directory = RunDirectory(run.path)
        for file in (directory.commands, directory.metrics):
            for line in file.read_bytes().splitlines():
                json.loads(line)
        outcome = fold_outcome(run.events())
        if outcome.start is not None and outcome.start.mode == "run":
            check_links(run, outcome)

    def check_sound(self) -> None:
        opened = self.opened()
        found = verify(opened.state, opened.folder, lambda run: None)
        assert found.sound, [str(problem) for problem in found.problems]
