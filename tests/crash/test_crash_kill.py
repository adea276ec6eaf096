"""`kill -9` of real processes at random moments: nothing lost, nothing guessed, nothing run twice.

Kills at chosen moments, which a clock hardly ever hits, are in test_crash_points.
"""

from __future__ import annotations

import random
import time

import pytest
from crash_lab import TOPICS, Ended, Lab, Reference

from whyrun.log import events as ev

TESTS, KILLS = 10, 5  # fifty kills in all


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
    host = lab.start()
    host.wait_ready()
    time.sleep(seconds)
    return host.kill()


@pytest.mark.parametrize("number", range(TESTS))
def test_after_a_kill_at_any_moment_the_next_run_completes(number: int, lab: Lab, reference: Reference) -> None:
    chance = random.Random(20_000 + number)
    # The moments of all fifty are spread evenly over the run, each a little by chance. The first two in each project
    # come one after the other, so that a repair is hit as well; after the others the work is finished each time.
    moments = [(number + TESTS * k + chance.random()) / (TESTS * KILLS) * reference.seconds for k in range(KILLS)]
    chance.shuffle(moments)
    lab.sets = (f"Topic={TOPICS[0]}",)
    kill_after(lab, moments[0])
    for topic, moment in zip(TOPICS, moments[1:], strict=True):
        lab.sets = (f"Topic={topic}",)
        kill_after(lab, moment)
        if chance.random() < 0.5:
            lab.check_nobody_left()  # else the next run starts while the workers of the dead one are still ending
        check_next_run_completes(lab, reference, topic)
    lab.check_replay()
