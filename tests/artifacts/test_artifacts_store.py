from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys

import pytest

from whyrun.artifacts.store import Store
from whyrun.errors import StateError


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def overwrite(path: str, data: bytes) -> None:
    os.chmod(path, 0o644)
    with open(path, "wb") as file:
        file.write(data)


def leftovers(store):
    tmp = store.root / "tmp"
    return sorted(p.name for p in tmp.iterdir()) if tmp.exists() else []


def test_bytes_come_back_by_their_hash(store):
    name = store.put_bytes(b"hello")
    assert name == sha(b"hello")
    path = store.root / name[:2] / name[2:]
    assert store.path(name) == store.open_path(name) == str(path)
    assert path.read_bytes() == store.read(name) == b"hello"
    assert stat.S_IMODE(path.stat().st_mode) == 0o444
    assert store.has(name)
    assert store.has(name, 5)
    assert not store.has(name, 4)
    assert not store.has(sha(b"other"))
    assert store.put_bytes(b"hello") == name
    assert leftovers(store) == []


def test_a_file_is_copied_and_stays_independent(store, tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"x" * 2_500_000)
    name, size = store.put_file(file)
    assert (name, size) == (sha(b"x" * 2_500_000), 2_500_000)
    file.write_bytes(b"changed")
    assert store.read(name) == b"x" * 2_500_000
    assert store.put_file(file) == (sha(b"changed"), 7)
    assert leftovers(store) == []


def test_a_moved_file_is_gone_from_its_place(store, tmp_path):
    for data, known in ((b"one", None), (b"two", sha(b"two")), (b"two", None)):
        file = tmp_path / "scratch"
        file.write_bytes(data)
        assert store.put_file(file, known, move=True) == (sha(data), 3)
        assert not file.exists()
        assert stat.S_IMODE(os.stat(store.path(sha(data))).st_mode) == 0o444
    assert store.read(sha(b"two")) == b"two"


def test_moving_a_file_with_a_second_name_leaves_no_way_into_the_blob(store, tmp_path):
    file, other = tmp_path / "scratch", tmp_path / "other"
    other.write_bytes(b"data")
    os.link(other, file)
    store.put_file(file, move=True)
    other.write_bytes(b"evil")
    assert store.read(sha(b"data")) == b"data"
    link = tmp_path / "link"
    link.symlink_to(other)
    assert store.put_file(link, move=True) == (sha(b"evil"), 4)
    assert other.read_bytes() == b"evil"
    assert not link.is_symlink()


def test_a_file_that_is_not_what_it_should_be_is_refused(store, tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"new")
    for known in (b"old", b"older"):
        with pytest.raises(StateError, match="STORE_DAMAGED"):
            store.put_file(file, sha(known))
    store.put_bytes(b"old")
    with pytest.raises(StateError, match="STORE_DAMAGED"):
        store.put_file(file, sha(b"old"))
    assert leftovers(store) == []


@pytest.mark.parametrize("wrong", [b"hellO", b"", b"longer than that"])
def test_damage_is_detected(store, tmp_path, wrong):
    name = store.put_bytes(b"hello")
    overwrite(store.path(name), wrong)
    fresh = Store(store.root)
    for use in (store.read, fresh.read, fresh.check, lambda s: fresh.export(s, tmp_path / "out")):
        with pytest.raises(StateError, match=f"STORE_DAMAGED(.|\n)*{name}"):
            use(name)
    assert not (tmp_path / "out").exists()


def test_a_lost_blob_is_store_damaged(store, tmp_path):
    for use in (store.read, store.open_path, store.check, store.read_tree, lambda s: store.export(s, tmp_path / "out")):
        with pytest.raises(StateError, match="is missing"):
            use(sha(b"nothing"))
    assert not store.has_tree(sha(b"nothing"))


@pytest.mark.parametrize("put", ["bytes", "copy", "move", "move-known"])
def test_putting_the_right_bytes_heals_a_blob_that_a_power_cut_left_wrong(store, tmp_path, put):
    name = store.put_bytes(b"hello")
    overwrite(store.path(name), b"\0" * 5)
    fresh = Store(store.root)
    file = tmp_path / "file"
    file.write_bytes(b"hello")
    if put == "bytes":
        fresh.put_bytes(b"hello")
    else:
        fresh.put_file(file, name if put == "move-known" else None, move=put.startswith("move"))
    assert fresh.read(name) == b"hello"


