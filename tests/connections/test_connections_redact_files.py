"""Secrets in files of any size: found and taken out wherever a piece of the file ends. Beside the plain replacement."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whyrun.connections import redact
from whyrun.connections.redact import NOTHING_SECRET, Redactor

SECRETS = {"A": "hunter2!", "B": "correct-horse", "C": "hunter2!-and-more"}


@pytest.fixture(autouse=True, params=[1, 5, 64])
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redact, "_CHUNK", request.param)  # so that small files have many pieces


PARTS = st.lists(st.sampled_from([*SECRETS.values(), "hunter", "2!", "correct-", "x", "\n", "é"]), max_size=12)


@given(PARTS)
@settings(max_examples=60)
def test_pieces_give_what_the_whole_gives(parts: list[str]) -> None:
    data = "".join(parts).encode()
    redactor = Redactor(SECRETS)
    assert redactor.found_in_file(io.BytesIO(data)) == redactor.found_in(data)
    target = io.BytesIO()
    redactor.copy(io.BytesIO(data), target)
    assert target.getvalue() == redactor.data(data)
    assert not redactor.found_in(target.getvalue())


@given(PARTS, st.integers(0, 40))
@settings(max_examples=60)
def test_the_end_of_a_file_is_never_the_end_of_a_secret(parts: list[str], limit: int) -> None:
    data = "".join(parts).encode()
    redactor = Redactor(SECRETS)
    tail = redactor.tail(io.BytesIO(data), limit)
    assert redactor.data(data).endswith(tail)
    assert NOTHING_SECRET.tail(io.BytesIO(data), limit) == data[len(data) - limit if limit < len(data) else 0 :]
