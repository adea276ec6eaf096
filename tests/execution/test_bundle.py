"""The bundle: enough to run any step on another machine, no secrets, and safe to unpack."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import whyrun
from whyrun.errors import WhyrunError
from whyrun.execution.bundle import unpack as unpack_module
from whyrun.execution.bundle.bundle import Bundle, BundleRefused, LeftOut, bundle_project, unpack

CODE = {
    "story.py": "def write(): ...\n",
    "lib/helper/__init__.py": "",
    "actions/mine.py": "# an action\n",
    "requirements.txt": "attrs==24.1\n",
    "whyrun.toml": "\n",
    "workflow.yaml": "name: x\n",
    "queries/größe.sql": "select 1\n",
    "models/weights.bin": b"\x00\xff",
}

SECRET = {
    ".env": "PASSWORD=geheim-geheim\n",
    ".env.local": "PASSWORD=geheim-geheim\n",
    "lib/.env": "PASSWORD=geheim-geheim\n",
    "prod.env": "PASSWORD=geheim-geheim\n",
    "connections.yaml": "connections: {db: {main: {password: geheim-geheim}}}\n",
    "lib/connections.yaml": "geheim-geheim\n",
    ".whyrun/store/ab/cd": "geheim-geheim\n",
    ".git/config": "geheim-geheim\n",
    ".ssh/id_rsa": "geheim-geheim\n",
    ".pgpass": "geheim-geheim\n",
}

CACHES = {
    "__pycache__/story.cpython-311.pyc": b"cache",
    "lib/helper/__pycache__/x.pyc": b"cache",
    "old.pyc": b"cache",
    "env/pyvenv.cfg": "home = /usr\n",
    "env/lib/python/site.py": "a virtual environment\n",
    "cache/CACHEDIR.TAG": "Signature: 8a477f597d28d172789f06886806bc55\n",
    "cache/thing": "cache",
    "node_modules/x/index.js": "cache",
}


def write(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def unpacked(bundle: Bundle, folder: Path) -> dict[str, bytes | str]:
    """Every file below `project`, by path; links as text."""
    unpack(bundle.data, str(folder), bundle.sha256)
    return contents(folder / "project")


def contents(root: Path) -> dict[str, bytes | str]:
    return {
        path.relative_to(root).as_posix(): f"-> {os.readlink(path)}" if path.is_symlink() else path.read_bytes()
        for path in root.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def as_bytes(files: dict[str, str | bytes]) -> dict[str, bytes]:
    return {name: content.encode() if isinstance(content, str) else content for name, content in files.items()}


# --- what travels ------------------------------------------------------------------------------------------------


def test_the_project_travels_without_secrets_state_and_caches(tmp_path: Path) -> None:
    project = write(tmp_path / "p", {**CODE, **SECRET, **CACHES})
    bundle = bundle_project(project)
    assert unpacked(bundle, tmp_path / "there") == as_bytes(CODE)
    assert b"geheim-geheim" not in bundle.data
    may_hold = "it may hold secrets or state"
    again = "it can be made again"
    assert bundle.left_out == tuple(
        LeftOut(path, why)
        for path, why in sorted(
            {
                **dict.fromkeys((".env", ".env.local", ".git", ".pgpass", ".ssh", ".whyrun", "prod.env"), may_hold),
                **dict.fromkeys(("connections.yaml", "lib/.env", "lib/connections.yaml"), may_hold),
                **dict.fromkeys(("__pycache__", "cache", "env", "lib/helper/__pycache__", "node_modules"), again),
                "old.pyc": again,
            }.items()
        )
    )


def test_whyrun_itself_travels_and_runs_from_there(tmp_path: Path) -> None:
    bundle = bundle_project(write(tmp_path / "p", CODE))
    unpack(bundle.data, str(tmp_path / "there"), bundle.sha256)
    here = Path(whyrun.__file__).parent
    assert {
        name: content for name, content in contents(here).items() if "__pycache__" not in name.split("/")
    } == contents(tmp_path / "there" / "package" / "whyrun")
    shown = subprocess.run(
        [sys.executable, "-P", "-c", "import whyrun.execution.worker.main; print(whyrun.__file__)"],
        env={"PYTHONPATH": str(tmp_path / "there" / "package")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == f"{tmp_path}/there/package/whyrun/__init__.py\n"


def test_what_travels_by_its_hash_is_left_out_unless_it_is_code(tmp_path: Path) -> None:
    files = {"data/big.csv": "1", "data/rules.sql": "2", "data/load.py": "3", "out/x": "4", "out/deep/y": "5", "z": "6"}
    project = write(tmp_path / "p", files)
    bundle = bundle_project(project, apart=["data", "out"], code=["data/rules.sql"])
    assert unpacked(bundle, tmp_path / "there") == {"data/rules.sql": b"2", "data/load.py": b"3", "z": b"6"}
    by_hash = "it is sent by its hash"
    assert bundle.left_out == (LeftOut("data/big.csv", by_hash), LeftOut("out", by_hash))


def test_links_travel_as_long_as_they_stay_inside_and_lead_somewhere(tmp_path: Path) -> None:
    project = write(tmp_path / "p", {"lib/a.py": "a", "deep/er/b": "b", ".env": "geheim-geheim", "lib/run": "#!"})
    write(tmp_path, {"outside": "geheim-geheim"})
    (project / "lib/run").chmod(0o755)
    links = {
        "a.py": "lib/a.py",
        "deep/absolute": str(project / "lib"),
        "deep/er/through": "../absolute/a.py",
        "env": ".env",
        "out": "../outside",
        "out2": "/etc",
        "dangling": "nowhere",
        "loop": "loop",
        "all": ".",
    }
    for name, target in links.items():
        (project / name).symlink_to(target)
    os.mkfifo(project / "pipe")
    bundle = bundle_project(project)
    assert unpacked(bundle, tmp_path / "there") == {
        "lib/a.py": b"a",
        "lib/run": b"#!",
        "deep/er/b": b"b",
        "a.py": "-> lib/a.py",
        "deep/absolute": "-> ../lib",
        "deep/er/through": "-> ../../lib/a.py",
    }
    assert os.access(tmp_path / "there/project/lib/run", os.X_OK)
    assert not os.access(tmp_path / "there/project/lib/a.py", os.X_OK)
    assert {left.path: left.why for left in bundle.left_out} == {
        ".env": "it may hold secrets or state",
        "env": "it leads to what is left out",
        "dangling": "it leads to what is left out",
        "loop": "it leads to what is left out",
        "out": "it leads out of the project",
        "out2": "it leads out of the project",
        "all": "it leads out of the project",
        "pipe": "it is neither a file nor a link",
    }


def test_a_file_with_the_value_of_a_secret_stays_here(tmp_path: Path) -> None:
    project = write(tmp_path / "p", {"docker-compose.yml": "password: geheim-geheim\n", "a.py": "pass\n"})
    bundle = bundle_project(project, secrets=[b"geheim-geheim"])
    assert unpacked(bundle, tmp_path / "there") == {"a.py": b"pass\n"}
    assert bundle.left_out == (LeftOut("docker-compose.yml", "it contains a secret"),)


@pytest.mark.parametrize("name", ["settings.py", "query.sql"])
def test_code_with_the_value_of_a_secret_is_refused_and_the_value_is_not_told(tmp_path: Path, name: str) -> None:
    project = write(tmp_path / "p", {name: "password = 'geheim-geheim'\n"})
    with pytest.raises(WhyrunError) as refused:
        bundle_project(project, code=["query.sql"], secrets=[b"geheim-geheim"])
    (diagnostic,) = refused.value.diagnostics
    assert (diagnostic.code, diagnostic.file) == ("SECRET_IN_BUNDLE", name)
    assert "geheim" not in str(refused.value)


def test_a_project_full_of_data_is_refused_with_its_largest_files(tmp_path: Path) -> None:
    project = write(tmp_path / "p", {"data/big.csv": b"x" * 9_000_000, "small.py": "pass"})
    with pytest.raises(WhyrunError) as refused:
        bundle_project(project, limit=8_000_000)
    (diagnostic,) = refused.value.diagnostics
    assert diagnostic.code == "BUNDLE_TOO_LARGE"
    assert "more than 8 MB; the largest: `data/big.csv` (9.0 MB)" in diagnostic.message


# --- one spelling ------------------------------------------------------------------------------------------------


def test_the_same_files_give_the_same_bytes_wherever_and_whenever(tmp_path: Path) -> None:
    first = write(tmp_path / "first", CODE)
    second = write(tmp_path / "second" / "deeper", dict(reversed(CODE.items())))
    for path in second.rglob("*"):
        os.utime(path, (1, 1))
    (second / "story.py").chmod(0o600)
    assert bundle_project(first).data == bundle_project(second).data
    (second / "story.py").chmod(0o700)
    assert bundle_project(first).sha256 != bundle_project(second).sha256


def test_any_file_name_survives(tmp_path: Path) -> None:
    project = tmp_path / "p"
    project.mkdir()
    names = [b"\xff\xfe", "ü" * 60 + "/" + "ß" * 60, "-rf", "a b\nc", "x" * 200]
    for name in names:
        path = os.fsencode(project) + b"/" + os.fsencode(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(os.fsencode(name))
    bundle = bundle_project(project)
    assert unpacked(bundle, tmp_path / "there") == {os.fsdecode(name): os.fsencode(name) for name in names}


# --- hostile archives --------------------------------------------------------------------------------------------


def archive(*members: tuple[str, str | None, bytes]) -> bytes:
    """`(name, link target or type, content)`."""
    types = {
        "hardlink": tarfile.LNKTYPE,
        "folder": tarfile.DIRTYPE,
        "device": tarfile.CHRTYPE,
        "fifo": tarfile.FIFOTYPE,
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, kind, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            if kind in types:
                member.type, member.linkname = types[kind], "/etc/passwd"
            elif kind is not None:
                member.type, member.linkname = tarfile.SYMTYPE, kind
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ([("../evil", None, b"x")], "does not name a path in the folder"),
        ([("/etc/evil", None, b"x")], "does not name a path in the folder"),
        ([("project/../../evil", None, b"x")], "does not name a path in the folder"),
        ([("project//evil", None, b"x")], "does not name a path in the folder"),
        ([("project/./evil", None, b"x")], "does not name a path in the folder"),
        ([("project/a", None, b"x"), ("project/a", None, b"y")], "comes twice"),
        ([("project/link", "/etc/passwd", b"")], "leads out of the folder"),
        ([("project/link", "../../x", b"")], "leads out of the folder"),
        ([("link", "..", b"")], "leads out of the folder"),
        ([("project/d", "sub/deep", b""), ("project/e", "d/../../../x", b"")], "leads out of the folder"),
        ([("project/link", "", b"")], "leads out of the folder"),
        ([("project/d", "../project", b""), ("project/d/x", None, b"x")], "lies behind a link"),
        ([("project/d/x", None, b"x"), ("project/d", "../project", b"")], "lies behind a link"),
        ([("project/hard", "hardlink", b"")], "is neither a file nor a link"),
        ([("project/folder", "folder", b"")], "is neither a file nor a link"),
        ([("project/device", "device", b"")], "is neither a file nor a link"),
        ([("project/fifo", "fifo", b"")], "is neither a file nor a link"),
    ],
    ids=lambda value: value if isinstance(value, str) else "+".join(name for name, *_ in value),
)
def test_an_archive_that_reaches_out_is_refused_and_leaves_nothing(
    tmp_path: Path, members: list[tuple[str, str | None, bytes]], why: str
) -> None:
    data = archive(("project/good", None, b"good"), *members)
    with pytest.raises(BundleRefused, match=why):
        unpack(data, str(tmp_path / "there"), hashlib.sha256(data).hexdigest())
    assert list(tmp_path.iterdir()) == []


def test_other_bytes_than_announced_are_refused(tmp_path: Path) -> None:
    bundle = bundle_project(write(tmp_path / "p", CODE))
    changed = bundle.data[:-1] + b"x"
    with pytest.raises(BundleRefused, match=f"but {bundle.sha256} was announced"):
        unpack(changed, str(tmp_path / "there"), bundle.sha256)
    assert [path.name for path in tmp_path.iterdir()] == ["p"]


def test_an_archive_that_is_cut_off_or_damaged_anywhere_is_refused(tmp_path: Path) -> None:
    """Python's `tarfile` takes a cut or damaged header for the end: half a project would pass for all of it."""
    data = archive(("project/a", None, b"a" * 700), ("project/b", "a", b""), ("project/" + "ü" * 120, None, b"c"))
    end = len(data.rstrip(b"\0"))
    end += -end % 512 + 1024
    damaged = [data[:cut] for cut in range(0, end, 128)]
    damaged += [data[:at] + b"\xff" * 512 + data[at + 512 :] for at in (0, 512 + 1024, 512 + 1024 + 512, end - 512)]
    for torn in damaged:
        with pytest.raises(BundleRefused, match="no archive"):
            unpack(torn, str(tmp_path / "there"), hashlib.sha256(torn).hexdigest())
        assert list(tmp_path.iterdir()) == []
    unpack(data[:end], str(tmp_path / "there"), hashlib.sha256(data[:end]).hexdigest())
    assert (tmp_path / "there/project/b").read_bytes() == b"a" * 700
    assert (tmp_path / "there/project" / ("ü" * 120)).read_bytes() == b"c"


