"""Clocks that differ, step back or tick slowly: no edit is missed, and no step runs again for a time stamp alone."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from project_lab import Heard, Lab
from whyrun.artifacts.hashing import bytes_sha256, file_sha256
from whyrun.artifacts.stat_cache import rows
from whyrun.artifacts.stat_cache.cache import StatCache, WrittenFile
from whyrun.artifacts.stat_cache.rows import ClockSkews, FileClock, FileSystem, file_system_of, is_settled
from whyrun.evidence.queries.history import list_runs
from whyrun.evidence.verify.verify import verify
from whyrun.execution.backends.registry import RunOptions
from whyrun.execution.protocol.messages import InputSpec
from whyrun.execution.run.session import run_workflow
from whyrun.execution.worker import materialize
from whyrun.execution.worker.materialize import InputGuard
from whyrun.planning.plan import PlanOptions

SECOND = 1_000_000_000
DAY = 86400 * SECOND

WORKFLOW = """
    workflow: clocks
    inputs: {Word: {type: text, default: word.txt}}
    jobs:
      Copy:
        uses: python
        with: {call: "copying:copy", word: "${{ inputs.Word }}"}
        outputs: {Text: {type: text, path: out/copy.txt}}
    """
COPYING = """
    def copy(context, word):
        context.output("Text").write_text(word.read_text() + "!")
    """


@pytest.fixture
def lab(project: Callable[..., Lab]) -> Lab:
    made = project(WORKFLOW, {"word.txt": "one", "copying.py": COPYING})
    made.succeed()
    return made


def whole_seconds(ns: int) -> int:
    return ns - ns % SECOND


@pytest.mark.parametrize("granularity", [1, SECOND, 2 * SECOND], ids=["exact", "1 s", "2 s"])
@pytest.mark.parametrize("offset", [0, DAY, -DAY, -20 * 365 * DAY], ids=["now", "ahead", "behind", "long ago"])
def test_an_edit_of_the_same_size_and_time_is_seen(lab: Lab, granularity: int, offset: int) -> None:
    """The time of the file is set back to what it was, as a copying program does, or as a slow tick leaves it."""
    path = lab.root / "word.txt"
    when = time.time_ns() + offset
    when -= when % granularity
    os.utime(path, ns=(when, when))
    assert lab.plan().headlines() == {}, "the same content under another time is the same"
    for word in ("two", "six", "one"):
        path.write_text(word)
        os.utime(path, ns=(when, when))
        assert lab.plan().headlines() == ({} if word == "one" else {"Job:Copy": "INPUT_CHANGED"}), word


def test_edits_right_after_each_other_are_all_seen(lab: Lab) -> None:
    """Most of them within one tick of the kernel's clock, some with a look in between that made an entry."""
    path = lab.root / "word.txt"
    for number in range(40):
        word = f"{number:03d}"
        path.write_text(word)
        assert lab.snapshot().dependency_graph.inputs["Input:Word"].sha256 == bytes_sha256(word.encode())


def test_another_file_of_the_same_size_and_time_is_seen(lab: Lab) -> None:
    path, other = lab.root / "word.txt", lab.root / "other.txt"
    other.write_text("two")
    shutil.copystat(path, other)
    other.rename(path)
    assert lab.plan().headlines() == {"Job:Copy": "INPUT_CHANGED"}


def test_a_published_file_that_was_edited_behind_its_time_is_missing(lab: Lab) -> None:
    path = lab.root / "out/copy.txt"
    for _ in range(2):  # with what the run noted of its own file, and with what a plan saw of it
        before = path.stat()
        path.write_text("own!")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert lab.plan().headlines() == {"Job:Copy": "MISSING_OUTPUT"}
        path.write_text("one!")
        assert lab.plan().headlines() == {}


def test_code_that_was_edited_behind_its_time_is_another_action(lab: Lab) -> None:
    path = lab.root / "copying.py"
    before = path.stat()
    path.write_text(path.read_text().replace('"!"', '"?"'))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    (job,) = lab.plan().to_json()["jobs"]
    assert [(reason["code"], reason["binding"]) for reason in job["reasons"]] == [("INPUT_CHANGED", "action")]


# --- file servers ------------------------------------------------------------------------------------------------


