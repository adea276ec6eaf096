"""Nothing goes where a log is not what it was, or on doubt; and making room needs no room."""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gc_lab import Past

from whyrun import disk
from whyrun.errors import StateError
from whyrun.evidence.gc import collect, collectable
from whyrun.evidence.prune import Selection, prune
from whyrun.evidence.verify import verify
from whyrun.evidence.verify_report import MORE_AFTER_THE_END
from whyrun.log.events import DAMAGE_HINT
from whyrun.log.journal import utc_now
from whyrun.log.outcomes import LOST_END_HINT
from whyrun.snapshot.history import History

Lines = list[bytes]


def line_of(lines: Lines, kind: str) -> int:
    return next(at for at, line in enumerate(lines) if json.loads(line)["event"] == kind)


def without_the_artifact(lines: Lines) -> Lines:
    at = line_of(lines, "artifact_available")
    return [*lines[:at], *lines[at + 1 :]]


def with_another_hash(lines: Lines) -> Lines:
    at = line_of(lines, "artifact_available")
    sha = json.loads(lines[at])["sha256"].encode()
    return [*lines[:at], lines[at].replace(sha, sha[::-1]), *lines[at + 1 :]]


def without_its_end(lines: Lines) -> Lines:
    return lines[: line_of(lines, "artifact_available")]


def with_more_after_its_end(lines: Lines) -> Lines:
    return [*lines, b'{"seq":']


def hint_for(damage: Callable[[Lines], Lines], run: str) -> str:
    """What `verify` says, too: some damage costs less than the runs from there on."""
    if damage is with_more_after_its_end:
        return MORE_AFTER_THE_END
    return LOST_END_HINT if damage is without_its_end and run == "r0005" else DAMAGE_HINT


DAMAGES: list[Callable[[Lines], Lines]] = [
    without_the_artifact, with_another_hash, without_its_end, with_more_after_its_end,
]  # fmt: skip


@pytest.mark.parametrize("run", ["r0004", "r0005"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_on_a_log_that_verify_calls_damaged_nothing_goes(
    past: Past, run: str, damage: Callable[[Lines], Lines]
) -> None:
    """Also where each line that is left can be read; and where the end of the last run is gone, which a kill leaves so,
    but not beside a status that tells of the end."""
    prune(past.world(), Selection(keep=2), utc_now)
    log = past.world().state.run(run).events_path
    log.write_bytes(b"".join(damage(log.read_bytes().splitlines(keepends=True))))
    before = past.blobs()
    assert not verify(past.world().state, past.root, lambda run: None).sound
    for attempt in (lambda state: collect(state, utc_now), collectable):
        with pytest.raises(StateError) as refused:
            attempt(past.root / ".whyrun")
        (told,) = refused.value.diagnostics
        assert (told.code, told.file, told.hint) == ("LOG_DAMAGED", str(log), hint_for(damage, run))
    assert past.blobs() == before


def test_a_tombstone_that_does_not_follow_keeps_everything(past: Past, tmp_path: Path) -> None:
    """The tombstones of another past are each as they were written, and are not of this one."""
    other = Past(tmp_path / "other")
    shutil.copytree(past.root, other.root, symlinks=True)
    shutil.rmtree(other.root / ".whyrun")
    for word in ("five", "six", "seven", "eight"):
        other.word(word).succeed()
    prune(other.world(), Selection(keep=1), utc_now)
    prune(past.world(), Selection(keep=2), utc_now)
    state = past.world().state
    shutil.copy(other.world().state.tombstones_path, state.tombstones_path)
    before = past.blobs()
    with pytest.raises(StateError) as refused:
        collect(past.root / ".whyrun", utc_now)
    assert refused.value.diagnostics[0].message.startswith("the run does not follow r0003 (`previous_chain`)")
    assert past.blobs() == before


def test_what_a_kill_leaves_is_no_damage(past: Past) -> None:
    """A last run without an end and without a status: what it did not record goes, and nothing else."""
    run = past.world().state.run("r0005")
    lines = run.events_path.read_bytes().splitlines(keepends=True)
    run.events_path.write_bytes(b"".join(lines[:-1]) + lines[-1][:9])
    (run.path / "status.json").unlink()
    before = past.blobs()
    assert collect(past.root / ".whyrun", utc_now).removed.count == 0
    assert past.blobs() == before


# --- a run that is missing ---------------------------------------------------------------------------------------


def test_a_run_that_is_missing_in_the_middle_is_told_in_the_same_words_everywhere(past: Past) -> None:
    past.run_folder("r0002").rename(past.root / "moved")
    place = past.run_folder("r0002")
    words = f"error[LOG_DAMAGED] {place}: `r0002` of `past` is not there, and was not pruned\n   hint: {DAMAGE_HINT}\n"
    for command in ("plan", "run", "status", "gc --delete", "runs prune --keep 1"):
        found = past.whyrun(*command.split())
        assert (found.code, found.out, found.err) == (3, "", words)
    told = past.whyrun("verify", "--json").json["problems"][0]
    assert (told["run"], told["what"]) == ("r0002", "the run is not there, and was not pruned")
    (past.root / "moved").rename(past.run_folder("r0002"))
    assert past.whyrun("plan").code == 0


def test_tombstones_that_are_gone_are_runs_that_are_missing(past: Past) -> None:
    prune(past.world(), Selection(keep=1), utc_now)
    past.world().state.tombstones_path.unlink()
    with pytest.raises(StateError) as refused:
        past.plan()
    assert refused.value.diagnostics[0].message == "`r0001` of `past` is not there, and was not pruned"


def test_the_index_hides_no_missing_run(past: Past) -> None:
    world = past.world()
    long_ago = time.time() - 3600  # a log that was written just now is not indexed yet
    for run in world.state.runs():
        os.utime(run.events_path, (long_ago, long_ago))
    _ = History(world.state, world.store.read, worth_indexing=1).records
    past.run_folder("r0001").rename(past.root / "moved")
    with pytest.raises(StateError) as refused:
        past.plan()
    assert refused.value.diagnostics[0].message == "`r0001` of `past` is not there, and was not pruned"


# --- a full disk -------------------------------------------------------------------------------------------------


@pytest.fixture
def full_disk() -> Iterator[None]:
    def refuse(point: str, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if point.endswith((".write", ".clone")):
            raise OSError(errno.ENOSPC, "No space left on device")
        return call(*arguments, **named)

    disk.hook = refuse
    yield
    disk.hook = None


def test_on_a_full_disk_room_can_be_made(past: Past, request: pytest.FixtureRequest) -> None:
    prune(past.world(), Selection(keep=1), utc_now)
    state = past.root / ".whyrun"
    going = collectable(state).removed
    assert going.count > 0
    request.getfixturevalue("full_disk")
    assert collect(state, utc_now).removed == going
    assert collectable(state).removed.count == 0


def test_on_a_full_disk_a_prune_leaves_all_as_it_was(past: Past, request: pytest.FixtureRequest) -> None:
    """Its tombstones need a little room. It is they that are told of, not the lock."""
    before = past.state_files()
    world = past.world()
    request.getfixturevalue("full_disk")
    with pytest.raises(OSError, match="No space left") as refused:
        prune(world, Selection(keep=1), utc_now)
    assert "lock" not in str(refused.value.filename)
    disk.hook = None
    assert past.state_files() == before
    assert len(prune(past.world(), Selection(keep=1), utc_now).pruned) == 3
