"""Texts with variables, as `connections.yaml` has them: `${VAR}`, `${VAR:-default}`, with text around them.

`$${` is a literal `${`. A default may contain variables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

SHORTEST_SECRET = 8  # bytes: the value of a variable counts as a secret from this length on

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MARK = re.compile(r"\$?\$\{")


class TextProblem(ValueError):
    """A syntax error and its position in the text."""

    def __init__(self, message: str, at: int, width: int, hint: str) -> None:
        super().__init__(message)
        self.at, self.width, self.hint = at, width, hint


@dataclass(frozen=True, slots=True)
class Variable:
    name: str
    default: tuple[str | Variable, ...] | None
    at: int  # position in the written text
    width: int


@dataclass(frozen=True, slots=True)
class Text:
    written: str
    parts: tuple[str | Variable, ...]

    @property
    def variables(self) -> tuple[Variable, ...]:
        """All variables, also those in defaults, in the order of the text."""
        return tuple(_variables(self.parts))


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text with its variables replaced, and the variable that it came from."""

    text: str
    variable: str | None = None

    @property
    def is_secret(self) -> bool:
        return self.variable is not None and len(self.text.encode("utf-8", "surrogateescape")) >= SHORTEST_SECRET


def parse_text(written: str) -> Text:
    parts, _ = _parse(written, 0, inside=False)
    return Text(written, parts)


def pieces(text: Text, environment: Mapping[str, str]) -> tuple[list[Piece], list[Variable]]:
    """The text with its variables replaced, and the variables that have no value."""
    missing: list[Variable] = []
    return list(_pieces(text.parts, environment, missing)), missing


def _pieces(
    parts: tuple[str | Variable, ...], environment: Mapping[str, str], missing: list[Variable]
) -> Iterator[Piece]:
    for part in parts:
        if isinstance(part, str):
            yield Piece(part)
            continue
        value = environment.get(part.name)
        if part.default is None:
            if value is None:
                missing.append(part)
            else:
                yield Piece(value, part.name)
        elif value:  # as in a shell, the default also replaces an empty value
            # A value that equals the default in the file is not a secret.
            yield Piece(value) if part.default == (value,) else Piece(value, part.name)
        else:
            yield from _pieces(part.default, environment, missing)


def _variables(parts: tuple[str | Variable, ...]) -> Iterator[Variable]:
    for part in parts:
        if isinstance(part, Variable):
            yield part
            yield from _variables(part.default or ())


def _parse(text: str, at: int, *, inside: bool) -> tuple[tuple[str | Variable, ...], int]:
    """The parts from `at` on, and where they end. `inside` a default, they end at its `}`."""
    parts: list[str | Variable] = []
    literal = ""
    while True:
        mark = _MARK.search(text, at)
        stop = len(text) if mark is None else mark.start()
        end = text.find("}", at, stop) if inside else -1
        if end >= 0 or mark is None:
            stop = end if end >= 0 else len(text)
            literal += text[at:stop]
            return (*parts, literal) if literal else tuple(parts), stop
        literal += text[at:stop]
        if mark[0] == "$${":
            literal += "${"
            at = mark.end()
            continue
        if literal:
            parts.append(literal)
            literal = ""
        variable, at = _variable(text, stop)
        parts.append(variable)


def _variable(text: str, start: int) -> tuple[Variable, int]:
    name = _NAME.match(text, start + 2)
    if name is None:
        hint = "write `${NAME}`, or `$${` for a plain `${`"
        raise TextProblem("`${` is not followed by the name of a variable", start, 2, hint)
    at, default = name.end(), None
    if text.startswith(":-", at):
        default, at = _parse(text, at + 2, inside=True)
    if not text.startswith("}", at):
        known = "write `${" + name[0] + "}` or `${" + name[0] + ":-default}`"
        message = f"`${{{name[0]}` is not closed by `}}`"
        if at < len(text):
            message = f"`${{{name[0]}` is followed by `{text[at]}`, which is not allowed here"
        raise TextProblem(message, start, at - start, known)
    return Variable(name[0], default, start, at + 1 - start), at + 1
