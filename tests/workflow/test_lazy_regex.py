"""`lazy_regex`: the same as `re.compile`, but compiled on first use."""

from __future__ import annotations

import re

import pytest

from whyrun.lazy_regex import lazy_regex


def test_it_is_used_like_a_compiled_pattern() -> None:
    word = lazy_regex(r"([a-z]+)-(\d+)", re.IGNORECASE)
    for _ in range(2):  # the second time without compiling
        found = word.fullmatch("Ab-12")
        assert found is not None
        assert found.groups() == ("Ab", "12")
    assert word.sub(r"\2", "a-1 b-2") == "1 2"
    assert (word.pattern, word.groups) == (r"([a-z]+)-(\d+)", 2)
    assert lazy_regex(rb"[0-9]+").findall(b"1 22") == [b"1", b"22"]


def test_a_wrong_pattern_is_an_error_on_first_use() -> None:
    wrong = lazy_regex("(")
    with pytest.raises(re.error, match="missing \\)"):
        wrong.match("")
