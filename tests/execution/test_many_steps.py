"""A run of more steps than are linked at once: the evidence is whole, whatever was made while it went on."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
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


@pytest.mark.parametrize("trouble", ["is not there", "ends at once", "ends later"])
def test_links_do_not_depend_on_the_process_that_makes_them(
    project: Callable[..., Lab], monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    asked: list[object] = []

    def disturbed(point: str, call: Callable[..., object], *arguments: object, **options: object) -> object:
        if point != "artifact-link.start":
            return call(*arguments, **options)
        asked.append(arguments[0])
        if trouble == "is not there":
            raise OSError(11, "Resource temporarily unavailable")
        program = {"ends at once": "exit 1", "ends later": "head -c 1000 >/dev/null; kill -9 $$"}[trouble]
        return call(["sh", "-c", program], **options)

    lab = project(WORKFLOW, {"work.py": WORK})
    monkeypatch.setattr(disk, "hook", disturbed)
    ran = lab.run()
    assert ran.folder is not None
    assert asked == [
        [sys.executable, "-P", "-m", "whyrun.evidence.links", str(ran.folder), str(ran.folder.parents[2] / "store")]
    ]
    assert (ran.exit_code, linked(ran.folder)) == (0, EXPECTED)


def test_the_process_that_makes_links_is_gone_when_the_run_has_ended(project: Callable[..., Lab]) -> None:
    lab = project(WORKFLOW, {"work.py": WORK})
    ran = lab.run()
    assert (ran.exit_code, of_links(ran.folder)) == (0, [])


def of_links(folder: Path | None) -> list[bytes]:
    """The command lines of processes that make the links of this run."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            words = (process / "cmdline").read_bytes()
            if b"whyrun.evidence.links" in words and str(folder).encode() in words:
                found.append(words)
    return found
