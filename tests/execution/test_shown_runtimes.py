"""What a step reports is shown where it can be shown, and never ends the run."""

from __future__ import annotations

from collections.abc import Callable

from project_lab import Lab
from whyrun.log import events as ev

WORKFLOW = """
    workflow: long
    jobs:
      A: {uses: python, with: {call: "acts:act"}, outputs: {T: {type: text}}}
"""
ACTS = """
    LONG = [10**400, -(10**400), 1e300, float("inf"), float("nan"), True, "long", None, 2.5]

    def act(context, logger):
        for runtime in LONG:
            logger.log_task("me", "EXECUTES", f"{type(runtime).__name__}", runtime=runtime)
        return {"T": "t"}
"""


def test_a_runtime_that_no_line_can_show_ends_neither_the_step_nor_the_run(project: Callable[..., Lab]) -> None:
    """Issue 17, number 21: `10**400` ended the whole run with a traceback."""
    ran = project(WORKFLOW, {"acts.py": ACTS}).succeed()
    assert len(ran.of(ev.Task)) == 9
    assert ran.folder is not None
    lines = [line for line in (ran.folder / "whyrun.log").read_text().splitlines() if "[me]" in line]
    assert len(lines) == 9
    assert " in 2.5s" in lines[-1]
