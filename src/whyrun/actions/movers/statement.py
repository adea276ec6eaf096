"""A query as text: where `$name` stands in it, whether it sorts, whether it is one statement. Pure.

Values never become text of a query by chance: a `$name` in a string, a quoted name or a comment is left alone, and
what is put in its place is one literal, written by the server's rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

Scalar = str | int | float | bool | None
Kind = Literal["text", "comment", "value", "word", "other"]

_WORDS = r"(?P<value>\$[^\W\d]\w*)|(?P<word>[^\W\d][\w$]*|\d[\w.]*)|(?P<other>.)"
_POSTGRES = re.compile(
    r"(?P<comment>--[^\n]*|/\*)"
    r"|(?P<text>'(?:[^']|'')*'|[eE]'(?:[^'\\]|\\.|'')*'|\"(?:[^\"]|\"\")*\""
    r"|(?P<tag>\$(?:[^\W\d]\w*)?\$).*?(?P=tag))|" + _WORDS,
    re.DOTALL,
)
_MYSQL = re.compile(
    r"(?P<comment>--(?=\s|$)[^\n]*|\#[^\n]*|/\*)"
    r"|(?P<text>'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`(?:[^`]|``)*`)|" + _WORDS,
    re.DOTALL,
)
_NESTED = re.compile(r"/\*|\*/")


@dataclass(frozen=True, slots=True)
class Dialect:
    name: str
    pattern: re.Pattern[str]
    nested_comments: bool


POSTGRES = Dialect("PostgreSQL", _POSTGRES, nested_comments=True)
MYSQL = Dialect("MySQL", _MYSQL, nested_comments=False)


def tokens(query: str, dialect: Dialect) -> Iterator[tuple[Kind, str]]:
    """All of the text, in pieces."""
    at = 0
    while at < len(query):
        found = dialect.pattern.match(query, at)
        assert found is not None, "the last alternative takes any character"
        end = found.end()
        if found["comment"] == "/*":
            end = _end_of_comment(query, end, dialect.nested_comments)
        kind: Kind = next(kind for kind in _KINDS if found[kind] is not None)
        yield kind, query[at:end]
        at = end


_KINDS: tuple[Kind, ...] = ("comment", "text", "value", "word", "other")


def _end_of_comment(query: str, at: int, nested: bool) -> int:
    depth = 1
    for mark in _NESTED.finditer(query, at):
        if mark[0] == "*/":
            depth -= 1
        elif nested:
            depth += 1
        if depth == 0:
            return mark.end()
    return len(query)


def problems_of(query: str, values: Mapping[str, Scalar], dialect: Dialect) -> list[str]:
    """What is wrong with the two, as far as the text shows it."""
    pieces = [(kind, text) for kind, text in tokens(query, dialect) if kind != "comment" and text.strip()]
    while pieces and pieces[-1] == ("other", ";"):
        pieces.pop()
    if not pieces:
        return ["`query` is empty"]
    found = []
    if ("other", ";") in pieces:
        found.append("`query` has more than one statement; it takes one SELECT")
    used = {text[1:] for kind, text in pieces if kind == "value"}
    if lacking := sorted(used - set(values)):
        found.append(f"`query` uses {_names(f'${name}' for name in lacking)}, and `values` does not have it")
    if unused := sorted(set(values) - used):
        found.append(f"`values` has {_names(unused)}, which `query` does not use")
    return found


def filled(query: str, values: Mapping[str, Scalar], dialect: Dialect, literal: Callable[[Scalar], str]) -> str:
    """The query with a literal in place of every `$name`, and without the `;` at its end."""
    pieces = [(kind, literal(values[text[1:]]) if kind == "value" else text) for kind, text in tokens(query, dialect)]
    at = len(pieces)
    while at and (pieces[at - 1][0] == "comment" or not pieces[at - 1][1].strip() or pieces[at - 1][1] == ";"):
        at -= 1
    return "".join(text for _, text in pieces[:at])


def is_sorted(query: str, dialect: Dialect) -> bool:
    """Whether the query as a whole has an ORDER BY: one inside of parentheses says nothing about the result."""
    depth, last = 0, ""
    for kind, text in tokens(query, dialect):
        if kind == "comment" or not text.strip():
            continue
        if kind == "other":
            depth += {"(": 1, ")": -1}.get(text, 0)
        if depth == 0 and kind == "word" and text.upper() == "BY" and last == "ORDER":
            return True
        last = text.upper() if depth == 0 and kind == "word" else ""
    return False


def _names(names: Iterator[str] | list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
