"""Reads the text of a query: finds `$name`, checks that it is one statement, and detects an ORDER BY.

A `$name` in a string, a quoted name or a comment is not replaced. Elsewhere one literal replaces it, quoted by the
server's rules, so that a value can never become part of the statement.
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
_SQLITE = re.compile(
    r"(?P<comment>--[^\n]*|/\*)|(?P<text>'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`|\[[^\]]*\])|" + _WORDS,
    re.DOTALL,
)
_NESTED = re.compile(r"/\*|\*/")


@dataclass(frozen=True, slots=True)
class Dialect:
    name: str
    pattern: re.Pattern[str]
    nested_comments: bool


POSTGRES = Dialect("PostgreSQL", _POSTGRES, nested_comments=True)
SQLITE = Dialect("SQLite", _SQLITE, nested_comments=False)
MYSQL = Dialect("MySQL", _MYSQL, nested_comments=False)


def tokens(query: str, dialect: Dialect) -> Iterator[tuple[Kind, str]]:
    """The whole text, split into tokens."""
    at = 0
    while at < len(query):
        token = dialect.pattern.match(query, at)
        assert token is not None, "the last alternative matches any character"
        end = token.end()
        if token["comment"] == "/*":
            end = _end_of_comment(query, end, dialect.nested_comments)
        kind: Kind = next(kind for kind in _KINDS if token[kind] is not None)
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
    """The problems of a query and its values that its text shows."""
    pieces = [(kind, text) for kind, text in tokens(query, dialect) if kind != "comment" and text.strip()]
    while pieces and pieces[-1] == ("other", ";"):
        pieces.pop()
    if not pieces:
        return ["`query` is empty"]
    problems = []
    if ("other", ";") in pieces:
        problems.append("`query` has more than one statement; it takes one SELECT")
    used = {text[1:] for kind, text in pieces if kind == "value"}
    if lacking := sorted(used - set(values)):
        problems.append(f"`query` uses {_names(f'${name}' for name in lacking)}, and `values` does not have it")
    if unused := sorted(set(values) - used):
        problems.append(f"`values` has {_names(unused)}, which `query` does not use")
    return problems


def filled(query: str, values: Mapping[str, Scalar], dialect: Dialect, literal: Callable[[Scalar], str]) -> str:
    """The query with a literal for every `$name`, without a final `;`."""
    pieces = [(kind, literal(values[text[1:]]) if kind == "value" else text) for kind, text in tokens(query, dialect)]
    at = len(pieces)
    while at and (pieces[at - 1][0] == "comment" or not pieces[at - 1][1].strip() or pieces[at - 1][1] == ";"):
        at -= 1
    return "".join(text for _, text in pieces[:at])


def is_sorted(query: str, dialect: Dialect) -> bool:
    """Whether the whole query has an ORDER BY. One in parentheses does not sort the result."""
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
