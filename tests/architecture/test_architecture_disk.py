"""What writes state goes through `whyrun.disk`, whose table names every point at which it does."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from source_tree import modules, shown, tree_of

from whyrun.disk import TABLE, Area, points

WRITERS = (
    "log/**/*.py", "artifacts/**/*.py", "evidence/**/*.py", "snapshot/**/*.py",
    "execution/recording/recorder.py", "execution/recording/publisher.py",
)  # fmt: skip
CALLS = {
    "write", "pwrite", "writev", "fsync", "fdatasync", "sync", "replace", "rename", "renames", "link", "symlink",
    "unlink", "remove", "rmdir", "mkdir", "makedirs", "truncate", "ftruncate", "sendfile", "copy_file_range",
}  # fmt: skip
PATH_METHODS = {"write_bytes", "write_text", "symlink_to", "hardlink_to", "touch", "rmdir"}
MODULES = ("os", "shutil", "subprocess", "tempfile")
# module → the calls that it may make by itself, and why
ALLOWED = {
    "artifacts/durable.py": {"os.write": "into pipes and sockets"},
    "artifacts/shared/storage.py": dict.fromkeys(
        ("open to write", "os.fsync", "os.makedirs", "os.mkdir", "os.rename", "os.replace", "os.unlink", "os.remove",
         "os.write", "shutil.copyfileobj", "os.open to write", "os.link", "shutil.rmtree"),
        "the shared store: a folder of others, or a bucket",
    ),
    "evidence/parity/parity.py": dict.fromkeys(
        (".symlink_to", "tempfile.TemporaryDirectory"), "a folder for the moment"
    ),
}  # fmt: skip
OPERATIONS = {"make_folders": "mkdir", "append_line": "write", "write_some": "write"}


def direct_calls(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        match node.func:
            case ast.Attribute(value=ast.Name(id="os"), attr=name) if name in CALLS:
                yield f"os.{name}"
            case ast.Attribute(value=ast.Name(id="shutil" | "subprocess" | "tempfile" as module), attr=name):
                yield f"{module}.{name}"
            case ast.Attribute(attr=name) if name in PATH_METHODS:
                yield f".{name}"
            case ast.Attribute(value=ast.Name(id="os"), attr="open") if _creates(node):
                yield "os.open to write"
            case ast.Name(id="open") | ast.Attribute(attr="open") if _is_write_mode(node):
                yield "open to write"


def _creates(node: ast.Call) -> bool:
    flags = {name.attr for name in ast.walk(node) if isinstance(name, ast.Attribute)}
    return bool(flags & {"O_WRONLY", "O_RDWR", "O_CREAT"})


def _is_write_mode(node: ast.Call) -> bool:
    modes = [a.value for a in [*node.args, *(k.value for k in node.keywords)] if isinstance(a, ast.Constant)]
    return any(isinstance(mode, str) and mode[:1] in ("w", "a", "x") and len(mode) <= 3 for mode in modes)


@pytest.mark.parametrize("file", modules(*WRITERS), ids=shown)
def test_state_is_written_through_the_one_module(file: Path) -> None:
    found = set(direct_calls(tree_of(file))) - ALLOWED.get(shown(file), {}).keys()
    assert sorted(found) == []


def test_the_check_would_notice() -> None:
    bad = ast.parse(
        "os.write(1, b'')\nos.rename(a, b)\nshutil.rmtree(a)\nPath(a).write_bytes(b'')\n"
        "open(a, 'wb')\nos.open(a, os.O_WRONLY)\nsubprocess.Popen(a)"
    )
    assert sorted(direct_calls(bad)) == [
        ".write_bytes", "open to write", "os.open to write", "os.rename", "os.write", "shutil.rmtree",
        "subprocess.Popen",
    ]  # fmt: skip
    assert sorted(direct_calls(ast.parse("os.open(a, os.O_RDONLY)\nopen(a, 'rb')\ndisk.rename(x, a, b)"))) == []


def named_in_source() -> set[str]:
    """`disk.rename(Area.STORE, …)` → `store.rename`, over the whole source."""
    found: set[str] = set()
    for file in modules():
        for node in ast.walk(tree_of(file)):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="disk"), attr=call),
                    args=[ast.Attribute(value=ast.Name(id="Area"), attr=area), *_],
                ):
                    found.add(f"{Area[area]}.{OPERATIONS.get(call, call)}")
                case _:
                    continue
    return found


def test_the_table_has_every_point_that_the_source_names() -> None:
    assert named_in_source() <= set(points())


def test_every_area_is_used() -> None:
    """In a call, or handed on to one (`atomic_write`)."""
    used = {
        node.attr
        for file in modules()
        if shown(file) != "disk.py"
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Area"
    }
    assert used == {area.name for area in Area}
    assert set(TABLE) == set(Area)
