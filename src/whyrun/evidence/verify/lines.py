"""Check the lines of one log: each is an event of this run, `seq` has no gaps, and the hash chain holds. Pure.

After a wrong line the check continues from the values of that line, so that each damage is reported once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256

import msgspec

from whyrun.evidence.verify.report import MORE_AFTER_THE_END, VerifyProblem
from whyrun.log.decoding import decoded
from whyrun.log.events import UNREADABLE, AnyEvent, RunComplete, RunStart
from whyrun.log.outcomes import lost_end

_KEY = b',"chain":"'
_TAIL = len(_KEY) + 64 + len(b'"}')  # the end of every line
_CHAIN = re.compile(rb',"chain":"([0-9a-f]{64})"\}')
_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)


class LineCheck:
    """Feed it the complete lines of one run's log, block by block.

    `chain`: the last link of the run before; None if that run is damaged or missing, which is reported already.
    `before`: the name of that run, for messages.
    """

    def __init__(
        self, file: str, session: str, chain: str | None, before: str, add: Callable[[VerifyProblem], None]
    ) -> None:
        self.file = file
        self.session = session
        self.chain: str | None = chain  # the last link that is known
        self.lines = 0
        self.damaged = False
        self.ended = False
        self._only_scraps = False  # no line after the end is an event
        self._before = before
        self._seq = 0
        self._add = add

    def feed(self, block: bytes) -> tuple[list[AnyEvent], Sequence[int]]:
        """The readable events of a block, nearly always all of them, and their line numbers."""
        lines = block.split(b"\n")
        lines.pop()  # the text after the last newline
        if self.lines and not self.ended:
            first = self.lines + 1
            events = self._sound(block, lines)
            if events is not None:
                return events, range(first, first + len(events))
        read: list[AnyEvent] = []
        numbers: list[int] = []
        for position, line in enumerate(lines):
            if self.ended and not self._only_scraps:
                # Checked once: usually nothing follows the end of a run.
                self._only_scraps = not any(map(_is_event, lines[position:]))
            event = self._line(line)
            if event is not None:
                read.append(event)
                numbers.append(self.lines)
        return read, numbers

    def _sound(self, block: bytes, lines: list[bytes]) -> list[AnyEvent] | None:
        """The fast path: all events at once; None if any of them has a problem."""
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
            if self.ended and self._only_scraps:  # an editor may append such lines; nothing of the run is lost
                self._report(f"{what}; it follows `run_complete`", hint=MORE_AFTER_THE_END)
                return None
            self._report(what)
            self._seq += 1
            self.chain = _written(line)
            return None
        if self.lines == 1:
            self._first(event)
        after, self._seq = self._seq, event.seq
        if self.ended:
            self._report("the line follows `run_complete`, the last event of a run", event)
        elif event.session != self.session:
            self._report("the line belongs to another run", event, self.session, event.session)
        elif event.seq != after + 1:
            what = "lines are lost, duplicated or moved: this one has an unexpected `seq`"
            self._report(what, event, str(after + 1), str(event.seq))
        else:
            self._follows(line, event)
        self.chain = _written(line)
        self.ended = self.ended or type(event) is RunComplete
        return event

    def _first(self, event: AnyEvent) -> None:
        if not isinstance(event, RunStart):
            self._report("the log does not begin with `run_start`", event)
        elif self.chain not in (None, event.previous_chain):
            what = f"the run does not follow {self._before} (`previous_chain`): a run was removed, replaced or changed"
            self._report(what, event, self.chain, event.previous_chain)
            self.chain = event.previous_chain
        elif self.chain is None:
            self.chain = event.previous_chain

    def _follows(self, line: bytes, event: AnyEvent) -> None:
        written = _written(line)
        if written is None:
            self._report("the line does not end in its `chain`", event)
        elif self.chain is not None:
            expected = sha256(self.chain.encode() + line[:-_TAIL]).hexdigest()
            if written != expected:
                what = "the line, or the one before it, was changed (`chain`)"
                self._report(what, event, expected, written)

    def _report(
        self,
        what: str,
        event: AnyEvent | None = None,
        expected: str | None = None,
        found: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.damaged = True
        name, subject = (None, None) if event is None else described(event)
        self._add(
            VerifyProblem("log", self.session, self.file, what, self.lines, name, subject, expected, found, hint=hint)
        )


@dataclass(frozen=True, slots=True)
class LogEnd:
    """How a log ends: a problem, a note, or neither."""

    problem: VerifyProblem | None = None
    note: str | None = None


def check_end(log: LineCheck, torn: int, *, ended: bool, repaired: bool, is_last: bool, has_status: bool) -> LogEnd:
    """`torn`: bytes after the last newline. `ended`, `repaired`: the log has a `run_complete`, a `log_repaired`.
    `has_status`: the run had a `status.json` before its log was read. The traces of a kill are not damage."""
    lost = lost_end(ended=ended, has_status=has_status, is_last=is_last)
    if lost is not None:
        return LogEnd(
            VerifyProblem("log", log.session, log.file, lost.what, log.lines, hint=lost.hint if is_last else None)
        )
    if not ended:
        half = f", and its log ends in half a line ({torn} bytes)" if torn else ""
        return LogEnd(note=f"{log.session} was interrupted{half}: as after a kill; the next run repairs it")
    if torn and repaired:  # the repair was killed before it cut them off
        return LogEnd(note=f"{torn} bytes that a kill left follow the end of {log.session}; they are ignored")
    if torn:
        what = f"{torn} bytes follow the last line, after `run_complete`, which a kill cannot cause"
        return LogEnd(VerifyProblem("log", log.session, log.file, what, log.lines + 1, hint=MORE_AFTER_THE_END))
    return LogEnd()


def tombstone_problem(
    run: str, previous_chain: str, file: str, line: int, chain: str | None, before: str
) -> VerifyProblem | None:
    """The problem of a pruned run that does not follow the run before it. `chain`, `before`: as for `LineCheck`."""
    if chain in (None, previous_chain):
        return None
    what = f"the pruned run does not follow {before} (`previous_chain`): that was removed, replaced or changed"
    return VerifyProblem("log", run, file, what, line, expected=chain, found=previous_chain)


def described(event: AnyEvent) -> tuple[str, str | None]:
    """The name of an event, and the ID or path that it is about."""
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
    match = _CHAIN.fullmatch(line[-_TAIL:])
    return match[1].decode() if match is not None else None
