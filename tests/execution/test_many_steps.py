"""A run with more steps than are linked at once: its evidence is complete, with links made during the run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from project_lab import Lab, wait_until
from whyrun import disk
from whyrun.artifacts.store import Store
from whyrun.evidence import artifact_links as links_module
from whyrun.evidence.artifact_links import ArtifactLinks
from whyrun.evidence.run_directory import Artifact, RunDirectory, SeenEvents
from whyrun.execution.recording import recorder
from whyrun.execution.recording.recorder import MANY_ENDED
from whyrun.log.journal import read_events

COUNT = MANY_ENDED + 44
FEW = 40  # steps, where so many are linked at once that these are more
WORKFLOW = """\
workflow: many
inputs: {Count: {type: integer, default: %d}}
loops: {number: {count: inputs.Count}}
jobs:
  Square:
    for: [number]
    uses: python
    with: {call: "work:square", number: "${{ number }}"}
    outputs: {Result: {type: integer}}
"""
WORK = 'def square(number):\n    return {"Result": number * number}\n'


def linked(folder: Path) -> dict[str, str]:
    """Step → what its link leads to."""
    return {step.name: (step / "Result").read_text() for step in (folder / "artifacts").iterdir()}


def expected(count: int) -> dict[str, str]:
    return {f"Square%5B{number}%5D": str(number * number) for number in range(count)}


@pytest.fixture
def few(project: Callable[..., Lab], monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setattr(recorder, "MANY_ENDED", FEW - 11)
    return project(WORKFLOW % FEW, {"work.py": WORK})


def test_every_artifact_of_a_long_run_has_its_link(project: Callable[..., Lab]) -> None:
    ran = project(WORKFLOW % COUNT, {"work.py": WORK}).run()
    assert (ran.exit_code, len(ran.executed)) == (0, COUNT)
    assert ran.folder is not None
    assert linked(ran.folder) == expected(COUNT)
    first = os.readlink(ran.folder / "artifacts/Square%5B0%5D/Result")
    assert first.startswith("../../../../../store/5f/")


@pytest.mark.parametrize("trouble", ["is not there", "ends at once", "ends later"])
def test_links_do_not_depend_on_the_process_that_makes_them(
    few: Lab, monkeypatch: pytest.MonkeyPatch, trouble: str
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

    monkeypatch.setattr(disk, "hook", disturbed)
    ran = few.run()
    assert ran.folder is not None
    program = [sys.executable, "-P", "-m", "whyrun.evidence.artifact_links"]
    assert asked == [[*program, str(ran.folder), str(ran.folder.parents[2] / "store"), str(os.getpid())]]
    assert (ran.exit_code, linked(ran.folder)) == (0, expected(FEW))


def test_a_child_process_makes_the_links_and_has_ended_with_the_run(few: Lab) -> None:
    ran = few.run()
    assert ran.folder is not None
    for step in (ran.folder / "artifacts").iterdir():
        (step / "Result").unlink()
    links = ArtifactLinks(RunDirectory(ran.folder), few.opened().store)
    seen = SeenEvents()
    for event in read_events(ran.folder / "events.jsonl"):
        seen.add(event)
    links.link(seen.take_ended())
    wait_until(lambda: len(of_links(ran.folder)) == 1)
    child = os.fork()  # some process that goes on, and has all that this one had open
    if child == 0:
        signal.pause()
    try:
        links.finish()
        assert (links.lost, linked(ran.folder), of_links(ran.folder)) == (False, expected(FEW), [])
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_the_run_does_not_wait_for_a_slow_link_process(few: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = few.run()
    assert ran.folder is not None
    monkeypatch.setattr(links_module, "MAX_UNSENT", 3)
    monkeypatch.setattr(disk, "hook", lambda point, call, command, **options: call(["sleep", "1000"], **options))
    links = ArtifactLinks(RunDirectory(ran.folder), Store(ran.folder.parents[2] / "store"))
    steps = [[Artifact("Square[0]", "Result" + "x" * 100_000, "0" * 64, "integer")]]
    lost = []
    for _ in range(6):
        links.link(steps)
        lost.append(links.lost)
    assert lost == [False, False, False, True, True, True]


HOST = """
import os, signal, sys
from whyrun.artifacts.store import Store
from whyrun.evidence.artifact_links import ArtifactLinks
from whyrun.evidence.run_directory import RunDirectory
links = ArtifactLinks(RunDirectory(sys.argv[1]), Store(sys.argv[2]))
links.link([])
if sys.argv[3] == "later":
    sys.stdin.readline()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("when", ["at once", "later"])
def test_a_killed_host_leaves_no_process_behind(tmp_path: Path, when: str) -> None:
    (tmp_path / "run").mkdir()
    words = [sys.executable, "-c", HOST, str(tmp_path / "run"), str(tmp_path / "store"), when]
    host = subprocess.Popen(words, stdin=subprocess.PIPE)
    assert host.stdin is not None
    if when == "later":
        wait_until(lambda: bool(of_links(tmp_path / "run")))
        host.stdin.write(b"\n")
    host.stdin.close()
    assert host.wait() == -signal.SIGKILL
    wait_until(lambda: not of_links(tmp_path / "run"))


def of_links(folder: Path | None) -> list[bytes]:
    """The command lines of processes that make the links of this run."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            words = (process / "cmdline").read_bytes()
            if b"whyrun.evidence.artifact_links" in words and str(folder).encode() in words:
                found.append(words)
    return found
