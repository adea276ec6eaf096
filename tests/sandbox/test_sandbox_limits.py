"""The limits of a sandbox, and that no process outlives it."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sandbox_lab import SandboxLab, give, running

MB = 1 << 20


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_only_so_many_processes_can_be_started(lab: SandboxLab) -> None:
    script = """
import os, time
started = 0
try:
    while started < 1000:
        if os.fork() == 0:
            time.sleep(1000)
        started += 1
except BlockingIOError as problem:
    print(started, problem.strerror)
"""
    assert lab.python(script, processes=20).stdout == "20 Resource temporarily unavailable\n"


def test_threads_count_as_processes(lab: SandboxLab) -> None:
    script = """
import threading, time
started = 0
try:
    while started < 1000:
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
        started += 1
except RuntimeError as problem:
    print(started, problem, flush=True)
import os; os._exit(0)
"""
    assert lab.python(script, processes=20).stdout == "20 can't start new thread\n"


def test_a_fork_bomb_is_contained_and_ends_with_the_sandbox(lab: SandboxLab) -> None:
    bomb = """
import os
while True:
    try:
        os.fork()
    except BlockingIOError:  # every one of them goes on trying
        open("/whyrun/out/full", "w").close()
"""
    full = lab.folder / "full"
    word = f"fork-bomb-{os.getpid()}"
    outcome = lab.run(sys.executable, "-I", "-c", bomb, word, processes=50, end_when=str(full))
    assert outcome.status == -signal.SIGKILL
    assert running(word) == []
    full.unlink()


def test_a_process_that_wants_too_much_memory_is_refused(lab: SandboxLab) -> None:
    outcome = lab.python("bytearray(300 << 20)", memory=200 * MB)
    assert outcome.status == 1
    assert outcome.stderr.splitlines()[-1] == "MemoryError"
    assert lab.python("bytearray(100 << 20)", memory=200 * MB).status == 0


@pytest.mark.parametrize("shared", [False, True])
def test_processes_that_use_too_much_together_are_ended(lab: SandboxLab, shared: bool) -> None:
    """Each of them stays below the limit. Memory that they share is memory too."""
    script = f"""
import mmap, os, time
for _ in range(6):
    if os.fork() == 0:
        memory = mmap.mmap(-1, 50 << 20, mmap.{"MAP_SHARED" if shared else "MAP_PRIVATE"})
        for place in range(0, len(memory), 4096):
            memory[place] = 1
        time.sleep(1000)
time.sleep(1000)
"""
    assert lab.python(script, memory=200 * MB).status == -signal.SIGKILL


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm"])
def test_folders_in_memory_can_be_filled_to_their_limit_only(lab: SandboxLab, place: str) -> None:
    outcome = lab.shell(f"head -c 20000000 /dev/zero > {place}/much; stat -c %s {place}/much")
    assert outcome.stdout == f"{8 * MB}\n"
    assert "No space left on device" in outcome.stderr


def test_no_dump_of_memory_is_written(lab: SandboxLab) -> None:
    assert lab.shell("ulimit -c; ulimit -Hc").stdout == "0\n0\n"


def test_the_kernel_would_end_it_before_anything_else(lab: SandboxLab) -> None:
    assert lab.shell("cat /proc/self/oom_score_adj").stdout == "1000\n"


# --- the end ---------------------------------------------------------------------------------------------------------


def test_what_a_command_leaves_behind_ends_with_it(lab: SandboxLab) -> None:
    word = f"95{os.getpid()}"
    outcome = lab.shell(f"setsid sh -c 'sleep {word}' & setsid nohup sleep {word} & sleep 0.2; echo done")
    assert (outcome.status, outcome.stdout) == (0, "done\n")
    assert running(word) == []


def test_the_status_is_that_of_the_command(lab: SandboxLab) -> None:
    assert lab.shell("exit 7").status == 7
    assert lab.shell("kill -TERM $$").status == -signal.SIGTERM
    assert lab.run("/no/such/program").status == 1


def test_a_command_cannot_stay_by_ending_who_keeps_its_sandbox(lab: SandboxLab) -> None:
    """All that it can see is inside."""
    word = f"94{os.getpid()}"
    outcome = lab.shell(f"kill -KILL 2; sleep {word}")
    assert outcome.status == -signal.SIGKILL
    assert running(word) == []


def test_every_sandbox_goes_on_for_itself(lab: SandboxLab) -> None:
    assert lab.shell("echo > /tmp/left; echo > /dev/shm/left").status == 0
    # Of /tmp only the way to the interpreter or to Whyrun, where one of them lies there.
    assert lab.shell("ls /tmp /dev/shm | grep left").stdout == ""


@pytest.mark.parametrize("victim", ["host", "fork server", "keeper"])
def test_whoever_of_its_makers_is_killed_the_sandbox_is_gone(who: str, open_folder: Path, victim: str) -> None:
    folder = open_folder / f"killed-{who}-{victim}"
    folder.mkdir()
    lab = SandboxLab(who, give(folder, who))
    word = f"99{os.getpid()}{len(victim)}{len(who)}"  # seconds that nobody else sleeps
    lab.ask("/bin/sh", "-c", f"sleep {word}; true")
    until(lambda: len(running(word)) == 1)
    (sleeper,) = running(word)
    ancestors = _ancestors(sleeper)
    # The command, its keeper, and the fork server, from below.
    os.kill({"host": lab.pid, "keeper": ancestors[1], "fork server": ancestors[2]}[victim], signal.SIGKILL)
    until(lambda: not running(word))
    lab.close()


def _ancestors(process: int) -> list[int]:
    found: list[int] = []
    while process > 1:
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        found.append(process)
    return found
