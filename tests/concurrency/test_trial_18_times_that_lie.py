"""Where the times of files lie: images that are swapped at one mount point, and a cache that disagrees with a file."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from project_lab import Lab
from whyrun.artifacts.hashing import bytes_sha256
from whyrun.artifacts.stat_cache.cache import StatCache
from whyrun.artifacts.stat_cache.rows import FileSystem, StatRows, file_system_of, signature_of

Make = Callable[..., Lab]

FLOW = """
    workflow: w
    inputs: {Data: {type: file, default: PATH}, Folder: {type: directory, default: folder}}
    jobs:
      Copy:
        uses: shell
        with:
          data: "${{ inputs.Data }}"
          folder: "${{ inputs.Folder }}"
          run: 'cat "$data" "$folder/deep/file" > "$out_T"'
        outputs: {T: {type: text, path: t.txt}}
    """


def mounted(*command: str | Path) -> bool:
    return subprocess.run([*command], capture_output=True, check=False).returncode == 0


@pytest.fixture
def swap(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Puts a read-only image with this word at the mount point: same device, inode, size and times each time."""
    if os.geteuid() != 0 or shutil.which("debugfs") is None:
        pytest.skip("only root can mount images, and they are made with e2fsprogs")
    place = tmp_path / "mounted"
    place.mkdir()

    def show(word: str) -> Path:
        image, content = tmp_path / f"{word}.img", tmp_path / f"{word}-content"
        content.mkdir()
        (content / "data.csv").write_text(f"{word}\n")
        os.utime(content / "data.csv", (1_000_000_000, 1_000_000_000))
        image.write_bytes(b"")
        os.truncate(image, 1 << 20)
        subprocess.run(["mke2fs", "-q", "-I", "128", "-d", content, image], check=True, capture_output=True)
        same_time = "set_inode_field data.csv ctime @1000000000"
        subprocess.run(["debugfs", "-w", "-R", same_time, image], check=True, capture_output=True)
        subprocess.run(["umount", place], check=False, capture_output=True)
        if not mounted("mount", "-o", "loop,ro", image, place):
            pytest.skip("this machine mounts no images")
        return place / "data.csv"

    yield show
    subprocess.run(["umount", place], check=False, capture_output=True)


def test_a_swapped_image_is_another_input(swap: Callable[[str], Path], project: Make) -> None:
    """Issue 17, number 18. Its file was taken for the one before."""
    path = swap("one")
    before = signature_of(path.stat())
    lab = project(FLOW.replace("PATH", str(path)), {"folder/deep/file": "x\n"})
    lab.succeed()
    assert lab.plan().headlines() == {}
    swap("two")
    if signature_of(path.stat()) != before:
        pytest.skip("the kernel gave the image another device")
    assert file_system_of(path) is FileSystem.UNKNOWN
    assert lab.plan().headlines() == {"Job:Copy": "INPUT_CHANGED"}
    lab.succeed()
    assert lab.read("t.txt") == "two\nx\n"


def deceive(lab: Lab, *paths: Path) -> None:
    """Let the cache say that these files, as they look now, have another content."""
    file = lab.root / ".whyrun" / "stat-cache"
    # A run within a tick of its files' last writes trusts none of their times, and leaves no cache.
    rows = StatRows.load(file.read_bytes()) if file.exists() else StatRows.empty()
    wrong = {str(path): (signature_of(path.stat()), bytes_sha256(b"another")) for path in paths}
    file.write_bytes(rows.changed(wrong, ()).dump())


@pytest.mark.parametrize("name", ["data.csv", "folder/deep/file"])
def test_a_cache_that_disagrees_with_a_file_is_corrected_by_the_step_that_reads_it(project: Make, name: str) -> None:
    """Issue 17, number 18. Every `run --force` failed with `InputChangedDuringRun`, for ever."""
    lab = project(FLOW.replace("PATH", "data.csv"), {"data.csv": "one\n", "folder/deep/file": "x\n"})
    lab.succeed()
    deceive(lab, lab.root / name)
    failed = lab.run(force=["Job:Copy"])
    assert failed.failed == {"Job:Copy": ("FAILED", "InputChangedDuringRun")}
    lab.succeed(force=["Job:Copy"])
    assert lab.read("t.txt") == "one\nx\n"


def test_what_is_distrusted_is_hashed_again(tmp_path: Path) -> None:
    """In the same process, and in the next one; other files keep their entries."""
    paths = [tmp_path / name for name in ("a", "b")]
    for path in paths:
        path.write_text("x")
    far = lambda: paths[0].stat().st_mtime_ns + 10**12  # noqa: E731
    cache = StatCache.load(tmp_path / "stat-cache", far)
    assert cache.sha256_in(str(tmp_path), ["a", "b"]) == [bytes_sha256(b"x")] * 2
    cache.save()
    cache = StatCache.load(tmp_path / "stat-cache", far)
    cache.distrust(str(paths[0]))
    assert [cache.entry_of(str(path)) is None for path in paths] == [True, False]
    cache.save()
    assert len(StatCache.load(tmp_path / "stat-cache", far)) == 1
    assert cache.sha256_in(str(tmp_path), ["a", "b"]) == [bytes_sha256(b"x")] * 2
    cache.save()
    assert len(StatCache.load(tmp_path / "stat-cache", far)) == 2
