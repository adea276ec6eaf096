"""Adopted versions are never lost: not by prune, gc or overwriting."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from gc_lab import Past

from project_lab import Heard, Lab
from whyrun import disk
from whyrun.artifacts.hashing import bytes_sha256
from whyrun.evidence.retention.gc import collect
from whyrun.evidence.retention.prune import Selection, prune
from whyrun.evidence.verify.verify import verify
from whyrun.execution.adopt.adopt import adopt_file, restore_version
from whyrun.log import events as ev
from whyrun.log.journal import utc_now
from whyrun.log.tombstones import Adopted, add_tombstones

WORK = "three days of work by hand\n"
WORK_SHA = bytes_sha256(WORK.encode())

ONE = """
    workflow: mine
    inputs: {X: {type: integer, default: 1}}
    jobs:
      A:
        uses: shell
        with: {x: "${{ inputs.X }}", run: 'echo "made $x" > "$out_T"'}
        outputs: {T: {type: text, path: out/t.txt}}
"""
SHELF = """
    workflow: shelf
    inputs: {X: {type: integer, default: 1}}
    jobs:
      A:
        uses: shell
        with: {x: "${{ inputs.X }}", run: 'mkdir -p "$out_D/sub"; echo "made $x" > "$out_D/sub/page.txt"'}
        outputs: {D: {type: directory, path: out/d}}
"""
PART = """
    workflow: part
    inputs: {X: {type: integer, default: 1}}
    jobs:
      A:
        uses: shell
        with: {x: "${{ inputs.X }}", run: 'echo "{\\"n\\": $x}" > "$out_J"'}
        outputs: {J: {type: json, path: out/all.json, append: true}}
"""


def edit_and_adopt(lab: Lab, artifact: str, path: str, text: str, adopt: str | None = None) -> None:
    """A file is edited where it is published, and adopted there (`adopt`: with the folder that it is in)."""
    (lab.root / path).write_text(text)
    adopt_file(lab.opened(), artifact, lab.root / (adopt or path), Heard())


def pruned(lab: Lab, x: int) -> list[str]:
    done = prune(lab.opened([f"X={x}"]), Selection(keep=1), utc_now)
    return [run.run for run in done.pruned]


def collected(lab: Lab) -> int:
    """How many files of the user's are kept that only tombstones name."""
    return collect(lab.root / ".whyrun", utc_now).displaced


def problems(lab: Lab) -> tuple[object, ...]:
    return verify(lab.opened().state, lab.root, lambda run: None).problems


def told_displaced(lab: Lab, run: str) -> list[tuple[str, str]]:
    return [(e.path, e.sha256) for e in lab.events(run) if isinstance(e, ev.FileDisplaced)]


@pytest.fixture
def mine(project: Callable[..., Lab]) -> Lab:
    """r0001 made it, r0002 adopted another version."""
    lab = project(ONE)
    lab.succeed()
    edit_and_adopt(lab, "Artifact:A.T", "out/t.txt", WORK)
    return lab


def test_an_adopted_version_is_kept_forever_like_a_displaced_file(mine: Lab) -> None:
    mine.succeed(sets=["X=2"])
    mine.succeed(sets=["X=3"])
    assert pruned(mine, 3) == ["r0001", "r0002", "r0003"]
    assert [stone.adopted for stone in mine.opened().state.tombstones()] == [
        [], [Adopted("Artifact:A.T", WORK_SHA, "text")], [],
    ]  # fmt: skip
    assert collected(mine) == 1
    assert mine.blob(WORK_SHA).read_text() == WORK
    assert not mine.blob(bytes_sha256(b"made 1\n")).exists()
    assert problems(mine) == ()


def test_an_adopted_folder_stays_with_all_that_is_in_it(project: Callable[..., Lab]) -> None:
    lab = project(SHELF)
    lab.succeed()
    edit_and_adopt(lab, "Artifact:A.D", "out/d/sub/page.txt", WORK, "out/d")
    for x in (2, 3):
        lab.succeed(sets=[f"X={x}"])
    assert pruned(lab, 3) == ["r0001", "r0002", "r0003"]
    assert collected(lab) == 2, "its list of files, and the file"
    ((version,),) = [stone.adopted for stone in lab.opened().state.tombstones() if stone.adopted]
    assert (version.artifact, version.type) == ("Artifact:A.D", "directory")
    assert lab.opened().store.has_tree(version.sha256)
    assert lab.blob(WORK_SHA).read_text() == WORK
    assert problems(lab) == ()
    lab.blob(WORK_SHA).chmod(0o644)
    lab.blob(WORK_SHA).write_text("damaged")
    (problem,) = verify(lab.opened().state, lab.root, lambda run: None).problems
    assert (problem.run, problem.event, problem.subject, problem.what) == (
        "r0002", "artifact_adopted", "Artifact:A.D", "the store has other bytes of `sub/page.txt` in it",
    )  # fmt: skip


def test_an_adopted_section_stays(project: Callable[..., Lab]) -> None:
    lab = project(PART)
    lab.succeed()
    own = lab.root / "own.json"
    own.write_text('{"by": "hand"}')
    adopt_file(lab.opened(), "Artifact:A.J", own, Heard())
    for x in (2, 3):
        lab.succeed(sets=[f"X={x}"])
    pruned(lab, 3)
    assert collected(lab) == 1
    assert lab.blob(bytes_sha256(b'{"by":"hand"}')).read_text() == '{"by":"hand"}'


