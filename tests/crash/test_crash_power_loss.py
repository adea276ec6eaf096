"""Power cuts: data and names that were not synced are lost, kept or reordered, at any moment of a command.

The real code repairs, plans and verifies after each cut. Some are also run to their end.
"""

from __future__ import annotations

import os
import random
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from crash_fork_server import run_and_exit
from fault_lab import SCENARIOS, SHARED, Courses, FaultLab, FaultRunner
from fault_selection import SOAK
from power_loss_lab import CutLab, cuts, cuts_at, record
from power_loss_model import Disk
from power_loss_record import RecordingHook, read_record, tree_of

from whyrun import disk
from whyrun.artifacts.store import Store
from whyrun.disk import Area
from whyrun.errors import StateError
from whyrun.log.events import ArtifactAvailable, StepSkipped

CUTS = {
    "run": 400, "change": 150, "adopt": 60, "restore": 60, "compare": 80, "repair": 100, "torn": 110, "prune": 40
}  # fmt: skip
SHARED_CUTS = 80
PART = 1 if SOAK else 6  # by commit one of so many cuts is made
RUN_TO_THE_END = 25 if SOAK else 10  # one of so many cuts
SEEDS = range(int(os.environ.get("WHYRUN_CUT_SEEDS", "20"))) if SOAK else range(1)
OURS = (".whyrun/tmp", "paid.log")  # what no command keeps: scratch folders, and the steps' own file


