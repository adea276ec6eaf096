"""Patterns stand for the files that `glob` finds; paths that need no work are recognised."""

from __future__ import annotations

import glob
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyrun.snapshot.observing.observe import are_normal, files_like, in_byte_order

PATTERNS = [
    "*", "*.txt", "a/*.txt", "a/?.txt", "a/[xy].txt", "a/.*", ".*", "*/x.txt", "a/b/*", "a/b/../*.txt", "./*.txt",
    "a//*.txt", "**/*.txt", "a/**", "none/*", "a/x.txt/*", "a/*/", "../*/a/x.txt", "a/[", "a/*[!y].txt", "nö/*",
    "a/", "",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("patterns") / "project"
    for name in ("a/x.txt", "a/y.txt", "a/.hidden.txt", "a/b/z.txt", "top.txt", ".top.txt", "nö/ü.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    (root / "a/broken.txt").symlink_to("nowhere")
    return root


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_files_are_those_that_glob_finds(folder: Path, pattern: str) -> None:
    for given_ in (pattern, f"{folder}/{pattern}"):
        expected = glob.glob(given_, root_dir=folder, recursive=True)
        assert sorted(files_like(given_, str(folder))) == sorted(expected)


def test_a_pattern_in_the_root_of_the_file_system_is_no_pattern_in_the_project(folder: Path) -> None:
    assert sorted(files_like("/*", str(folder))) == sorted(glob.glob("/*"))


paths = st.lists(st.text(st.sampled_from("ab./\n~"), max_size=5), max_size=4)


@given(paths)
def test_what_is_called_normal_is(given_: list[str]) -> None:
    if are_normal(given_):
        assert [os.path.normpath(path) for path in given_] == given_
        assert not any(map(os.path.isabs, given_))


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=4)))
def test_the_order_is_that_of_the_bytes(given_: list[str]) -> None:
    assert in_byte_order(given_) == sorted(given_, key=os.fsencode)


def test_names_that_are_no_text_stand_where_their_bytes_do() -> None:
    """As the operating system hands them over: bytes that are no UTF-8 come as surrogates."""
    assert in_byte_order(["é", "\udc80", "a"]) == ["a", "\udc80", "é"]


def test_the_usual_paths_are_normal() -> None:
    assert are_normal(["src/0.txt", "src/deep/er/1.txt", "top.txt"])
    assert are_normal(["/data/x"]) is False
    assert are_normal(["of two\nlines"]) is False
