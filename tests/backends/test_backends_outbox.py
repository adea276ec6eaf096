"""Messages from signal handlers of a step, which may interrupt another message."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from project_lab import Lab
from whyrun.execution.protocol.framing import decode_messages
from whyrun.execution.protocol.messages import Message, MetricReported, TaskReported
from whyrun.execution.worker.outbox import Outbox
from whyrun.log import events as ev


def metric(value: int) -> Callable[[int], Message]:
    return lambda n: MetricReported("Job:A", "", "m", value, "", n)


def test_what_a_handler_says_comes_after_the_message_in_whose_middle_it_came(tmp_path: Path) -> None:
    with open(tmp_path / "said", "wb") as said:
        outbox, step = Outbox(said.fileno()), object()
        outbox.set_sender(step)

        def interrupted(n: int) -> Message:
            """As if signals came while the message is made."""
            assert outbox.send(step, metric(2))
            assert outbox.send(step, metric(3))
            with pytest.raises(RuntimeError, match="a signal handler cannot wait here"):
                outbox.send(step, metric(4), awaited=True)
            return TaskReported("Job:A", "", "EXECUTES", "one", None, n)

        assert outbox.send(step, interrupted)
        assert outbox.send(step, metric(5), awaited=True)
    messages = decode_messages((tmp_path / "said").read_bytes().rstrip(b"\n"))
    assert messages == [
        TaskReported("Job:A", "", "EXECUTES", "one", None, 1),
        MetricReported("Job:A", "", "m", 2, "", 2),
        MetricReported("Job:A", "", "m", 3, "", 3),
        MetricReported("Job:A", "", "m", 5, "", 4),
    ]


def test_a_step_that_speaks_in_a_signal_handler_goes_on(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "project").write(
        {
            "work.py": """
                import os
                import signal

                def speak(context):
                    ticks = []

                    def tick(*_):
                        ticks.append(1)
                        context.task("EXECUTES", f"tick {len(ticks)}")
                        signal.setitimer(signal.ITIMER_REAL, 0.001)  # not before: it would interrupt itself

                    signal.signal(signal.SIGALRM, tick)
                    signal.setitimer(signal.ITIMER_REAL, 0.001)
                    said = 0
                    while said < 300 or len(ticks) < 30:
                        said += 1
                        context.task("EXECUTES", f"word {said}")
                    signal.signal(signal.SIGALRM, signal.SIG_IGN)
                    return {"Said": said, "Ticks": len(ticks)}
            """,
            "workflow.yaml": """
                workflow: w
                jobs:
                  Speak:
                    uses: python
                    with: {call: "work:speak"}
                    outputs: {Said: {type: integer}, Ticks: {type: integer}}
            """,
        }
    )
    messages = [task.message for task in lab.succeed().of(ev.Task)]
    for name, number in (("word", lab.content("Artifact:Speak.Said")), ("tick", lab.content("Artifact:Speak.Ticks"))):
        assert [m for m in messages if m.startswith(name)] == [f"{name} {n}" for n in range(1, int(str(number)) + 1)]
