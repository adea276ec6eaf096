"""A kill at a fault point, right before or right after its call: nothing is lost, and nothing runs twice.

`fault_selection` says which points are tried by commit.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from crash_lab import PATIENCE
from fault_hook import Fault
from fault_lab import SCENARIOS, Courses, check_afterwards, check_killed
from fault_selection import KILLS, NAMES, selected, uncovered
from fault_ways import WAYS

from whyrun.disk import Area, points


@pytest.mark.parametrize("area", [area.value for area in Area])
@pytest.mark.parametrize("name", SCENARIOS)
def test_after_a_kill_at_a_fault_point_the_next_command_completes(
    name: str, area: str, courses: Courses, tmp_path: Path
) -> None:
    course = courses.of(SCENARIOS[name])
    faults = [fault for fault in selected(name, course.hits) if fault.how in KILLS and fault.area == area]
    for number, fault in enumerate(faults):
        lab, ended = courses.disturbed(course.scenario, tmp_path / str(number), fault)
        check_killed(fault, ended)
        check_afterwards(lab, course, ended)


STORM = """
import signal, sys
signal.signal(signal.SIGALRM, lambda number, frame: None)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
from whyrun.cli.main import main
try:
    main(["run"])
finally:
    signal.setitimer(signal.ITIMER_REAL, 0)  # Python itself forgets its handlers when it ends
"""


def test_a_signal_a_millisecond_disturbs_nothing(courses: Courses, tmp_path: Path) -> None:
    lab = courses.lab(SCENARIOS["run"], tmp_path / "project")
    command = [sys.executable, "-c", STORM]
    ended = subprocess.run(command, cwd=lab.root, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 0, ended.stderr
    assert lab.final() == courses.of(SCENARIOS["run"]).final


@pytest.fixture
def chosen(courses: Courses) -> list[Fault]:
    """All faults that the tests try."""
    of_scenarios = [fault for name in SCENARIOS for fault in selected(name, courses.of(SCENARIOS[name]).hits)]
    return of_scenarios + [fault for name, way in WAYS.items() for fault in way.faults(name)]


def test_every_point_of_the_table_and_every_way_to_fail_is_tried(chosen: list[Fault]) -> None:
    assert tuple(SCENARIOS) == NAMES
    assert uncovered(chosen) == set()


@pytest.mark.parametrize("area", [area.value for area in Area])
def test_an_area_that_is_not_tried_is_noticed(area: str, chosen: list[Fault]) -> None:
    of_area = {point for point in points() if point.startswith(f"{area}.")}
    assert uncovered(fault for fault in chosen if fault.area != area) == of_area


@pytest.mark.parametrize("fault", [Fault("log.write", 3, "before"), Fault("store.write", 2, "EIO", "worker")], ids=str)
def test_a_fault_that_is_not_done_is_noticed(
    fault: Fault, courses: Courses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    courses.disturbed(SCENARIOS["run"], tmp_path / "armed", fault)
    monkeypatch.setattr(courses.runner, "armed", False)
    with pytest.raises(AssertionError, match=f"{fault.point}.*was not done"):
        courses.disturbed(SCENARIOS["run"], tmp_path / "disarmed", fault)


def test_calls_are_counted_over_all_workers(courses: Courses, tmp_path: Path) -> None:
    """The last call of all is no worker's own last call: two of them share the steps. It is done all the same, once."""
    calls = courses.of(SCENARIOS["run"]).hits["worker", "store.rename"]
    lab = courses.lab(SCENARIOS["run"], tmp_path / "project")
    fault = Fault("store.rename", calls, "before", "worker")
    assert lab.whyrun("run", faults=(fault,)).marks == (str(fault),)
