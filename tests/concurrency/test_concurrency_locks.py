"""Lock files of dead processes, of other hosts, and with a reused process number: only a held lock counts."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from beside_lab import FINAL, Beside

from project_lab import is_held
from whyrun.log.lock import holder


def dead_pid() -> int:
    """The number of a process that has ended, and been waited for."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def said(pid: int, host: str) -> bytes:
    told = {"pid": pid, "host": host, "started": "2026-01-01T00:00:00.000000Z", "run": "r0001"}
    return json.dumps(told).encode() + b"\n"


@pytest.mark.parametrize("whose", ["dead", "reused", "elsewhere", "garbage", "empty"])
def test_a_lock_file_that_no_process_holds_stops_no_run(tmp_path: Path, whose: str) -> None:
    """A killed run leaves its words in the file. Its number may be another process's by now (here: this one's), or the
    file may come from another host, with a number that means nothing here."""
    lab = Beside(tmp_path / "project")
    lab.open_gate()
    lock = lab.root / ".whyrun/alone/lock"
    lock.parent.mkdir(parents=True)
    here = os.uname().nodename
    lock.write_bytes(
        {
            "dead": said(dead_pid(), here),
            "reused": said(os.getpid(), here),
            "elsewhere": said(os.getpid(), "another-host"),
            "garbage": b"\x00\xff{",
            "empty": b"",
        }[whose]
    )
    (lab.root / ".whyrun/store.lock").write_bytes(lock.read_bytes())
    assert not is_held(lock)
    assert holder(lock) is None
    status = lab.whyrun("status", "alone.yaml", "--json")
    assert (status.code, status.json["unfinished"], status.err) == (0, None, "")
    ran = lab.whyrun("run", "alone.yaml", "--quiet")
    assert (ran.code, ran.err) == (0, "")
    assert lab.published() == FINAL
    assert lab.whyrun("gc", "alone.yaml", "--delete").code == 0


@pytest.mark.parametrize("words", [b"", b"{", said(1234, "another-host")])
def test_a_held_lock_stops_a_run_whatever_its_file_contains(tmp_path: Path, words: bytes) -> None:
    """Held, over a file server, by a host that nothing here can ask whether its process lives."""
    lab = Beside(tmp_path / "project")
    lock = lab.root / ".whyrun/alone/lock"
    lock.parent.mkdir(parents=True)
    with lock.open("wb") as file:
        file.write(words)
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        refused = lab.whyrun("run", "alone.yaml")
        assert refused.code == 3
        assert (
            "this workflow is being run by process 1234 on another-host (since 2026-01-01T00:00:00.000000Z, run r0001)"
            if b"another-host" in words
            else "this workflow is being run by another process"
        ) in refused.err
        assert lab.whyrun("plan", "alone.yaml").code == 0
    lab.open_gate()
    assert lab.whyrun("run", "alone.yaml", "--quiet").code == 0


def test_a_killed_run_and_a_killed_gc_hold_nothing(tmp_path: Path) -> None:
    lab = Beside(tmp_path / "project")
    runner = lab.start_waiting()
    assert lab.whyrun("gc", "alone.yaml", "--delete").code == 3
    runner.kill()
    lab.open_gate()  # steps of the dead run may still be ending: they hold no lock
    (lab.store / "0f").mkdir(exist_ok=True)
    (lab.store / "0f" / ("0" * 62)).write_text("left over")
    collector = lab.start_gated(tmp_path / "collector", "gc.unlink", "gc", "alone.yaml", "--delete")
    assert lab.whyrun("run", "alone.yaml").code == 3
    collector.kill()
    assert (lab.store / "0f" / ("0" * 62)).exists()
    ran = lab.whyrun("run", "alone.yaml", "--quiet")
    assert ran.code == 0, ran.err
    assert "r0001 was cut short" in ran.err
    assert lab.published() == FINAL
