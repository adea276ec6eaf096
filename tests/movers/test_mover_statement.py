"""A query as text: values, order, statements. Pure, and the same for whatever stands around them."""

from __future__ import annotations

import pytest

from whyrun.actions.movers.postgres.client import literal
from whyrun.actions.movers.statement import MYSQL, POSTGRES, Dialect, filled, is_sorted, problems_of, tokens


@pytest.mark.parametrize(
    ("dialect", "query", "expected"),
    [
        (POSTGRES, "SELECT $a, a$a, '$a', \"$a\" -- $a\n, $a", "SELECT <1>, a$a, '$a', \"$a\" -- $a\n, <1>"),
        (POSTGRES, "SELECT $$ $a $$, $t$ $a $$ $t$, $a", "SELECT $$ $a $$, $t$ $a $$ $t$, <1>"),
        (POSTGRES, r"SELECT E'\'$a', '\', $a", r"SELECT E'\'$a', '\', <1>"),
        (POSTGRES, "SELECT /* /* $a */ $a */ $a", "SELECT /* /* $a */ $a */ <1>"),
        (POSTGRES, "SELECT 'it''s $a', $a;  -- end\n ; ", "SELECT 'it''s $a', <1>"),
        (MYSQL, r"SELECT '\'$a', `$a`, $a # $a", r"SELECT '\'$a', `$a`, <1>"),
        (MYSQL, 'SELECT "$a", 5--$a', 'SELECT "$a", 5--<1>'),
        (MYSQL, "SELECT /* /* $a */ $a", "SELECT /* /* $a */ <1>"),
        (MYSQL, "SELECT 'open $a", "SELECT 'open <1>"),
    ],
)
def test_a_value_goes_where_it_is_one(dialect: Dialect, query: str, expected: str) -> None:
    assert filled(query, {"a": 1}, dialect, lambda value: f"<{value}>") == expected
    assert "".join(text for _, text in tokens(query, dialect)) == query


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT 1 ORDER BY 1", True),
        ("SELECT 1 order -- so\n by 1", True),
        ("WITH x AS (SELECT 1 ORDER BY 1) SELECT * FROM x", False),
        ("SELECT row_number() OVER (ORDER BY a) FROM t", False),
        ("SELECT 'ORDER BY' FROM t", False),
        ("SELECT 1 -- ORDER BY 1", False),
        ("(SELECT 1) UNION (SELECT 2 ORDER BY 1) ORDER BY 1", True),
    ],
)
def test_only_the_query_as_a_whole_sorts(query: str, expected: bool) -> None:
    assert is_sorted(query, POSTGRES) is expected
    assert is_sorted(query, MYSQL) is expected


def test_everything_that_is_wrong_is_told() -> None:
    assert problems_of("SELECT 1; DROP TABLE t", {"b": 1, "c": 2}, POSTGRES) == [
        "`query` has more than one statement; it takes one SELECT",
        "`values` has `b`, `c`, which `query` does not use",
    ]
    assert problems_of("SELECT $x, $y", {"x": 1}, MYSQL) == ["`query` uses `$y`, and `values` does not have it"]
    assert problems_of(" -- nothing\n;", {}, MYSQL) == ["`query` is empty"]
    assert problems_of("SELECT ';' ; ", {}, MYSQL) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "NULL"), (True, "TRUE"), (7, "7"), (-7, "(-7)"), (1.5, "(1.5)"), (float("nan"), "'nan'::float8"),
        ("it's \\", "'it''s \\'"), ("", "''"),
    ],
)  # fmt: skip
def test_a_literal_of_postgresql(value: str | int | float | bool | None, expected: str) -> None:
    assert literal(value) == expected
