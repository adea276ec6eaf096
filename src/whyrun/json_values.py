"""The limits of values in the log: small, shallow and plain enough to be compared, indexed and shown anywhere. Pure.

The same limits hold for given values, outputs, values that a step remembers, and values from a shared store.
"""

from __future__ import annotations

import json
from typing import Any

from whyrun.errors import error

LARGEST_INTEGER = 2**63 - 1  # what every JSON reader agrees on
DEEPEST = 64  # levels: few enough to be read and written from any depth of the caller's stack
VALUE_LIMIT = 4096  # bytes of a value or leaf as canonical JSON

TOO_DEEP = f"nests deeper than {DEEPEST} levels"
TOO_LARGE = "holds a whole number of more than 63 bits (give it as a text)"


def limit_problem(value: Any) -> str | None:
    """The limit that a JSON value exceeds, or None: "nests deeper than 64 levels"."""
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
    """The same for the size of the canonical JSON of an output's value, or of a leaf."""
    if len(data) <= VALUE_LIMIT:
        return None
    return f"has {len(data)} bytes; a value or leaf has at most {VALUE_LIMIT} (use text, json or file)"


def is_utf8(text: str) -> bool:
    """Can it be encoded? Python uses lone surrogates for bytes of file names that are not UTF-8."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_utf8(path: str, what: str, hint: str) -> None:
    """NAME_INVALID if a path is not UTF-8: paths are passed to steps, and recorded, as JSON."""
    if not is_utf8(path):
        raise error(
            "NAME_INVALID", f"{what} {path!r}, is not UTF-8", hint=f"{hint}: names must read the same everywhere"
        )


# --- plain values ------------------------------------------------------------------------------------------------

_EXACT_KINDS = frozenset("biufU")  # dtypes of numpy whose values are exactly a bool, int, float or str of Python


def plain_scalar(value: Any) -> Any:
    """Convert an instance of a subclass of str, int or float (such as a `StrEnum`) to the plain type, and a scalar of
    numpy or of a library like it, if nothing is lost.

    Nothing is imported: such a scalar describes itself. What has a loss or another meaning (a complex number, a date,
    a wider float) stays as it is.
    """
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if getattr(value, "ndim", None) != 0 or not callable(getattr(value, "item", None)) or not _is_exact(value):
        return value
    found = value.item()
    if isinstance(found, bool | int | float | str):
        return found
    try:  # a wider float is no Python number
        return float(found) if float(found) == found else value
    except (TypeError, ValueError, OverflowError):
        return value


def plain_json(value: Any) -> Any:
    """The value with its scalars converted by `plain_scalar`, and arrays of numpy as lists of them."""
    if isinstance(value, dict):
        return {key: plain_json(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(member) for member in value]
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) and _is_exact(value):
        return plain_json(value.tolist())
    return plain_scalar(value)


def _is_exact(value: Any) -> bool:
    """Whether its numbers are all that it means as JSON: no dates, no mask. The dtypes of other libraries have no
    kind."""
    if hasattr(value, "mask"):
        return False
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    return kind is None or kind in _EXACT_KINDS


_OF_ELEMENT = {"key", "sha256", "size"}


def value_text(value: Any, most: int = 100) -> str:
    """A value as JSON on one line, shortened."""
    if isinstance(value, list) and value and all(isinstance(m, dict) and m.keys() >= _OF_ELEMENT for m in value):
        keys = ", ".join(str(member["key"]) for member in value)  # the record of a list of artifacts
        text = f"{len(value)} element{'s' * (len(value) > 1)}: {keys}"
    else:
        text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= most else f"{text[:most]}…"
