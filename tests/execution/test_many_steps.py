"""A run of more steps than are linked at once: the evidence is whole, whatever was made while it went on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from project_lab import Lab
from whyrun import disk
from whyrun.execution.recorder import MANY_ENDED

COUNT = MANY_ENDED + 44
WORKFLOW = f"""\
workflow: many
loops: {{number: {{count: {COUNT}}}}}
jobs:
  Square:
    for: [number]
    uses: python
    with: {{call: "work:square", number: "${{{{ number }}}}"}}
    outputs: {{Result: {{type: integer}}}}
"""
WORK = 'def square(number):\n    return {"Result": number * number}\n'


def linked(folder: Path) -> dict[str, str]:
    """Step → what its link leads to."""
    return {step.name: (step / "Result").read_text() for step in (folder / "artifacts").iterdir()}


EXPECTED = {f"Square%5B{number}%5D": str(number * number) for number in range(COUNT)}


def test_every_artifact_of_a_long_run_has_its_link(project: Callable[..., Lab]) -> None:
    ran = project(WORKFLOW, {"work.py": WORK}).run()
    assert (ran.exit_code, len(ran.executed)) == (0, COUNT)
    assert ran.folder is not None
    assert linked(ran.folder) == EXPECTED
    first = os.readlink(ran.folder / "artifacts/Square%5B0%5D/Result")
    assert first.startswith("../../../../../store/5f/")


def test_a_link_that_failed_once_is_made_in_the_end(
    project: Callable[..., Lab], monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[str] = []

    def fail_once(point: str, call: Callable[..., object], *arguments: object, **options: object) -> object:
        if point == "artifact-link.link" and not failed:
            failed.append(point)
            raise OSError(28, "No space left on device")
        return call(*arguments, **options)

    lab = project(WORKFLOW, {"work.py": WORK})
    monkeypatch.setattr(disk, "hook", fail_once)
    ran = lab.run()
    assert (ran.exit_code, failed) == (0, ["artifact-link.link"])
    assert ran.folder is not None
    assert linked(ran.folder) == EXPECTED
