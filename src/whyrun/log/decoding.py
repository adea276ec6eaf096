"""Bytes → records, with the same answer from any depth of the caller's stack.

A decoder stops where the stack of Python ends, and how near that is depends on who calls: `whyrun.plan()` deep inside
a program is nearer to it than a command. So what nests too deep for here is read once more at the depth of a fresh
stack. What even that is too small for, no version of Whyrun has written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

Found = TypeVar("Found")


def decoded(decode: Callable[[bytes], Found], data: bytes) -> Found:
    """`decode(data)`; one of `UNREADABLE` where no record of ours stands, from whatever depth that is asked.

    RecursionError only where there is no stack left to ask anything: that says nothing about the data.
    """
    try:
        return decode(data)
    except RecursionError:
        return _at_fresh_depth(decode, data)


def _at_fresh_depth(decode: Callable[[bytes], Found], data: bytes) -> Found:
    from threading import Thread  # rare

    found: list[Any] = []
    wrong: list[Exception] = []

    def work() -> None:
        try:
            found.append(decode(data))
        except RecursionError:
            wrong.append(msgspec.DecodeError("it nests deeper than any record does"))
        except Exception as problem:  # of the decoder, for the caller
            wrong.append(problem)

    thread = Thread(target=work, name="whyrun-decodes")
    thread.start()
    thread.join()
    if wrong:
        raise wrong[0]
    result: Found = found[0]
    return result
