"""A column of hashes behaves like the list of its values."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from whyrun.artifacts.hash_column import HashColumn, is_hash


def sha(number: int) -> str:
    return hashlib.sha256(b"%d" % number).hexdigest()


hashes = st.integers(0, 3).map(sha)
values = st.one_of(hashes, st.none(), st.sampled_from(["", "special", "A" * 64, "g" * 64, " " * 64]))


@given(st.lists(values), st.lists(values))
def test_a_column_is_as_good_as_the_list(one: list[str | None], other: list[str | None]) -> None:
    column = HashColumn.of(one)
    assert list(column) == [column[i] for i in range(len(column))] == column[:] == one
    assert len(column) == len(one)
    assert (column == one, column == HashColumn.of(one)) == (True, True)
    assert (column == other, column == HashColumn.of(other)) == (one == other, one == other)
    assert column.count(None) == one.count(None)
    assert (None in column) == (None in one) == (not column.is_complete)
    assert column.absent() == [i for i, value in enumerate(one) if value is None]
    assert all((value in column) == (value in one) for value in (sha(0), sha(9), "special"))
    assert list(HashColumn.joined([column, HashColumn.of(other)])) == one + other
    assert (column.whole is None) == (not all(value is not None and is_hash(value) for value in one))


@given(st.lists(values, min_size=1), st.data())
def test_rows_can_be_set_and_taken(one: list[str | None], data: st.DataObject) -> None:
    column = HashColumn.of(one)
    for row, value in data.draw(st.dictionaries(st.integers(0, len(one) - 1), values)).items():
        column[row] = one[row] = value
    assert list(column) == one
    assert column == one
    assert (column.whole is None) == (not all(value is not None and is_hash(value) for value in one))
    rows = data.draw(st.lists(st.integers(-1, len(one) - 1)))
    assert list(column.taken(rows)) == [one[row] if row >= 0 else None for row in rows]


def test_a_column_that_is_set_is_whole_as_long_as_it_has_hashes_only() -> None:
    before = HashColumn.of([sha(0), sha(1)])
    assert before.whole is not None
    column = HashColumn(before.whole)
    column[0] = None
    assert column != before
    assert column.whole is None
    column[0] = sha(7)
    assert column.whole == bytes.fromhex(sha(7) + sha(1))
    column[0] = sha(0)
    assert column == before
    assert list(before) == [sha(0), sha(1)]
