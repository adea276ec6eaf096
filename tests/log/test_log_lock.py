from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress

import pytest

from project_lab import is_held
from whyrun.errors import StateError
from whyrun.log.lock import Holder, RunLock, holder
from whyrun.log.sync_mark import Synced

HOLD = """
import os, subprocess, sys
from whyrun.log.journal import utc_now
from whyrun.log.lock import RunLock
with RunLock(sys.argv[1], utc_now) as lock:
    lock.announce("r0007")
    if len(sys.argv) > 2 and sys.argv[2] == "fork":
        if os.fork() == 0:
            os.close(1)
            os.read(0, 1)
            os._exit(0)
    if len(sys.argv) > 2 and sys.argv[2] == "spawn":
        subprocess.Popen(["sleep", "300"], close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    print("held", flush=True)
    sys.stdin.read(1)
"""


@contextmanager
def holding(path, *how):
    """Another process that has the lock, and its child if it was asked to have one."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path), *how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert process.stdout.readline() == b"held\n"
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdin.close()
        process.stdout.close()


def test_the_lock_file_says_who_holds_it(tmp_path, clock):
    path = tmp_path / "wf" / "lock"
    assert not is_held(path)
    assert holder(path) is None
    with RunLock(path, clock) as lock:
        assert lock.held
        lock.announce("r0003")
        told = json.loads(path.read_bytes())
        assert told == {
            "pid": os.getpid(),
            "host": told["host"],
            "started": "2026-06-23T12:03:23.123456Z",
            "run": "r0003",
            "synced": {"run": "r0003", "seq": 1},
        }
        assert is_held(path)
        assert holder(path) == Holder(os.getpid(), told["host"], told["started"], "r0003", Synced("r0003", 1))
    assert not lock.held
    assert not is_held(path)
    assert holder(path) is None


def test_lesson_36_two_runs_at_once_are_refused_and_the_holder_is_named(tmp_path, clock):
    path = tmp_path / "lock"
    with holding(path) as process:
        assert is_held(path)
        with pytest.raises(StateError) as caught, RunLock(path, clock):
            pass
        (diagnostic,) = caught.value.diagnostics
        assert diagnostic.code == "LOCKED"
        assert f"process {process.pid} on " in diagnostic.message
        assert "run r0007" in diagnostic.message
        assert holder(path).pid == process.pid  # a refused try has not touched what it says
    with RunLock(path, clock):
        pass


def test_the_lock_of_a_killed_process_is_free(tmp_path, clock):
    path = tmp_path / "lock"
    with holding(path) as process:
        process.kill()
        process.wait()
        assert path.read_bytes() != b""  # it still says who; nobody believes it
        assert not is_held(path)
        assert holder(path) is None
        with RunLock(path, clock) as lock:
            assert lock.held


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_children_that_outlive_a_killed_run_do_not_keep_its_lock(tmp_path, clock, how):
    path = tmp_path / "lock"
    with holding(path, how) as process:
        process.kill()
        process.wait()
        os.killpg(process.pid, 0)  # the child is still there
        with RunLock(path, clock) as lock:
            assert lock.held


def test_looking_at_the_lock_does_not_make_a_run_fail(tmp_path, clock, monkeypatch):
    monkeypatch.setattr("whyrun.log.lock._PATIENCE", 300.0)  # one that looks may be put to sleep by a busy machine
    path = tmp_path / "lock"
    with RunLock(path, clock):
        pass
    looker = subprocess.Popen(
        [
            sys.executable,
            "-c",
            # It rests in between: one that is put to sleep by the machine while it looks keeps the lock for as long.
            "import sys, time\nfrom whyrun.log.lock import holder_and_state\nprint(flush=True)\n"
            "while True:\n    holder_and_state(sys.argv[1])\n    time.sleep(0.0005)\n",
            str(path),
        ],
        stdout=subprocess.PIPE,
    )
    try:
        looker.stdout.readline()
        for _ in range(50):
            with RunLock(path, clock):
                pass
    finally:
        looker.kill()
        looker.wait()
        looker.stdout.close()


def test_the_lock_is_freed_when_the_run_raises(tmp_path, clock):
    path = tmp_path / "lock"
    with pytest.raises(RuntimeError), RunLock(path, clock):
        raise RuntimeError
    assert not is_held(path)