def test_a_restored_version_stays_as_well(mine: Lab) -> None:
    """It may be the user's own: who adopted it at first may have been pruned by a version that did not say so."""
    mine.succeed(sets=["X=2"])
    restore_version(mine.opened(), "Artifact:A.T", "r0002", Heard())
    for x in (2, 3):
        mine.succeed(sets=[f"X={x}"])
    assert "r0004" in pruned(mine, 3)
    stones = mine.opened().state.tombstones()
    assert {stone.run: [one.sha256 for one in stone.adopted] for stone in stones if stone.adopted} == {
        "r0002": [WORK_SHA], "r0004": [WORK_SHA],
    }  # fmt: skip
    assert collected(mine) == 1


def test_a_lost_version_of_a_pruned_run_is_reported_like_any_older_version(mine: Lab) -> None:
    for x in (2, 3):
        mine.succeed(sets=[f"X={x}"])
    pruned(mine, 3)
    mine.blob(WORK_SHA).unlink()
    found = verify(mine.opened().state, mine.root, lambda run: None)
    assert found.problems == ()
    assert "1 older version is not in the store any more and cannot be restored or reused" in found.notes


# --- what is published, and nowhere else -------------------------------------------------------------------------


def moved_on(lab: Lab) -> None:
    """The path is changed: what was adopted stands at the old one, and no kept run speaks of it."""
    lab.edit("workflow.yaml", "out/t.txt", "out/u.txt")
    for x in (2, 3):
        lab.succeed(sets=[f"X={x}"])
    assert pruned(lab, 3) == ["r0001", "r0002", "r0003"]


def test_a_path_that_is_used_again_loses_no_user_edit(mine: Lab) -> None:
    moved_on(mine)
    assert collected(mine) == 1
    mine.edit("workflow.yaml", "out/u.txt", "out/t.txt")
    mine.succeed(sets=["X=3"])
    assert mine.read("out/t.txt") == "made 3\n"
    collected(mine)
    assert mine.blob(WORK_SHA).read_text() == WORK


def test_the_only_copy_of_a_pruned_result_is_saved_like_a_user_file(mine: Lab) -> None:
    """As an earlier `gc` left it, which did not know of adoptions; `gc` keeps it from now on."""
    moved_on(mine)
    collected(mine)
    mine.blob(WORK_SHA).unlink()
    mine.edit("workflow.yaml", "out/u.txt", "out/t.txt")
    ran = mine.succeed(sets=["X=3"])
    assert told_displaced(mine, "r0005") == [("out/t.txt", WORK_SHA)]
    place = mine.blob(WORK_SHA)
    kept = f"its previous content is kept: {place}"
    assert ran.heard.notes[-1:] == [f"`out/t.txt` had no other copy, and its run was pruned; {kept}"]
    assert mine.read("out/t.txt") == "made 3\n"
    mine.succeed(sets=["X=4"])
    prune(mine.opened(["X=4"]), Selection(keep=1), utc_now)
    collected(mine)
    assert place.read_text() == WORK


def test_tombstones_from_before_they_named_adoptions_keep_what_was_published(mine: Lab) -> None:
    moved_on(mine)
    state = mine.opened().state
    add_tombstones(state.tombstones_path, [msgspec.structs.replace(one, adopted=[]) for one in state.tombstones()])
    assert collected(mine) == 1
    assert mine.blob(WORK_SHA).read_text() == WORK


@pytest.mark.parametrize(
    ("workflow", "published", "lost"),
    [(ONE, "out/t.txt", b"made 1\n"), (SHELF, "out/d/sub/page.txt", b"made 1\n"), (PART, "out/all.json", b'{"n":1}')],
    ids=["file", "folder", "section"],
)
def test_the_only_copy_of_a_result_goes_back_into_the_store_and_is_not_paid_for_twice(
    project: Callable[..., Lab], workflow: str, published: str, lost: bytes
) -> None:
    lab = project(workflow)
    lab.succeed()
    before = lab.read(published)
    lab.blob(bytes_sha256(lost)).unlink()
    lab.succeed(sets=["X=2"])
    assert lab.read(published) != before
    assert lab.blob(bytes_sha256(lost)).read_bytes() == lost
    assert told_displaced(lab, "r0002") == [], "the log speaks of it: it is where it was"
    back = lab.succeed(sets=["X=1"])
    assert (back.executed, back.reused) == ([], {"Job:A": "r0001"})
    assert lab.read(published) == before
    assert problems(lab) == ()


def test_a_blob_is_synced_before_its_only_copy_is_overwritten(mine: Lab) -> None:
    mine.blob(WORK_SHA).unlink()
    told: list[str] = []

    def hook(point: str, call: Any, *given: Any, **options: Any) -> Any:
        if point == "store.sync_filesystem" or (point.endswith(".rename") and Path(given[1]) in watched):
            told.append(point)
        return call(*given, **options)

    watched = {mine.blob(WORK_SHA), mine.root / "out/t.txt"}
    disk.hook = hook
    try:
        mine.succeed(sets=["X=2"])
    finally:
        disk.hook = None
    between = told[told.index("store.rename") + 1 : told.index("publish.rename")]
    assert set(between) == {"store.sync_filesystem"}
    assert mine.read("out/t.txt") == "made 2\n"


def test_gc_prints_what_is_kept_of_pruned_runs(past: Past) -> None:
    past.adopt("Artifact:Write.Text", WORK)
    past.word("five").succeed()
    past.word("six").succeed()
    past.whyrun("runs", "prune", "--keep", "1", "--delete")
    told = past.whyrun("gc", "--delete")
    assert told.out.splitlines()[-1].split("  ")[-1] == "1 file of yours, adopted or saved before being overwritten"
    assert Path(past.blob(WORK_SHA)).read_text() == WORK
