"""A kill at every fault point, right before or right after its call: nothing lost, nothing run twice."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from crash_lab import PATIENCE
from fault_cases import cases
from fault_lab import SCENARIOS, Courses, check_afterwards

from whyrun.disk import Area, points

# Points that only something else leads to which has gone wrong, or that other tests come to.
ELSEWHERE = {
    "artifact-link.remove", "artifact-link.rename", "artifact-link.start", "draft.remove", "draft.unlink",
    "index.unlink", "prune.unlink", "publish.unlink", "run.cut", "run.link", "run.rename", "run.unlink", "saved.unlink",
    "section.unlink", "status.unlink", "store.remove",
}  # fmt: skip


@pytest.mark.parametrize("area", [area.value for area in Area])
@pytest.mark.parametrize("name", SCENARIOS)
def test_after_a_kill_at_a_fault_point_the_next_command_completes(
    name: str, area: str, courses: Courses, tmp_path: Path
) -> None:
    course = courses.of(name)
    for number, fault in enumerate(cases(course, name, area, (("before",), ("after",)))):
        lab = courses.lab(name, tmp_path / str(number) / "project")
        ended = lab.whyrun(*course.scenario.command, fault=fault)
        # The number of calls depends a little on timing: what was not come to has disturbed nothing.
        assert fault.role == "worker" or ended.code in (-signal.SIGKILL, 0, 1), (fault, ended.err)
        lab.check_nobody_left()
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
    lab = courses.lab("run", tmp_path / "project")
    command = [sys.executable, "-c", STORM]
    ended = subprocess.run(command, cwd=lab.root, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 0, ended.stderr
    assert lab.final() == courses.of("run").final


def test_every_point_of_the_table_is_come_to(courses: Courses) -> None:
    hits = {point for name in SCENARIOS for _, point in courses.of(name).hits}
    assert sorted(set(points()) - hits - ELSEWHERE) == []
    assert sorted(ELSEWHERE - set(points())) == []
