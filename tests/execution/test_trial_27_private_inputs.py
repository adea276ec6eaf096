"""A step gets private copies of its inputs, named after its parameters; large files are links to the originals."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from worker_lab import BACKENDS, Lab

from project_lab import Lab as Project
from whyrun.execution.files import input_views
from whyrun.execution.files.input_views import LARGEST_FILE, PrivateCopies

LARGE = b"0123456789abcdef" * (LARGEST_FILE // 16) + b"!"  # one byte more than is copied


@pytest.fixture(params=BACKENDS)
def lab(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Lab]:
    made = Lab(tmp_path, backend=request.param)
    yield made
    made.backend.close()


def put(source: Path, target: Path) -> Path:
    PrivateCopies().put(str(source), str(target))
    return target


# --- in a run ----------------------------------------------------------------------------------------------------

SPOILS = """
    workflow: w
    inputs: {Raw: {type: file, default: raw.csv}, Folder: {type: directory, default: folder}}
    jobs:
      Make:
        uses: shell
        with: {run: 'echo stored > "$out_T"'}
        outputs: {T: {type: text}}
      Spoil:
        uses: shell
        with:
          raw: "${{ inputs.Raw }}"
          folder: "${{ inputs.Folder }}"
          text: "${{ jobs.Make.outputs.T }}"
          run: |
            for file in "$raw" "$folder/a.txt" "$text"; do echo mine > "$file"; done
            rm "$folder/deep/b.txt"; touch "$folder/new"
            cat "$raw" "$folder/a.txt" "$text" > "$out_T"
        outputs: {T: {type: text, path: t.txt}}
      Read:
        needs: [Spoil]
        uses: shell
        with: {text: "${{ jobs.Make.outputs.T }}", raw: "${{ inputs.Raw }}", run: 'cat "$text" "$raw" > "$out_T"'}
        outputs: {T: {type: text, path: u.txt}}
    """


def test_a_step_that_writes_to_its_inputs_changes_nobodys_files(project: Callable[..., Project]) -> None:
    """Issue 17, number 27. `echo x > "$raw"` destroyed the user's own raw data."""
    lab = project(SPOILS, {"raw.csv": "raw\n", "folder/a.txt": "a\n", "folder/deep/b.txt": "b\n"})
    lab.succeed()
    assert lab.read("t.txt") == "mine\n" * 3
    assert lab.read("u.txt") == "stored\nraw\n"
    assert (lab.read("raw.csv"), lab.read("folder/a.txt"), lab.read("folder/deep/b.txt")) == ("raw\n", "a\n", "b\n")
    assert not (lab.root / "folder/new").exists()
    assert lab.plan().headlines() == {}


# --- in a worker -------------------------------------------------------------------------------------------------


def test_an_input_may_be_returned_for_several_outputs(lab: Lab) -> None:
    lab.file("m.py", "def f(x, y):\n    return {'a': x, 'b': x, 'c': y}\n")
    inputs = {"x": lab.project_input("x.txt", "one"), "y": lab.artifact(b"two", "file")}
    with_ = {name: {"$input": name} for name in inputs}
    word = lab.one(lab.call("m:f", {"a": "file", "b": "text", "c": "file"}, with_=with_, inputs=inputs))
    assert [lab.bytes_of(word, key) for key in "abc"] == [b"one", b"one", b"two"]


def test_a_step_may_change_and_remove_its_copies(lab: Lab) -> None:
    lab.file(
        "m.py",
        "import os\n"
        "def f(x, y, z):\n"
        "    x.unlink()\n"
        "    y.write_bytes(b'mine')\n"
        "    os.chmod(z, 0o500)\n"
        "    os.rename(z / 'one.txt', 'here')\n"
        "    return {'o': y.read_text()}\n",
    )
    inputs = {
        "x": lab.project_input("x.txt", "one"),
        "y": lab.artifact(b"two", "file"),
        "z": lab.project_folder("z", "three"),
    }
    with_ = {name: {"$input": name} for name in inputs}
    if os.geteuid() != 0:
        lab.file("m.py", (lab.project / "m.py").read_text().replace("    os.chmod(z, 0o500)\n", ""))
    for number in range(2):  # the second in the same worker: nothing of the first is left
        command = lab.call("m:f", {"o": "string"}, with_=with_, inputs=inputs, step_id=f"Job:S[{number}]")
        word = lab.one(command)
        assert (word.error, word.outputs[0].value) == ("", "mine")
    assert ((lab.project / "x.txt").read_text(), (lab.project / "z/one.txt").read_text()) == ("one", "three")
    assert lab.store.read(inputs["y"].sha256) == b"two"


# --- what is copied, and what is a link ---------------------------------------------------------------------------


def test_only_files_up_to_the_limit_are_copied(tmp_path: Path) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(LARGE[:LARGEST_FILE])
    large.write_bytes(LARGE)
    copy = put(small, tmp_path / "copy")
    assert not copy.is_symlink()
    assert copy.read_bytes() == small.read_bytes()
    link = put(large, tmp_path / "link")
    assert link.is_symlink() != can_clone(tmp_path)
    assert link.read_bytes() == LARGE


