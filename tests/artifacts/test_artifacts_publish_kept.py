"""Nothing is overwritten without another copy: lost blobs, and edits during the replacement."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from whyrun import disk
from whyrun.artifacts.hashing import bytes_sha256, tree_manifest
from whyrun.artifacts.publishing.publish import Displaced, publish
from whyrun.artifacts.store import Store
from whyrun.errors import InvalidError

AGES = {"young": 0.0, "settled": 0.05}  # seconds: a file that was just written is not known by its time stamps


class Desk:
    """A project with a store, one path, and what was told while something was published there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.project = root / "project"
        self.project.mkdir()
        self.store = Store(self.project / ".whyrun" / "store")
        self.displaced: list[Displaced] = []
        self.put_back: list[Displaced] = []
        self.ours: set[str] = set()

    def file(self, text: str) -> str:
        return self.store.put_bytes(text.encode())

    def folder(self, text: str) -> str:
        """Two files, one of them deep inside."""
        made = self.root / "made"
        (made / "sub" / "deep").mkdir(parents=True)
        (made / "top.txt").write_text(f"top of {text}")
        (made / "sub" / "deep" / "page.txt").write_text(text)
        sha, _ = self.store.put_tree(made)
        shutil.rmtree(made)
        return sha

    def publish(self, path: str, sha: str, type_: str = "file") -> tuple[Displaced, ...]:
        result = publish(
            self.store, self.project, path, sha, self.ours.__contains__, type_,
            self.displaced.append, self.put_back.append,
        )  # fmt: skip
        assert result.written
        assert os.listdir(self.store.root / "tmp") == []
        self.ours.add(sha)
        return result.displaced

    def lose(self, sha: str) -> None:
        Path(self.store.path(sha)).unlink()
        self.store = Store(self.store.root)  # one that has not seen it


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


At = Callable[[str, Callable[[], object]], None]


@pytest.fixture
def just_before() -> Iterator[At]:
    """`just_before(point, act)`: once, right before the first call of that point."""

    def set_up(point: str, act: Callable[[], object]) -> None:
        def hook(at: str, call: Any, *given: Any) -> Any:
            if at == point:
                disk.hook = None
                act()
            return call(*given)

        disk.hook = hook

    yield set_up
    disk.hook = None


# --- what the store has lost -------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", ["gone", "cut off"])
def test_a_file_of_ours_that_the_store_has_lost_is_put_back_before_it_is_written_over(desk: Desk, lost: str) -> None:
    old, new = desk.file("old"), desk.file("new")
    desk.publish("a", old)
    desk.lose(old)
    if lost == "cut off":
        Path(desk.store.path(old)).write_bytes(b"ol")
    assert desk.publish("a", new) == ()
    assert (desk.displaced, desk.put_back) == ([], [Displaced("a", old)])
    assert desk.store.read(old) == b"old"
    assert (desk.project / "a").read_text() == "new"


@pytest.mark.parametrize("part", ["manifest", "file"])
def test_a_folder_of_which_the_store_has_lost_a_part_is_put_back(desk: Desk, part: str) -> None:
    old, new = desk.folder("old"), desk.folder("new")
    desk.publish("d", old, "directory")
    desk.lose(old if part == "manifest" else bytes_sha256(b"old"))
    assert desk.publish("d", new, "directory") == ()
    assert (desk.displaced, desk.put_back) == ([], [Displaced("d", old)])
    assert desk.store.has_tree(old)


def test_what_the_store_has_is_not_put_back(desk: Desk) -> None:
    file, folder = desk.file("old"), desk.folder("old")
    desk.publish("a", file)
    desk.publish("d", folder, "directory")
    desk.publish("a", desk.file("new"))
    desk.publish("d", desk.folder("new"), "directory")
    assert (desk.displaced, desk.put_back) == ([], [])


# --- edits that come while it is replaced ------------------------------------------------------------------------


