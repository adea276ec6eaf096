"""`whyrun.disk`: writes are complete, errors name the file, and files left by a kill are removed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from whyrun import disk
from whyrun.artifacts.durable import atomic_write, remove_half_written
from whyrun.disk import Area


@pytest.fixture
def hook() -> Iterator[list[tuple[str, Any]]]:
    """What comes to fault points; a write takes three bytes at a time."""
    seen: list[tuple[str, Any]] = []

    def short(point: str, call: Any, *arguments: Any, **options: Any) -> Any:
        seen.append((point, arguments[-1]))
        if call is os.write:
            return os.write(arguments[0], arguments[1][:3])
        return call(*arguments, **options)

    disk.hook = short
    yield seen
    disk.hook = None


def test_a_short_write_is_gone_on_with(hook: list[tuple[str, Any]], tmp_path: Path) -> None:
    atomic_write(tmp_path / "file", b"0123456789", Area.STATUS, sync=True)
    assert (tmp_path / "file").read_bytes() == b"0123456789"
    assert [point for point, _ in hook] == [
        "status.open", *["status.write"] * 4, "status.sync", "status.rename", "status.sync_folder"
    ]  # fmt: skip


def test_an_error_at_a_descriptor_names_its_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    descriptor = os.open(tmp_path / "file", os.O_RDONLY)
    for call in (lambda: disk.write(Area.RUN, descriptor, b"x"), lambda: disk.cut(Area.RUN, descriptor, 0)):
        with pytest.raises(OSError, match="file") as caught:
            call()
        assert caught.value.filename == str(tmp_path / "file")
    os.close(descriptor)


def test_who_cannot_write_a_file_is_told_its_name_and_not_that_of_a_draft(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file") as refused:
        atomic_write(tmp_path / "nowhere" / "file", b"0", Area.STATUS)
    assert refused.value.filename == str(tmp_path / "nowhere" / "file")


def test_folders_are_made_with_those_above_them(tmp_path: Path) -> None:
    disk.make_folders(Area.RUN, tmp_path / "a" / "b" / "c")
    disk.make_folders(Area.RUN, tmp_path / "a" / "b" / "c")
    assert sorted(str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*")) == ["a", "a/b", "a/b/c"]
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileExistsError):
        disk.make_folders(Area.RUN, tmp_path / "file")


def test_only_what_was_half_written_long_ago_is_removed(tmp_path: Path) -> None:
    for name in (".tmp-1-old", ".tmp-2-new", "fold", ".other"):
        (tmp_path / name).write_bytes(b"x")
        os.utime(tmp_path / name, (1000, 1000))
    os.utime(tmp_path / ".tmp-2-new", (3000, 3000))
    remove_half_written(tmp_path, 2000)
    remove_half_written(tmp_path / "absent", 2000)
    assert sorted(os.listdir(tmp_path)) == [".other", ".tmp-2-new", "fold"]


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_where_nobody_can_make_a_folder_that_is_told() -> None:
    for path in ("/proc/whyrun", "/proc/whyrun/deep/deeper"):
        with pytest.raises(FileNotFoundError):
            disk.make_folders(Area.RUN, path)
