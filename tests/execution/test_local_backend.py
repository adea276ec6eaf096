"""The pool of worker processes: queueing, signals, deaths, and what remains after each."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from worker_lab import Lab

from project_lab import PATIENCE, has_ended, wait_until
from whyrun.execution.backends.local import backend as local
from whyrun.execution.backends.local import worker_process as local_worker
from whyrun.execution.backends.local.worker_process import Job, LocalWorker
from whyrun.execution.protocol.messages import Message, StepBegan, StepFinished, StepLost, TaskReported

SLEEPER = "import os, time\ndef f(n=60):\n    time.sleep(n)\ndef g(n):\n    return {'n': n, 'pid': os.getppid()}\n"


@pytest.fixture
def make_lab(tmp_path: Path) -> Iterator[Callable[[int], Lab]]:
    made: list[Lab] = []

    def make(workers: int) -> Lab:
        made.append(Lab(tmp_path, workers))
        made[-1].file("m.py", SLEEPER)
        return made[-1]

    yield make
    for lab in made:
        lab.backend.close()
        assert list(lab.session.tmp.iterdir()) == []


@pytest.mark.real_start
def test_hundreds_of_short_steps_all_come_back_once_and_began_before_they_ended(
    make_lab: Callable[[int], Lab],
) -> None:
    lab = make_lab(2)
    outputs = {"n": "integer", "pid": "integer"}
    commands = [lab.call("m:g", outputs, with_={"n": i}, step_id=f"Job:A[{i}]") for i in range(200)]
    for command in commands:
        lab.backend.submit(command)
    seen: dict[str, list[type]] = {}
    values: dict[str, object] = {}
    deadline = time.monotonic() + PATIENCE
    while len(values) < 200 and time.monotonic() < deadline:
        for message in lab.backend.messages(0.5):
            seen.setdefault(message.step_id, []).append(type(message))
            if isinstance(message, StepFinished):
                values[message.step_id] = message.outputs[0].value
    assert values == {f"Job:A[{i}]": i for i in range(200)}
    assert set(map(tuple, seen.values())) == {(StepBegan, StepFinished)}


def test_no_more_workers_are_started_than_there_are_commands(make_lab: Callable[[int], Lab]) -> None:
    lab = make_lab(8)
    lab.run(lab.call("m:g", {"n": "integer", "pid": "integer"}, with_={"n": 1}))
    assert len(list(lab.session.tmp.iterdir())) == 1


def test_sigterm_interrupts_a_python_step_and_leaves_the_worker(make_lab: Callable[[int], Lab]) -> None:
    lab = make_lab(1)
    outputs = {"n": "integer", "pid": "integer"}
    first = lab.one(lab.call("m:g", outputs, with_={"n": 1}))
    lab.backend.submit(lab.call("m:f", step_id="Job:Long"))
    lab.began("Job:Long")
    lab.backend.signal("Job:Long", signal.SIGTERM)
    word = lab.end_of("Job:Long")
    assert isinstance(word, StepFinished)
    assert (word.error_type, word.error) == ("StepCancelled", "the step was asked to stop (SIGTERM)")
    assert lab.one(lab.call("m:g", outputs, with_={"n": 1})).outputs == first.outputs


def test_a_step_that_looks_at_cancelled_ends_in_its_own_way(make_lab: Callable[[int], Lab]) -> None:
    lab = make_lab(1)
    lab.file(
        "c.py",
        "import time\ndef f(context):\n    open('looking', 'w').close()\n    while not context.cancelled:\n"
        "        time.sleep(0.01)\n    return {'o': 'tidied'}\n",
    )
    lab.backend.submit(lab.call("c:f", {"o": "string"}))
    lab.began()
    wait_until(lambda: bool(list(lab.session.tmp.glob("*/work/looking"))))
    lab.backend.signal("Job:S", signal.SIGTERM)
    word = lab.end_of("Job:S")
    assert isinstance(word, StepFinished)
    assert word.outputs[0].value == "tidied"


def test_sigterm_reaches_the_script_of_a_shell_step(make_lab: Callable[[int], Lab]) -> None:
    lab = make_lab(1)
    script = "trap 'echo cleaned; echo why >&2; exit 7' TERM\necho ready > ready\nwhile true; do sleep 0.05; done"
    lab.backend.submit(lab.command("shell", {"run": script}))
    lab.began()
    wait_until(lambda: bool(list(lab.session.tmp.glob("*/work/ready"))))
    lab.backend.signal("Job:S", signal.SIGTERM)
    word = lab.end_of("Job:S")
    assert isinstance(word, StepFinished)
    assert (word.error_type, word.error.splitlines()[0]) == ("CommandFailed", "exit status 7: why")
    assert lab.evidence()["S/stdout.log"] == "cleaned\n"


@pytest.mark.parametrize("env", [{}, {"COLOUR": "blue"}], ids=["worker", "fresh process"])
@pytest.mark.real_start
def test_sigterm_is_not_lost_while_a_script_is_being_started(
    make_lab: Callable[[int], Lab], env: dict[str, str]
) -> None:
    """Told to stop a little later each time: before its script is there, while it is started, and when it runs."""
    lab = make_lab(1)
    for number in range(80):
        step = f"Job:S[{number}]"
        lab.backend.submit(lab.command("shell", {"run": "sleep 600"}, step_id=step, env=env))
        lab.began(step)
        time.sleep(number / 8000)
        lab.backend.signal(step, signal.SIGTERM)
        word = lab.end_of(step)
        assert isinstance(word, StepFinished)
        ends = [("StepCancelled", "the step was asked to stop (SIGTERM)"), ("CommandFailed", "ended by SIGTERM")]
        assert (word.error_type, word.error) in ends


@pytest.mark.parametrize("detach", ["", "setsid "])
def test_sigkill_ends_the_whole_tree_of_processes_and_the_queue_goes_on(
    make_lab: Callable[[int], Lab], detach: str
) -> None:
    lab = make_lab(1)
    script = f"{detach}sleep 100 & echo $! > pids\n{detach}bash -c 'echo $$ >> pids; exec sleep 100' & wait"
    lab.backend.submit(lab.command("shell", {"run": script}, step_id="Job:K"))
    lab.backend.submit(lab.call("m:g", {"n": "integer", "pid": "integer"}, with_={"n": 5}, step_id="Job:Next"))
    lab.began("Job:K")

    def pids() -> list[int]:
        return [int(word) for file in lab.session.tmp.glob("*/work/pids") for word in file.read_text().split()]

    wait_until(lambda: len(pids()) == 2)
    sleepers = pids()
    lab.backend.signal("Job:K", signal.SIGKILL)
    word = lab.end_of("Job:K")
    assert isinstance(word, StepLost)
    assert word.reason == "the worker was killed by SIGKILL"
    assert word.duration > 0
    wait_until(lambda: all(map(has_ended, sleepers)))
    assert set(lab.evidence()) == {"K/script.sh", "K/scratch/work/pids"}
    after = lab.end_of("Job:Next")
    assert isinstance(after, StepFinished)
    assert after.outputs[0].value == 5


def test_processes_that_a_shell_step_leaves_behind_are_ended(make_lab: Callable[[int], Lab]) -> None:
    lab = make_lab(1)
    word = lab.one(lab.command("shell", {"run": "setsid sleep 100 & printf $! > $out_p"}, {"p": "integer"}))
    wait_until(lambda: has_ended(word.outputs[0].value))  # that it was killed is all that is sure at once


def test_lesson_27_a_dead_worker_is_noticed_at_once(make_lab: Callable[[int], Lab]) -> None:
    lab = make_lab(1)
    lab.file("d.py", "import os, signal\ndef f():\n    os.kill(os.getpid(), signal.SIGKILL)\n")
    lab.backend.submit(lab.call("d:f"))
    lab.began()
    while not any(isinstance(message, StepLost) for message in lab.heard):
        news = lab.backend.messages(PATIENCE)
        assert news, "the waiting ended by itself, and not by the death"
        lab.heard += news


def test_of_steps_sent_ahead_only_the_one_that_crashed_is_lost(make_lab: Callable[[int], Lab]) -> None:
    lab = make_lab(1)
    lab.file("d.py", "import os\ndef f(n):\n    if n == 30:\n        os._exit(4)\n    return {'n': n}\n")
    commands = [lab.call("d:f", {"n": "integer"}, with_={"n": i}, step_id=f"Job:A[{i}]") for i in range(60)]
    words = lab.run(*commands)
    lost = [word for word in words if isinstance(word, StepLost)]
    assert [(word.step_id, word.reason) for word in lost] == [
        ("Job:A[30]", "the worker exited with status 4 while the step ran")
    ]
    values = [word.outputs[0].value for word in words if isinstance(word, StepFinished)]
    assert values == [i for i in range(60) if i != 30]


def test_withdraw_gives_back_exactly_what_no_worker_has_begun(make_lab: Callable[[int], Lab]) -> None:
    lab = make_lab(2)
    outputs = {"n": "integer", "pid": "integer"}
    commands = [lab.call("m:g", outputs, with_={"n": i}, step_id=f"Job:A[{i}]") for i in range(500)]
    for command in commands:
        lab.backend.submit(command)
    ended: set[str] = set()
    while len(ended) < 100:
        ended |= {m.step_id for m in lab.backend.messages(0.5) if isinstance(m, StepFinished)}
    back = [command.step_id for command in lab.backend.withdraw()]
    deadline = time.monotonic() + PATIENCE
    while len(ended) + len(back) < 500 and time.monotonic() < deadline:
        ended |= {m.step_id for m in lab.backend.messages(0.2) if isinstance(m, StepFinished)}
    assert sorted([*ended, *back]) == sorted(command.step_id for command in commands)
    assert lab.backend.messages(0.2) == []


def test_a_step_is_not_taken_for_long_because_the_host_was_busy(
    make_lab: Callable[[int], Lab], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second goes by between any two looks at what workers said, and they have said something each time. What was
    sent ahead stays sent: taken back and given out again in ones and twos, workers would wait for us."""
    lab = make_lab(2)
    seconds = 0.0
    taken_back: list[list[Job]] = []
    clock = SimpleNamespace(monotonic=lambda: seconds, sleep=time.sleep)
    monkeypatch.setattr(local, "time", clock)
    monkeypatch.setattr(local_worker, "time", clock)
    take_back = LocalWorker.take_back

    def spied(worker: LocalWorker) -> list[Job]:
        taken_back.append(take_back(worker))
        return taken_back[-1]

    monkeypatch.setattr(LocalWorker, "take_back", spied)
    outputs = {"n": "integer", "pid": "integer"}
    for i in range(200):
        lab.backend.submit(lab.call("m:g", outputs, with_={"n": i}, step_id=f"Job:A[{i}]"))
    values: list[object] = []
    while len(values) < 200:
        values += [m.outputs[0].value for m in lab.backend.messages(PATIENCE) if isinstance(m, StepFinished)]
        seconds += 1.0
        for worker in lab.backend._workers:
            if worker.jobs:
                assert select.select([worker.messages_fd], [], [], PATIENCE)[0]  # it has something to say
    assert sorted(values) == list(range(200))
    assert taken_back == []


