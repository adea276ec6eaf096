"""A kill while an adoption is written: the whole and its leaves hold together, or nothing has happened."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from crash_fork_server import forked_workers
from fault_selection import cuts

from project_lab import Heard, Lab
from whyrun.evidence.queries.history import job_history
from whyrun.execution.adopt.adopt import adopt_file, restore_version
from whyrun.log import events as ev
from whyrun.log.journal import check_chain
from whyrun.planning.plan import PlanOptions, compute_execution_plan

Make = Callable[..., Lab]

# `Maybe` reads one leaf as its condition and another as its value, `Whole` the file that holds both.
STORY = """
    workflow: story
    loops: {n: {count: 2}}
    jobs:
      Script:
        uses: shell
        with: {run: 'echo "{\\"Title\\": \\"theirs\\", \\"On\\": [true, false]}" > "$out_Story"; echo log > "$out_Log"'}
        outputs:
          Story: {type: json, leaves: {Title: string, "On[n]": boolean}, path: out/story.json}
          Log: {type: text}
      Maybe:
        for: [n]
        if: "${{ jobs.Script.outputs.Story.On[n] }}"
        uses: shell
        with: {title: "${{ jobs.Script.outputs.Story.Title }}", run: 'echo "$title" > "$out_Text"'}
        outputs: {Text: {type: text}}
      Whole:
        uses: shell
        with: {story: "${{ jobs.Script.outputs.Story }}", run: 'echo "$story" > "$out_Copy"'}
        outputs: {Copy: {type: text}}
"""
MINE = '{"Title": "mine", "On": [false, true]}'


@pytest.fixture(autouse=True)
def workers() -> Iterator[None]:
    with forked_workers():
        yield


@pytest.fixture
def adopted(project: Make) -> Lab:
    """A run, and the adoption of another story. What stands at the published path is the user's in either case."""
    lab = project(STORY)
    lab.succeed()
    lab.write({"out/story.json": MINE})
    adopt_file(lab.opened(), "Artifact:Script.Story", lab.root / "out/story.json", Heard())
    return lab


class Planner:
    """Plans again and again with one parsed workflow; only log and files are looked at anew."""

    def __init__(self, lab: Lab) -> None:
        self.opened = lab.opened()
        self.opened.graph, self.opened.actions  # noqa: B018

    def plan(self) -> bytes:
        shutil.rmtree(self.opened.state.index_dir, ignore_errors=True)
        plan = compute_execution_plan(self.opened.snapshot(self.opened.history()), PlanOptions())
        found = plan.to_json()
        del found["log_position"]  # where the log ends is another question
        return json.dumps(found).encode()


def test_an_adoption_cut_at_any_byte_holds_whole_or_not_at_all(adopted: Lab) -> None:
    log = adopted.run_folder("r0002") / "events.jsonl"
    whole = log.read_bytes()
    planner = Planner(adopted)
    after = planner.plan()
    first = whole.index(b"\n") + 1
    log.write_bytes(whole[:first])
    before = planner.plan()
    assert before != after
    ends = list(itertools.accumulate(len(line) for line in whole.splitlines(keepends=True)))
    holds = ends[-2]  # the last adoption ends there; `run_complete` follows
    assert b'"artifact":"Artifact:Script.Story",' in whole[ends[-3] : holds]
    for cut in cuts(whole, first):
        log.write_bytes(whole[:cut])
        assert planner.plan() == (after if cut >= holds else before), f"cut at {cut} of {len(whole)}"


@pytest.mark.parametrize("lines", range(1, 7))
def test_after_a_cut_the_repair_leaves_the_plan_as_it_was_and_the_run_completes(adopted: Lab, lines: int) -> None:
    folder = adopted.run_folder("r0002")
    log = folder / "events.jsonl"
    written = log.read_bytes().splitlines(keepends=True)
    assert len(written) == 7
    log.write_bytes(b"".join(written[:lines]) + written[lines][:40])
    for name in ("status.json", "artifacts"):
        shutil.rmtree(folder / name) if (folder / name).is_dir() else (folder / name).unlink()
    planned = adopted.plan()
    took = lines == 6
    ran = adopted.succeed()
    assert ran.plan.digest == planned.digest
    assert "its log was repaired" in ran.heard.notes[0]
    status = json.loads((folder / "status.json").read_bytes())
    assert (status["state"], status["steps_completed"]) == ("interrupted", 1 if took else 0)
    assert (folder / "artifacts").exists() == took
    title = "mine" if took else "theirs"
    assert adopted.content("Artifact:Script.Story.Title") == title
    assert adopted.content("Artifact:Script.Story")["Title"] == title
    assert json.loads(adopted.content("Artifact:Whole.Copy")) == json.loads(adopted.read("out/story.json"))
    assert adopted.content(f"Artifact:Maybe.Text[{1 if took else 0}]") == f"{title}\n"
    assert [job.id for job in adopted.plan().planned] == []
    entries = job_history(adopted.opened().state.runs(), lambda step: step == "Job:Script", None)
    assert [entry.status for entry in entries if entry.run == "r0002"] == (["ADOPTED"] if took else [])
    check_chain([adopted.run_folder(run) / "events.jsonl" for run in adopted.runs()])
    assert adopted.read("out/story.json") == (MINE if took else '{"Title": "theirs", "On": [true, false]}\n')


def test_what_was_torn_can_be_adopted_again_and_restored(adopted: Lab) -> None:
    log = adopted.run_folder("r0002") / "events.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:4]))
    (log.parent / "status.json").unlink()  # it could not have been made yet
    again = adopt_file(adopted.opened(), "Artifact:Script.Story", adopted.root / "out/story.json", Heard())
    assert again.run == "r0003"
    assert adopted.content("Artifact:Script.Story.Title") == "mine"
    back = restore_version(adopted.opened(), "Artifact:Script.Story", "r0002", Heard())  # as it was after the torn one
    assert back.leaves["Artifact:Script.Story.Title"] == "theirs"


def test_a_log_with_the_leaves_after_the_whole_is_read_as_before(adopted: Lab, tmp_path: Path) -> None:
    """As the first versions wrote it."""
    planner = Planner(adopted)
    after = planner.plan()
    log = adopted.run_folder("r0002") / "events.jsonl"
    lines = log.read_bytes().splitlines()
    order = [0, 1, 5, 2, 3, 4, 6]
    moved = [b'{"seq":%d,%b\n' % (n + 1, lines[at].partition(b",")[2]) for n, at in enumerate(order)]
    log.write_bytes(b"".join(moved))
    assert [type(e) for e in adopted.events("r0002")].count(ev.ArtifactAdopted) == 4
    assert planner.plan() == after
