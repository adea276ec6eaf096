"""A thousand power cuts: data and names that were not synced are lost, kept or reordered, at any moment of a command.

Each cut is looked at by the real code: it repairs, plans and verifies. Some are also run to their end.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cut_lab import CutLab, cuts, record
from cut_record import tree_of
from fault_cases import SOAK
from fault_lab import SCENARIOS, SHARED, Courses, FaultLab, Nursery

from whyrun.log.events import ArtifactAvailable, StepSkipped

CUTS = {
    "run": 400, "change": 150, "adopt": 60, "restore": 60, "compare": 80, "repair": 100, "torn": 110, "prune": 40
}  # fmt: skip
SHARED_CUTS = 80
RUN_TO_THE_END = 25  # every so many
OURS = (".whyrun/tmp", "paid.log")  # what no command keeps: scratch folders, and the steps' own file


def test_a_thousand_cuts_are_made() -> None:
    assert sum(CUTS.values()) == 1000


@pytest.mark.parametrize("name", CUTS)
def test_after_a_power_cut_nothing_is_lost_that_was_synced(
    name: str, tmp_path: Path, nursery: Nursery, courses: Courses
) -> None:
    recorded = record(SCENARIOS[name], tmp_path / "recorded", nursery)
    lab = CutLab(recorded, tmp_path / "cut" / "project", nursery)
    final = courses.of(SCENARIOS[name]).final
    seeds = range(int(os.environ.get("WHYRUN_CUT_SEEDS", "20"))) if SOAK else range(1)
    for seed in seeds:
        for number, cut in enumerate(cuts(recorded, CUTS[name], 60_000 + seed)):
            lab.put(cut)
            lab.check(cut)
            if number % RUN_TO_THE_END == 0:
                lab.done(*recorded.scenario.command)
                lab.done("run", *recorded.scenario.settings)
                found = lab.final()
                # A published file that the cut has torn is taken for somebody else's, and saved: more than need be.
                assert found.pop("displaced") >= final["displaced"]
                assert found == {"artifacts": final["artifacts"], "planned": final["planned"]}, f"cut at {cut.moment}"
                lab.done("verify", "--replay", "all", *recorded.scenario.settings)


def test_after_a_power_cut_values_that_others_made_are_believed_without_the_word_of_the_lock(
    tmp_path: Path, nursery: Nursery
) -> None:
    """All that was synced holds, although nobody can say any more how far that was."""
    recorded = record(SHARED, tmp_path / "recorded", nursery)
    taken = [event for run in FaultLab(recorded.root, nursery).runs() for event in run.events()]
    assert {event.step_id for event in taken if isinstance(event, StepSkipped) and event.shared is not None} == {
        "Job:Text", "Job:Left"
    }  # fmt: skip
    assert "Artifact:Text.Length" in {event.artifact for event in taken if isinstance(event, ArtifactAvailable)}
    lab = CutLab(recorded, tmp_path / "cut" / "project", nursery)
    for seed in range(int(os.environ.get("WHYRUN_CUT_SEEDS", "20"))) if SOAK else range(1):
        for number, cut in enumerate(cuts(recorded, SHARED_CUTS, 70_000 + seed)):
            cut = cut.without_lock() if number % 2 else cut
            lab.put(cut)
            lab.check(cut)
            if number % RUN_TO_THE_END == 0:
                lab.done("run")
                assert list(lab.plan().planned) == []
                lab.done("verify", "--replay", "all")


def test_without_a_cut_the_record_tells_all_that_is_on_the_disk(tmp_path: Path, nursery: Nursery) -> None:
    """The model is one of the real thing: with nothing lost it has every file, name and byte."""
    for name in ("run", "change", "adopt", "compare", "repair", "prune"):
        recorded = record(SCENARIOS[name], tmp_path / name, nursery)
        disk = recorded.disk()
        for entry in recorded.entries:
            disk.apply(entry)
        real = {path: content for path, (_, content) in tree_of(str(recorded.root)).items()}
        modelled = disk.everything()
        for tree in (real, modelled):
            for path in [path for path in tree if path.startswith(OURS)]:
                del tree[path]
        assert modelled == real
