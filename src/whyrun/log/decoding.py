"""Bytes → records, with the same result from any depth of the caller's stack.

A decoder raises RecursionError when Python's stack is used up, and `whyrun.plan()` deep inside a program has less of it
left than a command. So data that nests too deep for the caller's stack is decoded again in a new thread, on a fresh
stack. No version of Whyrun has written data that is too deep for that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

Found = TypeVar("Found")


def decoded(decode: Callable[[bytes], Found], data: bytes) -> Found:
    """`decode(data)`; raises one of `UNREADABLE` if the data is no record, whatever the depth of the caller.

    It raises RecursionError only if no stack is left to start a thread; that says nothing about the data.
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
