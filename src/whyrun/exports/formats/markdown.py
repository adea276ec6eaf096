"""A summary of a run in Markdown, for a merge request or a lab book. No images, and no links but that to the report.

Text of others stands in code spans, so that it is neither markup nor a mention. At most 1 MiB, because GitHub takes no
more; what does not fit is counted. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from whyrun.console.lines import count, seconds
from whyrun.exports.record import BAD, Rendered, RunRecord, Step, Subject
from whyrun.exports.texts import cut

MOST_BYTES = 1 << 20
ROWS = 1000  # of a table
_CELL = 300  # characters of foreign text in a table
_TRACEBACK = 4000
_ROOM = 200  # bytes for the line that counts what is left out
_WORDS = {"timed_out": "timed out", "not_started": "not started", "held": "held back"}
_TICKS = re.compile("`+")


def render(subject: Subject) -> Rendered:
    return Rendered(markdown(subject.record(), subject.link))


def markdown(record: RunRecord, link: str = "", most: int = MOST_BYTES) -> bytes:
    """Blocks of lines, as many as fit. A row of a table is a block of its own; a failure is cut as a whole."""
    kept: list[str] = []
    room, left_out = most - _ROOM, 0
    for block in _blocks(record, link):
        size = len(block.encode()) + 1
        if left_out or size > room:
            left_out += 1
        else:
            kept.append(block)
            room -= size
    if left_out:
        kept.append(f"\n… {count(left_out, 'further row')}: `whyrun show {record.run}` and `whyrun log` have them all.")
    return "\n".join(kept).encode() + b"\n"


def _blocks(record: RunRecord, link: str) -> Iterator[str]:
    yield f"## {code(record.workflow)} {record.run}: {state_text(record)}\n"
    yield _headline(record)
    if record.without_plan:
        yield f"\n{record.without_plan.capitalize()}."
    if link:
        yield f"\n[Report](<{_url(link)}>)"
    if record.error and not _failures(record):
        yield f"\n{code(cut(record.error, _CELL))}"
    steps = record.ordered()
    if steps:
        spends = any(step.spent() for step in steps)
        yield "\n| job | status | why | time |" + (" cost |" if spends else "")
        yield "|---|---|---|---|" + ("---|" if spends else "")
        for step in steps[:ROWS]:
            yield _row(step, spends)
        if len(steps) > ROWS:
            yield f"| … {count(len(steps) - ROWS, 'further step')} | | | |" + (" |" if spends else "")
    for number, step in enumerate(_failures(record)):
        yield ("\n### What went wrong\n\n" if number == 0 else "") + "\n".join(_failure(step))


def state_text(record: RunRecord) -> str:
    if record.unfinished:
        return "still running (unfinished)" if record.state == "running" else "interrupted (unfinished)"
    return record.outcome


def _headline(record: RunRecord) -> str:
    parts = [f"{number} {_WORDS.get(status, status)}" for status, number in record.counts().items()]
    if record.up_to_date:
        parts.append(f"{record.up_to_date} up to date")
    text = ", ".join(parts) or "nothing to do"
    if record.duration is not None:
        text += f"; {seconds(record.duration)}"
    spent = record.spent().text()
    text += f"; spent {spent}" if spent else ""
    return f"{text}. Mode `{record.mode}`, backend {code(record.backend)}, started {record.started[:19]}Z."


def _row(step: Step, spends: bool) -> str:
    cells = [code(step.id), _WORDS.get(step.status, step.status), _why(step)]
    cells.append("" if step.seconds is None else seconds(step.seconds))
    if spends:
        cells.append(step.spent().text().replace("$", r"\$"))  # two of them would be a formula
    if step.retries:
        cells[1] += f" ({count(len(step.attempts), 'attempt')})"
    return f"| {' | '.join(cells)} |"


def _why(step: Step) -> str:
    told: dict[str, list[str]] = {}
    for reason, text in step.reasons:
        told.setdefault(reason, []).append(text)
    parts = []
    for reason, texts in told.items():
        more = f" and {len(texts) - 2} more" if len(texts) > 2 else ""
        shown = ", ".join(code(cut(text, _CELL), in_table=True) for text in texts[:2] if text)
        parts.append(f"`{reason}` {shown}{more}".rstrip())
    if step.note:
        parts.append(code(cut(step.note, _CELL), in_table=True))
    return "; ".join(parts)


def _failures(record: RunRecord) -> list[Step]:
    return [step for step in record.ordered() if step.status in BAD and (step.error or step.note or step.compared)]


def _failure(step: Step) -> Iterator[str]:
    status = _WORDS.get(step.status, step.status)
    said = f": {code(cut(step.error or step.note, 1000))}" if step.error or step.note else ""
    yield f"- {code(step.id)} {status}{said}"
    for one in step.compared:
        if one.status == "DIFFERENT":
            yield f"  - {code(one.artifact)} differs from {one.against}: {code(cut(one.summary, _CELL))}"
            yield from (f"    - {code(cut(line, _CELL))}" for line in one.details[:10])
    if step.last is not None and (traceback := step.last.traceback.strip("\n")):
        text = traceback if len(traceback) <= _TRACEBACK else f"…{traceback[-_TRACEBACK:]}"
        fence = "`" * max(3, 1 + max((len(ticks) for ticks in _TICKS.findall(text)), default=0))
        yield from (f"  {line}".rstrip() for line in ["", f"{fence}text", *text.split("\n"), fence, ""])


def code(text: str, *, in_table: bool = False) -> str:
    """A code span, in which nothing is markup. In a table, `|` would end the cell also within it."""
    text = " ".join(text.split()) or " "
    ticks = "`" * (1 + max((len(ticks) for ticks in _TICKS.findall(text)), default=0))
    blank = " " if text.startswith("`") or text.endswith("`") else ""
    text = text.replace("|", r"\|") if in_table else text
    return f"{ticks}{blank}{text}{blank}{ticks}"


def _url(link: str) -> str:
    return "".join(
        letter if letter.isprintable() and letter not in "<> \\" else f"%{ord(letter):02X}" for letter in link
    )