def test_a_lost_blob_is_restored_from_a_file_with_its_content(store, tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"hello")
    assert not store.restore_from(file, sha(b"other"))
    assert not store.restore_from(tmp_path / "none", sha(b"hello"))
    assert not store.has(sha(b"hello"))
    assert store.restore_from(file, sha(b"hello"))
    assert store.read(sha(b"hello")) == b"hello"


def test_an_export_is_a_writable_copy_that_replaces_nothing(store, tmp_path):
    name = store.put_bytes(b"hello")
    store.export(name, tmp_path / "out")
    (tmp_path / "out").write_bytes(b"edited")
    assert os.stat(tmp_path / "out").st_mode & stat.S_IWUSR
    assert store.read(name) == b"hello"
    with pytest.raises(FileExistsError):
        store.export(name, tmp_path / "out")


# --- folders -----------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    top = tmp_path / "folder"
    (top / "sub" / "empty" / "deep").mkdir(parents=True)
    (top / "a.txt").write_bytes(b"aa")
    (top / "tool").write_bytes(b"#!")
    (top / "tool").chmod(0o755)
    (top / "sub" / "b").write_bytes(b"b")
    return top


def contents(top):
    return {
        str(p.relative_to(top)): (p.read_bytes(), bool(p.stat().st_mode & stat.S_IXUSR)) if p.is_file() else None
        for p in sorted(top.rglob("*"))
    }


def test_a_folder_comes_back_whole(store, folder, tmp_path):
    before = contents(folder)
    name, size = store.put_tree(folder)
    assert size == 5
    assert store.has_tree(name)
    store.export(name, tmp_path / "out", "directory")
    assert contents(tmp_path / "out") == before == contents(folder)
    assert store.put_tree(tmp_path / "out") == (name, size)
    (tmp_path / "out" / "a.txt").write_bytes(b"edited")
    assert store.read(sha(b"aa")) == b"aa"


def test_a_moved_folder_with_links_inside_is_stored_whole(store, folder, tmp_path):
    (folder / "link").symlink_to("a.txt")
    (folder / "dir").symlink_to("sub")
    expected = Store(tmp_path / "other").put_tree(folder)
    name, size = store.put_tree(folder, move=True)
    assert (name, size) == expected
    store.export(name, tmp_path / "out", "directory")
    assert contents(tmp_path / "out")["link"] == (b"aa", False)
    assert contents(tmp_path / "out")["dir/b"] == (b"b", False)


def test_a_folder_with_a_lost_or_damaged_file_is_not_there(store, folder, tmp_path):
    name, _ = store.put_tree(folder)
    overwrite(store.path(sha(b"aa")), b"ab")
    with pytest.raises(StateError, match="STORE_DAMAGED"):
        store.export(name, tmp_path / "out", "directory")
    os.unlink(store.path(sha(b"aa")))
    assert not store.has_tree(name)
    assert store.restore_from(folder, name)
    assert store.has_tree(name)


def test_a_file_is_no_folder(store, tmp_path):
    with pytest.raises(StateError, match="not the manifest of a folder"):
        store.export(store.put_bytes(b"hello"), tmp_path / "out", "directory")


PUT = """
import sys
from whyrun.artifacts.store import Store
store = Store(sys.argv[1])
for i in range(300):
    assert store.read(store.put_bytes(b"%d" % i * 1000)) == b"%d" % i * 1000
"""


def test_several_processes_put_the_same_content_at_once(store):
    workers = [subprocess.Popen([sys.executable, "-c", PUT, str(store.root)]) for _ in range(3)]
    assert [worker.wait() for worker in workers] == [0, 0, 0]
    assert leftovers(store) == []
    assert len([path for path in store.root.glob("??/*") if path.is_file()]) == 300


def test_what_killed_processes_left_is_removed(store):
    store.put_bytes(b"x")
    old, new = store.root / "tmp" / "tmp-1", store.root / "tmp" / "tmp-2"
    old.mkdir()
    new.write_bytes(b"")
    os.utime(old, (100, 100))
    assert store.remove_leftovers(older_than=1000) == 1
    assert leftovers(store) == ["tmp-2"]
    assert Store(store.root / "none").remove_leftovers(1000) == 0
