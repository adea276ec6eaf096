"""Events for open pages: each line of the log as it is written, and when the state has changed.

The log file is opened and read anew each time: network file systems tell nobody when a file changes.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from whyrun.errors import WhyrunError
from whyrun.viewer.current import last_seq

if TYPE_CHECKING:
    from whyrun.log.runs import RunRef, WorkflowState
    from whyrun.viewer.current import StateSource

POLL = 0.5  # seconds
KEEP_ALIVE = 30  # polls without an event, after which a comment is sent
MOST_LINES = 2000  # of one poll
CHUNK = 1 << 20
BEFORE_ALL = "r0000"
_EVENT_ID = re.compile(r"(r[0-9]{4,9}):([0-9]{1,12})")


class UnknownPosition(Exception):
    """The log does not have this line: the run was pruned, or the log was repaired or replaced."""


@dataclass
class Position:
    """How far a page has read: the run, its last line, and where the next one begins in the file."""

    run: str = ""  # before the first run
    seq: int = 0
    offset: int = 0

    @property
    def id(self) -> str:
        """Of the last line that was read, as a stream names it; `r0000:0` before the first run."""
        return f"{self.run or BEFORE_ALL}:{self.seq}"


class LogFollower:
    """Reads the lines that were written after a position, run after run."""

    def __init__(self, state: WorkflowState, after: str | None) -> None:
        self.state = state
        self.position = self._end() if after is None else self._find(after)

    def _end(self) -> Position:
        runs = self.state.runs()
        if not runs:
            return Position()
        return self._at(runs[-1], last_seq(runs[-1].events_path))

    def _find(self, after: str) -> Position:
        if after == Position().id:
            return Position()
        wanted = _EVENT_ID.fullmatch(after)
        run = wanted and next((run for run in self.state.runs() if run.name == wanted[1]), None)
        if not wanted or run is None:
            raise UnknownPosition(after)
        return self._at(run, int(wanted[2]))

    def _at(self, run: RunRef, seq: int) -> Position:
        """After that many lines of a run."""
        position = Position(run.name)
        try:
            with run.events_path.open("rb") as file:
                while position.seq < seq and (line := file.readline()).endswith(b"\n"):
                    position.seq, position.offset = position.seq + 1, position.offset + len(line)
        except FileNotFoundError:
            pass
        if position.seq != seq:
            raise UnknownPosition(f"{run.name}:{seq}")
        return position

    def restart(self) -> None:
        """Go on from the present end."""
        self.position = self._end()

    def lines(self) -> list[tuple[str, dict[str, Any]]]:
        """(event id, fields) of the next lines. UnknownPosition if the log is no longer what was read."""
        found: list[tuple[str, dict[str, Any]]] = []
        runs = self.state.runs()
        if self.position.run and all(run.name != self.position.run for run in runs):
            raise UnknownPosition(self.position.run)
        for run in runs:
            if run.number < int(self.position.run[1:] or 0):
                continue
            if run.name != self.position.run:
                self.position = Position(run.name)
            self._read(run, found)
            if len(found) >= MOST_LINES:
                break
        return found

    def _read(self, run: RunRef, found: list[tuple[str, dict[str, Any]]]) -> None:
        at = self.position
        try:
            with run.events_path.open("rb") as file:
                if file.seek(0, 2) < at.offset:
                    raise UnknownPosition(f"{run.name}:{at.seq}")
                file.seek(at.offset)
                while len(found) < MOST_LINES and (line := file.readline()).endswith(b"\n"):
                    fields = fields_of(line)
                    if fields is None or fields.get("seq") != at.seq + 1:
                        raise UnknownPosition(f"{run.name}:{at.seq}")
                    at.seq, at.offset = at.seq + 1, at.offset + len(line)
                    found.append((f"{run.name}:{at.seq}", fields))
        except FileNotFoundError:
            return


def fields_of(line: bytes) -> dict[str, Any] | None:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None  # a line that a power loss has torn: the next run repairs it
    return fields if isinstance(fields, dict) and "event" in fields else None


def shown_event(fields: dict[str, Any]) -> dict[str, Any]:
    """One line of the log as the page gets it."""
    from whyrun.facts.history import event_details, status_of

    shown: dict[str, Any] = {
        name: fields[name] for name in ("seq", "ts", "event", "step_id", "attempt") if name in fields
    }
    status = status_of(fields)
    if status is not None:
        shown["status"] = status
    return {**shown, "text": event_details(fields)}


async def event_stream(source: StateSource, after: str | None, until: Callable[[], bool]) -> AsyncIterator[str]:
    """The text of the stream, until the server ends, or cancels it because the page is gone."""
    state = await asyncio.to_thread(source.state)
    try:
        follower = await asyncio.to_thread(LogFollower, state.project.state, after)
    except (UnknownPosition, WhyrunError):
        follower = await asyncio.to_thread(LogFollower, state.project.state, None)
        yield _reset(follower)
    version = state.version
    # With an id: after a loss of the connection the browser asks for what follows, also if no line has come yet.
    yield "retry: 1000\n\n" + _message("state", {"version": version}, follower.position.id)
    quiet = 0
    while not until():
        try:
            lines = await asyncio.to_thread(follower.lines)
        except UnknownPosition:
            await asyncio.to_thread(follower.restart)
            yield _reset(follower)
            lines = []
        for id_, fields in lines:
            yield _message("log", shown_event(fields), id_)
        state = await asyncio.to_thread(source.refresh)
        if state.version != version:
            version = state.version
            yield _message("state", {"version": version})
            quiet = 0
        elif lines:
            quiet = 0
        else:
            quiet += 1
            if quiet % KEEP_ALIVE == 0:
                yield ": still here\n\n"
        if len(lines) < MOST_LINES:
            await asyncio.sleep(POLL)


def _reset(follower: LogFollower) -> str:
    at = follower.position
    return _message("reset", {"run": at.run or None, "seq": at.seq}, at.id)


def _message(event: str, data: dict[str, Any], id_: str | None = None) -> str:
    head = f"id: {id_}\n" if id_ is not None else ""
    return f"{head}event: {event}\ndata: {json.dumps(data)}\n\n"
