from __future__ import annotations

import hashlib
import mmap
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from whyrun import disk
from whyrun.artifacts.durable import atomic_write, checked, with_checksum
from whyrun.artifacts.hashing import bytes_sha256, tree_manifest
from whyrun.artifacts.publishing.publish import publish
from whyrun.artifacts.stat_cache import cache as stat_cache
from whyrun.artifacts.stat_cache.cache import StatCache
from whyrun.artifacts.store import Store
from whyrun.disk import Area
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
    data = bytes(checked(path.read_bytes())).replace(bytes.fromhex(sha(b"3")), b"x" * 32)
    path.write_bytes(with_checksum(data))
    assert StatCache.load(path).sha256_of(files[3]) == "78" * 32


def test_what_is_written_through_a_mapping_is_seen_although_no_time_moves(tmp_path):
    """As by `np.memmap`: only the first write to a page moves the times of the file."""
    path, file = tmp_path / "stat-cache", tmp_path / "file"
    file.write_bytes(b"A" * 4096)
    with file.open("r+b") as opened, mmap.mmap(opened.fileno(), 4096) as mapped:
        mapped[:1] = b"B"
        before = os.stat(file)
        for letter in (b"C", b"D"):
            cache = StatCache.load(path, later())
            mapped[:9] = letter * 9
            assert cache.sha256_of(str(file)) == sha(letter * 9 + b"A" * 4087)
            cache.save()
        assert (os.stat(file).st_mtime_ns, os.stat(file).st_ctime_ns) == (before.st_mtime_ns, before.st_ctime_ns)
    cache = StatCache.load(path, later())
    assert cache.sha256_of(str(file)) == sha(b"D" * 9 + b"A" * 4087)
    cache.save()
    assert len(StatCache.load(path)) == 1, "nobody has it open any more"


WRITES = "import os, sys\nwhile True:\n    os.close(os.open(sys.argv[1], os.O_WRONLY))\n"
ASKS = (
    "import sys, time\nfrom whyrun.artifacts.stat_cache.rows import is_open_for_writing\n"
    "end = time.monotonic() + 2\n"
    "while time.monotonic() < end:\n    is_open_for_writing(sys.argv[1], unknown=False)\n"
)


def test_who_opens_a_file_while_it_is_asked_about_does_not_end_the_one_who_asks(tmp_path):
    """The system tells the holder of a lease that somebody came, by a signal that ends whoever does not expect it."""
    file = tmp_path / "file"
    file.write_bytes(b"x")
    with subprocess.Popen([sys.executable, "-c", WRITES, file]) as writer:
        try:
            asks = subprocess.run([sys.executable, "-c", ASKS, file], capture_output=True, text=True, check=False)
        finally:
            writer.kill()
    assert (asks.returncode, asks.stdout, asks.stderr) == (0, "", "")


