"""Bytes are read the same from any depth of the stack, and what is no record is told in the decoder's words."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from whyrun.log.decoding import decoded

LEVELS = 700  # deep for a caller who is deep himself, and not for one at the top of the stack
NESTED = b"[" * LEVELS + b"]" * LEVELS
decode_json = msgspec.json.Decoder().decode


def at_depth(levels: int, call: Callable[[], Any]) -> Any:
    return call() if levels == 0 else at_depth(levels - 1, call)


def depth_of(value: list[Any]) -> int:
    depth = 1
    while value:
        value, depth = value[0], depth + 1
    return depth


def test_what_nests_too_deep_for_the_caller_is_read_all_the_same() -> None:
    with pytest.raises(RecursionError):
        at_depth(500, lambda: decode_json(NESTED))
    assert [depth_of(at_depth(levels, lambda: decoded(decode_json, NESTED))) for levels in (0, 500)] == [LEVELS] * 2


@pytest.mark.parametrize("levels", [0, 500])
def test_what_no_stack_is_deep_enough_for_is_no_record(levels: int) -> None:
    with pytest.raises(msgspec.DecodeError, match=r"^it nests deeper than any record does$"):
        at_depth(levels, lambda: decoded(decode_json, b"[" * 100_000))


@pytest.mark.parametrize("levels", [0, 500])
def test_what_is_wrong_behind_something_deep_is_told_as_the_decoder_does(levels: int) -> None:
    with pytest.raises(msgspec.DecodeError, match=r"^JSON is malformed: trailing characters "):
        at_depth(levels, lambda: decoded(decode_json, NESTED + b"]"))


def test_what_is_no_record_at_all_is_told_at_once() -> None:
    with pytest.raises(msgspec.ValidationError, match="Expected `str`, got `int`"):
        decoded(msgspec.json.Decoder(dict[str, str]).decode, b'{"a": 1}')


def test_what_takes_its_time_is_waited_for_in_a_thread_that_says_what_it_is() -> None:
    here = threading.current_thread()

    def slow(data: bytes) -> bytes:
        if threading.current_thread() is here:
            raise RecursionError
        time.sleep(0.05)
        return data + threading.current_thread().name.encode()

    assert decoded(slow, b"read by ") == b"read by whyrun-decodes"
