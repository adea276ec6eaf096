"""Bytes → records, with the same result from any depth of the caller's stack; and lists that are kept in blobs.

A decoder raises RecursionError when Python's stack is used up, and `whyrun.plan()` deep inside a program has less of it
left than a command. So data that nests too deep for the caller's stack is decoded again in a new thread, on a fresh
stack. No version of Whyrun has written data that is too deep for that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from whyrun.artifacts.hashing import bytes_sha256, canonical_json
from whyrun.errors import error
from whyrun.log.reads import LongReads, Observed, Read, reads_problem

# --- long lists --------------------------------------------------------------------------------------------------
#
# Long lists: events and plans hold a list of more than 64 members as `{count, digest, blob}`; a blob holds the list.
#
# Otherwise a fan-in of 10,000 members would be written again with every attempt.


LIMIT = 64


def long_list(members: Sequence[Any], put_blob: Callable[[bytes], str]) -> list[Any] | dict[str, Any]:
    """The list itself, or its `{count, digest, blob}`."""
    if len(members) <= LIMIT:
        return list(members)
    data = canonical_json(list(members))
    return {"count": len(members), "digest": bytes_sha256(data), "blob": put_blob(data)}


def read_long_list(value: list[Any] | dict[str, Any], get_blob: Callable[[str], bytes]) -> list[Any]:
    """The members. `get_blob` raises STORE_DAMAGED if the blob is gone or its digest does not match."""
    if isinstance(value, list):
        return value
    data = get_blob(value["blob"])
    members = json.loads(data)
    if not isinstance(members, list) or len(members) != value["count"] or bytes_sha256(data) != value["digest"]:
        raise error(
            "STORE_DAMAGED",
            f"the blob {value['blob']} does not hold the list of {value['count']} members that the log says",
            hint="`whyrun verify` lists all damaged blobs",
        )
    return members


def observed_field(reads: Iterable[Read], put_blob: Callable[[bytes], str]) -> Observed:
    """The event field `observed`; raises ValueError for a read that a log must not hold."""
    in_order = sorted(reads, key=lambda read: read.path)
    problem = reads_problem(in_order)
    if problem is not None:
        raise ValueError(problem)
    if len(in_order) <= LIMIT:
        return in_order
    return msgspec.convert(long_list(msgspec.to_builtins(in_order), put_blob), LongReads)


def read_observed(observed: Observed, get_blob: Callable[[str], bytes]) -> list[Read]:
    """The reads of an event field. STORE_DAMAGED if the blob is gone or does not hold them."""
    if isinstance(observed, list):
        return observed
    return msgspec.convert(read_long_list(msgspec.to_builtins(observed), get_blob), list[Read])


# --- decoding ----------------------------------------------------------------------------------------------------


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
