from __future__ import annotations

import hashlib
import os
import time

import pytest

from whyrun.artifacts.durable import atomic_write, checked, fsync_dir, sync_filesystem, with_checksum
from whyrun.artifacts.hashing import bytes_sha256, tree_manifest
from whyrun.artifacts.publish import publish
from whyrun.artifacts.stat_cache import StatCache
from whyrun.artifacts.store import Store
from whyrun.errors import InvalidError

SECOND = 1_000_000_000


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def later(seconds: float = 10):
    """A clock that is ahead, so that files written now count as old."""
    return lambda: time.time_ns() + int(seconds * SECOND)


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    for i in range(5):
        (folder / f"f{i}").write_bytes(b"%d" % i)
    return [str(folder / f"f{i}") for i in range(5)]


def test_hashes_are_those_of_the_contents_with_or_without_the_cache(tmp_path, files):
    path = tmp_path / "stat-cache"
    expected = [sha(b"%d" % i) for i in range(5)]
    for _ in range(3):
        cache = StatCache.load(path, later())
        assert cache.sha256_of_many(files) == expected
        cache.save()
    assert len(StatCache.load(path)) == 5
    path.unlink()
    assert StatCache.load(path).sha256_of_many(files) == expected


def test_a_cached_hash_is_taken_without_reading_the_file(tmp_path, files):
    path = tmp_path / "stat-cache"
    cache = StatCache.load(path, later())
    cache.sha256_of_many(files)
    assert cache.save()
    assert not cache.save()
    data = bytes(checked(path.read_bytes())).replace(sha(b"3").encode(), b"x" * 64)
    path.write_bytes(with_checksum(data))
    assert StatCache.load(path).sha256_of(files[3]) == "x" * 64


def test_a_same_size_edit_within_the_tick_of_the_first_look_is_seen(tmp_path):
    path = tmp_path / "stat-cache"
    file = tmp_path / "file"
    for i in range(200):
        file.write_bytes(b"a%03d" % i)
        cache = StatCache.load(path)
        assert cache.sha256_of(str(file)) == sha(b"a%03d" % i)
        with open(file, "r+b") as again:
            again.write(b"b%03d" % i)
        assert cache.sha256_of(str(file)) == sha(b"b%03d" % i)
        cache.save()


def test_an_edit_that_hides_behind_its_old_time_is_seen(tmp_path, files):
    cache = StatCache.load(tmp_path / "stat-cache", later())
    assert cache.sha256_of(files[0]) == sha(b"0")
    before = os.stat(files[0])
    time.sleep(0.02)
    with open(files[0], "r+b") as file:
        file.write(b"X")
    os.utime(files[0], ns=(before.st_atime_ns, before.st_mtime_ns))
    assert cache.sha256_of(files[0]) == sha(b"X")


def test_young_files_are_not_entered_and_old_ones_are(tmp_path, files):
    young = StatCache.load(tmp_path / "a")
    os.utime(files[0])
    young.sha256_of(files[0])
    assert len(young) == 0
    old = StatCache.load(tmp_path / "b", later(0.1))
    old.sha256_of(files[0])
    assert len(old) == 1


