"""Every call at a fault point fails once: the command says so, with a code and the reason, and loses nothing."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from fault_cases import SHORT, cases
from fault_hook import Fault
from fault_lab import SCENARIOS, Courses, Ended, FaultLab, check_afterwards

from whyrun.disk import Area
from whyrun.log import events as ev


def check_told(lab: FaultLab, fault: Fault, ended: Ended) -> None:
    """0: what failed can be done without. 1: a step failed, and its event has the reason. 3: the whole command did."""
    assert ended.code in (0, 1, 3), (fault, ended.err)
    assert "Traceback" not in ended.err, (fault, ended.err)
    assert "inside whyrun" not in ended.err, (fault, ended.err)
    if fault.how == "short":
        assert ended.code in (0, 1), (fault, ended.err)  # the rest is simply written next
        return
    reason = os.strerror(getattr(errno, fault.how))
    if ended.code == 3:
        assert "error[" in ended.err, (fault, ended.err)
        assert reason in ended.err, (fault, ended.err)
    elif ended.code == 1 and not ("found differences" in ended.err and "FAILED" not in ended.err):
        failed = [e for run in lab.runs() for e in run.events() if isinstance(e, ev.StepFailed)]
        assert reason in "".join(e.error for e in failed) + ended.err, (fault, ended.err)


@pytest.mark.parametrize("area", [area.value for area in Area])
@pytest.mark.parametrize("name", SCENARIOS)
def test_after_a_call_that_failed_the_next_command_completes(
    name: str, area: str, courses: Courses, tmp_path: Path
) -> None:
    course = courses.of(name)
    for number, fault in enumerate(cases(course, name, area, (("ENOSPC", "EIO"), SHORT))):
        lab = courses.lab(name, tmp_path / str(number) / "project")
        ended = lab.whyrun(*course.scenario.command, fault=fault)
        check_told(lab, fault, ended)
        lab.check_nobody_left()
        check_afterwards(lab, course, ended)
