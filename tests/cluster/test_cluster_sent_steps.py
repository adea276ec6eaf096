"""What the host knows of the steps that a Dask cluster has. It is only state, so no cluster is needed."""

from __future__ import annotations

from typing import Any

from whyrun.execution.backends.dask.tasks import LATE, SentStep, SentSteps
from whyrun.execution.backends.remote.remote_worker import RemoteJob
from whyrun.execution.protocol.framing import encode
from whyrun.execution.protocol.messages import ExecStep, StepBegan, StepFinished, TaskReported

WORKER = "tcp://worker:1"
BEGAN = StepBegan("Job:A", 1, "now", 0)
TASK = TaskReported("Job:A", "now", "EXECUTES", "half", None, 1)
END = StepFinished("Job:A", 1, "now", 0.1, [], n=2)


def with_one_step() -> tuple[SentSteps, SentStep]:
    sent = SentSteps()
    (step,) = sent.add([RemoteJob(ExecStep("Job:A", "shell", "cfg/a.json", "0" * 64, 1, {}))])
    sent.receive(encode(BEGAN), step.number, WORKER)
    return sent, step


def result(*said: Any) -> dict[str, Any]:
    return {"end": encode(END), "said": b"\n".join(map(encode, said))}


def test_a_result_repeats_the_messages_that_were_missed() -> None:
    sent, step = with_one_step()
    assert sent.end(step, result(BEGAN, TASK), now=0.0) == END
    assert (sent.take_messages(), len(sent)) == ([BEGAN, TASK], 0)
    assert sent.end(step, result(BEGAN, TASK), now=0.0) is None, "it has ended"


def test_an_end_waits_for_the_messages_before_it() -> None:
    sent, step = with_one_step()
    assert sent.end(step, result(), now=0.0) is None
    sent.receive(encode(TASK), step.number, WORKER)
    ((early, again),) = sent.take_early_ends()
    assert sent.end(early, again, now=1.0) == END
    assert sent.take_messages() == [BEGAN, TASK]


def test_an_end_waits_no_longer_because_the_host_looks_again() -> None:
    sent, step = with_one_step()
    for now in (0.0, 20.0, 40.0):
        assert sent.end(step, result(), now) is None
    assert step.late_at == LATE


def test_messages_of_a_task_that_was_given_up_are_dropped() -> None:
    sent, step = with_one_step()
    sent.receive(encode(TASK), step.number + 1, "tcp://other:2")
    assert (sent.take_messages(), step.worker) == ([BEGAN], WORKER)


def test_only_steps_that_have_not_begun_are_taken_back() -> None:
    sent, step = with_one_step()
    (other,) = sent.add([RemoteJob(ExecStep("Job:B", "shell", "cfg/b.json", "0" * 64, 1, {}))])
    assert sent.not_begun() == ["Job:B"]
    assert sent.take_back(["Job:A", "Job:B", "Job:C"]) == [other.job.command]
    assert (sent.get("Job:A"), sent.get("Job:B")) == (step, None)
