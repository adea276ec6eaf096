"""A kill at every fault point, right before or right after its call: nothing lost, nothing run twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from crash_lab import PATIENCE
from fault_cases import cases
from fault_hook import Fault
from fault_lab import SCENARIOS, Courses, check_afterwards, check_killed
from fault_ways import WAYS

from whyrun.disk import Area, points


@pytest.mark.parametrize("area", [area.value for area in Area])
@pytest.mark.parametrize("name", SCENARIOS)
def test_after_a_kill_at_a_fault_point_the_next_command_completes(
    name: str, area: str, courses: Courses, tmp_path: Path
) -> None:
    course = courses.of(SCENARIOS[name])
    for number, fault in enumerate(cases(course, name, area, (("before",), ("after",)))):
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


def test_every_point_of_the_table_is_come_to(courses: Courses) -> None:
    """By a command that nothing disturbs, or by one of the ways of `test_crash_ways`, which proves it by its fault."""
    hits = {point for scenario in SCENARIOS.values() for _, point in courses.of(scenario).hits}
    assert sorted(hits | {way.point for way in WAYS.values()}) == sorted(points())


@pytest.mark.parametrize("fault", [Fault("log.write", 3, "before"), Fault("store.write", 2, "EIO", "worker")], ids=str)
def test_a_fault_that_is_not_done_is_noticed(
    fault: Fault, courses: Courses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    courses.disturbed(SCENARIOS["run"], tmp_path / "armed", fault)
    monkeypatch.setattr(courses.nursery, "armed", False)
    with pytest.raises(AssertionError, match=f"{fault.point}.*was not done"):
        courses.disturbed(SCENARIOS["run"], tmp_path / "disarmed", fault)


def test_calls_are_counted_over_all_workers(courses: Courses, tmp_path: Path) -> None:
    """The last call of all is no worker's own last call: two of them share the steps. It is done all the same, once."""
    calls = courses.of(SCENARIOS["run"]).hits["worker", "store.rename"]
    lab = courses.lab(SCENARIOS["run"], tmp_path / "project")
    fault = Fault("store.rename", calls, "before", "worker")
    assert lab.whyrun("run", faults=(fault,)).marks == (str(fault),)
