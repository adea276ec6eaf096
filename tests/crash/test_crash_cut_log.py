"""The log cut or changed at any byte: it opens cleanly or says what is wrong, and never plans from a half line."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from crash_lab import TOPICS, Lab, Reference
from fault_selection import SOAK, cuts

from whyrun.errors import StateError
from whyrun.log import events as ev
from whyrun.log.journal import check_chain
from whyrun.planning.plan import Plan, PlanOptions, compute_execution_plan

LAST = 4096
CHANGES = 400 if SOAK else 80
PARTS = 4 if SOAK else 1


class Planner:
    """Plans again and again with one parsed workflow; only log and files are looked at anew."""

    def __init__(self, lab: Lab) -> None:
        self.opened = lab.opened()
        self.opened.graph, self.opened.actions  # noqa: B018

    def plan(self) -> Plan:
        return compute_execution_plan(self.opened.snapshot(self.opened.history()), PlanOptions())


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Two runs: the second, smaller one ends the log."""
    lab = Lab(tmp_path_factory.mktemp("recorded") / "project")
    lab.sets = (f"Topic={TOPICS[1]}",)
    lab.succeed()
    lab.sets = (f"Topic={TOPICS[0]}",)
    lab.succeed()
    return lab


@pytest.fixture
def copy(recorded: Lab, tmp_path: Path) -> Lab:
    return copy_of(recorded, tmp_path / "project")


def copy_of(lab: Lab, place: Path) -> Lab:
    shutil.copytree(lab.root, place, symlinks=True)
    found = Lab(place)
    found.sets = lab.sets
    return found


def last_log(lab: Lab) -> Path:
    return lab.runs()[-1].events_path


@pytest.mark.parametrize("part", range(PARTS))
def test_a_log_cut_at_any_byte_is_planned_from_its_complete_lines_only(part: int, copy: Lab) -> None:
    path = last_log(copy)
    whole = path.read_bytes()
    assert len(whole) > LAST
    planner = Planner(copy)
    expected: dict[int, bytes] = {}  # end of the last complete line → the plan of the log that ends there
    codes: set[str] = set()
    for cut in cuts(whole, len(whole) - LAST)[part::PARTS]:
        end = whole.rfind(b"\n", 0, cut) + 1
        if end not in expected:
            path.write_bytes(whole[:end])
            expected[end] = planner.plan().to_bytes()
        path.write_bytes(whole[:cut])
        try:
            found = planner.plan().to_bytes()
        except StateError as refused:
            codes.update(d.code for d in refused.diagnostics)
            continue
        assert found == expected[end], f"cut at {cut}: planned from the half line behind {end}"
    assert codes <= {"LOG_DAMAGED", "LOG_INCOMPLETE"}
    assert codes == set(), "a cut tail is what a kill leaves, and no damage"
    assert len(expected) > 3


def test_a_log_cut_within_its_first_line_has_no_run_start(copy: Lab) -> None:
    path = last_log(copy)
    whole = path.read_bytes()
    first = whole.index(b"\n")
    planner = Planner(copy)
    for cut in (0, 1, first // 2, first):
        path.write_bytes(whole[:cut])
        with pytest.raises(StateError) as refused:
            planner.plan()
        assert [d.code for d in refused.value.diagnostics] == ["LOG_INCOMPLETE"]
        assert copy.run().code == 3
        assert path.read_bytes() == whole[:cut], "what is not understood is not touched"


@pytest.mark.parametrize("number", range(4 if SOAK else 1))
def test_after_a_cut_the_next_run_repairs_and_completes(
    number: int, recorded: Lab, reference: Reference, tmp_path: Path
) -> None:
    chance = random.Random(40_000 + number)
    for k in range(2):
        lab = copy_of(recorded, tmp_path / f"project{k}")
        path = last_log(lab)
        whole = path.read_bytes()
        cut = len(whole) - 1 - chance.randrange(LAST)
        path.write_bytes(whole[:cut])
        (path.parent / "status.json").unlink()  # these could not have been made yet
        shutil.rmtree(path.parent / "artifacts")
        before = lab.plan()
        done = lab.completed()
        ended = lab.succeed()
        assert "its log was repaired" in ended.err
        assert ended.result["plan_digest"] == before.digest
        if ended.result["run"] is not None:
            assert not lab.executed(lab.runs()[-1]).items() & done.items()
        assert lab.artifacts() == reference.artifacts[TOPICS[0]]
        lab.check_evidence()
        lab.check_replay()


def test_the_repair_says_what_it_cut(copy: Lab) -> None:
    path = last_log(copy)
    whole = path.read_bytes()
    end = whole.rfind(b"\n", 0, len(whole) - 1) + 1
    path.write_bytes(whole[: end + 10])
    (path.parent / "status.json").unlink()  # it could not have been made yet
    copy.succeed()
    repaired = [e for run in copy.runs() for e in run.events() if isinstance(e, ev.LogRepaired)]
    assert [(e.cut_bytes, e.interrupted) for e in repaired] == [(10, [])]


def test_a_changed_byte_in_the_middle_is_found(copy: Lab) -> None:
    """Either the plan is refused, or the chain shows it; and what was planned all the same is no wrong skip."""
    chance = random.Random(50_000)
    path = copy.runs()[0].events_path
    whole = path.read_bytes()
    paths = [run.events_path for run in copy.runs()]
    planner = Planner(copy)
    refusals = 0
    codes: set[str] = set()
    for _ in range(CHANGES):
        at = chance.randrange(len(whole) - 1)
        byte = chance.randrange(256)
        if whole[at] == byte:
            continue
        path.write_bytes(whole[:at] + bytes([byte]) + whole[at + 1 :])
        try:
            planner.plan()
        except StateError as refused:
            refusals += 1
            codes.update(d.code for d in refused.diagnostics)
        with pytest.raises(StateError) as shown:
            check_chain(paths)
        assert [d.code for d in shown.value.diagnostics] == ["LOG_DAMAGED"]
    assert refusals > CHANGES // 8
    assert codes <= {"LOG_DAMAGED", "LOG_INCOMPLETE"}


def test_a_lost_doubled_or_swapped_line_is_damage(copy: Lab) -> None:
    path = copy.runs()[0].events_path
    lines = path.read_bytes().splitlines(keepends=True)
    planner = Planner(copy)
    for at in range(1, len(lines) - 1, 7):
        for changed in (
            lines[:at] + lines[at + 1 :],
            [*lines[:at], lines[at], *lines[at:]],
            [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]],
            [*lines[:at], b"\n", *lines[at:]],
        ):
            path.write_bytes(b"".join(changed))
            with pytest.raises(StateError) as refused:
                planner.plan()
            assert [d.code for d in refused.value.diagnostics] == ["LOG_DAMAGED"]
            diagnostic = refused.value.diagnostics[0]
            assert diagnostic.file == str(path)
            assert diagnostic.line is not None
            assert diagnostic.hint


def test_a_lost_run_is_shown_by_the_chain(copy: Lab) -> None:
    copy.sets = (f"Topic={TOPICS[2]}",)
    copy.succeed()
    paths = [run.events_path for run in copy.runs()]
    check_chain(paths)
    with pytest.raises(StateError):
        check_chain([paths[0], paths[2]])
