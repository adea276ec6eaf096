"""Copies between the host and a site."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from whyrun.execution.files.safe_files import copy_content


def copied(source: Path, target: Path) -> bytes:
    with open(source, "rb") as before, open(target, "wb") as after:
        copy_content(before.fileno(), after.fileno())
    return target.read_bytes()


@pytest.mark.parametrize("content", [b"", b"x", b"0123456789" * 300_000], ids=["empty", "short", "long"])
def test_the_copy_has_the_same_bytes(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    assert copied(tmp_path / "a", tmp_path / "b") == content


def test_data_between_holes_is_copied_and_holes_take_no_room(tmp_path: Path) -> None:
    places = {0: b"first", 40 << 20: b"middle", (90 << 20) + 7: b"last"}
    with open(tmp_path / "a", "wb") as file:
        for place, data in places.items():
            file.seek(place)
            file.write(data)
        file.truncate(100 << 20)
    content = copied(tmp_path / "a", tmp_path / "b")
    assert content == (tmp_path / "a").read_bytes()
    assert os.stat(tmp_path / "b").st_blocks * 512 <= os.stat(tmp_path / "a").st_blocks * 512 + (1 << 20)


def test_a_file_that_only_says_it_is_large_is_copied_at_once(tmp_path: Path) -> None:
    with open(tmp_path / "a", "wb") as file:
        file.truncate(1 << 42)
    with open(tmp_path / "a", "rb") as before, open(tmp_path / "b", "wb") as after:
        copy_content(before.fileno(), after.fileno())
    found = os.stat(tmp_path / "b")
    assert (found.st_size, found.st_blocks) == (1 << 42, 0)


def test_between_two_file_systems(tmp_path: Path) -> None:
    """As far as there are two here."""
    other = Path("/dev/shm")
    if not os.access(other, os.W_OK) or other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is only one")
    (tmp_path / "a").write_bytes(b"across" * 100_000)
    target = other / f"whyrun-test-{os.getpid()}"
    try:
        assert copied(tmp_path / "a", target) == b"across" * 100_000
    finally:
        target.unlink(missing_ok=True)
