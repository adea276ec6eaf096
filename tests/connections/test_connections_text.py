"""Texts with variables: `${VAR}`, `${VAR:-default}`, text around, defaults in defaults."""

from __future__ import annotations

import pytest

from whyrun.connections.text import Piece, Text, TextProblem, Variable, parse_text, pieces


def together(written: str, **environment: str) -> str:
    found, missing = pieces(parse_text(written), environment)
    assert missing == []
    return "".join(piece.text for piece in found)


def test_a_text_is_taken_apart_into_literals_and_variables() -> None:
    assert parse_text("a-${HOST}:${PORT:-33${X}06}") == Text(
        "a-${HOST}:${PORT:-33${X}06}",
        (
            "a-",
            Variable("HOST", None, 2, 7),
            ":",
            Variable("PORT", ("33", Variable("X", None, 20, 4), "06"), 10, 17),
        ),
    )
    assert [v.name for v in parse_text("${A}${B:-${C:-d}}").variables] == ["A", "B", "C"]


@pytest.mark.parametrize(
    ("written", "environment", "text"),
    [
        ("", {}, ""),
        ("plain $HOME $ {x} }", {}, "plain $HOME $ {x} }"),
        ("${A}", {"A": "x"}, "x"),
        ("${A}", {"A": ""}, ""),
        ("${A:-y}", {}, "y"),
        ("${A:-y}", {"A": ""}, "y"),
        ("${A:-y}", {"A": "x"}, "x"),
        ("${A:-}", {}, ""),
        ("${A:-${B}}", {"B": "b"}, "b"),
        ("${A:-${B:-c}-d}", {}, "c-d"),
        ("u:${A}@${B:-h}/d", {"A": "p"}, "u:p@h/d"),
        ("$${A}", {"A": "x"}, "${A}"),
        ("${A:-$${b}}", {}, "${b}"),  # up to the first `}`; what follows is text
        ("${A}", {"A": "${B}"}, "${B}"),  # what a variable holds is not looked into
    ],
)
def test_variables_are_put_in_place(written: str, environment: dict[str, str], text: str) -> None:
    assert together(written, **environment) == text


def test_what_has_no_value_is_told_with_its_place() -> None:
    found, missing = pieces(parse_text("x${A}y${B:-${C}}"), {})
    assert (found, missing) == ([Piece("x"), Piece("y")], [Variable("A", None, 1, 4), Variable("C", None, 11, 4)])


@pytest.mark.parametrize(
    ("written", "message", "at", "width"),
    [
        ("a${", "`${` is not followed by the name of a variable", 1, 2),
        ("${1A}", "`${` is not followed by the name of a variable", 0, 2),
        ("${}", "`${` is not followed by the name of a variable", 0, 2),
        ("ab${HOST", "`${HOST` is not closed by `}`", 2, 6),
        ("${HOST:-x", "`${HOST` is not closed by `}`", 0, 9),
        ("${HOST-x}", "`${HOST` is followed by `-`, which is not allowed here", 0, 6),
        ("${HOST:=x}", "`${HOST` is followed by `:`, which is not allowed here", 0, 6),
        ("${A:-${B}", "`${A` is not closed by `}`", 0, 9),
    ],
)
def test_what_is_no_variable_is_refused(written: str, message: str, at: int, width: int) -> None:
    with pytest.raises(TextProblem) as refused:
        parse_text(written)
    assert (str(refused.value), refused.value.at, refused.value.width) == (message, at, width)
    assert refused.value.hint.startswith("write `${")


def test_a_secret_has_eight_bytes_came_from_a_variable_and_is_not_written_down() -> None:
    def secret(written: str, **environment: str) -> list[str]:
        return [piece.text for piece in pieces(parse_text(written), environment)[0] if piece.is_secret]

    assert secret("${A}", A="1234567") == []
    assert secret("${A}", A="12345678") == ["12345678"]
    assert secret("${A}", A="äöüß") == ["äöüß"]  # eight bytes
    assert secret("${A:-12345678}") == []  # the written default
    assert secret("${A:-12345678}", A="12345678") == []  # the same from the variable: it is written down anyway
    assert secret("${A:-other}", A="12345678") == ["12345678"]
    assert secret("${A:-${B}}", B="12345678") == ["12345678"]  # a default that came from a variable
    assert secret("long literal text, ${A}", A="12345678") == ["12345678"]
    assert secret("long literal text") == []
