"""Inputs of a workflow are sent to Dask workers once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from whyrun.execution.backends.dask.payload import WorkerInputs, pack, size_of, version_of


def tree(folder: Path) -> dict[str, bytes | str | None]:
    """All that is in it: content of files, targets of links, None for folders."""
    found: dict[str, bytes | str | None] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        found[name] = os.readlink(path) if path.is_symlink() else None if path.is_dir() else path.read_bytes()
    return found


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "a" / "empty").mkdir(parents=True)
    (folder / "a" / "one.txt").write_text("1")
    (folder / "run.sh").write_text("exit 0\n")
    (folder / "run.sh").chmod(0o755)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "two.txt").write_text("2")
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    return folder


WHOLE = {
    "a": None, "a/empty": None, "a/one.txt": b"1", "link": None, "link/two.txt": b"2", "run.sh": b"exit 0\n",
}  # fmt: skip


def test_a_folder_arrives_whole_with_what_its_links_lead_to(source: Path, tmp_path: Path) -> None:
    inputs = WorkerInputs(tmp_path / "inputs")
    assert size_of(source) == 9
    inputs.write("data/tree", version_of(source), pack(source))
    assert tree(tmp_path / "inputs" / "data" / "tree") == WHOLE
    assert os.access(tmp_path / "inputs" / "data" / "tree" / "run.sh", os.X_OK)
    assert not os.access(tmp_path / "inputs" / "data" / "tree" / "a" / "one.txt", os.X_OK)


def test_what_lies_there_already_is_not_written_again(source: Path, tmp_path: Path) -> None:
    inputs, version, packed = WorkerInputs(tmp_path / "inputs"), version_of(source), pack(source)
    inputs.write("tree", version, packed)
    before = version_of(tmp_path / "inputs" / "tree")
    inputs.write("tree", version, {"files": {}, "folders": [], "executable": []})  # it is not even looked into
    inputs.write("tree", "written since, with the same content", packed)
    assert version_of(tmp_path / "inputs" / "tree") == before


def test_what_a_step_did_to_it_is_undone_and_links_lead_nowhere(source: Path, tmp_path: Path) -> None:
    inputs, version, packed = WorkerInputs(tmp_path / "inputs"), version_of(source), pack(source)
    inputs.write("tree", version, packed)
    there = tmp_path / "inputs" / "tree"
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "one.txt").write_text("precious")
    (there / "a" / "one.txt").write_text("other")
    (there / "more").mkdir()
    (there / "more" / "file").touch()
    (there / "way-out").symlink_to(precious)
    (there / "link" / "two.txt").unlink()
    (there / "link").rmdir()
    (there / "link").symlink_to(precious)
    inputs.write("tree", version, packed)
    assert tree(there) == WHOLE
    assert tree(precious) == {"one.txt": b"precious"}


def test_an_input_that_was_edited_is_placed_anew(tmp_path: Path) -> None:
    inputs, source = WorkerInputs(tmp_path / "inputs"), tmp_path / "in.txt"
    for content in ("first", "second"):
        source.write_text(content)
        os.utime(source, ns=(0, len(content)))
        inputs.write(".outside/%up/in.txt", version_of(source), pack(source))
        assert tree(tmp_path / "inputs" / ".outside" / "%up") == {"in.txt": content.encode()}
    source.unlink()
    source.mkdir()
    inputs.write(".outside/%up/in.txt", version_of(source), pack(source))
    assert tree(tmp_path / "inputs" / ".outside" / "%up") == {"in.txt": None}
