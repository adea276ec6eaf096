"""`kill -9` of a run at any moment: nothing is lost, nothing is guessed, nothing runs twice.

Kills at the fault points of `whyrun.disk` are in test_crash_points.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable

import pytest
from crash_lab import TOPICS, Ended, Lab, Reference
from fault_selection import SOAK, soak_only

from whyrun.log import events as ev

KILLS = 5  # in each project
PROJECTS = 10
BY_COMMIT = 2  # projects


def check_next_run_completes(lab: Lab, reference: Reference, topic: str) -> None:
    """After any kill: the plan is the same before and after the repair, and the next run finishes the work."""
    unfinished = [run.name for run in lab.runs() if not isinstance(lab.events(run)[-1], ev.RunComplete)]
    runs_before = len(lab.runs())
    done = lab.completed()
    before = lab.plan()

    ended = lab.succeed()

    assert ended.result["plan_digest"] == before.digest, "the repair changed the plan"
    assert unfinished in ([], [lab.runs()[runs_before - 1].name])
    assert ("its log was repaired" in ended.err) == bool(unfinished)
    if ended.result["run"] is not None:
        again = lab.executed(lab.runs()[-1]).items() & done.items()
        assert not again, f"complete in the log, and executed again with the same inputs: {again}"
    lab.check_nobody_left()
    assert lab.artifacts() == reference.artifacts[topic]
    assert lab.plan().planned == []
    lab.check_evidence()


def kill_after(lab: Lab, seconds: float) -> Ended:
    host = lab.start(fresh=True)
    host.wait_ready()
    time.sleep(seconds)
    return host.kill()


def kills(number: int, projects: int) -> tuple[random.Random, list[float]]:
    """When one project is killed, as parts of a whole run: the kills of all projects are spread evenly over it."""
    chance = random.Random(20_000 + number)
    moments = [(number + projects * k + chance.random()) / (projects * KILLS) for k in range(KILLS)]
    chance.shuffle(moments)
    return chance, moments


def kill_and_complete(
    lab: Lab, reference: Reference, chance: random.Random, moments: list[float], kill: Callable[[str, float], object]
) -> None:
    """The first two kills come one after the other, so that a repair is hit as well. After each of the others the next
    run finishes the work."""
    lab.sets = (f"Topic={TOPICS[0]}",)
    kill(TOPICS[0], moments[0])
    for topic, moment in zip(TOPICS, moments[1:], strict=True):
        lab.sets = (f"Topic={topic}",)
        kill(topic, moment)
        if chance.random() < 0.5:
            lab.check_nobody_left()  # else the next run starts while the workers of the dead one are still ending
        check_next_run_completes(lab, reference, topic)
    lab.check_replay()


@pytest.mark.parametrize("number", range(PROJECTS if SOAK else BY_COMMIT))
def test_after_a_kill_before_any_file_operation_the_next_run_completes(
    number: int, lab: Lab, reference: Reference
) -> None:
    def kill(topic: str, moment: float) -> None:
        ended = lab.run(crash_at=1 + int(moment * reference.operations[topic]))
        assert ended.code in (-signal.SIGKILL, 0), ended.err  # 0: with less left to do it made fewer operations

    kill_and_complete(lab, reference, *kills(number, PROJECTS if SOAK else BY_COMMIT), kill)


def test_after_a_kill_of_a_started_interpreter_the_next_run_completes(lab: Lab, reference: Reference) -> None:
    """Host and workers are started as a user starts them; those of the other tests are forked."""
    lab.sets = (f"Topic={TOPICS[0]}",)
    killed = lab.start(crash_at=reference.operations[TOPICS[0]] * 2 // 3, fresh=True).ended()
    assert killed.code == -signal.SIGKILL, killed.err
    check_next_run_completes(lab, reference, TOPICS[0])


@soak_only
@pytest.mark.parametrize("number", range(PROJECTS))
def test_after_a_kill_at_any_moment_the_next_run_completes(number: int, lab: Lab, reference: Reference) -> None:
    kill_and_complete(
        lab,
        reference,
        *kills(number, PROJECTS),
        lambda topic, moment: kill_after(lab, moment * reference.seconds),
    )