def can_clone(folder: Path) -> bool:
    with open(folder / "first", "wb") as first, open(folder / "second", "wb") as second:
        try:
            fcntl.ioctl(second.fileno(), input_views.FICLONE, first.fileno())
        except OSError:
            return False
    return True


def test_where_the_file_system_can_share_blocks_large_files_are_cloned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This machine's file system may not be able to: the call is answered here."""

    def clone(copy: int, request: int, source: int) -> int:
        assert request == 0x40049409
        os.sendfile(copy, source, 0, len(LARGE))
        return 0

    monkeypatch.setattr(input_views.fcntl, "ioctl", clone)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/large").write_bytes(LARGE)
    for copy in (put(tmp_path / "folder/large", tmp_path / "file"), put(tmp_path / "folder", tmp_path / "c") / "large"):
        assert not copy.is_symlink()
        assert copy.read_bytes() == LARGE


def test_a_file_system_that_cannot_clone_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refuse(*_: object) -> int:
        asked.append(1)
        raise OSError(errno.EOPNOTSUPP, "no")

    monkeypatch.setattr(input_views.fcntl, "ioctl", refuse)
    (tmp_path / "large").write_bytes(LARGE)
    copies = PrivateCopies()
    for name in "abc":
        copies.put(str(tmp_path / "large"), str(tmp_path / name))
        assert (tmp_path / name).is_symlink()
    assert len(asked) == 1


def test_the_copies_of_a_step_have_a_limit_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_views, "LARGEST_STEP", 3 * 4096)
    (tmp_path / "x").write_bytes(b"x")
    copies = PrivateCopies()
    for _ in range(2):
        copies.begin()
        linked = []
        for name in "abcd":
            copies.put(str(tmp_path / "x"), str(tmp_path / name))
            linked.append((tmp_path / name).is_symlink())
            (tmp_path / name).unlink()
        assert linked == [False, False, False, True], "the smallest file counts as a block"


def test_a_folder_is_a_copy_with_links_to_its_large_files_or_a_link_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    (folder / "deep/empty").mkdir(parents=True)
    (folder / "deep/run").write_bytes(b"echo\n")
    (folder / "deep/run").chmod(0o755)
    (folder / "again").symlink_to("deep/run")
    (folder / "large").write_bytes(LARGE)
    copy = put(folder, tmp_path / "copy")
    assert sorted(path.relative_to(copy).as_posix() for path in copy.rglob("*")) == [
        "again", "deep", "deep/empty", "deep/run", "large"
    ]  # fmt: skip
    assert not (copy / "again").is_symlink(), "a link counts as its target"
    assert (copy / "again").read_bytes() == b"echo\n"
    assert os.access(copy / "deep/run", os.X_OK)
    assert (copy / "large").read_bytes() == LARGE
    assert (copy / "large").is_symlink() != can_clone(tmp_path)
    monkeypatch.setattr(input_views, "LARGEST_STEP", 3 * 4096)  # of four files and an empty folder
    assert put(folder, tmp_path / "whole").readlink() == folder


def test_a_file_whose_size_says_nothing_is_copied_whole(tmp_path: Path) -> None:
    copy = put(Path("/proc/self/status"), tmp_path / "copy")
    assert copy.read_text().startswith("Name:")
    assert "voluntary_ctxt_switches" in copy.read_text()


# --- modes -------------------------------------------------------------------------------------------------------

TOOLS = """
    workflow: w
    inputs: {Own: {type: file, default: own.txt}}
    jobs:
      Make:
        uses: shell
        with:
          run: |
            printf '#!/bin/sh\\necho script\\n' > "$out_Script"; chmod +x "$out_Script"
            cp "$(command -v bash)" "$out_Program"; echo text > "$out_Text"
        outputs: {Script: {type: file, path: bin/script}, Program: {type: file}, Text: {type: file, path: text}}
      Use:
        uses: shell
        with:
          own: "${{ inputs.Own }}"
          script: "${{ jobs.Make.outputs.Script }}"
          program: "${{ jobs.Make.outputs.Program }}"
          text: "${{ jobs.Make.outputs.Text }}"
          run: |
            { "$script"; "$program" -c 'echo program'; "$own"; test -x "$text" || echo no; } > "$out_T"
        outputs: {T: {type: text, path: t.txt}}
    """


def test_a_program_can_be_executed_by_the_next_step_and_where_it_is_published(project: Callable[..., Project]) -> None:
    """Issue 17, number 16. A single file lost its executable bit on its way through the store."""
    lab = project(TOOLS, {"own.txt": "echo own\n"})
    (lab.root / "own.txt").chmod(0o755)  # no program by its content: the bit is kept
    lab.succeed()
    assert lab.read("t.txt") == "script\nprogram\nown\nno\n"
    modes = {name: stat.S_IMODE((lab.root / name).stat().st_mode) & 0o111 for name in ("bin/script", "text")}
    assert modes == {"bin/script": 0o111 & ~umask(), "text": 0}


def umask() -> int:
    now = os.umask(0o022)
    os.umask(now)
    return now
