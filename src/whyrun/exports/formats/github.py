"""GitHub Actions: the summary of a job in Markdown, and annotations as workflow commands on stdout.

GitHub shows ten annotations of a kind and takes 1 MiB of summary. Foreign text must not be read as a command: in
commands it is escaped, and a summary on stdout stands between `::stop-commands::` and its token. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from whyrun.console.lines import count
from whyrun.exports.formats.markdown import markdown, state_text
from whyrun.exports.record import Rendered, RunRecord, Step, Subject
from whyrun.exports.texts import cut

MOST = 10  # annotations of a kind
_LONGEST = 2000  # characters of an annotation
# Which steps are told, and how.
_KINDS = {
    "error": ("failed", "timed_out", "different"),
    "warning": ("interrupted", "blocked", "held", "not_started", "running"),
}


def render(subject: Subject) -> Rendered:
    return github(subject.record(), subject.link)


def github(record: RunRecord, link: str = "") -> Rendered:
    summary = markdown(record, link)
    said = "".join(f"{line}\n" for line in _annotations(record)).encode()
    token = hashlib.sha256(summary).hexdigest()  # nothing in the summary can have its own hash
    printed = said + f"::stop-commands::{token}\n".encode() + summary + f"::{token}::\n".encode()
    return Rendered(summary, said, printed)


def _annotations(record: RunRecord) -> Iterator[str]:
    steps = record.ordered()
    for kind, statuses in _KINDS.items():
        chosen = [step for step in steps if step.status in statuses]
        if kind == "warning" and record.unfinished:
            yield _command(kind, f"{record.workflow} {record.run}", state_text(record))
        if kind == "error" and not chosen and record.outcome == "failed":
            yield _command(kind, f"{record.workflow} {record.run}", record.error or "the run failed")
        room = MOST - (kind == "warning" and record.unfinished)
        shown = chosen if len(chosen) <= room else chosen[: room - 1]
        for step in shown:
            yield _command(kind, f"{step.id} {step.status.replace('_', ' ')}", _text(step))
        if len(chosen) > len(shown):
            rest = count(len(chosen) - len(shown), "further step")
            yield _command(kind, f"{record.workflow} {record.run}", f"{rest}: the job summary lists them")


def _text(step: Step) -> str:
    different = [f"{one.artifact} differs from {one.against}: {one.summary}" for one in step.compared
                 if one.status == "DIFFERENT"]  # fmt: skip
    reasons = [f"{code}  {text}".rstrip() for code, text in step.reasons[:5]]
    return "\n".join([*filter(None, (step.error, step.note)), *different, *reasons]) or step.status.replace("_", " ")


def _command(kind: str, title: str, text: str) -> str:
    return f"::{kind} title={_property(title)}::{_data(cut(text, _LONGEST))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