def test_task_messages_gather_while_a_long_step_reports_many_and_only_then(
    make_lab: Callable[[int], Lab], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make_lab(1)
    seconds = 0.0
    slept: list[float] = []
    monkeypatch.setattr(local, "time", SimpleNamespace(monotonic=lambda: seconds, sleep=slept.append))
    monkeypatch.setattr(local_worker, "time", SimpleNamespace(monotonic=lambda: seconds))
    lab.file(
        "d.py",
        "import time\nfrom pathlib import Path\nHERE = Path(__file__).parent\n"
        "def f(logger):\n    for gate in ('first', 'second', 'third'):\n"
        "        while not (HERE / gate).exists():\n            time.sleep(0.01)\n"
        "        for n in range(16):\n            logger.log_task('f', 'EXECUTES', str(n))\n    return {'n': 1}\n",
    )
    lab.backend.submit(lab.call("d:f", {"n": "integer"}))

    heard: list[Message] = []

    def talks(gate: str) -> None:
        lab.file(gate, "open")
        before = len(heard)
        while sum(isinstance(message, TaskReported) for message in heard[before:]) < 16:
            heard.extend(lab.backend.messages(PATIENCE))
        told = [message.message for message in heard[before:] if isinstance(message, TaskReported)]
        assert told == [str(n) for n in range(16)]

    talks("first")
    assert (list(lab.backend.messages(0.0)), slept) == ([], [])  # it has just begun, and may be about to end
    seconds = 2.0
    talks("second")
    assert slept == []
    assert lab.backend._selector.select(0.05) == []
    lab.backend._gather()
    assert slept == [local._GATHER_CHATTER]  # more of it may come
    assert (list(lab.backend.messages(0.0)), lab.backend._chatter) == ([], 0)  # it has stopped talking
    lab.backend._gather()
    assert slept == [local._GATHER_CHATTER]
    talks("third")
    while not isinstance(heard[-1], StepFinished):  # its last word may have come with what it told
        heard.extend(lab.backend.messages(PATIENCE))


@pytest.mark.parametrize("says", ["pass", "logger.log_task('f', 'EXECUTES', 'still at it')"], ids=["silent", "talking"])
def test_short_steps_do_not_wait_behind_a_long_one(make_lab: Callable[[int], Lab], says: str) -> None:
    lab = make_lab(2)
    lab.file(
        "d.py",
        "import time\nfrom pathlib import Path\nGATE = Path(__file__).parent / 'gate'\n"
        "def f(n, logger):\n    while n == 40 and not GATE.exists():\n"
        f"        {says}\n        time.sleep(0.001)\n    return {{'n': n}}\n",
    )
    for i in range(80):
        lab.backend.submit(lab.call("d:f", {"n": "integer"}, with_={"n": i}, step_id=f"Job:A[{i}]"))
    for i in range(80):
        if i != 40:
            lab.end_of(f"Job:A[{i}]")
    lab.file("gate", "open")
    assert isinstance(lab.end_of("Job:A[40]"), StepFinished)


def test_a_wide_fan_in_does_not_need_to_fit_into_one_datagram(make_lab: Callable[[int], Lab]) -> None:
    lab = make_lab(1)
    lab.file("w.py", "def f(xs):\n    return {'n': sum(xs)}\n")
    members = [lab.artifact(str(i).encode(), "integer", id=f"Artifact:A.X[{i}]") for i in range(3000)]
    with_ = {"xs": {"$input": "xs"}}
    word = lab.one(lab.call("w:f", {"n": "integer"}, with_=with_, inputs={"xs": members}))
    assert word.outputs[0].value == sum(range(3000))


def test_a_worker_that_cannot_start_fails_its_commands_and_not_forever(tmp_path: Path) -> None:
    broken = subprocess.run(
        [sys.executable, "-c", HOST.format(tests=str(Path(__file__).parent), root=str(tmp_path / "b"))],
        env={"PATH": os.environ["PATH"], "MODE": "broken"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert (
        broken.stdout.splitlines() == ["StepBegan", "StepLost the worker exited with status 1 while the step ran"] * 2
    )


HOST = """
import os, sys, time
sys.path.insert(0, {tests!r})
from pathlib import Path
from worker_lab import Lab
lab = Lab(Path({root!r}), 2)
lab.file("m.py", "import os, time\\ndef f():\\n    os.system('sleep 100 &')\\n    time.sleep(100)\\n")
if os.environ.get("MODE") == "broken":
    sys.executable = "/bin/false"
    for name in ("A", "B"):
        lab.backend.submit(lab.call("m:f", step_id="Job:" + name))
    heard = []
    while len(heard) < 4:
        heard += lab.backend.messages(1)
    for message in heard:
        print(" ".join([type(message).__name__, *filter(None, [getattr(message, "reason", None)])]))
    lab.backend.close()
    sys.exit()
lab.backend.submit(lab.call("m:f"))
lab.backend.submit(lab.command("shell", {{"run": "sleep 100"}}, step_id="Job:T"))
lab.began()
lab.began("Job:T")
print("began", flush=True)
time.sleep(100)
"""


def test_when_the_host_is_killed_no_worker_and_no_child_of_it_stays(tmp_path: Path) -> None:
    host = subprocess.Popen(
        [sys.executable, "-c", HOST.format(tests=str(Path(__file__).parent), root=str(tmp_path))],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert host.stdout is not None
    assert host.stdout.readline() == "began\n"

    def left() -> list[int]:
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if str(tmp_path).encode() in (folder / "environ").read_bytes() and not has_ended(int(folder.name)):
                    found.append(int(folder.name))
            except OSError:  # ended meanwhile, or not ours to look at
                continue
        return found

    wait_until(lambda: len(left()) >= 4)  # two workers, a sleep each
    host.kill()
    host.wait()
    host.stdout.close()
    wait_until(lambda: left() == [])


def test_a_wakeup_ends_the_waiting_early(make_lab: Callable[[int], Lab]) -> None:
    lab = make_lab(1)
    descriptor = lab.backend.wakeup_fd()
    assert descriptor is not None
    os.write(descriptor, b"\x02")
    before = time.monotonic()
    assert lab.backend.messages(PATIENCE) == []
    assert time.monotonic() - before < PATIENCE
