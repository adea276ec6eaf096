"""Folders are asked for what was put into them, and not looked through: by any process, in any way."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from whyrun.execution import folder_watch
from whyrun.execution.folder_watch import FolderWatch
from whyrun.execution.scratch import Scratch


@pytest.fixture
def folders(tmp_path: Path) -> list[str]:
    made = [tmp_path / name for name in ("out", "inputs", "work")]
    for folder in made:
        folder.mkdir()
    return list(map(str, made))


def test_only_what_was_touched_is_named(folders: list[str], tmp_path: Path) -> None:
    watch = FolderWatch(folders)
    assert (watch.works, watch.touched()) == (True, ())
    Path(folders[0], "a").write_text("1")
    os.symlink("/", f"{folders[2]}/link")
    assert set(watch.touched()) == {folders[0], folders[2]}
    assert watch.touched() == ()
    (tmp_path / "b").write_text("2")
    os.rename(tmp_path / "b", f"{folders[1]}/b")
    assert watch.touched() == (folders[1],)
    subprocess.run(["mkdir", f"{folders[1]}/c"], check=True)
    assert watch.touched() == (folders[1],)
    os.unlink(f"{folders[0]}/a")
    assert watch.touched() == ()  # there is less to take out than before


@pytest.mark.parametrize("way", ["moved", "removed"])
def test_a_folder_that_is_another_now_makes_all_count_as_touched(folders: list[str], tmp_path: Path, way: str) -> None:
    watch = FolderWatch(folders)
    if way == "moved":
        os.rename(folders[0], tmp_path / "elsewhere")
    else:
        os.rmdir(folders[0])
    assert list(watch.touched()) == folders
    os.mkdir(folders[0])
    watch.renew()
    assert watch.touched() == ()
    Path(folders[0], "a").write_text("1")
    assert watch.touched() == (folders[0],)


def test_more_than_the_kernel_keeps_makes_all_count_as_touched(folders: list[str]) -> None:
    watch = FolderWatch(folders)
    for number in range(2000):
        os.mkdir(f"{folders[0]}/{number:030d}")
    assert list(watch.touched()) == folders


def test_without_a_watch_all_folders_always_count(folders: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    class Without:
        def __init__(self, name: object) -> None:
            del name

    monkeypatch.setattr(folder_watch.ctypes, "CDLL", Without)  # a system that has no inotify
    watch = FolderWatch(folders)
    assert (watch.works, list(watch.touched())) == (False, folders)


def test_a_scratch_folder_is_emptied_of_all_that_came_since(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path / "scratch")
    scratch.make()
    (scratch.work / "before").write_text("")
    scratch.watch()
    (scratch.tmp / "deep" / "er").mkdir(parents=True)
    (scratch.out / "file").write_text("x")
    scratch.empty()
    assert (os.listdir(scratch.out), os.listdir(scratch.tmp)) == ([], [])
    os.rmdir(scratch.home)
    os.symlink(tmp_path, scratch.home)  # where it leads is not ours
    scratch.empty()
    assert (scratch.home.is_symlink(), os.listdir(scratch.home), os.listdir(scratch.work)) == (False, [], [])
    (scratch.home / "late").write_text("x")
    scratch.empty_handed()
    assert os.listdir(scratch.home) == []
    assert sorted(os.listdir(tmp_path)) == ["scratch"]
