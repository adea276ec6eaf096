"""Describes a failed step: error type, message and traceback. A problem in here never hides the error itself."""

from __future__ import annotations

import os
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace

import whyrun
from whyrun.errors import WhyrunError

STORE_DAMAGED = "StoreDamaged"
MADE_AGAIN = "such bytes are removed, and the next run takes them from elsewhere or makes them again"

_TYPE_LIMIT = 256
_ERROR_LIMIT = 16_000
_TRACEBACK_LIMIT = 4_000_000  # keeps even a long one whole
_OWN_CODE = os.path.dirname(os.path.abspath(whyrun.__file__)) + os.sep
_MACHINERY = ("<frozen importlib", "<frozen runpy", os.path.join(os.path.dirname(os.__file__), "runpy.py"))


class StepError(Exception):
    """A failure that Whyrun itself finds. `kind` is its error type in the log."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def store_damaged(what: str) -> StepError:
    """A stored input of the step is damaged. The host removes it (`ReusableResults.drop_damaged`), wherever the step
    ran."""
    return StepError(STORE_DAMAGED, f"{what}; {MADE_AGAIN}")


@dataclass(frozen=True, slots=True)
class Failure:
    error_type: str
    error: str
    traceback: str

    def also(self, doing: str, second: BaseException) -> Failure:
        """The same failure, with a note on a second problem while it was handled."""
        note = f"\nWhile {doing}, also: {_message(second)} ({type(second).__name__})\n"
        return replace(self, traceback=self.traceback + utf8(note))

    def beside(self, note: str) -> Failure:
        """The same failure, with a note on a possible cause."""
        return replace(self, traceback=self.traceback + utf8(f"\nAlso: {note}\n"))

    def shortened(self) -> Failure:
        kind, error = _cut(self.error_type, _TYPE_LIMIT), _cut(self.error, _ERROR_LIMIT)
        return Failure(kind, error, _cut(self.traceback, _TRACEBACK_LIMIT))


def failure_of(problem: BaseException) -> Failure:
    """The failure for an exception. The traceback omits Whyrun's own frames."""
    if isinstance(problem, WhyrunError) and problem.diagnostics[0].code == "STORE_DAMAGED":
        problem = store_damaged(problem.diagnostics[0].message)
    kind = problem.kind if isinstance(problem, StepError) else type(problem).__name__
    message = _message(problem)
    try:
        text = "".join(_formatted(problem))
    except Exception as second:  # a broken __str__, __cause__ or source file must not hide the error
        text = f"{kind}: {message}\n(the traceback could not be written: {type(second).__name__})\n"
    return Failure(utf8(kind), utf8(message), utf8(text))


def utf8(text: str) -> str:
    """The text with escapes for what UTF-8 cannot encode, such as lone surrogates from file names."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _message(problem: BaseException) -> str:
    if isinstance(problem, SystemExit):
        return ": ".join([f"the step called exit({problem.code!r})", *getattr(problem, "__notes__", ())])
    try:
        return str(problem)
    except Exception as second:  # the user's exception class may be broken
        kind = type(problem).__name__
        return f"<the message of this {kind} cannot be shown: its str() raised {type(second).__name__}>"


def _formatted(problem: BaseException) -> Sequence[str]:
    if isinstance(problem, StepError):
        return [f"{problem.kind}: {problem}\n"]
    record = traceback.TracebackException.from_exception(problem)
    _without_own_frames(record, set())
    return list(record.format())


def _without_own_frames(record: traceback.TracebackException | None, seen: set[int]) -> None:
    if record is None or id(record) in seen:
        return
    seen.add(id(record))
    own = [frame for frame in record.stack if not _is_own(frame.filename)]
    record.stack = traceback.StackSummary.from_list(own)
    for other in (record.__cause__, record.__context__, *(getattr(record, "exceptions", None) or ())):
        _without_own_frames(other, seen)


def _is_own(path: str) -> bool:
    return path.startswith(_OWN_CODE) or path.startswith(_MACHINERY)


def _cut(text: str, limit: int) -> str:
    """The beginning and the end of a text that is too long. The end of a traceback matters most."""
    if len(text) <= limit:
        return text
    return f"{text[: limit // 4]}\n… {len(text) - limit} characters left out …\n{text[-limit * 3 // 4 :]}"
