"""Live events: no line twice, none missing, across restarts, repairs and pruned runs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from viewer_lab import FILES, WORKFLOW, open_state, result_of, view

from project_lab import Lab
from whyrun.log.journal import utc_now
from whyrun.log.lock import RunLock, running_run
from whyrun.project import Project
from whyrun.viewer import live
from whyrun.viewer.current import CurrentState, StateSource
from whyrun.viewer.live import LogFollower, UnknownPosition, event_stream


@pytest.fixture
def copied(told: Lab, tmp_path: Path) -> Lab:
    shutil.copytree(told.root, tmp_path / "copy")
    return Lab(tmp_path / "copy")


def logged(lab: Lab, *runs: str) -> list[str]:
    """The ids of all lines of these runs."""
    return [f"{run}:{event.seq}" for run in runs for event in lab.events(run)]


def follower(lab: Lab, after: str | None) -> LogFollower:
    return LogFollower(lab.opened().state, after)


def test_every_line_comes_once_after_any_position(told: Lab) -> None:
    everything = logged(told, *told.runs())
    for position, after in enumerate(everything):
        assert [id_ for id_, _ in follower(told, after).lines()] == everything[position + 1 :]


def test_without_a_position_it_begins_at_the_end(copied: Lab) -> None:
    reader = follower(copied, None)
    assert reader.lines() == []
    copied.succeed()
    assert [id_ for id_, _ in reader.lines()] == logged(copied, "r0004")
    assert reader.lines() == []


def test_a_line_that_is_being_written_waits_for_its_end(copied: Lab) -> None:
    path = copied.run_folder("r0003") / "events.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rindex(b"\n", 0, -1) + 20])
    reader = follower(copied, "r0003:1")
    assert [id_ for id_, _ in reader.lines()] == logged(copied, "r0003")[1:]
    path.write_bytes(whole)
    assert [id_ for id_, _ in reader.lines()] == [f"r0003:{whole.count(bytes([10]))}"]


@pytest.mark.parametrize("after", ["r0009:1", "r0001:100000", "r1:1", "x", "r0001", "r0001:-1", ""])
def test_an_unknown_position_is_told(told: Lab, after: str) -> None:
    with pytest.raises(UnknownPosition):
        follower(told, after)


def test_a_cut_log_and_a_pruned_run_are_told(copied: Lab) -> None:
    reader = follower(copied, None)
    path = copied.run_folder("r0003") / "events.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))
    with pytest.raises(UnknownPosition):
        reader.lines()
    reader = follower(copied, "r0001:3")
    shutil.rmtree(copied.run_folder("r0001"))
    with pytest.raises(UnknownPosition):
        reader.lines()


def messages(texts: list[str]) -> list[tuple[str, str | None, Any]]:
    """(event, id, data) of the messages of a stream."""
    found = []
    for block in "".join(texts).split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and line[0] != ":")
        if "event" in fields:
            found.append((fields["event"], fields.get("id"), json.loads(fields["data"])))
    return found


def heard(lab: Lab, after: str | None, until: Callable[[list[Any]], bool]) -> list[tuple[str, str | None, Any]]:
    async def listen() -> list[tuple[str, str | None, Any]]:
        texts: list[str] = []
        source = StateSource(lambda: Project.open(lab.file))
        async for text in event_stream(source, after, lambda: until(messages(texts))):
            texts.append(text)
        return messages(texts)

    return result_of(listen())


def test_the_stream_resumes_after_the_last_event(told: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "POLL", 0.001)
    wanted = logged(told, "r0002", "r0003")[5:]
    found = heard(told, logged(told, "r0002")[4], lambda seen: len(seen) > len(wanted))
    assert [id_ for event, id_, _ in found if event == "log"] == wanted
    assert next(event for event, _, _ in found) == "state"
    failed = next(data for event, _, data in found if event == "log" and data["event"] == "step_failed")
    assert (failed["step_id"], failed["status"]) == ("Job:Check", "FAILED")


def test_an_unknown_position_resets_the_page(told: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "POLL", 0.001)
    last = logged(told, "r0003")[-1]
    found = heard(told, "r0042:7", lambda seen: len(seen) >= 2)
    assert found[0] == ("reset", last, {"run": "r0003", "seq": int(last.partition(":")[2])})


def test_the_page_hears_of_a_run_and_of_another_state(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from whyrun.viewer import current

    monkeypatch.setattr(live, "POLL", 0.001)
    monkeypatch.setattr(current, "QUIETEST", 0.0)
    monkeypatch.setattr(current, "BREATH", 0.0)
    lab = project(WORKFLOW, FILES)
    runs: list[str] = []

    def until(seen: list[Any]) -> bool:
        if not runs:
            lab.succeed()
            runs.append("r0001")
        versions = [data["version"] for event, _, data in seen if event == "state"]
        return len(versions) > 1 and versions[-1].startswith(f"{logged(lab, 'r0001')[-1]}.")

    found = heard(lab, None, until)
    assert [id_ for event, id_, _ in found if event == "log"] == logged(lab, "r0001")


def test_after_a_lost_connection_nothing_is_missing(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if no line came before it, and before the first run: the first message has the position."""
    monkeypatch.setattr(live, "POLL", 0.001)
    lab = project(WORKFLOW, FILES)
    ((_, before_all, _),) = heard(lab, None, lambda seen: len(seen) > 0)
    assert before_all == "r0000:0"
    lab.succeed()
    found = heard(lab, before_all, lambda seen: len(seen) > len(logged(lab, "r0001")))
    assert [id_ for event, id_, _ in found if event == "log"] == logged(lab, "r0001")
    ((_, after_all, _),) = heard(lab, None, lambda seen: len(seen) > 0)
    lab.write({"photos/a.txt": "Ada, later\n"})
    lab.succeed()
    found = heard(lab, after_all, lambda seen: len(seen) > len(logged(lab, "r0002")))
    assert [id_ for event, id_, _ in found if event == "log"] == logged(lab, "r0002")


def test_the_page_hears_that_a_run_was_killed(copied: Lab) -> None:
    """Between two steps, so that only its lock says so: the log and the plan are as before."""
    run = copied.runs()[-1]
    path = copied.run_folder(run) / "events.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    (copied.run_folder(run) / "status.json").unlink()  # written after the end of the log
    source = StateSource(lambda: Project.open(copied.file))
    with RunLock.of(copied.opened().state, utc_now) as lock:
        lock.announce(run)
        before = source.state()
    after = source.refresh(now=True)
    assert isinstance(before, CurrentState), before.problems
    assert isinstance(after, CurrentState)
    assert (after.position, after.found.plan.jobs) == (before.position, before.found.plan.jobs)
    assert [view(one, "state")["unfinished"]["state"] for one in (before, after)] == ["running", "interrupted"]
    assert after.version != before.version


def test_a_run_that_has_ended_is_not_live_while_it_still_holds_its_lock(copied: Lab) -> None:
    run, state = copied.runs()[-1], open_state(copied)
    with RunLock.of(state.project.state, utc_now) as lock:
        lock.announce(run)
        assert running_run(state.project.state) == run
        shown = view(state, "run", id=run)
    assert (shown["live"], shown["facts"]["state"]) == (False, "failed")


def test_it_plans_again_only_after_a_pause(told: Lab) -> None:
    """At most every two seconds, or ten times what a plan costs."""
    opened: list[int] = []

    def open_project() -> Project:
        opened.append(1)
        return Project.open(told.file)

    source = StateSource(open_project)
    assert source.state() is source.refresh() is source.refresh()
    assert len(opened) == 1
    assert source.refresh(now=True).version == source.state().version
    assert len(opened) == 2
