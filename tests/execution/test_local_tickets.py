"""A worker gets several commands at once, and each command belongs to exactly one side."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from msgspec import structs
from worker_lab import PATIENCE, Lab

from whyrun.execution.backends.local.worker_process import Job, LocalWorker
from whyrun.execution.protocol.framing import INLINE_LIMIT
from whyrun.execution.protocol.messages import ExecStep, StepFinished

WORK = """\
import time
from pathlib import Path

GATE = Path(__file__).parent / "gate"


def wait():
    while not GATE.exists():
        time.sleep(0.01)


def same(n, text=""):
    return {"n": n + len(text)}


def tell(token):
    return {"n": len(token)}
"""


def long_command(command: ExecStep) -> ExecStep:
    return structs.replace(command, recalled={"long": "x" * INLINE_LIMIT})


def test_what_is_taken_back_is_never_executed_and_what_follows_is(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.file("work.py", WORK)

    def short(number: int, **more: str) -> Job:
        with_ = {"n": number, **more}
        command = lab.call("work:same", {"n": "integer"}, with_=with_, step_id=f"Job:A[{number}]")
        if more:  # a command is long where a step has much to read, or to recall
            return Job(long_command(command), {})
        return Job(command, {})

    lab.session.tmp.mkdir(parents=True, exist_ok=True)
    worker = LocalWorker(lab.session, lab.session.tmp / "w")
    try:
        gate = Job(lab.call("work:wait", step_id="Job:Gate"), {})
        assert worker.give([gate]) == 1
        deadline = time.monotonic() + PATIENCE
        while worker.current is None and time.monotonic() < deadline:
            worker.receive()
        first = [short(number) for number in range(30)]
        assert worker.give(first) == 30
        long = [short(30, text="abc"), short(31)]
        assert worker.give(long) == 1  # a long one goes alone
        assert worker.give(long[1:]) == 1
        back = worker.take_back()
        assert [job.command.step_id for job in back] == [f"Job:A[{number}]" for number in range(32)]
        assert (list(worker.jobs), worker.take_back()) == ([gate], [])
        again = [short(40), short(41, text="abcd"), short(42)]
        assert [worker.give(again[at:]) for at in range(3)] == [1, 1, 1]
        lab.file("gate", "")
        ended: list[StepFinished] = []
        while len(ended) < 4 and time.monotonic() < deadline:
            ended += [word for word in worker.receive() if isinstance(word, StepFinished)]
            os.sched_yield()
        assert [(word.step_id, word.error_type) for word in ended] == [
            ("Job:Gate", None), ("Job:A[40]", None), ("Job:A[41]", None), ("Job:A[42]", None),
        ]  # fmt: skip
        assert [word.outputs[0].value for word in ended[1:]] == [40, 45, 42]
        assert not worker.jobs
    finally:
        worker.finish()
        worker.end(PATIENCE)
        worker.remove_scratch()
        lab.backend.close()


def test_commands_that_are_given_and_taken_back_many_times_do_not_fill_the_channel(tmp_path: Path) -> None:
    """A worker that is slow to start, or in a long step, leaves them unread; and then it waits for a ticket."""
    lab = Lab(tmp_path)
    lab.file("work.py", WORK)
    jobs = [Job(lab.call("work:same", {"n": "integer"}, with_={"n": n}, step_id=f"Job:A[{n}]"), {}) for n in range(3)]
    lab.session.tmp.mkdir(parents=True, exist_ok=True)
    worker = LocalWorker(lab.session, lab.session.tmp / "w")
    try:
        gate = Job(lab.call("work:wait", step_id="Job:Gate"), {})
        assert worker.give([gate]) == 1
        deadline = time.monotonic() + PATIENCE
        while worker.current is None and time.monotonic() < deadline:
            worker.receive()
        while worker.give(jobs):  # until the channel is full
            assert worker.take_back() == jobs
        lab.file("gate", "")
        ended: list[StepFinished] = []
        while len(ended) < 4 and time.monotonic() < deadline:
            ended += [word for word in worker.receive() if isinstance(word, StepFinished)]
            if ended and len(worker.jobs) + len(ended) < 4:
                worker.give(jobs)
        assert [word.step_id for word in ended] == ["Job:Gate", "Job:A[0]", "Job:A[1]", "Job:A[2]"]
    finally:
        worker.finish()
        worker.end(PATIENCE)
        worker.remove_scratch()
        lab.backend.close()


@pytest.mark.parametrize("is_long", [False, True])
def test_a_command_with_secrets_goes_alone_to_a_worker_that_has_nothing_else_to_do(
    tmp_path: Path, is_long: bool
) -> None:
    """So they never lie in the memory of a worker while it executes another step."""
    lab = Lab(tmp_path)
    lab.file("work.py", WORK)
    plain = [Job(lab.call("work:same", {"n": "integer"}, with_={"n": n}, step_id=f"Job:A[{n}]"), {}) for n in range(4)]
    command = lab.call("work:tell", {"n": "integer"}, with_={"token": {"$secret": "TOKEN"}}, secrets=["TOKEN"])
    secret = Job(long_command(command) if is_long else command, {"TOKEN": "secret-" * 10})
    lab.session.tmp.mkdir(parents=True, exist_ok=True)
    worker = LocalWorker(lab.session, lab.session.tmp / "w")
    ended: list[StepFinished] = []
    deadline = time.monotonic() + PATIENCE

    def hear(steps: int) -> None:
        while len(ended) < steps and time.monotonic() < deadline:
            ended.extend(word for word in worker.receive() if isinstance(word, StepFinished))
            os.sched_yield()

    try:
        assert worker.give([plain[0], plain[1], secret, plain[2]]) == 2  # not in one message with others,
        assert worker.give([secret, plain[2]]) == 0  # nor ahead,
        hear(2)
        assert worker.give([secret, plain[2]]) == 1
        assert worker.give([plain[2], plain[3]]) == 0  # and nothing behind it
        assert list(worker.jobs) == [secret]
        hear(3)
        assert worker.give([plain[2], plain[3]]) == 2
        hear(5)
        assert [(word.step_id, word.error_type, [o.value for o in word.outputs]) for word in ended] == [
            ("Job:A[0]", None, [0]), ("Job:A[1]", None, [1]), ("Job:S", None, [70]), ("Job:A[2]", None, [2]),
            ("Job:A[3]", None, [3]),
        ]  # fmt: skip
    finally:
        worker.finish()
        worker.end(PATIENCE)
        worker.remove_scratch()
        lab.backend.close()


def test_steps_with_secrets_among_many_short_ones_are_all_executed(tmp_path: Path) -> None:
    lab = Lab(tmp_path, workers=2)
    lab.file("work.py", WORK)
    given, expected = [], []
    for n in range(60):
        if n % 7 == 3:
            parameters = {"token": {"$secret": "TOKEN"}}
            command = lab.call(
                "work:tell", {"n": "integer"}, with_=parameters, secrets=["TOKEN"], step_id=f"Job:A[{n}]"
            )
            lab.backend.submit(command, {"TOKEN": "secret-" * 10})
        else:
            command = lab.call("work:same", {"n": "integer"}, with_={"n": n}, step_id=f"Job:A[{n}]")
            lab.backend.submit(command)
        given.append(command)
        expected.append(70 if n % 7 == 3 else n)
    words = [lab.end_of(command.step_id) for command in given]
    lab.backend.close()
    assert [isinstance(word, StepFinished) and word.outputs[0].value for word in words] == expected
