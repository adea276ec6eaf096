"""The scratch folder of a worker is emptied before and after each step, whatever a step did to it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from worker_lab import Lab

from whyrun.execution.files.scratch import Scratch


def test_a_scratch_folder_is_emptied_of_all_that_came_since(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path / "scratch")
    scratch.make()
    (scratch.work / "before").write_text("")
    (scratch.tmp / "deep" / "er").mkdir(parents=True)
    (scratch.out / "file").write_text("x")
    scratch.empty()
    assert (os.listdir(scratch.out), os.listdir(scratch.tmp)) == ([], [])
    os.rmdir(scratch.home)
    os.symlink(tmp_path, scratch.home)  # where it leads is not ours
    scratch.empty()
    assert (scratch.home.is_symlink(), os.listdir(scratch.home), os.listdir(scratch.work)) == (False, [], [])
    (scratch.home / "late").write_text("x")
    scratch.empty()
    assert os.listdir(scratch.home) == []
    assert sorted(os.listdir(tmp_path)) == ["scratch"]


def test_an_entry_is_found_however_soon_after_the_last_look_it_was_made(tmp_path: Path) -> None:
    """Within one tick of the clock a folder's change time stays the same."""
    scratch = Scratch(tmp_path / "scratch")
    scratch.make()
    for number in range(500):
        scratch.empty()
        (scratch.out / str(number)).write_text("x")
        scratch.empty()
        assert os.listdir(scratch.out) == []


def test_a_change_during_the_listing_is_not_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder has changed in this tick of the clock, and the worker is held up after it has listed it. An entry that
    came meanwhile may have left the change time as it was, so the folder must be listed again."""
    scratch = Scratch(Path("/dev/shm") / f"whyrun-{tmp_path.name}-{os.getpid()}")  # a local file system in any case
    scratch.make()
    listed: list[str] = []
    list_folder = os.listdir
    clock = os.stat(scratch.out).st_ctime_ns

    def slowly(folder: str) -> list[str]:
        nonlocal clock
        listed.append(Path(folder).name)
        clock += 1_000_000_000
        return list_folder(folder)

    try:
        monkeypatch.setattr("whyrun.execution.files.scratch.time.time_ns", lambda: clock)
        monkeypatch.setattr(os, "listdir", slowly)
        scratch._empty(str(scratch.out))
        listed.clear()
        scratch.empty()
        assert "out" in listed
    finally:
        scratch.remove()


def test_a_folder_that_did_not_change_is_not_listed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = Scratch(Path("/dev/shm") / f"whyrun-{tmp_path.name}-{os.getpid()}")  # a local file system in any case
    scratch.make()
    listed: list[str] = []
    list_folder = os.listdir

    def noticed(folder: str) -> list[str]:
        listed.append(Path(folder).name)
        return list_folder(folder)

    try:
        time.sleep(0.2)  # until the folders' change times are older than a tick of the clock
        scratch.empty()
        monkeypatch.setattr(os, "listdir", noticed)
        scratch.empty()
        assert listed == []
        before = os.stat(scratch.tmp)
        (scratch.tmp / "late").write_text("x")
        os.utime(scratch.tmp, ns=(before.st_atime_ns, before.st_mtime_ns))  # a step may set this time, not the other
        scratch.empty()
        assert (listed, list_folder(scratch.tmp)) == (["tmp"], [])
    finally:
        scratch.remove()


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


def test_a_folder_that_cannot_be_emptied_is_put_aside(tmp_path: Path, make_immutable: Callable[[Path], None]) -> None:
    scratch = Scratch(tmp_path / "scratch")
    scratch.make()
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


def test_a_folder_that_cannot_even_be_put_aside_lets_no_step_begin_until_it_is_empty(
    tmp_path: Path, make_immutable: Callable[[Path], None]
) -> None:
    scratch = Scratch(tmp_path / "scratch")
    scratch.make()
    (scratch.work / "stuck").write_text("x")
    (scratch.tmp / "file").write_text("x")
    make_immutable(scratch.work)
    for _ in range(3):
        with pytest.raises(PermissionError):
            scratch.empty()
    subprocess.run(["chattr", "-i", scratch.work], check=True)
    scratch.empty()
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
