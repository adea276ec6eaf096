"""A kill or a failure at a fault point that is reached only after something else went wrong (`fault_ways`)."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from fault_lab import Courses, check_afterwards, check_killed, check_told
from fault_ways import WAYS


@pytest.mark.parametrize("name", WAYS)
def test_after_a_kill_or_a_failure_in_the_midst_of_trouble_the_next_command_completes(
    name: str, courses: Courses, tmp_path: Path
) -> None:
    way = WAYS[name]
    if way.needs is not None and shutil.which(way.needs) is None:
        pytest.skip(f"{way.needs} is not installed")
    course = courses.of(way.scenario)
    for fault in way.faults(name):
        lab, ended = courses.disturbed(way.scenario, tmp_path / fault.how, fault, way.leading)
        if fault.how == "ENOSPC":
            first = way.leading[-1].how if way.leading else fault.how
            check_told(lab, replace(fault, how=first), ended)
        else:
            check_killed(fault, ended)
        check_afterwards(lab, course, ended)