def test_a_bundle_that_is_there_is_not_unpacked_again(tmp_path: Path) -> None:
    bundle = bundle_project(write(tmp_path / "p", CODE))
    unpack(bundle.data, str(tmp_path / "there"), bundle.sha256)
    (tmp_path / "there/project/story.py").write_text("touched")
    unpack(bundle.data, str(tmp_path / "there"), bundle.sha256)
    assert (tmp_path / "there/project/story.py").read_text() == "touched"


def test_it_is_unpacked_where_there_is_nothing_but_python(tmp_path: Path) -> None:
    """`unpack.py` goes ahead of everything: it may need neither whyrun nor any other package."""
    bundle = bundle_project(write(tmp_path / "p", CODE))
    (tmp_path / "bundle").write_bytes(bundle.data)
    (tmp_path / "unpack.py").write_bytes(Path(unpack_module.__file__).read_bytes())
    command = [sys.executable, "-I", "-S", "unpack.py", "bundle", "there"]
    subprocess.run([*command, bundle.sha256], cwd=tmp_path, check=True)
    assert contents(tmp_path / "there/project") == as_bytes(CODE)
    refused = subprocess.run([*command, "0" * 64], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stderr) == (
        1,
        f"the bundle has the hash {bundle.sha256}, but {'0' * 64} was announced\n",
    )