def test_a_file_server_that_is_behind_makes_no_file_look_old(tmp_path: Path) -> None:
    """Our clock is five seconds ahead of the one that files get their times from. A file that was written this moment
    would seem to be settled; the next write could leave the same times."""

    def ahead() -> int:
        return time.time_ns() + 5 * SECOND

    path = tmp_path / "word.txt"
    path.write_text("one")
    status = path.stat()
    assert is_settled(status.st_mtime_ns, status.st_ctime_ns, ahead())
    clock = FileClock(tmp_path, ahead)
    assert clock() <= time.time_ns()
    # What was just written is read again each time. (A new clock each time, as each command has one of its own.)
    for word in ("two", "six", "ten"):
        path.write_text(word)
        now = FileClock(tmp_path, ahead)()
        status = path.stat()
        assert not is_settled(whole_seconds(status.st_mtime_ns), whole_seconds(status.st_ctime_ns), now)
        cache = StatCache.load(tmp_path / "stat-cache", FileClock(tmp_path, ahead))
        assert cache.sha256_of(str(path)) == bytes_sha256(word.encode())
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["word.txt"], "the look at the clock leaves nothing"


def test_a_file_server_that_is_ahead_only_costs_a_second_look(tmp_path: Path) -> None:
    def behind() -> int:
        return time.time_ns() - 5 * SECOND

    path = tmp_path / "word.txt"
    path.write_text("one")
    clock = FileClock(tmp_path, behind)
    cache = StatCache.load(tmp_path / "stat-cache", clock)
    assert cache.sha256_of(str(path)) == bytes_sha256(b"one")
    cache.save()
    assert len(StatCache.load(tmp_path / "stat-cache", clock)) == 0


