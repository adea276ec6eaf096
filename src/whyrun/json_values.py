"""Which values are small and plain enough to stand in the log, and so to be compared, indexed and shown anywhere. Pure.

Values that are given, made by a step, remembered by one or taken from a shared store: all have the same limits.
"""

from __future__ import annotations

from typing import Any

from whyrun.errors import error

LARGEST_INTEGER = 2**63 - 1  # what every JSON reader agrees on
DEEPEST = 64  # levels: so little is read and written from any depth of a caller's stack
VALUE_LIMIT = 4096  # bytes of a value or leaf as canonical JSON

TOO_DEEP = f"nests deeper than {DEEPEST} levels"
TOO_LARGE = "holds a whole number of more than 63 bits (give it as a text)"


def limit_problem(value: Any) -> str | None:
    """What a value does that none in a log may, if it is JSON at all: "nests deeper than 64 levels"."""
    if isinstance(value, str | float | int):  # most
        return TOO_LARGE if isinstance(value, int) and abs(value) > LARGEST_INTEGER else None
    waiting = [(value, 0)]
    while waiting:
        part, depth = waiting.pop()
        if depth > DEEPEST:
            return TOO_DEEP
        if isinstance(part, dict):
            waiting.extend((member, depth + 1) for member in part.values())
        elif isinstance(part, list | tuple):
            waiting.extend((member, depth + 1) for member in part)
        elif isinstance(part, int) and abs(part) > LARGEST_INTEGER:
            return TOO_LARGE
    return None


def size_problem(data: bytes) -> str | None:
    """The same of the canonical JSON of an output's value, or of a leaf."""
    if len(data) <= VALUE_LIMIT:
        return None
    return f"has {len(data)} bytes; a value or leaf has at most {VALUE_LIMIT} (use text, json or file)"


def is_utf8(text: str) -> bool:
    """Half of a surrogate pair is no text that could be written down; Python has it also for bytes of file names."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_utf8(path: str, what: str, hint: str) -> None:
    """Steps are told where they are in JSON, and so is whoever reads what a run wrote down."""
    if not is_utf8(path):
        raise error(
            "NAME_INVALID", f"{what} {path!r}, is not UTF-8", hint=f"{hint}: names must read the same everywhere"
        )


def plain_scalar(value: Any) -> Any:
    """The text or number that a member of a subclass is (a `StrEnum`, a class of the user's own); all else as it is."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int.__int__(value)
    return float.__float__(value) if isinstance(value, float) else value
