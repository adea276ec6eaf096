"""Archives from an E2B sandbox, which are not trusted, and the setup of a bare machine."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import e2b
import pytest
from loopback.server import Loopback

from whyrun.execution.backends.base import Source, WorkerLost
from whyrun.execution.backends.e2b.calls import Files, SandboxConnection, extract_untrusted
from whyrun.execution.backends.remote import setup as remote_setup
from whyrun.execution.backends.remote.setup import unfulfilled

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
    "members",
    [
        [("a", tarfile.LNKTYPE, "nothing", b"")],
        [("a", tarfile.LNKTYPE, "a", b"")],
        [("a", tarfile.DIRTYPE, "", b""), ("b", tarfile.LNKTYPE, "a", b"")],
        [("a", tarfile.REGTYPE, "", b"x"), ("a/b", tarfile.REGTYPE, "", b"x")],
    ],
    ids=["of nothing", "of itself", "of a folder", "a file below a file"],
)
def test_what_cannot_be_there_together_is_refused(tmp_path: Path, members: list[Member]) -> None:
    archive = packed(tmp_path / "a", *members)
    with pytest.raises(ValueError, match="cannot be there with the others"):
        extract_untrusted(archive, tmp_path / "out")


def test_half_of_what_was_sent_back_does_not_pass_for_all_of_it(tmp_path: Path) -> None:
    """Cut off in the header of `b`, which `tarfile` takes for the end."""
    archive = packed(tmp_path / "a", ("a", tarfile.REGTYPE, "", b"a"), ("b", tarfile.REGTYPE, "", b"b"))
    for size in (1024, 1024 + 100, 2048, 2048 + 512):
        (tmp_path / "torn").write_bytes(archive.read_bytes()[:size])
        with pytest.raises(ValueError, match="the archive is cut off"):
            extract_untrusted(tmp_path / "torn", tmp_path / f"out-{size}")
        assert list((tmp_path / f"out-{size}").iterdir()) == []


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


def test_without_pip_the_name_of_what_is_installed_is_enough(tmp_path: Path) -> None:
    (tmp_path / "pip.py").write_text("raise ImportError('no pip here')")
    program = "from remote_setup import unfulfilled as u; print(u('msgspec>=0.20'), u('no-such-package-anywhere'))"
    (tmp_path / "remote_setup.py").write_text(Path(remote_setup.__file__).read_text())
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "False True\n"


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


def test_many_files_of_many_sizes_and_names_arrive(server: Loopback, tmp_path: Path) -> None:
    sandbox = e2b.Sandbox.create(timeout=600)
    files = Files(sandbox, SandboxConnection(sandbox), "below/here", tmp_path)
    large = tmp_path / "large"
    large.write_bytes(os.urandom(5 << 20))
    folder = tmp_path / "folder"
    (folder / "empty").mkdir(parents=True)
    (folder / "run").write_text("#!")
    (folder / "run").chmod(0o755)
    sources: dict[str, Source] = {
        **{f"many/{number}": bytes([number % 256]) * number for number in range(1200)},
        **{f"big/{number}": os.urandom(3 << 20) for number in range(3)},
        'odd/"quoted" ü\n%41': b"odd",
        "large": large,
        "small": folder / "run",
        "folder": folder,
    }
    files.put({"folder/old": b"gone with the folder that comes now"})
    before = len(server.requests)
    files.put(sources)
    assert len(server.requests) - before < 20
    for path, source in sources.items():
        if not isinstance(source, Path):
            assert files.get(path) == source
    assert files.get("large") == large.read_bytes()
    assert files.get("small") == b"#!"
    assert files.get("nothing") == b""
    assert files.fetch_tree("folder", tmp_path / "back")
    assert sorted(path.name for path in (tmp_path / "back").rglob("*")) == ["empty", "run"]
    assert files.fetch('odd/"quoted" ü\n%41', tmp_path / "odd")
    assert (tmp_path / "odd").read_bytes() == b"odd"
    assert not files.fetch("nothing", tmp_path / "nothing")
    assert not files.fetch_tree("nothing", tmp_path / "nothing")
    files.remove("many")
    files.remove("many")
    assert files.get("many/7") == b""


def test_what_is_on_its_way_lies_with_the_scratch_files_of_the_host(server: Loopback, tmp_path: Path) -> None:
    """It may hold secrets. Without that folder nothing is written down anywhere."""
    sandbox = e2b.Sandbox.create(timeout=600)
    files = Files(sandbox, SandboxConnection(sandbox), "below/there", tmp_path / "tmp")
    files.put({"folder/file": b"content"})
    with pytest.raises(FileNotFoundError, match=str(tmp_path / "tmp")):
        files.fetch_tree("folder", tmp_path / "back")
    (tmp_path / "tmp").mkdir()
    assert files.fetch_tree("folder", tmp_path / "back")
    assert (tmp_path / "back" / "file").read_bytes() == b"content"
    assert os.listdir(tmp_path / "tmp") == []


def test_no_more_is_read_than_the_host_can_hold(server: Loopback, tmp_path: Path) -> None:
    sandbox = e2b.Sandbox.create(timeout=600)
    files = Files(sandbox, SandboxConnection(sandbox), "below/words", tmp_path)
    files.put({"said": b"0123456789"})
    assert files.get("said", 10) == b"0123456789"
    with pytest.raises(WorkerLost, match="the worker left too much in `said`: more than 9 bytes"):
        files.get("said", 9)
    assert (files.tail("said", 3), files.tail("nothing", 3)) == (b"789", b"")


def test_folders_without_end_come_back_as_far_as_they_can_be_kept(tmp_path: Path) -> None:
    members = [("/".join("a" * depth), tarfile.DIRTYPE, "", b"") for depth in (1, 60, 1100)]
    extract_untrusted(packed(tmp_path / "deep", *members, ("b", tarfile.REGTYPE, "", b"b")), tmp_path / "back")
    assert max(len(path.relative_to(tmp_path / "back").parts) for path in (tmp_path / "back").rglob("*")) == 60
    assert (tmp_path / "back" / "b").read_bytes() == b"b"