@pytest.mark.parametrize(
    ("served", "age", "known"),
    [(True, 290, 0), (True, 310, 1), (False, 290, 1)],
    ids=["of a file server", "of a file server, old", "of this kernel"],
)
def test_files_on_another_file_server_look_old_later(
    served: bool, age: int, known: int, tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock that files get their times from there is not known, and might be behind."""
    if served:
        monkeypatch.setattr(rows, "file_system_of", lambda path: FileSystem.SERVER)
    path, own = elsewhere / "data.csv", tmp_path / "own.csv"
    for file in (path, own):
        file.write_text("one")

    def later() -> int:
        return time.time_ns() + age * SECOND

    cache = StatCache.load(tmp_path / "state" / "stat-cache", later)
    assert cache.sha256_of_many([str(path), str(own)]) == [bytes_sha256(b"one")] * 2
    cache.save()
    found = StatCache.load(tmp_path / "state" / "stat-cache", later)
    assert [file.name for file in (path, own) if found.entry_of(str(file))] == ["data.csv"] * known + ["own.csv"]

    guard = InputGuard(elsewhere, clock=later, skews=ClockSkews(tmp_path / "state"))
    spec = InputSpec("Input:Data", bytes_sha256(b"one"), "csv", ".csv", path="data.csv")
    read: list[str] = []
    monkeypatch.setattr(materialize, "file_sha256", lambda path: read.append(str(path)) or file_sha256(path))
    for _ in range(2):
        guard.project_file(spec)
    assert read == [str(path)] * (2 - known), "read again by every step until then"


def test_files_on_an_unknown_file_system_are_hashed_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FUSE, disk images and unknown file systems may set any time, also on the file system of the state."""
    monkeypatch.setattr(rows, "file_system_of", lambda path: FileSystem.UNKNOWN)
    path, published = tmp_path / "data.csv", tmp_path / "published.csv"
    for file in (path, published):
        file.write_text("one")
    os.utime(published, ns=(1_000_000_001, 1_000_000_001))

    def next_year() -> int:
        return time.time_ns() + 365 * DAY

    cache = StatCache.load(tmp_path / "state" / "stat-cache", next_year)
    status = published.stat()
    cache.note(
        str(published),
        WrittenFile(bytes_sha256(b"one"), status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns),
    )
    assert cache.settle() == 0
    assert cache.sha256_of(str(path)) == bytes_sha256(b"one")
    assert [cache.entry_of(str(file)) for file in (path, published)] == [None, None]

    guard = InputGuard(tmp_path, clock=next_year, skews=ClockSkews(tmp_path / "state"))
    assert guard._look(path)[1] is False


def test_file_systems_are_local_served_or_unknown(tmp_path: Path) -> None:
    kinds = [file_system_of(path) for path in ("/dev/shm", "/proc", tmp_path / "nowhere")]
    assert kinds == [FileSystem.LOCAL, FileSystem.UNKNOWN, FileSystem.UNKNOWN]


def test_in_a_folder_each_file_has_the_clock_of_its_own_file_system(
    tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another may be mounted within it. (Here a link stands for that; as content of an input, it would be refused.)"""
    monkeypatch.setattr(rows, "file_system_of", lambda path: FileSystem.SERVER)
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "own.csv").write_text("one")
    (elsewhere / "served.csv").write_text("one")
    guard = InputGuard(tmp_path, clock=lambda: time.time_ns() + 60 * SECOND, skews=ClockSkews(tmp_path / "state"))
    assert guard._look(folder)[1] is True
    (folder / "served.csv").symlink_to(elsewhere / "served.csv")
    assert guard._look(folder)[1] is False


def test_a_state_that_cannot_be_looked_at_has_the_clock_of_the_folder_above(tmp_path: Path) -> None:
    (tmp_path / ".whyrun").symlink_to(".whyrun")
    assert ClockSkews(tmp_path / ".whyrun").of(tmp_path, tmp_path.stat().st_dev) == 0


def test_where_no_file_can_be_made_it_is_our_own_clock(tmp_path: Path) -> None:
    assert FileClock(tmp_path / "nowhere", lambda: 7)() == 7
    assert FileClock(tmp_path, lambda: 7)() == 7, "and where files have later times than it is"


@pytest.mark.parametrize(
    ("mtime", "age", "settled"),
    [
        (5 * SECOND + 1, 10_000_000, False),  # within a tick of the kernel
        (5 * SECOND + 1, 30_000_000, True),
        (5 * SECOND, 30_000_000, False),  # whole seconds: perhaps the file system knows no others
        (5 * SECOND, SECOND, False),
        (5 * SECOND, 2 * SECOND, False),  # nor is FAT done after two
        (5 * SECOND, 2 * SECOND + 1, True),
        (5 * SECOND + 1, -SECOND, False),  # a time to come
    ],
)
def test_when_times_can_be_relied_on(mtime: int, age: int, settled: bool) -> None:
    assert is_settled(mtime, 3, mtime + age) is settled
    assert is_settled(3, mtime, mtime + age) is settled


# --- the clock of the log ----------------------------------------------------------------------------------------


def test_a_clock_that_steps_back_between_runs_changes_no_order(lab: Lab) -> None:
    """Runs are in the order of their numbers, whatever the clock said."""
    moments = [timedelta(days=1), timedelta(days=-400), timedelta(0)]
    for number, moment in enumerate(moments):
        lab.write({"word.txt": f"word {number}"})

        def clock(moment: timedelta = moment) -> datetime:
            return datetime.now(UTC) + moment

        ran = run_workflow(lab.opened(), PlanOptions(), RunOptions(jobs=1), Heard(), clock=clock)
        assert (ran.run, ran.exit_code) == (f"r{number + 2:04d}", 0)
        assert lab.plan().headlines() == {}
    assert lab.read("out/copy.txt") == "word 2!"
    runs = list_runs(lab.opened().state)
    assert [run.run for run in runs] == ["r0001", "r0002", "r0003", "r0004"]
    assert all(run.state == "succeeded" and run.duration is not None and run.duration >= 0 for run in runs)
    assert verify(lab.opened().state, lab.root, lambda run: None).problems == ()


def test_a_clock_that_steps_back_within_a_run_harms_nothing(lab: Lab) -> None:
    lab.write({"word.txt": "other"})
    ticks = iter(range(10**6))

    def clock() -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) - timedelta(seconds=next(ticks))

    ran = run_workflow(lab.opened(), PlanOptions(), RunOptions(jobs=1), Heard(), clock=clock)
    assert ran.exit_code == 0
    assert lab.plan().headlines() == {}
    assert verify(lab.opened().state, lab.root, lambda run: None).problems == ()
    (_, run) = list_runs(lab.opened().state)
    assert run.state == "succeeded"