@pytest.mark.parametrize("name", CUTS)
def test_after_a_power_cut_nothing_is_lost_that_was_synced(
    name: str, tmp_path: Path, runner: FaultRunner, courses: Courses
) -> None:
    recorded = record(SCENARIOS[name], tmp_path / "recorded", runner)
    lab = CutLab(recorded, tmp_path / "cut" / "project", runner)
    final = courses.of(SCENARIOS[name]).final
    for seed in SEEDS:
        for number, cut in enumerate(cuts(recorded, CUTS[name] // PART, 60_000 + seed)):
            lab.put(cut)
            lab.check(cut)
            if number % RUN_TO_THE_END == RUN_TO_THE_END // 2:
                lab.done(*recorded.scenario.command)
                lab.done("run", *recorded.scenario.settings)
                found = lab.final()
                # A published file that the cut has torn is taken for somebody else's, and saved: more than need be.
                assert found.pop("displaced") >= final["displaced"]
                assert found == {"artifacts": final["artifacts"], "planned": final["planned"]}, f"cut at {cut.moment}"
                lab.done("verify", "--replay", "all", *recorded.scenario.settings)


def test_after_a_power_cut_values_that_others_made_are_believed_without_the_word_of_the_lock(
    tmp_path: Path, runner: FaultRunner
) -> None:
    """All that was synced holds, although nobody can say any more how far that was."""
    recorded = record(SHARED, tmp_path / "recorded", runner)
    taken = [event for run in FaultLab(recorded.root, runner).runs() for event in run.events()]
    assert {event.step_id for event in taken if isinstance(event, StepSkipped) and event.shared is not None} == {
        "Job:Text", "Job:Left"
    }  # fmt: skip
    assert "Artifact:Text.Length" in {event.artifact for event in taken if isinstance(event, ArtifactAvailable)}
    lab = CutLab(recorded, tmp_path / "cut" / "project", runner)
    for seed in SEEDS:
        for number, cut in enumerate(cuts(recorded, SHARED_CUTS // PART, 70_000 + seed)):
            cut = cut.without_lock() if number % 2 else cut
            lab.put(cut)
            lab.check(cut)
            if number % RUN_TO_THE_END == RUN_TO_THE_END // 2:
                lab.done("run")
                assert list(lab.plan().planned) == []
                lab.done("verify", "--replay", "all")


def test_without_a_cut_the_record_tells_all_that_is_on_the_disk(tmp_path: Path, runner: FaultRunner) -> None:
    """The model is one of the real thing: with nothing lost it has every file, name and byte."""
    for name in ("run", "change", "adopt", "compare", "repair", "prune") if SOAK else ("change", "compare", "prune"):
        recorded = record(SCENARIOS[name], tmp_path / name, runner)
        model = recorded.disk()
        for entry in recorded.entries:
            model.apply(entry)
        real = {path: content for path, (_, content) in tree_of(str(recorded.root)).items()}
        modelled = model.everything()
        for tree in (real, modelled):
            for path in [path for path in tree if path.startswith(OURS)]:
                del tree[path]
        assert modelled == real


class SlowRecording(RecordingHook):
    """Leaves other threads and processes time to act between an operation and its entry."""

    def note(self, *entry: Any) -> None:
        time.sleep(0.002)
        super().note(*entry)


def test_entries_of_several_threads_and_processes_have_the_order_of_their_operations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them make the same folders, then write a file there, sync it and rename it."""
    root, initial = tmp_path / "project", tmp_path / "initial"
    for folder in (root, initial):
        (folder / "out").mkdir(parents=True)
    hits = os.open(tmp_path / "record", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    monkeypatch.setattr(disk, "hook", SlowRecording(hits))
    names = [f"{process}-{thread}" for process in range(2) for thread in range(3)]

    def write_files(name: str) -> None:
        for number in range(5):
            folder = f"{root}/{number}/store/tmp"
            disk.make_folders(Area.STORE, folder)
            descriptor = disk.open(Area.STORE, f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            disk.write(Area.STORE, descriptor, name.encode())
            disk.sync(Area.SECTION, descriptor)
            os.close(descriptor)
            disk.rename(Area.SECTION, f"{folder}/{name}", f"{root}/out/{name}.{number}")
            disk.sync_folder(Area.SECTION, f"{root}/out")

    def run_threads(process: int) -> int:
        with ThreadPoolExecutor() as threads:
            list(threads.map(write_files, [name for name in names if name.startswith(f"{process}-")]))
        return 0

    processes = []
    for process in range(2):
        pid = os.fork()
        if pid == 0:
            run_and_exit(lambda: run_threads(process))  # noqa: B023
        processes.append(pid)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in processes] == [0, 0]
    os.close(hits)

    model = Disk(root, initial, {})
    for entry in read_record(tmp_path / "record"):
        model.apply(entry)
    assert model.everything() == {path: content for path, (_, content) in tree_of(str(root)).items()}
    files = {f"out/{name}.{number}": name.encode() for name in names for number in range(5)}
    assert {path: model.durable_content(path) for path in files} == files


def test_forgotten_syncs_are_noticed(tmp_path: Path, runner: FaultRunner) -> None:
    """Cuts at the end of a run that synced nothing but its beginning. The user was told of steps by then, so that each
    cut loses something; which check notices it first depends on what the cut left."""
    recorded = record(SCENARIOS["run"], tmp_path / "recorded", runner)
    of_file_system = [entry[1] for entry in recorded.entries if entry[0] == "sync begins" and entry[2] is None]
    gone = set(of_file_system[1:])
    assert gone
    kept = [entry for entry in recorded.entries if not (entry[0] in ("sync begins", "sync ends") and entry[1] in gone)]
    forgetful = replace(recorded, entries=kept)
    lab = CutLab(forgetful, tmp_path / "cut" / "project", runner)
    for record_of, is_noticed in ((recorded, False), (forgetful, True)):
        for cut in cuts_at(record_of, [len(record_of.entries)] * 8, random.Random(60_000)):
            assert "EXECUTES Job:" in cut.printed
            lab.put(cut)
            with pytest.raises((StateError, AssertionError, ValueError)) if is_noticed else nullcontext():
                lab.check(cut)


def test_an_input_whose_kept_copy_a_power_cut_tears_is_not_kept(
    tmp_path: Path, runner: FaultRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cuts while the first lines and the copies that they name are written: each has its line, and torn copies go."""
    recorded = record(SCENARIOS["run"], tmp_path / "recorded", runner)
    named = next(n for n, entry in enumerate(recorded.entries) if entry[0] == "write" and b"input_recorded" in entry[3])
    lab = CutLab(recorded, tmp_path / "cut" / "project", runner)
    removed: list[str] = []
    drop = Store.drop_damaged

    def noted(store: Store, sha: str, type: str) -> None:
        had = store.has(sha)
        drop(store, sha, type)
        removed.extend([sha] * (had and not store.has(sha)))

    monkeypatch.setattr(Store, "drop_damaged", noted)
    for cut in cuts_at(recorded, [named + 1] * 6, random.Random(60_000)):
        lab.put(cut)
        lab.check(cut)
    assert removed
