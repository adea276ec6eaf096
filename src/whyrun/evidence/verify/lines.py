"""The lines of one log, checked: each is an event of this run, numbered without gaps, and follows from the one before.
[pure]

After a line that is wrong the check goes on from what that line itself says, so that each damage is told where it is
and not again with every line after it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256

import msgspec

from whyrun.evidence.verify_report import MORE_AFTER_THE_END, Problem
from whyrun.log.decoding import decoded
from whyrun.log.events import UNREADABLE, AnyEvent, RunComplete, RunStart
from whyrun.log.outcomes import lost_end

_KEY = b',"chain":"'
_TAIL = len(_KEY) + 64 + len(b'"}')  # the end of every line
_CHAIN = re.compile(rb',"chain":"([0-9a-f]{64})"\}')
_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)


class LineCheck:
    """Feed it the complete lines of one run's log, block by block.

    `chain` is what the run must continue, which `before` says in words (None: what came before is damaged, or gone,
    and told already).
    """

    def __init__(self, file: str, session: str, chain: str | None, before: str, add: Callable[[Problem], None]) -> None:
        self.file = file
        self.session = session
        self.chain: str | None = chain  # the last link that is known
        self.lines = 0
        self.damaged = False
        self.ended = False
        self._only_scraps = False  # follow the end: no line of them is an event
        self._before = before
        self._seq = 0
        self._add = add

    def feed(self, block: bytes) -> tuple[list[AnyEvent], Sequence[int]]:
        """The events of a block that can be read, nearly always all of them; and the numbers of their lines."""
        lines = block.split(b"\n")
        lines.pop()  # what follows the last newline
        if self.lines and not self.ended:
            first = self.lines + 1
            events = self._sound(block, lines)
            if events is not None:
                return events, range(first, first + len(events))
        read: list[AnyEvent] = []
        numbers: list[int] = []
        for position, line in enumerate(lines):
            if self.ended and not self._only_scraps:
                # Asked once: what follows the end of a run is nearly always nothing.
                self._only_scraps = not any(map(_is_event, lines[position:]))
            event = self._line(line)
            if event is not None:
                read.append(event)
                numbers.append(self.lines)
        return read, numbers

    def _sound(self, block: bytes, lines: list[bytes]) -> list[AnyEvent] | None:
        """All events at once; None if there is anything to tell of them."""
        try:
            events = decoded(_decoder.decode_lines, block)
        except UNREADABLE:
            return None
        first = self._seq + 1
        if [event.seq for event in events] != list(range(first, first + len(lines))):
            return None
        if {event.session for event in events} != {self.session} or self.chain is None:
            return None
        if any(type(event) is RunComplete for event in events[:-1]):
            return None
        link = self.chain.encode()
        for line in lines:
            link = sha256(link + line[:-_TAIL]).hexdigest().encode()
            if line[-_TAIL:] != b'%b%b"}' % (_KEY, link):
                return None
        self.chain = link.decode()
        self.lines += len(lines)
        self._seq += len(lines)
        self.ended = type(events[-1]) is RunComplete
        return events

    def _line(self, line: bytes) -> AnyEvent | None:
        self.lines += 1
        try:
            event = decoded(_decoder.decode, line)
        except UNREADABLE as wrong:
            what = f"the line is broken: {wrong}" if line else "the line is empty"
            if self.ended and self._only_scraps:  # as an editor leaves them: all that the run wrote is there
                self._tell(f"{what}; it stands after `run_complete`", hint=MORE_AFTER_THE_END)
                return None
            self._tell(what)
            self._seq += 1
            self.chain = _written(line)
            return None
        if self.lines == 1:
            self._first(event)
        after, self._seq = self._seq, event.seq
        if self.ended:
            self._tell("the line stands after `run_complete`, where no run writes", event)
        elif event.session != self.session:
            self._tell("the line belongs to another run", event, self.session, event.session)
        elif event.seq != after + 1:
            what = "lines are lost, doubled or moved: this one has another `seq` than it should"
            self._tell(what, event, str(after + 1), str(event.seq))
        else:
            self._follows(line, event)
        self.chain = _written(line)
        self.ended = self.ended or type(event) is RunComplete
        return event

    def _first(self, event: AnyEvent) -> None:
        if not isinstance(event, RunStart):
            self._tell("the log does not begin with `run_start`", event)
        elif self.chain not in (None, event.previous_chain):
            what = f"the run does not follow {self._before} (`previous_chain`): a run was removed, replaced or changed"
            self._tell(what, event, self.chain, event.previous_chain)
            self.chain = event.previous_chain
        elif self.chain is None:
            self.chain = event.previous_chain

    def _follows(self, line: bytes, event: AnyEvent) -> None:
        written = _written(line)
        if written is None:
            self._tell("the line does not end in its `chain`", event)
        elif self.chain is not None:
            expected = sha256(self.chain.encode() + line[:-_TAIL]).hexdigest()
            if written != expected:
                what = "the line, or the one before it, is not as it was written (`chain`)"
                self._tell(what, event, expected, written)

    def _tell(
        self,
        what: str,
        event: AnyEvent | None = None,
        expected: str | None = None,
        found: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.damaged = True
        name, subject = (None, None) if event is None else described(event)
        self._add(Problem("log", self.session, self.file, what, self.lines, name, subject, expected, found, hint=hint))


@dataclass(frozen=True, slots=True)
class LogEnd:
    """What is to be said of how a log ends: damage, something worth knowing, or nothing."""

    problem: Problem | None = None
    note: str | None = None


def judged_end(log: LineCheck, torn: int, *, ended: bool, repaired: bool, is_last: bool, has_status: bool) -> LogEnd:
    """`torn`: bytes after the last newline. `ended`, `repaired`: the log has a `run_complete`, a `log_repaired`.
    `has_status`: the run had a `status.json` before its log was read. What a kill leaves is no damage."""
    lost = lost_end(ended=ended, has_status=has_status, is_last=is_last)
    if lost is not None:
        return LogEnd(Problem("log", log.session, log.file, lost.what, log.lines, hint=lost.hint if is_last else None))
    if not ended:
        half = f", and its log ends in half a line ({torn} bytes)" if torn else ""
        return LogEnd(note=f"{log.session} was interrupted{half}: what a kill leaves, and the next run repairs")
    if torn and repaired:  # a kill of the repair, right before its last act
        return LogEnd(note=f"{torn} bytes that a kill left stand after the end of {log.session}; nobody reads them")
    if torn:
        what = f"{torn} bytes follow the last line, after `run_complete`, where no kill leaves any"
        return LogEnd(Problem("log", log.session, log.file, what, log.lines + 1, hint=MORE_AFTER_THE_END))
    return LogEnd()


def misplaced_stone(
    run: str, previous_chain: str, file: str, line: int, chain: str | None, before: str
) -> Problem | None:
    """Whether a pruned run follows the one before it. `chain` and `before` are as for a `LineCheck`."""
    if chain in (None, previous_chain):
        return None
    what = f"the pruned run does not follow {before} (`previous_chain`): that was removed, replaced or changed"
    return Problem("log", run, file, what, line, expected=chain, found=previous_chain)


def described(event: AnyEvent) -> tuple[str, str | None]:
    """What an event is called, and the ID of what it tells of."""
    name = str(type(event).__struct_config__.tag)
    for field in ("artifact", "step_id", "id", "path"):
        subject = getattr(event, field, None)
        if isinstance(subject, str):
            return name, subject
    return name, None


def _is_event(line: bytes) -> bool:
    try:
        _decoder.decode(line)
    except UNREADABLE:
        return False
    return True


def _written(line: bytes) -> str | None:
    found = _CHAIN.fullmatch(line[-_TAIL:])
    return found[1].decode() if found is not None else None
