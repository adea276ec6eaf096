"""The host reads the files of a site without following links, opening special files or exceeding a limit."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import msgspec
import pytest

from whyrun.artifacts.hashing import decode_tree, encode_tree, tree_manifest
from whyrun.errors import WhyrunError
from whyrun.execution.backends.base import WorkerLost
from whyrun.execution.backends.remote.process import ProcessTransport
from whyrun.execution.files.safe_files import head_below
from whyrun.execution.protocol.framing import decode_message, encode
from whyrun.execution.protocol.messages import OutputResult, StepFinished

SHA = "0123456789abcdef" * 4


@pytest.fixture
def site(tmp_path: Path) -> ProcessTransport:
    """Its root, `site`; beside it is what is none of its business."""
    (tmp_path / "secret").write_text("secret")
    root = tmp_path / "site"
    (root / "out" / "folder").mkdir(parents=True)
    (root / "out" / "file").write_text("content")
    os.symlink("../..", root / "out" / "up")
    os.symlink("../../secret", root / "out" / "link")
    os.mkfifo(root / "out" / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "out" / "socket"))
    return ProcessTransport(root, tmp_path)


NOWHERE = ["../secret", "out/../../secret", "./out/file", "out//file", "out/", "", "out/up/secret", "out/link"]
NOTHING = ["out/pipe", "out/socket", "out/none", "out/file/below", "none/at/all"]


@pytest.mark.parametrize("path", [*NOWHERE, *NOTHING, "out/folder"])
def test_a_path_that_leads_out_or_is_not_a_file_counts_as_missing(
    site: ProcessTransport, tmp_path: Path, path: str
) -> None:
    assert site.get(path) == b""
    assert not site.fetch(path, tmp_path / "brought")
    assert not (tmp_path / "brought").exists()


@pytest.mark.parametrize("path", [*NOWHERE, *NOTHING, "out/file", "out/up"])
def test_a_path_that_leads_out_or_is_not_a_folder_counts_as_missing(
    site: ProcessTransport, tmp_path: Path, path: str
) -> None:
    assert not site.fetch_tree(path, tmp_path / "brought")
    assert not (tmp_path / "brought").exists()


def test_a_folder_is_copied_with_links_as_links_and_without_special_files(
    site: ProcessTransport, tmp_path: Path
) -> None:
    os.chmod(site.root / "out" / "file", 0o000)
    os.chmod(site.root / "out" / "folder", 0o000)
    assert site.fetch_tree("out", tmp_path / "brought")
    brought = tmp_path / "brought"
    assert sorted(os.listdir(brought)) == ["file", "folder", "link", "up"]
    assert (brought / "file").read_text() == "content"
    assert (os.readlink(brought / "link"), os.readlink(brought / "up")) == ("../../secret", "../..")


def test_any_other_error_is_raised(site: ProcessTransport) -> None:
    with pytest.raises(OSError, match="File name too long"):
        site.get("out/" + "n" * 256)


def test_a_file_is_read_up_to_a_limit(site: ProcessTransport) -> None:
    assert site.get("out/file", 7) == b"content"
    assert head_below(site.root, "out/file", 4) == b"cont"
    with pytest.raises(WorkerLost, match="the worker left too much in `out/file`: more than 6 bytes"):
        site.get("out/file", 6)
    os.truncate(site.root / "out" / "file", 1 << 42)
    with pytest.raises(WorkerLost, match="the worker left too much in `out/file`"):
        site.get("out/file")


def test_only_the_end_of_a_workers_stderr_is_read(site: ProcessTransport) -> None:
    assert site.last_stderr() == ""
    with open(site.root / "worker.stderr", "wb") as file:
        file.truncate(1 << 42)
        file.seek(0, os.SEEK_END)
        file.write(b"\nlast words\n")
    assert site.last_stderr().strip("\0\n") == "last words"


# --- hashes that workers name ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sha256", ["", SHA[1:], SHA + "0", SHA + "\n", SHA.upper(), "aa/../../../../shadow"])
def test_a_hash_in_a_message_or_a_manifest_is_one(sha256: str) -> None:
    said = StepFinished("Job:A", 1, "2026-01-01T00:00:00.000000Z", 0.1, [OutputResult("F", sha256, 1, "file")])
    with pytest.raises(msgspec.ValidationError, match="matching regex"):
        decode_message(encode(said))
    manifest = msgspec.json.encode({"tree": "whyrun/tree/v1", "files": [["a", sha256, 1, False]], "empty_dirs": []})
    with pytest.raises(ValueError, match="names an invalid sha256"):
        decode_tree(manifest)


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"files": [["a", SHA, 1]], "empty_dirs": []},
        {"files": [["a", 1, 1, False]], "empty_dirs": []},
        {"files": [], "empty_dirs": [1]},
        {"files": 1, "empty_dirs": []},
        {"files": [], "empty_dirs": ["/".join("a" * 300)]},
    ],
)
def test_a_manifest_of_another_shape_is_none(content: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"manifest of a folder|to unpack"):
        decode_tree(msgspec.json.encode({"tree": "whyrun/tree/v1", **content}))


def test_a_folder_can_be_taken_out_again_or_it_has_no_hash(tmp_path: Path) -> None:
    deepest = tmp_path / "/".join("a" * 255)
    deepest.mkdir(parents=True)
    (deepest / "file").write_text("")
    tree = decode_tree(tree_manifest(tmp_path))
    assert [file.path for file in tree.files] == ["a/" * 255 + "file"]
    assert decode_tree(encode_tree(tree.files, tree.empty_dirs)) == tree
    (deepest / "a").mkdir()
    with pytest.raises(WhyrunError, match="more than 256 folders within folders"):
        tree_manifest(tmp_path)
