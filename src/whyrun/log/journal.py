"""The event log of one run on disk: `events.jsonl`, one JSON object a line, chained.

    {"seq":1,"ts":"2026-06-23T12:03:23.123456Z","session":"r0001","event":"run_start",…,"chain":"<sha256>"}

`chain` = sha256(previous chain + the line up to `,"chain"`). The first run of a workflow continues 64 zeros, each later
run the last chain of the run before it (which its `run_start` repeats as `previous_chain`).

Only a lock holder writes. Readers ignore what follows the last newline; any other broken line is LOG_DAMAGED.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import cache, lru_cache

import msgspec

from whyrun import disk
from whyrun.disk import Area
from whyrun.errors import WhyrunError, error
from whyrun.lazy_regex import lazy_regex
from whyrun.log.decoding import decoded
from whyrun.log.events import DAMAGE_HINT, UNREADABLE, AnyEvent, Event, RunStart
from whyrun.log.sync_mark import lines_synced

FIRST_CHAIN = "0" * 64
EVENTS_FILE = "events.jsonl"
STAGES_FILE = "stages.jsonl"  # only of a run in which loops over results became known
STATUS_FILE = "status.json"  # the last thing that completing a run folder writes, after all else is synced
CHUNK = 4 << 20
RUN_NAME = lazy_regex(r"r(?!0000)[0-9]{4,}")

_CHAIN_KEY = b',"chain":"'
_CHAIN_TAIL = len(_CHAIN_KEY) + 64 + len(b'"}')  # the end of every line
_HEX = lazy_regex(rb"[0-9a-f]{64}")
_TIME = lazy_regex(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)

LONGEST_LINE = 64 << 20  # bytes of an event: ten times the largest one seen

_encode = msgspec.json.Encoder().encode


@cache  # made late: it takes a while, and many commands do not need it
def _decoder() -> msgspec.json.Decoder[AnyEvent]:
    return msgspec.json.Decoder(AnyEvent)


Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The clock of a real run."""
    return datetime.now(UTC)


def timestamp(moment: datetime) -> str:
    """UTC, ISO, microseconds. A time without a zone is ambiguous and refused."""
    if moment.tzinfo is not UTC:
        if moment.tzinfo is None:
            raise ValueError("a time in the log needs a zone")
        moment = moment.astimezone(UTC)
    second = _second(moment.year, moment.month, moment.day, moment.hour, moment.minute, moment.second)
    return f"{second}.{moment.microsecond:06d}Z"


@lru_cache(maxsize=8)
def _second(year: int, month: int, day: int, hour: int, minute: int, second: int) -> str:
    """The part of a time that many events share. `isoformat` would take a quarter of the time of an event."""
    return f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}"


