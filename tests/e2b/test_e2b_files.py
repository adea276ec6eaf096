"""Archives that come out of a sandbox, where a step may have written anything; and what a bare place is asked."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from whyrun.execution.backends import remote_setup
from whyrun.execution.backends.e2b_files import extract_untrusted
from whyrun.execution.backends.remote_setup import unfulfilled

Member = tuple[str, bytes, str, bytes]  # name, type, link target, content


def packed(path: Path, *members: Member) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, kind, target, content in members:
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.size = kind, target, len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def test_files_folders_and_links_come_back_and_nothing_else(tmp_path: Path) -> None:
    archive = packed(
        tmp_path / "a",
        ("./", tarfile.DIRTYPE, "", b""),
        ("./link", tarfile.SYMTYPE, "/etc/passwd", b""),
        ("./deep/empty", tarfile.DIRTYPE, "", b""),
        ("./deep/file", tarfile.REGTYPE, "", b"content"),
        ("./hard", tarfile.LNKTYPE, "./deep/file", b""),
        ("./pipe", tarfile.FIFOTYPE, "", b""),
        ("./device", tarfile.CHRTYPE, "", b""),
    )
    extract_untrusted(archive, tmp_path / "out")
    found = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*")}
    assert found == {"link", "deep", "deep/empty", "deep/file", "hard"}
    assert os.readlink(tmp_path / "out/link") == "/etc/passwd"
    assert (tmp_path / "out/deep/file").read_bytes() == (tmp_path / "out/hard").read_bytes() == b"content"


@pytest.mark.parametrize(
    "members",
    [
        [("../evil", tarfile.REGTYPE, "", b"x")],
        [("/tmp/evil", tarfile.REGTYPE, "", b"x")],
        [("a/../../evil", tarfile.REGTYPE, "", b"x")],
        [("link", tarfile.SYMTYPE, "..", b""), ("link/evil", tarfile.REGTYPE, "", b"x")],
        [("link/evil", tarfile.REGTYPE, "", b"x"), ("./link", tarfile.SYMTYPE, "..", b"")],
        [("d", tarfile.SYMTYPE, "..", b""), ("./d/e", tarfile.DIRTYPE, "", b"")],
    ],
    ids=lambda members: "+".join(name for name, *_ in members),
)
def test_what_leads_elsewhere_is_refused(tmp_path: Path, members: list[Member]) -> None:
    archive = packed(tmp_path / "a", *members)
    (tmp_path / "inner").mkdir()
    with pytest.raises(ValueError, match="leads elsewhere"):
        extract_untrusted(archive, tmp_path / "inner/out")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "inner", "out"]


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("", False),
        ("# a note", False),
        ("msgspec", False),
        ("msgspec>=0.1  # any", False),
        ("msgspec>=999", True),
        ("no-such-package-anywhere", True),
        ("no-such-package; python_version < '3'", False),
        ("-r other.txt", True),
        ("--index-url https://example.org/simple", True),
        ("msgspec[yaml]", True),
        ("thing @ https://example.org/thing.whl", True),
        ("./vendor/thing.whl", True),
        ("msgspec \\", True),
    ],
)
def test_only_what_is_surely_there_is_not_left_to_pip(line: str, missing: bool) -> None:
    assert unfulfilled(line) is missing


def test_a_place_with_an_old_python_says_so(tmp_path: Path) -> None:
    """The script itself is read by any Python 3: the version is looked at before anything newer is needed."""
    source = Path(remote_setup.__file__).read_text().replace("OLDEST = (3, 11)", "OLDEST = (99, 0)")
    (tmp_path / "remote_setup.py").write_text(source)
    done = subprocess.run(
        [sys.executable, "remote_setup.py", "bundle", "folder", "sha"], cwd=tmp_path, capture_output=True, text=True
    )
    here = ".".join(map(str, sys.version_info[:3]))
    assert (done.returncode, done.stderr) == (
        1,
        f"the python3 of the sandbox is {here}, and Whyrun needs 99.0 or newer\n",
    )