def test_a_time_in_whole_seconds_is_trusted_only_after_two(tmp_path, files):
    os.utime(files[0], ns=(0, (time.time_ns() // SECOND) * SECOND))
    for seconds, entries in ((1.0, 0), (2.5, 1)):
        cache = StatCache.load(tmp_path / f"c{entries}", later(seconds))
        cache.sha256_of(files[0])
        assert len(cache) == entries


def test_what_is_missing_has_no_hash_and_its_entry_is_dropped(tmp_path, files):
    path = tmp_path / "stat-cache"
    cache = StatCache.load(path, later())
    cache.sha256_of_many(files)
    cache.save()
    os.unlink(files[0])
    os.unlink(files[1])
    cache = StatCache.load(path, later())
    assert cache.sha256_of_many([files[0], f"{files[2]}/below", str(tmp_path / "none")]) == [None, None, None]
    assert cache.save()
    assert len(StatCache.load(path)) == 3  # files[1] was not asked for, but is gone too


@pytest.mark.parametrize(
    "junk", [b"", b"junk", b"\x98\x63\x90\x90\x90\x90\x90\x90\x90", b"\x98\x01\x91\xa1a\x90\x90\x90\x90\x90\x90"]
)
def test_a_cache_that_cannot_be_read_is_as_good_as_none(tmp_path, files, junk):
    path = tmp_path / "stat-cache"
    path.write_bytes(junk)
    cache = StatCache.load(path, later())
    assert len(cache) == 0
    assert cache.sha256_of(files[1]) == sha(b"1")
    cache.save()
    assert len(StatCache.load(path)) == 1


def test_folders_are_hashed_file_by_file(tmp_path, files):
    folder = os.path.dirname(files[0])
    cache = StatCache.load(tmp_path / "stat-cache", later())
    before = cache.sha256_of(folder)
    assert before == bytes_sha256(tree_manifest(folder))
    assert len(cache) == 5
    with open(files[2], "w") as file:
        file.write("changed")
    assert cache.sha256_of(folder) == bytes_sha256(tree_manifest(folder)) != before


def test_what_cannot_be_read_is_an_error_that_names_it(tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(InvalidError, match=f"FILE_MISSING.*{loop}"):
        StatCache.load(tmp_path / "c").sha256_of(str(loop))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidError, match="INPUT_TYPE"):
        StatCache.load(tmp_path / "c").sha256_of(str(tmp_path / "pipe"))


# --- files that we wrote ourselves -------------------------------------------------------------------------------


@pytest.fixture
def published(tmp_path):
    project = tmp_path / "project"
    store = Store(project / ".whyrun" / "store")
    name = store.put_bytes(b"content")
    result = publish(store, project, "a.txt", name, lambda found: False)
    return str(project / "a.txt"), result.file


def test_a_published_file_is_taken_at_a_later_sync_without_reading_it(tmp_path, published):
    path, written = published
    cache = StatCache.load(tmp_path / "stat-cache")
    cache.note(path, written)
    assert cache.settle() == 1  # too young
    assert len(cache) == 0
    time.sleep(0.05)
    assert cache.settle() == 0
    assert len(cache) == 1
    cache.save()
    assert StatCache.load(tmp_path / "stat-cache").sha256_of(path) == sha(b"content")


def test_a_published_file_that_was_edited_at_once_is_not_taken(tmp_path):
    project = tmp_path / "project"
    store = Store(project / ".whyrun" / "store")
    name = store.put_bytes(b"content")
    cache = StatCache.load(tmp_path / "stat-cache", later())
    for i in range(100):
        path = str(project / f"{i}.txt")
        cache.note(path, publish(store, project, f"{i}.txt", name, lambda found: False).file)
        with open(path, "r+b") as file:
            file.write(b"CONTENT")
    assert cache.settle() == 0
    assert len(cache) == 0


def test_a_published_file_that_vanished_is_forgotten(tmp_path, published):
    path, written = published
    cache = StatCache.load(tmp_path / "stat-cache", later())
    cache.note(path, written)
    os.unlink(path)
    assert cache.settle() == 0
    assert len(cache) == 0


# --- durable -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sync", [False, True])
def test_atomic_writes_replace_and_leave_nothing_beside(tmp_path, sync):
    path = tmp_path / "file"
    atomic_write(path, b"one", sync)
    atomic_write(path, b"two", sync)
    assert path.read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["file"]


def test_a_failed_write_leaves_the_old_file(tmp_path):
    (tmp_path / "dir" / "x").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        atomic_write(tmp_path / "dir", b"one")
    assert os.listdir(tmp_path) == ["dir"]


def test_syncing_a_path_and_a_descriptor(tmp_path):
    sync_filesystem(tmp_path)
    fsync_dir(tmp_path)
    with open(tmp_path / "f", "wb") as file:
        sync_filesystem(file.fileno())
    with pytest.raises(OSError, match="Bad file descriptor"):
        sync_filesystem(10**6)
