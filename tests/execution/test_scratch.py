"""Folders are asked for what was put into them, and not looked through: by any process, in any way."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from worker_lab import Lab

from whyrun.artifacts.file_systems import is_local
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


def test_a_folder_that_was_made_again_while_the_old_one_is_held_open_makes_all_count_as_touched(
    folders: list[str],
) -> None:
    watch = FolderWatch(folders)
    held = os.open(folders[0], os.O_RDONLY)
    os.rmdir(folders[0])
    os.mkdir(folders[0])
    Path(folders[0], "a").write_text("1")
    assert list(watch.touched()) == folders
    os.close(held)


def test_what_happens_beside_the_folders_does_not_count(folders: list[str], tmp_path: Path) -> None:
    watch = FolderWatch(folders)
    (tmp_path / "script.sh").write_text("")
    os.rename(tmp_path / "script.sh", tmp_path / "elsewhere")
    os.unlink(tmp_path / "elsewhere")
    (tmp_path / "work-2").mkdir()
    assert watch.touched() == ()


def test_only_where_nobody_writes_but_through_this_kernel_is_it_asked() -> None:
    assert (is_local("/dev/shm"), is_local("/proc"), is_local("/nowhere")) == (
        True, False, False,
    )  # fmt: skip
    watch = FolderWatch(["/proc/self/fd", "/proc/self/task"])
    assert (watch.works, list(watch.touched())) == (False, ["/proc/self/fd", "/proc/self/task"])


@pytest.mark.parametrize("instead", ["nothing", "an empty file", "a file"])
def test_a_watch_that_a_step_has_closed_makes_all_count_as_touched(
    folders: list[str], tmp_path: Path, instead: str
) -> None:
    before = _watches()
    watch = FolderWatch(folders)
    (descriptor,) = _watches() - before
    if instead == "nothing":
        os.close(descriptor)
    else:
        with open(tmp_path / "other", "w+") as other:
            other.write("short" if instead == "a file" else "")
            other.seek(0)
            os.dup2(other.fileno(), descriptor)
    assert list(watch.touched()) == folders
    watch.renew()
    assert (watch.works, watch.touched()) == (True, ())


def _watches() -> set[int]:
    """Descriptors of this process."""
    links = [Path("/proc/self/fd", number) for number in os.listdir("/proc/self/fd")]
    return {int(link.name) for link in links if link.is_symlink() and os.readlink(link) == "anon_inode:inotify"}


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


@pytest.fixture
def make_immutable(tmp_path: Path) -> Iterator[Callable[[Path], None]]:
    """What nobody can remove or move. Only root can make it, and not on every file system."""

    def make(path: Path) -> None:
        try:
            subprocess.run(["chattr", "+i", path], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as problem:
            pytest.skip(f"nothing can be made immutable here: {problem}")

    yield make
    subprocess.run(["chattr", "-R", "-f", "-i", tmp_path], check=False)


@pytest.mark.parametrize("watched", [True, False])
def test_a_folder_that_cannot_be_emptied_is_put_aside(
    tmp_path: Path, watched: bool, make_immutable: Callable[[Path], None]
) -> None:
    scratch = Scratch(tmp_path / "scratch")
    scratch.make()
    if watched:
        scratch.watch()
    for name in ("a", "stuck", "z"):
        (scratch.work / name).write_text(name)
    (scratch.tmp / "file").write_text("x")
    make_immutable(scratch.work / "stuck")
    scratch.empty()
    assert (os.listdir(scratch.work), os.listdir(scratch.tmp)) == ([], [])
    (aside,) = scratch.root.glob("aside-*")
    assert (aside / "stuck").read_text() == "stuck"
    (scratch.work / "next").write_text("x")
    scratch.empty()
    assert os.listdir(scratch.work) == []


@pytest.mark.parametrize("watched", [True, False])
def test_a_folder_that_cannot_even_be_put_aside_lets_no_step_begin_until_it_is_empty(
    tmp_path: Path, watched: bool, make_immutable: Callable[[Path], None]
) -> None:
    scratch = Scratch(tmp_path / "scratch")
    scratch.make()
    if watched:
        scratch.watch()
    (scratch.work / "stuck").write_text("x")
    (scratch.tmp / "file").write_text("x")
    make_immutable(scratch.work)
    for again in (scratch.empty, scratch.empty_handed, scratch.empty):
        with pytest.raises(PermissionError):
            again()
    subprocess.run(["chattr", "-i", scratch.work], check=True)
    scratch.empty_handed()
    assert (os.listdir(scratch.work), os.listdir(scratch.tmp)) == ([], [])


LEAVES = """\
import os
import shutil
import subprocess


def stuck():
    open("stuck.txt", "w").close()
    subprocess.run(["chattr", "+i", "stuck.txt"], check=True)
    return {"n": 1}


def holds():
    global held
    here = os.getcwd()
    held = os.open(here, os.O_RDONLY)
    shutil.rmtree(here)
    os.mkdir(here)
    open(f"{here}/cache.txt", "w").close()
    return {"n": 1}


def sees():
    return {"names": ",".join(sorted(os.listdir()))}
"""


@pytest.mark.parametrize("leaves", ["stuck", "holds"])
def test_what_a_step_leaves_in_a_way_that_is_hard_to_remove_does_not_reach_the_next(
    tmp_path: Path, leaves: str, make_immutable: Callable[[Path], None]
) -> None:
    if leaves == "stuck":
        (tmp_path / "trial").touch()
        make_immutable(tmp_path / "trial")
    lab = Lab(tmp_path)
    lab.file("steps.py", LEAVES)
    first = lab.one(lab.call(f"steps:{leaves}", {"n": "integer"}, step_id="Job:A"))
    assert (first.error_type, first.error) == (None, "")
    for step in ("Job:B", "Job:C"):
        word = lab.one(lab.call("steps:sees", {"names": "string"}, step_id=step))
        assert [output.value for output in word.outputs] == [""], word
    lab.backend.close()