def test_a_file_with_another_size_than_one_can_read_is_read_every_time(tmp_path):
    """Those of the system (`/proc`, `/sys`): their content changes, and neither size nor times do."""
    cache = StatCache.load(tmp_path / "stat-cache", later())
    assert cache.sha256_of("/proc/version") == sha(Path("/proc/version").read_bytes())
    cache.save()
    assert len(StatCache.load(tmp_path / "stat-cache")) == 0


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
    os.utime(files[0])
    written = os.stat(files[0]).st_ctime_ns
    young = StatCache.load(tmp_path / "a", lambda: written)
    young.sha256_of(files[0])
    assert len(young) == 0
    old = StatCache.load(tmp_path / "b", lambda: written + SECOND // 10)
    old.sha256_of(files[0])
    assert len(old) == 1


def test_a_time_in_whole_seconds_is_trusted_only_after_two(tmp_path, files):
    written = (time.time_ns() // SECOND) * SECOND
    os.utime(files[0], ns=(0, written))
    changed = os.stat(files[0]).st_ctime_ns
    for moment, entries in ((written + SECOND, 0), (changed + 3 * SECOND, 1)):
        cache = StatCache.load(tmp_path / f"c{entries}", lambda moment=moment: moment)
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
    now = [os.stat(path).st_ctime_ns]
    cache = StatCache.load(tmp_path / "stat-cache", lambda: now[0])
    cache.note(path, written)
    assert cache.settle() == 1  # too young
    assert len(cache) == 0
    now[0] += SECOND // 20
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
    atomic_write(path, b"one", Area.INDEX, sync)
    atomic_write(path, b"two", Area.INDEX, sync)
    assert path.read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["file"]


def test_a_failed_write_leaves_the_old_file(tmp_path):
    (tmp_path / "dir" / "x").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        atomic_write(tmp_path / "dir", b"one", Area.INDEX)
    assert os.listdir(tmp_path) == ["dir"]


def test_syncing_a_file_system_and_a_folder(tmp_path):
    disk.sync_filesystem(Area.STORE, tmp_path)
    disk.sync_folder(Area.STORE, tmp_path)
    with pytest.raises(OSError, match="Bad file descriptor"):
        disk.syncfs(10**6)


# --- many files of one folder ------------------------------------------------------------------------------------


def many_files(folder, count):
    folder.mkdir()
    for i in range(count):
        (folder / f"{i:05d}").write_bytes(b"%d" % i)
    names = [f"files/{i:05d}" for i in range(count)]
    return names, [sha(b"%d" % i) for i in range(count)]


def test_files_of_a_folder_are_asked_for_by_their_names_in_it(tmp_path):
    names, expected = many_files(tmp_path / "files", 600)
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.write_bytes(b"outside")
    path = tmp_path / "stat-cache"
    for asked in (names, names[:10], names[300:], list(reversed(names)), [*names[5:], str(outside)], names, [], names):
        cache = StatCache.load(path, later())
        wanted = [sha(b"outside") if name == str(outside) else expected[names.index(name)] for name in asked]
        assert list(cache.sha256_in(str(tmp_path), asked)) == wanted
        assert list(cache.sha256_in(str(tmp_path), asked)) == wanted
        assert cache.sha256_of_many([os.path.join(tmp_path, name) for name in asked]) == wanted
        cache.save()
    moved = tmp_path.with_name("moved")
    tmp_path.rename(moved)
    cache = StatCache.load(moved / "stat-cache", later())
    assert list(cache.sha256_in(str(moved), names)) == expected
    assert list(cache.sha256_in(str(tmp_path), names)) == [None] * len(names)
    outside.unlink()


def test_what_was_changed_deleted_or_replaced_among_many_is_seen(tmp_path):
    names, expected = many_files(tmp_path / "files", 600)
    path = tmp_path / "stat-cache"
    cache = StatCache.load(path, later())
    assert cache.sha256_in(str(tmp_path), names) == expected
    assert cache.save()
    cache = StatCache.load(path, later())
    assert cache.sha256_in(str(tmp_path), names) == expected
    assert not cache.save()
    (tmp_path / names[7]).write_bytes(b"x")
    (tmp_path / names[300]).unlink()
    (tmp_path / names[599]).unlink()
    (tmp_path / names[599]).mkdir()
    os.mkfifo(tmp_path / "files/pipe")
    os.replace(tmp_path / "files/pipe", tmp_path / names[298])
    now = {7: sha(b"x"), 300: None, 599: bytes_sha256(tree_manifest(tmp_path / names[599])), 298: "special"}
    wanted = [now.get(i, sha256) for i, sha256 in enumerate(expected)]
    cache = StatCache.load(path, later())
    assert list(cache.sha256_in(str(tmp_path), names, "special")) == wanted
    assert cache.is_folder(str(tmp_path / names[599]))
    with pytest.raises(InvalidError, match="INPUT_TYPE"):
        cache.sha256_in(str(tmp_path), names)
    assert cache.save()
    cache = StatCache.load(path, later())
    assert list(cache.sha256_in(str(tmp_path), names, "special")) == wanted


SECOND_LOOK = """
import os, sys
from whyrun.artifacts.stat_cache.cache import StatCache

root, state, answers = sys.argv[1], sys.argv[2], []
names = [f"files/{i:05d}" for i in range(10_000)]
cache = StatCache.load(state)
with cache.with_parallel_stat():
    assert cache._parallel is not None, "a process with one thread may have a second"
    if "late" in sys.argv:  # the second process has looked at everything before the first asks
        os.waitid(os.P_PID, cache._parallel._process, os.WEXITED | os.WNOWAIT)
    for part in (names[:3000], names[3000:]):
        answers.extend(cache.sha256_in(root, part))
try:
    os.waitpid(-1, 0)
    sys.exit("it was not waited for")
except ChildProcessError:
    pass
print("\\n".join(map(str, answers)))
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="with one processor there is no second process")
@pytest.mark.parametrize("when", ["early", "late"])
def test_a_second_process_changes_no_answer(tmp_path, when):
    names, expected = many_files(tmp_path / "files", 10_000)
    path = tmp_path / "stat-cache"
    cache = StatCache.load(path, later())
    assert cache.sha256_in(str(tmp_path), names) == expected
    cache.save()
    answers: list[str | None] = list(expected)
    for row in (0, 2999, 3000, 5555, 9999):
        (tmp_path / names[row]).write_bytes(b"other")
        answers[row] = sha(b"other")
    (tmp_path / names[7777]).unlink()
    answers[7777] = None
    script = tmp_path / "ask.py"
    script.write_text(SECOND_LOOK)
    done = subprocess.run(
        [sys.executable, script, tmp_path, path, when], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.stderr == ""
    assert done.stdout.split("\n") == [*map(str, answers), ""]


def test_files_that_are_asked_for_together_come_to_stand_together(tmp_path, monkeypatch):
    """Else none is found by comparing whole chunks, although most stand behind the one that is asked for before."""
    monkeypatch.setattr(stat_cache, "MANY", 3)
    folder, path = tmp_path / "files", tmp_path / "stat-cache"
    folder.mkdir()
    names = [f"f{i}" for i in range(8)]
    for name in names:
        (folder / name).write_text(name)
    expected = [sha(name.encode()) for name in names]

    def asked(*lists):
        cache = StatCache.load(path, later())
        found = [list(cache.sha256_in(str(folder), names)) for names in lists]
        return found, cache.save(), StatCache.load(path)._rows.names

    halves = names[4:] + names[:4]
    assert asked(halves) == ([expected[4:] + expected[:4]], True, halves)
    assert asked(names) == ([expected], True, names)
    assert asked(names) == ([expected], False, names)
    (folder / "f7").unlink()
    assert asked(names) == ([[*expected[:7], None]], True, names[:7])
    assert asked(names) == ([[*expected[:7], None]], False, names[:7])
    even, first = names[:7:2], names[:4]  # they cannot both stand together: that is no reason to write each time
    order = ["f0", "f2", "f4", "f6", "f1", "f3", "f5"]
    assert asked(even, first) == ([expected[:7:2], expected[:4]], True, order)
    assert asked(even, first) == ([expected[:7:2], expected[:4]], False, order)
