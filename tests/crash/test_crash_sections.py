"""Two writers of sections in one file, and kills: none is lost, none is duplicated, the user's own ones are kept."""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from crash_lab import PATIENCE, Host, Lab
from fault_selection import SOAK, soak_only

from whyrun.artifacts.publishing.sections import read_members
from whyrun.log import events as ev
from whyrun.log.runs import RunRef

SECTIONS = 200 if SOAK else 40  # of each writer
FLOW = """
workflow: {name}
loops: {{i: {{count: {sections}}}}}
jobs:
  {job}:
    for: [i]
    uses: python
    with: {{call: "made:section", name: {job}, i: "${{{{ i }}}}"}}
    outputs: {{Data: {{type: json, path: out/shared.json, append: true}}}}
"""
CODE = """
import time

def section(name, i):
    time.sleep(0.004)
    return {"Data": {"name": name, "i": i, "list": list(range(i % 7))}}
"""
MINE = {"mine": {"kept": 1.5}, "also": ["mine"]}


class Writer(Lab):
    """One of two workflows in one project."""

    def __init__(self, root: Path, name: str, job: str) -> None:
        super().__init__(root)
        self.job = job
        self.file = root / f"{name}.yaml"
        self.file.write_text(FLOW.format(name=name, job=job, sections=SECTIONS))

    def expected(self) -> dict[str, Any]:
        return {f"{self.job}[{i}]": {"name": self.job, "i": i, "list": list(range(i % 7))} for i in range(SECTIONS)}

    def check_log(self) -> None:
        """Nothing that is complete was executed again, and nobody took the other's or the user's for his own."""
        done: set[str] = set()
        for run in self.runs():
            for event in run.events():
                assert not isinstance(event, ev.FileDisplaced)
                if isinstance(event, ev.StepStart):
                    assert event.step_id not in done, f"{event.step_id} was complete, and was executed again"
                elif isinstance(event, ev.StepComplete):
                    done.add(event.step_id)
        assert len(done) == SECTIONS


@pytest.fixture
def writers(tmp_path: Path) -> tuple[Writer, Writer]:
    root = tmp_path / "project"
    (root / "out").mkdir(parents=True)
    (root / "made.py").write_text(CODE)
    (root / "out" / "shared.json").write_text(json.dumps(MINE))
    return Writer(root, "one", "First"), Writer(root, "two", "Second")


def check_shared(writers: tuple[Writer, Writer]) -> None:
    text = (writers[0].root / "out" / "shared.json").read_text()
    keys = read_members(text)  # refuses a key that stands there twice
    expected = {**MINE, **writers[0].expected(), **writers[1].expected()}
    assert json.loads(text) == expected
    assert list(keys)[:2] == list(MINE)


def check_sections_are_whole(writers: tuple[Writer, Writer]) -> None:
    """At any moment: the file is valid, the user's keys are in it, and every section that is there is whole."""
    content = json.loads((writers[0].root / "out" / "shared.json").read_text())
    expected = {**MINE, **writers[0].expected(), **writers[1].expected()}
    assert {key: value for key, value in content.items() if expected[key] != value} == {}
    assert content.keys() >= MINE.keys()


def wait_for_sections(writers: tuple[Writer, Writer], hosts: list[Host], number: int) -> None:
    """Until so many sections are in the file, or there is nobody left to write them."""
    deadline = time.monotonic() + PATIENCE
    while any(host.process.poll() is None for host in hosts) and time.monotonic() < deadline:
        if len(json.loads((writers[0].root / "out" / "shared.json").read_text())) >= number + len(MINE):
            return
        time.sleep(0.002)


def is_complete(run: RunRef) -> bool:
    return isinstance(list(run.events())[-1], ev.RunComplete)


@soak_only
@pytest.mark.parametrize("number", range(3))
def test_two_writers_that_are_killed_lose_and_duplicate_nothing(number: int, writers: tuple[Writer, Writer]) -> None:
    chance = random.Random(40_000 + number)
    for killing in range(4):
        hosts: list[Host] = [writer.start() for writer in writers]
        wait_for_sections(writers, hosts, 1 + killing * 80 + chance.randrange(60))
        for host in chance.sample(hosts, 2):
            time.sleep(chance.random() * 0.05)
            host.kill()
        check_sections_are_whole(writers)
    killed = [run for writer in writers for run in writer.runs() if not is_complete(run)]
    assert killed, "no kill came while a run was going on"
    hosts = [writer.start() for writer in writers]
    assert [host.ended().code for host in hosts] == [0, 0]
    check_shared(writers)
    for writer in writers:
        writer.check_log()
        assert writer.plan().planned == []
        writer.check_nobody_left()


def test_a_kill_between_any_two_file_operations_of_a_merge_loses_nothing(writers: tuple[Writer, Writer]) -> None:
    chance = random.Random(50_000)
    codes = []
    for _ in range(6 if SOAK else 3):
        hosts = [writer.start(crash_at=chance.randrange(60, 60 + 3 * SECTIONS)) for writer in writers]
        codes += [host.ended().code for host in hosts]
        check_sections_are_whole(writers)
    assert -signal.SIGKILL in codes
    for writer in writers:
        writer.succeed()
    check_shared(writers)
    for writer in writers:
        writer.check_log()
        assert writer.plan().planned == []


def test_without_kills_two_writers_at_once_lose_nothing(writers: tuple[Writer, Writer]) -> None:
    hosts = [writer.start() for writer in writers]
    assert [host.ended().code for host in hosts] == [0, 0]
    check_shared(writers)
    assert sorted(path.name for path in (writers[0].root / "out").iterdir()) == ["shared.json"]
