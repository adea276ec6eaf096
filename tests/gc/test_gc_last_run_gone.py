"""The last run is removed by hand: the lock still names it, so gc removes nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from gc_lab import Past

from whyrun.artifacts.hashing import bytes_sha256
from whyrun.evidence.retention.gc import collectable
from whyrun.log.events import RunStart
from whyrun.log.journal import utc_now
from whyrun.log.lock import RunLock
from whyrun.log.runs import LAST_LOST_HINT, create_run

OWN = b"my own words\n"


@pytest.fixture
def saved(past: Past) -> Past:
    """r0006 has saved a file of the user's, and is gone."""
    (past.root / "out" / "word.txt").write_bytes(OWN)
    past.word("six").succeed()
    shutil.move(past.run_folder("r0006"), past.root / "away")
    return past


def error_text(past: Past) -> str:
    place = past.opened().state.runs_dir / "r0006"
    what = "`r0006` of `past` is missing, but the lock names it as the last run"
    return f"error[LOG_DAMAGED] {place}: {what}\n   hint: {LAST_LOST_HINT}\n"


def test_gc_removes_nothing_and_keeps_the_saved_file(saved: Past) -> None:
    before, runs = saved.blobs(), saved.runs()
    assert before[bytes_sha256(OWN)] == OWN
    for words in (
        ("gc",),
        ("gc", "--delete"),
        ("runs", "prune", "--keep", "1"),
        ("runs", "prune", "--keep", "1", "--delete"),
        ("gc", "--delete"),  # again: who has held the lock meanwhile has left it said
    ):
        answer = saved.whyrun(*words)
        assert (answer.code, answer.out, answer.err) == (3, "", error_text(saved)), words
    assert (saved.blobs(), saved.runs()) == (before, runs)


def test_verify_reports_the_lost_run_with_a_hint(saved: Past) -> None:
    answer = saved.whyrun("verify")
    assert (answer.code, answer.out.splitlines()[:2]) == (
        3,
        [
            "past is damaged: 1 problem",
            "  .whyrun/past/runs/r0006: the run is missing, but the lock names it as the last run",
        ],
    )
    assert f"hint: {LAST_LOST_HINT}" in answer.out.splitlines()
    assert saved.whyrun("verify", "r0005").code == 0, "which was not asked for it"


def test_after_the_run_is_put_back_all_is_well(saved: Past) -> None:
    shutil.move(saved.root / "away", saved.opened().state.runs_dir / "r0006")
    assert saved.whyrun("verify").code == 0
    assert saved.whyrun("gc", "--delete").code == 0
    assert saved.blobs()[bytes_sha256(OWN)] == OWN


def test_the_next_run_takes_the_number_of_the_lost_run(saved: Past) -> None:
    """What the hint says to who has moved it away on purpose."""
    saved.word("other").succeed()
    assert saved.runs()[-1] == "r0006"
    assert saved.whyrun("verify").code == 0
    assert saved.whyrun("gc", "--delete").code == 0
    assert bytes_sha256(OWN) not in saved.blobs()


def test_a_run_with_nothing_to_do_does_not_hide_the_lost_run(saved: Past) -> None:
    (saved.root / "out" / "word.txt").write_text("four\n")
    saved.word("four").succeed()  # which is what r0005 has left
    assert (saved.runs()[-1], saved.whyrun("gc", "--delete").err) == ("r0005", error_text(saved))


def test_a_run_killed_before_the_lock_names_it_is_not_damage(saved: Past) -> None:
    """It has the number of the lost one, whose lines, synced or not, are none of its own."""
    state = saved.opened().state
    start = next(event for event in saved.events("r0005") if isinstance(event, RunStart))
    new = msgspec.structs.replace(start, seq=0, ts="", session="", chain="")
    killed = RunLock.of(state, utc_now).__enter__()
    create_run(state, new, utc_now)[1].close()
    killed.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert state.lost_last_run() is None
    saved.word("other").succeed()
    assert saved.runs()[-2:] == ["r0006", "r0007"]
    collectable(state.state_dir)


@pytest.mark.parametrize(
    "lock", [b"", b"torn", b'{"synced":{"run":"later","seq":1}}', b'{"synced":{"run":"r0002","seq":0}}']
)
def test_a_lock_without_a_later_run_reports_no_loss(past: Past, lock: bytes) -> None:
    state = past.opened().state
    Path(state.lock_path).write_bytes(lock)
    assert state.lost_last_run() is None
