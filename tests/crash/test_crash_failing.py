"""Every call at a fault point fails once: the command says so, with a code and the reason, and loses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from fault_cases import SHORT, cases
from fault_lab import SCENARIOS, Courses, check_afterwards, check_told

from whyrun.disk import Area


@pytest.mark.parametrize("area", [area.value for area in Area])
@pytest.mark.parametrize("name", SCENARIOS)
def test_after_a_call_that_failed_the_next_command_completes(
    name: str, area: str, courses: Courses, tmp_path: Path
) -> None:
    course = courses.of(SCENARIOS[name])
    for number, fault in enumerate(cases(course, name, area, (("ENOSPC", "EIO"), SHORT))):
        lab, ended = courses.disturbed(course.scenario, tmp_path / str(number), fault)
        check_told(lab, fault, ended)
        check_afterwards(lab, course, ended)
