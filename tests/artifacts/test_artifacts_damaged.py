"""Damaged blobs are removed, but never good ones that another process puts in their place meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from whyrun import disk
from whyrun.artifacts.durable import remove_if_damaged, replacing_blob
from whyrun.artifacts.hashing import TreeFile, bytes_sha256, encode_tree
from whyrun.artifacts.store import Store
from whyrun.execution.worker.failure import StepError
from whyrun.execution.worker.materialize import InputGuard

RIGHT = b"the right bytes"
SHA = bytes_sha256(RIGHT)
PUT = "import sys; from whyrun.artifacts.store import Store; Store(sys.argv[1]).put_bytes(sys.argv[2].encode())"
A_WHILE = 1.5  # seconds, for a process that should have to wait


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def damage(store: Store, sha256: str) -> Path:
    blob = Path(store.path(sha256))
    blob.chmod(0o644)
    blob.write_bytes(b"other bytes")
    return blob


def damaged(store: Store) -> Path:
    return damage(store, store.put_bytes(RIGHT))


def another_process_puts(store: Store) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", PUT, store.root, RIGHT.decode()])


@contextmanager
def once_before(points: tuple[str, ...], act: Callable[[], object]) -> Iterator[None]:
    """`act` right before the first call at one of these points."""

    def hook(point: str, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if point in points:
            disk.hook = None
            act()
        return call(*arguments, **named)

    disk.hook = hook
    try:
        yield
    finally:
        disk.hook = None


def put_at_once(store: Store) -> None:
    assert another_process_puts(store).wait() == 0


def test_damaged_bytes_are_removed(store: Store) -> None:
    blob = damaged(store)
    store.drop_damaged(SHA, "file")
    assert not blob.exists()
    store.drop_damaged(SHA, "file")  # and where nothing is, nothing happens
    assert store.put_bytes(RIGHT) == SHA
    assert blob.read_bytes() == RIGHT


def test_right_bytes_stay(store: Store) -> None:
    store.put_bytes(RIGHT)
    store.drop_damaged(SHA, "file")
    assert store.read(SHA) == RIGHT


def test_of_a_folder_what_is_damaged_goes_and_the_rest_stays(store: Store) -> None:
    shas = [store.put_bytes(data) for data in (b"one", b"two")]
    manifest = store.put_bytes(encode_tree([TreeFile(sha256, sha256, 3, False) for sha256 in shas], []))
    damage(store, shas[0])
    store.drop_damaged(manifest, "directory")
    assert [store.has(sha256) for sha256 in (*shas, manifest)] == [False, True, True]


def test_right_bytes_that_another_process_puts_while_the_damaged_are_read_stay(store: Store) -> None:
    blob = damaged(store)
    with once_before(("store.open", "store.unlink"), lambda: put_at_once(store)):
        store.drop_damaged(SHA, "file")
    assert blob.read_bytes() == RIGHT


def test_who_puts_right_bytes_while_the_damaged_go_waits_and_puts_them_then(store: Store) -> None:
    blob = damaged(store)
    others: list[subprocess.Popen[bytes]] = []

    def begin() -> None:
        others.append(another_process_puts(store))
        with pytest.raises(subprocess.TimeoutExpired):
            others[0].wait(A_WHILE)

    with once_before(("store.unlink",), begin):
        store.drop_damaged(SHA, "file")
    assert others[0].wait() == 0
    assert blob.read_bytes() == RIGHT


def test_those_who_put_do_not_wait_for_each_other(store: Store) -> None:
    damaged(store)
    with replacing_blob(os.fspath(store.root)):
        put_at_once(store)
    assert store.read(SHA) == RIGHT


def test_the_right_bytes_that_another_has_put_meanwhile_are_not_replaced(store: Store) -> None:
    """A step may be reading them, and would take it for damage."""
    inodes: list[int] = []

    def another_puts() -> None:
        put_at_once(store)
        inodes.append(os.stat(store.path(SHA)).st_ino)

    with once_before(("store.write",), another_puts):
        store.put_bytes(RIGHT)
    assert [os.stat(store.path(SHA)).st_ino] == inodes
    assert (store.read(SHA), os.listdir(store.root / "tmp")) == (RIGHT, [])


def test_under_a_free_name_nothing_is_locked(store: Store) -> None:
    """It is what nearly all that is put has: there is nothing that anybody could be about to remove."""
    store.put_bytes(RIGHT)
    assert sorted(entry.name for entry in store.root.iterdir()) == sorted([SHA[:2], "tmp"])


def test_a_process_that_was_forked_meanwhile_holds_nobody_up(store: Store) -> None:
    """It has every descriptor of its parent, and with it a hold on the lock."""
    blob = damaged(store)
    with replacing_blob(os.fspath(store.root)):
        child = os.fork()
        if child == 0:
            os.read(os.pipe()[0], 1)  # for ever
    try:
        assert remove_if_damaged(str(blob), SHA)
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert not blob.exists()


def test_the_lock_is_no_leftover_and_no_blob(store: Store) -> None:
    damaged(store)
    put_at_once(store)
    assert store.remove_leftovers(older_than=float("inf")) == 0
    assert sorted(entry.name for entry in store.root.iterdir()) == sorted([SHA[:2], "lock", "tmp"])


def test_a_step_that_wrote_into_its_input_fails_and_takes_no_right_bytes_away(store: Store, tmp_path: Path) -> None:
    store.put_bytes(RIGHT)
    guard = InputGuard(tmp_path)
    guard.begin()
    guard.blob("Artifact:A.T", store.path(SHA), SHA)
    blob = damage(store, SHA)
    with once_before(("store.open", "store.unlink"), lambda: put_at_once(store)), pytest.raises(StepError) as failed:
        guard.check_unchanged()
    assert failed.value.kind == "InputChangedDuringRun"
    assert blob.read_bytes() == RIGHT
