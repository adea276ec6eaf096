"""Random workflows, runs, failures and changes against the brute-force oracle and the plain judge.

After every plan and run of every story (see oracle_project for each check):
no false skip · every reason holds and none is left out · explained = planned = executed, reused, skipped or blocked ·
every recorded plan can be replayed to the byte · index, stat-cache, key order, comments and the snapshot's short cut
change nothing · what is planned as clean or reused is never executed · nothing is paid for twice.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, note, seed, settings
from hypothesis import strategies as st
from oracle_backend import Faults, LabBackend
from oracle_flow import All, At, Flow, In, Job, Leaf, Loop, Out, Output, Own
from oracle_generate import DrawnDice, RandomDice, blobs
from oracle_project import Lab
from oracle_story import tell

SOAK = bool(os.environ.get("WHYRUN_SOAK"))
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # these runs sync a lot, and nothing is to last


def stories(part: int, examples: int, *, local: bool) -> Callable[[], None]:
    """A test over so many stories; parts have seeds of their own, so that they can run side by side."""

    @settings(max_examples=examples)
    @given(st.data())
    def story(data: st.DataObject) -> None:
        dice = DrawnDice(lambda low, high: data.draw(st.integers(low, high)))
        record: list[str] = []
        with tempfile.TemporaryDirectory(prefix="lab-", dir=MEMORY) as folder:
            try:
                tell(dice, Path(folder), record, local=local, steps=2 if local else 5)
            except BaseException:
                for line in record:
                    note(line)
                raise

    if not SOAK:
        seed(part)(story)
    return story


@pytest.mark.parametrize("part", range(4 if SOAK else 2))
def test_plans_and_runs_agree_with_running_everything_from_nothing(part: int) -> None:
    stories(part, 2000 if SOAK else 15, local=False)()


@pytest.mark.parametrize("found", [198471826])  # a failure holds up what turns out to be up to date
def test_stories_that_once_ended_otherwise(found: int, tmp_path: Path) -> None:
    record: list[str] = []
    tell(RandomDice(found), tmp_path, record)
    assert record.count("converge further") == 1


def test_real_worker_processes_agree_with_it_too() -> None:
    stories(100, 200 if SOAK else 8, local=True)()


# --- the oracle itself -------------------------------------------------------------------------------------------


def plain_flow(**jobs: Job) -> Flow:
    return Flow(
        jobs=jobs,
        loops={"i": Loop("count", "Num"), "e": Loop("each", "Files"), "none": Loop("count", 0)},
        values={"Files": ["in/0.txt"], "Single": "in/0.txt", "Num": 1, "Title": "title"},
        files={"in/0.txt": "file 0"},
    )


TEXT = (Output("Text", "text"),)


class LyingBackend(LabBackend):
    """Computes with another version of the code than the project has."""

    def __init__(self, flow: Flow, faults: Faults) -> None:
        super().__init__(Flow(flow.jobs, flow.loops, flow.values, flow.files, {"m0": 9, "m1": 9, "m2": 9}), faults)


def test_the_oracle_notices_wrong_content(tmp_path: Path) -> None:
    lab = Lab(tmp_path, plain_flow(A=Job("A", with_=(("p", In("Title")),), outputs=TEXT, module="m2")))
    lab.run(backend=LyingBackend(lab.flow, Faults()))
    with pytest.raises(AssertionError, match=r"Artifact:A\.Text"):
        lab.check_truth()


def test_the_judge_notices_a_step_that_is_left_out(tmp_path: Path) -> None:
    lab = Lab(tmp_path, plain_flow(A=Job("A", with_=(("p", In("Title")),), outputs=TEXT, module="m2")))
    lab.run()
    before = lab.plan()
    assert lab.try_flow(Flow(lab.flow.jobs, lab.flow.loops, {**lab.flow.values, "Title": "other"}, lab.flow.files))
    judge = lab.judge()
    verdicts = judge.judge_all()
    with pytest.raises(AssertionError, match="INPUT_CHANGED"):
        lab.compare(before, judge, verdicts, judge.planned(verdicts))


# --- what stories have found, each on its own --------------------------------------------------------------------


def headlines(lab: Lab) -> dict[str, Any]:
    return lab.plan().headlines()


def test_a_fan_in_of_one_is_not_the_one_itself(tmp_path: Path) -> None:
    """`[a]` and `a` have the same content hashes, but the action is given two different things."""
    source = Job("A", ("i",), with_=(("p", In("Title")),), outputs=TEXT, module="m2")
    one = Job("B", with_=(("p", Out("A", "Text", (At(0),))),), outputs=TEXT, module="m2")
    lab = Lab(tmp_path, plain_flow(A=source, B=one))
    lab.run()
    assert headlines(lab) == {}
    all_ = Job("B", with_=(("p", Out("A", "Text", (All(),))),), outputs=TEXT, module="m2")
    for job in (all_, one, all_):
        assert lab.try_flow(lab.flow.with_job(job))
        assert headlines(lab) == {"Job:B": "INPUT_CHANGED"}
        lab.run()
        lab.check_truth()


def test_a_job_without_instances_can_be_planned(tmp_path: Path) -> None:
    none = Job("A", ("none",), with_=(("p", In("Files", (At(0),))),), outputs=TEXT)
    lab = Lab(tmp_path, plain_flow(A=none, B=Job("B", with_=(("p", In("Single")),), outputs=TEXT)))
    lab.run()
    lab.check_truth()


def test_equal_bytes_of_another_output_are_not_ones_own(tmp_path: Path) -> None:
    """Both instances make the same text. The stored blob is lost, and one has lost its published file too: the plan
    must not promise to reuse what the run cannot find."""
    published = (Output("Text", "text", ".txt"),)
    lab = Lab(tmp_path, plain_flow(A=Job("A", ("i",), with_=(("p", In("Title")),), outputs=published, module="m2")))
    assert lab.try_flow(replace(lab.flow, values={**lab.flow.values, "Num": 2}))
    lab.run()
    for blob in blobs(lab):
        blob.unlink()
    (tmp_path / "out" / "A-Text-0.txt").unlink()
    lab.run()
    lab.check_truth()


def test_bytes_at_the_path_of_an_earlier_run_are_reused(tmp_path: Path) -> None:
    """The output is no longer published and its blob is lost, but the file of the earlier run is still there."""
    job = Job("A", with_=(("p", In("Title")),), outputs=(Output("Text", "text", ".txt"),), module="m2")
    lab = Lab(tmp_path, plain_flow(A=job))
    lab.run()
    for blob in blobs(lab):
        blob.unlink()
    assert lab.try_flow(lab.flow.with_job(replace(job, outputs=TEXT)))
    assert lab.plan().totals["reused"] == 1
    lab.run()
    lab.check_truth()


@pytest.mark.parametrize("name", ["Word", "Count", "On"])
def test_a_published_value_comes_back_from_the_log(tmp_path: Path, name: str) -> None:
    """File and blob are both gone, but the value itself stands in the log: enough to write it again."""
    type_ = {"Word": "string", "Count": "integer", "On": "boolean"}[name]
    job = Job("A", with_=(("p", In("Title")),), outputs=(Output(name, type_, ".val"),), module="m2")
    lab = Lab(tmp_path, plain_flow(A=job))
    lab.run()
    for blob in blobs(lab):
        blob.unlink()
    (tmp_path / "out" / f"A-{name}.val").unlink()
    result = lab.run()
    assert result is not None
    assert result.exit_code == 0
    lab.check_truth()


def test_the_order_of_leaves_in_the_file_does_not_matter(tmp_path: Path) -> None:
    """Both leaves follow the job's own loop, so their texts differ from row to row."""
    kinds = (("On", "boolean"), ("N", "integer"))
    leaves = tuple(Leaf((("Nums", (Own("i"),)), (name, ())), type_) for name, type_ in kinds)
    job = Job("A", ("i",), with_=(("p", In("Title")),), outputs=(Output("Doc", "json", leaves=leaves),))
    turned = Job("A", ("i",), with_=(("p", In("Title")),), outputs=(Output("Doc", "json", leaves=leaves[::-1]),))
    lab = Lab(tmp_path, plain_flow(A=job))
    before = lab.plan().to_bytes()
    assert lab.try_flow(lab.flow.with_job(turned))
    assert lab.plan().to_bytes() == before


def test_bytes_that_only_a_published_file_holds_are_reused_though_another_step_publishes_there(tmp_path: Path) -> None:
    """Elements move by two: what `A[0]` made is to be `A[2]`, and its only copy stands where `A[0]` writes anew, before
    there is room to look at `A[2]`."""
    job = Job(
        "A", ("e",), with_=(("p", In("Files", (Own("e"),))),), outputs=(Output("Text", "text", ".txt"),), module="m2"
    )
    flow = plain_flow(A=replace(job, deterministic=True))
    lab = Lab(tmp_path, flow)
    lab.run()
    for blob in blobs(lab):
        blob.unlink()
    files = {"in/0.txt": "file 0", "in/x.txt": "x", "in/y.txt": "y"}
    values = {**flow.values, "Files": ["in/x.txt", "in/y.txt", "in/0.txt"]}
    assert lab.try_flow(replace(flow, values=values, files=files))
    plan = lab.plan()
    assert {job.id: job.reuse.run if job.reuse else None for job in plan.planned} == {
        "Job:A[0]": None,
        "Job:A[1]": None,
        "Job:A[2]": "r0001",
    }
    lab.run(faults=Faults(workers=1))
    lab.check_truth()
