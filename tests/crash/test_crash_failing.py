"""A call at a fault point fails once: the command prints a code and the reason, and loses nothing.

`fault_selection` says which points are tried by commit.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from fault_lab import SCENARIOS, Courses, check_afterwards, check_told
from fault_selection import KILLS, selected

from whyrun.disk import Area


@pytest.mark.parametrize("area", [area.value for area in Area])
@pytest.mark.parametrize("name", SCENARIOS)
def test_after_a_call_that_failed_the_next_command_completes(
    name: str, area: str, courses: Courses, tmp_path: Path
) -> None:
    course = courses.of(SCENARIOS[name])
    faults = [fault for fault in selected(name, course.hits) if fault.how not in KILLS and fault.area == area]
    for number, fault in enumerate(faults):
        lab, ended = courses.disturbed(course.scenario, tmp_path / str(number), fault)
        check_told(lab, fault, ended)
        check_afterwards(lab, course, ended)
