"""Index and stat-cache are derived: lost, broken or old, they change no byte of any plan."""

from __future__ import annotations

import os
import random
import shutil
import time
from pathlib import Path

import msgspec
import pytest
from crash_lab import Lab
from fault_selection import SOAK

from project_lab import wait_until
from whyrun.artifacts.durable import checked, with_checksum
from whyrun.errors import StateError
from whyrun.log.journal import check_chain
from whyrun.log.runs import STAT_CACHE


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Two runs, the first long enough for an index; something is left to plan, so that plans have something to say."""
    lab = Lab(tmp_path_factory.mktemp("indexed") / "project", "many")
    lab.succeed()
    lab.sets = ("Word=new",)
    lab.succeed()
    lab.sets = ("Word=newer",)

    def is_indexed() -> bool:
        time.sleep(0.1)  # what was written in this very tick is not trusted yet
        lab.plan()
        return index(lab).exists() and memo(lab).exists() and stat_cache(lab).exists()

    wait_until(is_indexed)
    return lab


def index(lab: Lab) -> Path:
    return lab.opened().state.index_dir / "fold"


def records(lab: Lab) -> Path:
    return lab.opened().state.index_dir / "records"


def memo(lab: Lab) -> Path:
    return lab.opened().state.index_dir / "memo"


def stat_cache(lab: Lab) -> Path:
    return lab.opened().state_dir / STAT_CACHE


def broken_versions(data: bytes) -> list[bytes]:
    """Cut short, overwritten, with a byte changed here and there, of another version, or of something else."""
    chance = random.Random(60_000)
    found = [b"", data[:1], data[:4], data[: len(data) // 2], data[:-1], data + b"\0", b"\0" * len(data)]
    found.append(chance.randbytes(len(data)))
    for _ in range(60 if SOAK else 10):
        at = chance.randrange(len(data))
        found.append(data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :])
    body = bytes(checked(data))
    if body[:1] in (b"\x99", b"\x9a"):  # a list of nine or ten, of which the first is the version
        held = msgspec.msgpack.decode(body)
        found.append(with_checksum(msgspec.msgpack.encode([held[0] + 1, *held[1:]])))
    found.append(with_checksum(body[: len(body) // 2] + body[: len(body) // 2]))
    found.append(with_checksum(msgspec.msgpack.encode({"something": "else"})))
    return found


@pytest.mark.parametrize("which", [index, records, memo, stat_cache])
def test_a_derived_file_may_be_lost_or_broken_and_the_plan_stays_the_same(which: object, indexed: Lab) -> None:
    assert callable(which)
    path: Path = which(indexed)
    expected = indexed.plan().to_bytes()
    whole = path.read_bytes()
    for broken in broken_versions(whole):
        path.write_bytes(broken)
        assert indexed.plan().to_bytes() == expected
    path.unlink()
    assert indexed.plan().to_bytes() == expected
    if path.exists():
        path.unlink()
    path.mkdir()  # not even a file
    assert indexed.plan().to_bytes() == expected
    path.rmdir()
    assert indexed.plan().to_bytes() == expected
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(whole)
    assert indexed.plan().to_bytes() == expected


def test_both_deleted_gives_the_same_plan(indexed: Lab) -> None:
    expected = indexed.plan().to_bytes()
    shutil.rmtree(index(indexed).parent)
    stat_cache(indexed).unlink()
    assert indexed.plan().to_bytes() == expected


def test_a_same_size_edit_in_the_middle_of_an_old_log_is_not_hidden_by_the_index(indexed: Lab) -> None:
    """The index was made before the edit; size, last line and (set back) modification time are what they were."""
    indexed.plan()
    assert index(indexed).exists()
    run = indexed.runs()[0]
    path = run.events_path
    whole, status = path.read_bytes(), path.stat()
    paths = [r.events_path for r in indexed.runs()]
    middle = whole.index(b'"event":"step_complete"', len(whole) // 2)
    edits = [
        (b'"event"', b'"evant"'),
        (b'"step_complete"', b'"step_complete '),
        (b'"step_id":"Job:Item', b'"step_id":"Job:Itam'),
    ]
    for old, new in edits:
        at = whole.index(old, middle)
        with path.open("r+b") as file:
            file.seek(at)
            file.write(new)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        with pytest.raises(StateError) as refused:
            indexed.plan()
        assert {d.code for d in refused.value.diagnostics} <= {"LOG_DAMAGED", "LOG_INCOMPLETE"}
        assert indexed.run().code == 3, "and nothing is run from it"
        path.write_bytes(whole)
    # An edit that is a valid event of its own is planned from as the log says it; the chain shows that it was changed.
    at = whole.index(b'"sha256":"', middle) + len(b'"sha256":"')
    fresh = whole[:at] + (b"0" if whole[at : at + 1] != b"0" else b"1") + whole[at + 1 :]
    path.write_bytes(fresh)
    with_index = indexed.plan().to_bytes()
    shutil.rmtree(index(indexed).parent)
    assert indexed.plan().to_bytes() == with_index
    with pytest.raises(StateError, match="LOG_DAMAGED"):
        check_chain(paths)
    path.write_bytes(whole)
    check_chain(paths)


def test_plans_replay_with_or_without_the_derived_files(indexed: Lab) -> None:
    indexed.check_replay()
    shutil.rmtree(index(indexed).parent, ignore_errors=True)
    indexed.check_replay()
    indexed.check_evidence()
