"""Expressions: allowed syntax, results, refusals, and bounds of size and time."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whyrun.workflow.expressions.expression import (
    ABSENT,
    ExpressionError,
    SecretRef,
    SecretText,
    evaluate,
    evaluate_formatted,
    format_value,
    parse_expression,
)
from whyrun.workflow.model import Expression, Formatted, Place, Type
from whyrun.workflow.nodes import Problems
from whyrun.workflow.scope import InputShape, JobShape, Names, OutputShape, Scope

INPUTS = {
    "Topic": InputShape(Type("string")),
    "N": InputShape(Type("integer")),
    "Rate": InputShape(Type("number")),
    "On": InputShape(Type("boolean")),
    "Config": InputShape(Type("json")),
    "Photo": InputShape(Type("image")),
    "Photos": InputShape(Type("image", 1)),
    "Words": InputShape(Type("string", 1)),
}
VALUES: dict[str, Any] = {
    "Topic": "cinema",
    "N": 3,
    "Rate": 0.5,
    "On": True,
    "Config": {"a": [1, 2]},
    "Photo": "a.png",
    "Photos": ["a.png", "b.png"],
    "Words": ["b", "a"],
}
JOBS = {
    "Many": JobShape(("seg",), {"Count": OutputShape("integer", ()), "Image": OutputShape("image", ())}),
    "One": JobShape((), {"Data": OutputShape("json", ())}),
}
SCOPE = Scope(
    Names(INPUTS, frozenset({"seg", "net", "other"}), JOBS, {}),
    "in `with:`",
    frozenset({"inputs", "jobs", "loops", "secrets", "env", "workflow"}),
    binding=True,
    loops=frozenset({"seg", "net"}),
    env={"MODE": False, "KEY": True},
    secrets=("TOKEN",),
)
NAMES = {"seg": 1, "net": "asia", "workflow": {"name": "demo"}, "env": {"MODE": "fast"}}


def locate(offset: int, width: int) -> Place:
    return Place("e", 1, offset + 1, width)


def compiled(text: str) -> Expression:
    problems = Problems()
    expression = parse_expression(text, locate, SCOPE, problems)
    assert expression is not None, [d.render() for d in problems]
    return expression


def value_of(text: str) -> Any:
    expression = compiled(text)
    values = [VALUES[ref.name] for ref in expression.refs]  # type: ignore[union-attr]
    return evaluate(expression, values, NAMES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3 - 4 / 2", 5.0),
        ("7 // 2 + 7 % 4 + 2 ** 3", 14),
        ("-inputs.N + +1", -2),
        ("'a' + inputs.Topic + '!'", "acinema!"),
        ("'ab' * inputs.N", "ababab"),
        ("[1] + [2, inputs.N]", [1, 2, 3]),
        ("(1, 'x')", [1, "x"]),
        ("{'a': inputs.N, 'b': {'c': None}}", {"a": 3, "b": {"c": None}}),
        ("1 < inputs.N <= 3 != 4", True),
        ("3 < inputs.N < 1 / 0", False),
        ("'a' in inputs.Words and 'z' not in inputs.Words", True),
        ("'in' in inputs.Topic", True),
        ("'a' in inputs.Config", True),
        ("not inputs.On or inputs.N > 5", False),
        ("inputs.Topic if inputs.On else 1 / 0", "cinema"),
        ("0 or '' or 'last'", "last"),
        ("len(inputs.Words) + len(inputs.Photos) + len('abc')", 7),
        ("min(3, 1, 2) + max([4, 5]) + sum([1, 2])", 9),
        ("any([0, 1]) and all([1, 1])", True),
        ("sorted(inputs.Words)", ["a", "b"]),
        ("str(1.5) + str(True) + str(None) + str([1, 'a'])", '1.5truenull[1,"a"]'),
        ("int('7') + int(2.9) + float('0.5')", 9.5),
        ("bool('') == False", True),
        ("round(2.567, 1) + round(2.4)", 4.6),
        ("lower('AB') + upper('cd')", "abCD"),
        ("startswith(inputs.Topic, 'ci') and endswith(inputs.Topic, 'ma') and contains(inputs.Topic, 'ne')", True),
        ("contains(inputs.Words, 'a')", True),
        ("matches(inputs.Topic, '[a-z]+') and not matches(inputs.Topic, 'cin')", True),
        (r"matches('12', '\d\d')", True),
        ("matches('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!', '(a+)+')", False),
        ("matches('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!', '(a|a)*')", False),
        ("matches('Ab-12', '(?i)[a-b]+-[0-9]{2}')", True),
        ("seg + 1", 2),
        ("net + '-' + workflow.name + env.MODE", "asia-demofast"),
        ("inputs.Config", {"a": [1, 2]}),
        ("'}}' + 'é'", "}}é"),
        ("  inputs.N  ", 3),
        ("inputs.N +\n 1", 4),
    ],
)
def test_expressions_have_the_value_that_python_gives_them(text: str, expected: Any) -> None:
    found = value_of(text)
    assert (type(found), found) == (type(expected), expected)


@pytest.mark.parametrize(
    ("text", "code", "column", "width"),
    [
        ("__import__('os')", "EXPRESSION_FORBIDDEN", 1, 10),
        ("inputs.N.__class__", "UNKNOWN_REFERENCE", 10, 9),
        ("'a'.upper()", "EXPRESSION_FORBIDDEN", 1, 9),
        ("1 + open('x')", "EXPRESSION_FORBIDDEN", 5, 4),
        ("[x for x in inputs.Words]", "EXPRESSION_FORBIDDEN", 1, 25),
        ("lambda: 1", "EXPRESSION_FORBIDDEN", 1, 9),
        ("(x := 1)", "EXPRESSION_FORBIDDEN", 2, 6),
        ("f'{inputs.N}'", "EXPRESSION_FORBIDDEN", 1, 13),
        ("{1, 2}", "EXPRESSION_FORBIDDEN", 1, 6),
        ("{**inputs.Config}", "EXPRESSION_FORBIDDEN", 1, 17),
        ("max(*inputs.Words)", "EXPRESSION_FORBIDDEN", 5, 13),
        ("sorted(inputs.Words, key=1)", "EXPRESSION_FORBIDDEN", 22, 5),
        ("1 | 2", "EXPRESSION_FORBIDDEN", 1, 5),
        ("~1", "EXPRESSION_FORBIDDEN", 1, 2),
        ("inputs.N is None", "EXPRESSION_FORBIDDEN", 1, 16),
        ("b'x'", "EXPRESSION_FORBIDDEN", 1, 4),
        ("1j", "EXPRESSION_FORBIDDEN", 1, 2),
        ("...", "EXPRESSION_FORBIDDEN", 1, 3),
        ("[1, 2][0]", "EXPRESSION_FORBIDDEN", 1, 9),
        ("len()", "EXPRESSION_FORBIDDEN", 1, 5),
        ("first('a')", "EXPRESSION_FORBIDDEN", 7, 3),
        ("first(jobs.Many.outputs.Count[:])", "EXPRESSION_FORBIDDEN", 7, 26),
        ("exists(inputs.N + 1)", "EXPRESSION_FORBIDDEN", 8, 12),
        ("secrets.TOKEN + 'x'", "EXPRESSION_FORBIDDEN", 1, 13),
        ("env.KEY", "EXPRESSION_FORBIDDEN", 1, 7),
        ("inputs.Photos[inputs.N]", "EXPRESSION_FORBIDDEN", 15, 8),
        ("inputs.Photos[1:2]", "EXPRESSION_FORBIDDEN", 15, 3),
        ("inputs.Photos[seg*2]", "EXPRESSION_FORBIDDEN", 15, 5),
        ("ｉnputs.N", "EXPRESSION_FORBIDDEN", 1, 1),
        ("9" * 30, "EXPRESSION_FORBIDDEN", 1, 30),
        ("-" * 60 + "1", "EXPRESSION_FORBIDDEN", 52, 10),
        ("1 + " * 60 + "1", "EXPRESSION_FORBIDDEN", 1, 37),
        ("'" + "x" * 5000 + "'", "EXPRESSION_FORBIDDEN", 1, 5002),
        ("inputs.Photo == 'a'", "WRONG_TYPE", 1, 12),
        ("len(inputs.Photo)", "WRONG_TYPE", 5, 12),
        ("len(jobs.One.outputs.Data)", "WRONG_TYPE", 5, 21),
        ("inputs", "UNKNOWN_REFERENCE", 1, 6),
        ("jobs.One", "UNKNOWN_REFERENCE", 1, 8),
        ("jobs.One.Data", "UNKNOWN_REFERENCE", 10, 4),
        ("jobs.Non.outputs.Data", "UNKNOWN_REFERENCE", 6, 3),
        ("workflow.path", "UNKNOWN_REFERENCE", 10, 4),
        ("env.MODUS", "UNKNOWN_REFERENCE", 5, 5),
        ("true", "UNKNOWN_REFERENCE", 1, 4),
        ("other", "UNKNOWN_LOOP", 1, 5),
        ("jobs.Many.outputs.Count[nope]", "UNKNOWN_LOOP", 25, 4),
        ("jobs.Many.outputs.Count[0, 1]", "LOOP_MISMATCH", 28, 1),
        ("'é' + inputs.Nope", "UNKNOWN_REFERENCE", 14, 4),
        ("", "EXPRESSION_SYNTAX", 1, 0),
        ("a b", "EXPRESSION_SYNTAX", 3, 1),
        ("1 +", "EXPRESSION_SYNTAX", 3, 1),
        ("(1", "EXPRESSION_SYNTAX", 1, 1),
        ("'x", "EXPRESSION_SYNTAX", 1, 1),
        ("x = 1", "EXPRESSION_SYNTAX", 3, 1),
        ("import os", "EXPRESSION_SYNTAX", 1, 1),
        ("(" * 1000, "EXPRESSION_SYNTAX", 201, 1),
    ],
)
def test_anything_else_is_refused_at_its_place(text: str, code: str, column: int, width: int) -> None:
    problems = Problems()
    assert parse_expression(text, locate, SCOPE, problems) is None
    (found,) = problems
    assert (found.code, found.column, found.width) == (code, column, width)


@pytest.mark.parametrize(
    "text",
    [
        "'x' * 10000000",
        "[0] * 10000000",
        "2 ** 64",
        "2 ** 1000000000",
        "(-2) ** 99",
        "10.0 ** 999",
        "inputs.N ** 60",
        "9223372036854775807 + 1",
        "1e308 * 10",
        "(-8) ** 0.5",
        "1 / 0",
        "1 % 0",
        "'a' + 1",
        "'%9999999d' % 1",
        "1 < 'a'",
        "-'a'",
        "len(3)",
        "max([])",
        "min('a')",
        "sum(['a'])",
        "int('x')",
        "float('inf')",
        "int('9' * 30)",
        "round(1.5, 1000)",
        "matches('a', '(')",
        r"matches('aa', '(a)\\1')",
        "matches('a', '(?=a)a')",
        "matches('a', '(((a{99}){99}){99}){99}')",
        "matches('a', 'a' * 300)",
        "lower(1)",
        "1 in 2",
        "1 in 'a'",
        "[['x' * 1000] * 1000, ['x' * 1000] * 1000]",
        "sorted([1, 'a'])",
        "[[0] * 60000, [0] * 60000]",
    ],
)
def test_what_has_no_value_or_too_large_a_one_is_an_error(text: str) -> None:
    started = time.perf_counter()
    with pytest.raises(ExpressionError, match="`"):
        value_of(text)
    assert time.perf_counter() - started < 30


def test_references_are_listed_in_order_and_wholes_are_known() -> None:
    expression = compiled("exists(inputs.Photo) and inputs.N > first(jobs.Many.outputs.Count[seg-1], inputs.N)")
    assert [type(ref).__name__ for ref in expression.refs] == ["InputRef", "InputRef", "First"]
    assert (expression.optional, expression.whole, expression.loops) == (frozenset({0}), None, frozenset())
    assert evaluate(expression, ["a.png", 3, 2], NAMES) is True
    assert evaluate(expression, [ABSENT, 3, 2], NAMES) is False
    whole = compiled("jobs.Many.outputs.Image[:]")
    assert (whole.whole, evaluate(whole, [["x"]], {})) == (whole.refs[0], ["x"])
    assert compiled("seg").loops == frozenset({"seg"})
    assert compiled("env.MODE").env == frozenset({"MODE"})


def test_secrets_stay_references() -> None:
    secret = compiled("secrets.TOKEN")
    assert (secret.secrets, evaluate(secret, [], {})) == (frozenset({"TOKEN"}), SecretRef("TOKEN"))
    formatted = Formatted(("Bearer ", secret, " ", compiled("inputs.N")), locate(0, 1))
    assert evaluate_formatted(formatted, [[], [3]], {}) == SecretText("Bearer {} 3", "TOKEN")
    with pytest.raises(ExpressionError, match="cannot contain"):
        evaluate_formatted(formatted, [[], ["{}"]], {})


def test_formatting() -> None:
    values: list[Any] = ["a", True, None, 3, 0.5, 1e16, [1, "é"], {"b": 1, "a": False}]
    assert [format_value(v) for v in values] == [
        "a",
        "true",
        "null",
        "3",
        "0.5",
        "1e+16",
        '[1,"é"]',
        '{"a":false,"b":1}',
    ]
    formatted = Formatted(("n=", compiled("inputs.N"), "/", compiled("net")), locate(0, 1))
    assert evaluate_formatted(formatted, [[3], []], NAMES) == "n=3/asia"


_TOKENS = st.sampled_from(
    [
        "1",
        "2.5",
        "'a'",
        "inputs.N",
        "inputs.Topic",
        "inputs.Words",
        "seg",
        "net",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "+",
        "-",
        "*",
        "/",
        "//",
        "%",
        "**",
        "<",
        "==",
        "in",
        "not",
        "and",
        "or",
        "if",
        "else",
        "len(",
        "max(",
        "str(",
        "matches(",
        "first(",
        "exists(",
        "jobs.Many.outputs.Count[seg]",
        "None",
        "True",
        ".",
        "'",
        "lambda",
    ]
)


@settings(max_examples=500)
@given(st.lists(_TOKENS, max_size=12).map(" ".join))
def test_any_expression_is_refused_or_has_a_value_or_an_error(text: str) -> None:
    problems = Problems()
    expression = parse_expression(text, locate, SCOPE, problems)
    assert (expression is None) == bool(problems)
    if expression is not None and expression.whole is None:
        try:
            evaluate(expression, [VALUES.get(getattr(ref, "name", ""), 1) for ref in expression.refs], NAMES)
        except ExpressionError as problem:
            message = str(problem)
        else:
            message = "it has a value"
        assert message