def parse_timestamp(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        hint = "Whyrun guesses nothing from a damaged log; `whyrun verify` lists the damage"
        raise error("LOG_DAMAGED", f"an event has `{text:.60}` where its time should be", hint=hint) from None


def check(event: Event) -> bytes:
    """The record as JSON; raises TypeError or ValueError if it would not be read back as the same record.

    Encoding alone would accept values of the wrong type, and turn NaN into null and number keys into strings.
    """
    if event.seq or event.ts or event.session or event.chain:
        raise ValueError("seq, ts, session and chain are given by the journal alone")
    encoded = _encode(event)
    if len(encoded) > LONGEST_LINE:
        raise ValueError(f"{type(event).__name__} has {len(encoded)} bytes: no reader would accept it as an event")
    try:
        same = _decoder().decode(encoded) == event
    except msgspec.ValidationError as wrong:
        raise TypeError(f"{type(event).__name__} does not fit its type: {wrong}") from None
    if not same:
        raise ValueError(f"{type(event).__name__} would not be read back as it is: {event!r}")
    return encoded


class Journal:
    """Appends to one run's log. `append` only buffers; `flush` is one `write`; `sync` makes it last."""

    def __init__(self, descriptor: int, session: str, seq: int, chain: str, clock: Clock) -> None:
        self.session = session
        self.seq = seq  # of the last event
        self.chain = chain  # of the last event
        self.on_synced: Callable[[int, bool], None] | None = None  # see `is_synced`
        self._descriptor = descriptor
        self._clock = clock
        self._lines: list[bytes] = []
        self._unsyncable: OSError | None = None
        self._head = f',"session":{_encode(session).decode()},'

    @classmethod
    def create(cls, run_dir: str | os.PathLike[str], session: str, previous_chain: str, clock: Clock) -> Journal:
        """A new, empty log in this folder; there must be none yet."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        descriptor = disk.open(Area.LOG, os.path.join(run_dir, EVENTS_FILE), flags)
        return cls(descriptor, session, 0, previous_chain, clock)

    @classmethod
    def resume(
        cls, run_dir: str | os.PathLike[str], session: str, seq: int, chain: str, offset: int, clock: Clock
    ) -> Journal:
        """Continue after the first `offset` bytes of a log, for the repair. `cut` removes the rest."""
        descriptor = disk.open(Area.LOG, os.path.join(run_dir, EVENTS_FILE), os.O_WRONLY)
        os.lseek(descriptor, offset, os.SEEK_SET)
        return cls(descriptor, session, seq, chain, clock)

    def append(self, event: Event, ts: str | None = None) -> str:
        """Add an event, with the time of a worker's clock (`ts`) or the own one; returns that time."""
        record = check(event)
        if ts is None:
            ts = timestamp(self._clock())
        elif _TIME.fullmatch(ts) is None:
            raise ValueError(f"not a time of the log: {ts!r}")
        seq = self.seq + 1
        line = f'{{"seq":{seq},"ts":"{ts}"{self._head}'.encode() + record[1:-1]
        chain = hashlib.sha256(self.chain.encode() + line).hexdigest()
        self._lines.append(b'%b,"chain":"%b"}\n' % (line, chain.encode()))
        self.seq, self.chain = seq, chain
        return ts

    def flush(self) -> None:
        """Write all that was appended, in one system call. Data that could not be written stays in the buffer."""
        if not self._lines:
            return
        data = b"".join(self._lines)
        self._lines = [data]
        written = disk.write_some(Area.LOG, self._descriptor, data)
        while written < len(data):
            self._lines = [data[written:]]
            written += disk.write_some(Area.LOG, self._descriptor, self._lines[0])
        self._lines = []

    def sync(self) -> None:
        """All that was appended is on disk when this returns."""
        self.flush()
        self.sync_written()

    def sync_written(self) -> None:
        """All that was flushed is on disk when this returns. Another thread may append events meanwhile.

        After one failure every later call fails: the system may have dropped the data that it could not write, so a
        later fsync would succeed although the data is lost.
        """
        if self._unsyncable is not None:
            raise OSError(self._unsyncable.errno, self._unsyncable.strerror, self._unsyncable.filename)
        try:
            disk.sync(Area.LOG, self._descriptor)
        except OSError as problem:
            self._unsyncable = problem
            raise

    def cannot_sync(self, problem: OSError) -> None:
        """Files that events refer to could not be synced: from now on no event counts as synced."""
        self._unsyncable = self._unsyncable or problem

    def is_synced(self, seq: int, *, for_good: bool = False) -> None:
        """The caller has synced all events up to this one, and the files that they refer to.

        `for_good`: something relies on it from now on, so the sync mark itself must survive a power loss.
        """
        if self.on_synced is not None:
            self.on_synced(seq, for_good)

    def cut(self) -> None:
        """Truncate the file after the last line written."""
        self.flush()
        disk.cut(Area.LOG, self._descriptor, os.lseek(self._descriptor, 0, os.SEEK_CUR))

    def close(self) -> None:
        """Flush and close. Closing twice is harmless."""
        if self._descriptor < 0:
            return
        try:
            self.flush()
        finally:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


# --- reading -----------------------------------------------------------------------------------------------------


def read_events(path: str | os.PathLike[str], session: str | None = None) -> Iterator[AnyEvent]:
    """The events of one run, in order."""
    for chunk in read_event_chunks(path, session):
        yield from chunk


def read_event_chunks(path: str | os.PathLike[str], session: str | None = None) -> Iterator[list[AnyEvent]]:
    """The same in lists, for folds of a million events.

    `session` is the expected run; by default the name of the folder, or else that of the first line.
    """
    file = os.fspath(path)
    if session is None:
        folder = os.path.basename(os.path.dirname(os.path.abspath(file)))
        session = folder if RUN_NAME.fullmatch(folder) else None
    seq = 0
    for block in read_blocks(file):
        try:
            events = decoded(_decoder().decode_lines, block)
        except UNREADABLE:
            raise _find_damage(file, block, seq) from None
        if session is None:
            session = events[0].session
        # The seq numbers the lines, so this finds lost and doubled lines as well as blank ones.
        if (
            len(events) != block.count(b"\n")
            or [event.seq for event in events] != list(range(seq + 1, seq + 1 + len(events)))
            or {event.session for event in events} != {session}
        ):
            raise _find_misplaced(file, block, seq, session)
        seq += len(events)
        yield events


def read_blocks(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """The complete lines of a log in blocks of about 4 MB, without what follows the last newline.

    In a run that has not ended, lines from the first zero byte on are left out, too: see `torn_from`. If a line is
    missing that was synced, the log is damaged.
    """
    synced = lines_synced(path)
    missing = synced  # synced lines that were not read yet
    rest, too_long, torn = b"", False, None
    with open(path, "rb", buffering=0) as file:
        while data := file.read(CHUNK):
            end = data.rfind(b"\n") + 1
            if end and too_long:
                raise _too_long(path, file.tell() - len(data))
            if end:
                block = rest + data[:end]
                torn = torn_from(path, block)
                block = block if torn is None else block[:torn]
                if missing > 0:
                    missing -= block.count(b"\n")
                if block:
                    yield block
                if torn is not None:
                    break
                rest = data[end:]
            elif len(rest) + len(data) > LONGEST_LINE:
                rest, too_long = b"", True  # without a newline it is a torn tail, however long
            elif not too_long:
                rest += data
    if missing > 0:
        lines, certain = synced - missing, f"was synced up to line {synced}"
        if torn is not None:
            raise damaged(path, lines + 1, f"the line has a zero byte, but the log {certain}: its content is lost")
        raise damaged(path, lines or None, f"the log has {lines} lines, but {certain}: its end was cut off")


def torn_from(path: str | os.PathLike[str], block: bytes) -> int | None:
    """Where in these lines a tail begins that a power loss has torn; None if nowhere.

    Pages that did not reach the disk read as zeros, and no event has a zero byte. A run with a complete folder or a
    later run was synced to its end: there a zero byte is damage.
    """
    at = block.find(b"\0")
    if at == -1 or _was_synced(path):
        return None
    return block.rfind(b"\n", 0, at) + 1


def _was_synced(path: str | os.PathLike[str]) -> bool:
    folder = os.path.dirname(path)
    if os.path.exists(os.path.join(folder, STATUS_FILE)):
        return True
    runs, name = os.path.split(os.path.abspath(folder))
    return RUN_NAME.fullmatch(name) is not None and os.path.exists(f"{runs}/r{int(name[1:]) + 1:04d}")


def read_raw_lines(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """The bytes of the complete lines, without their newlines."""
    for block in read_blocks(path):
        yield from block[:-1].split(b"\n")


def last_line(path: str | os.PathLike[str]) -> bytes | None:
    """The last complete line, read from the end of the file; None if there is none."""
    if not _was_synced(path) and _has_zeros(path):
        return _last_of_all(path)
    with open(path, "rb", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        span = 8192
        while True:
            start = max(0, size - span)
            file.seek(start)
            tail = file.read(size - start)
            end = tail.rfind(b"\n")
            begin = tail.rfind(b"\n", 0, end) if end != -1 else -1
            if begin != -1 or start == 0:
                return tail[begin + 1 : end] if end != -1 else None
            if span == 2 * LONGEST_LINE:
                return _last_of_all(path)  # a very long torn tail, which is left out; or a line that is refused
            span = min(8 * span, 2 * LONGEST_LINE)


def _last_of_all(path: str | os.PathLike[str]) -> bytes | None:
    last = None
    for last in read_raw_lines(path):  # noqa: B007 - only the last one is kept
        pass
    return last


def _has_zeros(path: str | os.PathLike[str]) -> bool:
    with open(path, "rb", buffering=0) as file:
        return any(b"\0" in data for data in iter(lambda: file.read(CHUNK), b""))


def last_event(path: str | os.PathLike[str]) -> AnyEvent | None:
    """The last complete event; None in a log without one."""
    line = last_line(path)
    if line is None:
        return None
    try:
        event = decoded(_decoder().decode, line)
    except UNREADABLE as wrong:
        number = sum(block.count(b"\n") for block in read_blocks(path))
        raise damaged(path, number, f"the line is broken: {wrong}") from None
    if _HEX.fullmatch(event.chain.encode()) is None:
        raise damaged(path, event.seq, "the line has no chain")
    return event


def last_chain(path: str | os.PathLike[str]) -> str | None:
    event = last_event(path)
    return None if event is None else event.chain


def check_chain(paths: Iterable[str | os.PathLike[str]], chain: str = FIRST_CHAIN) -> str:
    """Verify the chain of a workflow's runs, given in order, and return its last link. Raises LOG_DAMAGED.

    `chain`: the chain that the first of them continues, if it is not the first run.
    """
    for path in paths:
        for number, line in enumerate(read_raw_lines(path), 1):
            body, tail = line[:-_CHAIN_TAIL], line[-_CHAIN_TAIL:]
            expected = hashlib.sha256(chain.encode() + body).hexdigest()
            if number == 1:
                _check_first(path, line, chain)
            if tail != b'%b%b"}' % (_CHAIN_KEY, expected.encode()):
                raise damaged(path, number, "the line does not follow from the one before it (`chain`)")
            chain = expected
    return chain


def _check_first(path: str | os.PathLike[str], line: bytes, chain: str) -> None:
    try:
        first = decoded(_decoder().decode, line)
    except UNREADABLE as wrong:
        raise damaged(path, 1, str(wrong)) from None
    if isinstance(first, RunStart) and first.previous_chain != chain:
        raise damaged(path, 1, "the run does not follow the one before it (`previous_chain`): a run is lost or changed")


# --- damage ------------------------------------------------------------------------------------------------------


def damaged(path: str | os.PathLike[str], line: int | None, what: str) -> WhyrunError:
    return error("LOG_DAMAGED", what, file=os.fspath(path), line=line, hint=DAMAGE_HINT)


def _too_long(path: str | os.PathLike[str], before: int) -> WhyrunError:
    """`before`: a position inside the line."""
    lines = 0
    with open(path, "rb", buffering=0) as file:
        while before > 0 and (data := file.read(min(CHUNK, before))):
            lines, before = lines + data.count(b"\n"), before - len(data)
    return damaged(path, lines + 1, f"the line is longer than {LONGEST_LINE >> 20} MB; no event is that long")


def _find_damage(path: str, block: bytes, before: int) -> WhyrunError:
    for number, line in enumerate(block[:-1].split(b"\n"), before + 1):
        try:
            decoded(_decoder().decode, line)
        except UNREADABLE as wrong:
            return damaged(path, number, f"the line is broken: {wrong}")
    return damaged(path, None, "the log is broken")


def _find_misplaced(path: str, block: bytes, before: int, session: str) -> WhyrunError:
    for number, line in enumerate(block[:-1].split(b"\n"), before + 1):
        try:
            event = decoded(_decoder().decode, line)
        except UNREADABLE as wrong:
            return damaged(path, number, f"the line is broken: {wrong}")
        wrong_place = misplaced(event.session, event.seq, session, number)
        if wrong_place is not None:
            return damaged(path, number, wrong_place)
    return damaged(path, None, "the log is broken")


def misplaced(session: object, seq: object, run: str, number: int) -> str | None:
    """Why a line with this session and seq is not line `number` of the log of this run, or None."""
    if session != run:
        return f"the line belongs to `{session}`, not to `{run}`"
    if seq != number:
        return f"the line has seq {seq}, not {number}: lines are lost or duplicated"
    return None