@pytest.mark.parametrize("age", AGES)
@pytest.mark.parametrize("point", ["store.mkdir", "publish.rename"])  # while the new one is made; after the last look
def test_an_edit_deep_in_a_folder_while_it_is_replaced_is_saved(
    desk: Desk, just_before: At, point: str, age: str
) -> None:
    old, new = desk.folder("old"), desk.folder("new")
    desk.publish("d", old, "directory")
    page = desk.project / "d" / "sub" / "deep" / "page.txt"
    time.sleep(AGES[age])

    just_before(point, lambda: page.write_text("my own work"))
    (displaced,) = desk.publish("d", new, "directory")
    assert desk.displaced == [displaced]
    mine = desk.root / "mine"
    desk.store.export(displaced.sha256, mine, "directory")
    assert (mine / "sub" / "deep" / "page.txt").read_text() == "my own work"
    assert (mine / "top.txt").read_text() == "top of old"
    assert page.read_text() == "new"
    assert desk.put_back == []


def test_an_edit_of_a_folder_that_was_just_saved_is_saved_as_well(desk: Desk, just_before: At) -> None:
    desk.publish("d", desk.folder("old"), "directory")
    page = desk.project / "d" / "sub" / "deep" / "page.txt"
    page.write_text("first")
    first = bytes_sha256(tree_manifest(desk.project / "d"))
    just_before("publish.rename", lambda: page.write_text("second"))
    displaced = desk.publish("d", desk.folder("new"), "directory")
    assert [one.path for one in displaced] == ["d", "d"]
    assert displaced[0].sha256 == first
    assert [desk.store.has_tree(one.sha256) for one in displaced] == [True, True]
    assert desk.store.read(bytes_sha256(b"second")) == b"second"


@pytest.mark.parametrize("age", AGES)
@pytest.mark.parametrize("point", ["store.open", "publish.rename"])
def test_an_edit_of_a_file_while_it_is_replaced_is_saved(desk: Desk, just_before: At, point: str, age: str) -> None:
    desk.publish("a", desk.file("old"))
    new = desk.file("new")
    time.sleep(AGES[age])
    just_before(point, lambda: (desk.project / "a").write_text("own"))  # as long as it was
    mine = Displaced("a", bytes_sha256(b"own"))
    assert desk.publish("a", new) == (mine,)
    assert desk.displaced == [mine]
    assert desk.store.read(mine.sha256) == b"own"
    assert (desk.project / "a").read_text() == "new"


def test_a_file_that_is_replaced_by_a_folder_may_be_edited_meanwhile(desk: Desk, just_before: At) -> None:
    desk.publish("x", desk.file("old"))
    new = desk.folder("new")
    just_before("publish.rename", lambda: (desk.project / "x").write_text("own"))
    assert desk.publish("x", new, "directory") == (Displaced("x", bytes_sha256(b"own")),)
    assert desk.store.read(bytes_sha256(b"own")) == b"own"


def test_a_folder_that_was_only_touched_meanwhile_is_no_edit(desk: Desk, just_before: At) -> None:
    desk.publish("d", desk.folder("old"), "directory")
    new = desk.folder("new")
    just_before("publish.rename", lambda: os.utime(desk.project / "d" / "top.txt"))
    assert desk.publish("d", new, "directory") == ()


def test_a_file_that_goes_meanwhile_is_in_nobodys_way(desk: Desk, just_before: At) -> None:
    desk.publish("a", desk.file("old"))
    new = desk.file("new")
    just_before("store.open", (desk.project / "a").unlink)
    assert desk.publish("a", new) == ()
    assert (desk.project / "a").read_text() == "new"


def test_where_an_edit_cannot_be_saved_the_folder_stays_where_it_was(desk: Desk, just_before: At) -> None:
    desk.publish("d", desk.folder("old"), "directory")
    new = desk.folder("new")
    just_before("publish.rename", lambda: (desk.project / "d" / "sub" / "link").symlink_to("/etc"))
    with pytest.raises(InvalidError, match="PATH_OUTSIDE"):
        desk.publish("d", new, "directory")
    assert str((desk.project / "d" / "sub" / "link").readlink()) == "/etc"
    assert (desk.project / "d" / "sub" / "deep" / "page.txt").read_text() == "old"
    assert os.listdir(desk.store.root / "tmp") == []
