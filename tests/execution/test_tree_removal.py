"""Folders that steps left are removed or cut, however deep they are, and no link is followed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from whyrun.connections.redact import NOTHING_SECRET, Redactor
from whyrun.execution.files.scratch import Scratch
from whyrun.execution.files.tree_removal import DEEPEST, LONGEST, drop_too_deep, remove


def nest(folder: Path, levels: int, name: str = "a") -> None:
    """Folders in folders, deeper than a path can name; in each a file and a link to what must stay."""
    folder.mkdir(parents=True, exist_ok=True)
    inner = os.open(folder, os.O_DIRECTORY)
    for _ in range(levels):
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=inner))
        os.symlink(folder.parent.parent, "link", dir_fd=inner)
        os.mkdir(name, dir_fd=inner)
        deeper = os.open(name, os.O_DIRECTORY, dir_fd=inner)
        os.close(inner)
        inner = deeper
    os.close(inner)


def found(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("levels", [1, DEEPEST - 1, DEEPEST, DEEPEST + 1, 2 * DEEPEST, 2 * DEEPEST + 1, 2100])
def test_what_is_removed_is_gone_and_nothing_else(tmp_path: Path, levels: int) -> None:
    (tmp_path / "stays").write_text("mine")
    nest(tmp_path / "scratch" / "left", levels)
    nest(tmp_path / "scratch" / "left" / "beside", levels, "b")
    remove(str(tmp_path / "scratch" / "left"))
    assert found(tmp_path) == {"stays", "scratch"}


def test_files_and_links_are_removed_themselves(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "stays").write_text("mine")
    (tmp_path / "file").write_text("")
    os.symlink("folder", tmp_path / "link")
    for name in ("file", "link", "nothing"):
        remove(str(tmp_path / name))
    assert found(tmp_path) == {"folder", "folder/stays"}


def test_folders_that_nobody_may_enter_or_change_are_removed(tmp_path: Path) -> None:
    nest(tmp_path / "left", 3 * DEEPEST)
    folder = tmp_path / "left"
    folders = [folder]
    for _ in range(2 * DEEPEST):
        folder = folder / "a"
        folders.append(folder)
    for number, path in reversed(list(enumerate(folders))):
        path.chmod((0o000, 0o555, 0o300)[number % 3])
    remove(str(tmp_path / "left"))
    assert found(tmp_path) == set()


def test_what_lies_too_deep_is_cut_and_named(tmp_path: Path) -> None:
    nest(tmp_path / "work", 2100)
    assert drop_too_deep(tmp_path / "work") == ["/".join("a" * DEEPEST)]
    above = ["a/" * depth for depth in range(DEEPEST)]
    kept = {f"{folder}{name}" for folder in above for name in ("file", "link")}
    assert found(tmp_path / "work") == kept | {folder[:-1] for folder in above[1:]}
    assert drop_too_deep(tmp_path / "work") == []


def test_paths_that_are_too_long_are_cut_and_named(tmp_path: Path) -> None:
    long = "n" * 255
    nest(tmp_path / "work", 12, long)
    last = "/".join([long] * (LONGEST // 256))  # that can be named
    assert sorted(drop_too_deep(tmp_path / "work")) == [f"{last}/file", f"{last}/link", f"{last}/{long}"]
    assert max(map(len, found(tmp_path / "work"))) <= LONGEST


@pytest.mark.parametrize("redactor", [NOTHING_SECRET, Redactor({"KEY": "sesame-open"})], ids=["plain", "secret"])
def test_what_is_kept_says_what_is_not(tmp_path: Path, redactor: Redactor) -> None:
    scratch = Scratch(tmp_path / "scratch")
    scratch.make()
    nest(scratch.work, 1100)
    nest(scratch.tmp / "sesame-open", 1100)
    scratch.keep_partial(tmp_path / "steps" / "S", redactor)
    ending = f": more than {DEEPEST} folders deep, or its path is too long\n"
    assert (tmp_path / "steps" / "S" / "scratch" / "not-kept.txt").read_text() == (
        f"work/{'/'.join('a' * DEEPEST)}{ending}"
        + ("" if redactor else f"tmp/sesame-open/{'/'.join('a' * (DEEPEST - 1))}{ending}")
    )
    kept = found(tmp_path / "steps" / "S" / "scratch")
    assert {path.split("/")[0] for path in kept} == (
        {"work", "not-kept.txt"} if redactor else {"work", "tmp", "not-kept.txt"}
    )
    scratch.remove()
    assert found(tmp_path) & {"scratch"} == set()


def test_what_cannot_be_removed_is_left_to_the_next_run(tmp_path: Path) -> None:
    Scratch(tmp_path / "never made").remove()
    Scratch(tmp_path / "nowhere" / "at all").remove()
    assert found(tmp_path) == set()
