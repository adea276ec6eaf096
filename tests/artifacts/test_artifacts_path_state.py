"""The state of a path without reading its content."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from whyrun.artifacts.publishing.publish import PathState, look_at, look_at_open
from whyrun.artifacts.stat_cache.rows import is_local

CHANGES: dict[str, Callable[[Path], object]] = {
    "another text": lambda top: (top / "sub" / "a").write_text("other"),
    "the same text": lambda top: (top / "sub" / "a").write_text("text"),
    "its mode": lambda top: (top / "sub" / "a").chmod(0o755),
    "a new file": lambda top: (top / "sub" / "b").touch(),
    "a file less": lambda top: (top / "sub" / "a").unlink(),
    "a new folder": lambda top: (top / "sub" / "deep").mkdir(),
    "another name": lambda top: (top / "sub" / "a").rename(top / "sub" / "b"),
    "another folder": lambda top: (shutil.copytree(top, top.parent / "copy"), shutil.rmtree(top),
                                   (top.parent / "copy").rename(top)),
}  # fmt: skip


def seen(path: Path) -> PathState:
    found = look_at(str(path))
    assert found is not None
    return found


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A folder that is old enough for its time stamps to tell something."""
    (tmp_path / "top" / "sub").mkdir(parents=True)
    (tmp_path / "top" / "sub" / "a").write_text("text")
    time.sleep(0.05)
    return tmp_path / "top"


def test_what_nobody_wrote_to_looks_the_same(top: Path) -> None:
    before = seen(top)
    assert (before.is_folder, before.is_link, before.settled) == (True, False, is_local(str(top)))
    (top / "sub" / "a").read_text()
    after = seen(top)  # its status has another time of access, which nobody looks at
    assert (after.inside, after.settled) == (before.inside, before.settled)
    assert after.looks_like(before)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_deep_in_a_folder_shows(top: Path, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = seen(top)
    now = time.time_ns()
    monkeypatch.setattr(
        "whyrun.artifacts.publishing.publish.time.time_ns", lambda: now
    )  # looked at at once, however busy it is
    CHANGES[change](top)
    assert not seen(top).looks_like(before)
    assert not seen(top).looks_like(before, moved=True)
    assert not seen(top).settled


def test_what_was_moved_looks_the_same_but_for_its_ctime(top: Path) -> None:
    before = seen(top)
    top.rename(top.parent / "aside")
    after = seen(top.parent / "aside")
    assert not after.looks_like(before)
    assert after.looks_like(before, moved=True)


def test_a_file_that_has_lost_its_name_is_seen_through_its_descriptor(top: Path) -> None:
    file = top / "sub" / "a"
    before = seen(file)
    descriptor = os.open(file, os.O_RDWR)
    file.unlink()
    assert look_at_open(descriptor).looks_like(before, moved=True)
    os.write(descriptor, b"TEXT")
    assert not look_at_open(descriptor).looks_like(before, moved=True)
    os.close(descriptor)


def test_nothing_stands_where_nothing_is_and_a_link_is_not_followed(top: Path) -> None:
    assert look_at(str(top / "nothing")) is None
    (top / "link").symlink_to("sub")
    assert (seen(top / "link").is_link, seen(top / "link").is_folder) == (True, False)
