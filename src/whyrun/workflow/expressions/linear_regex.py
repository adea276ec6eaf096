"""`matches(text, pattern)` in time that is linear in the length of the text.

Python's `re` backtracks, which takes exponential time for patterns such as `(a|a)*`. Here all alternatives are followed
at once, character by character (Thompson's construction). The parser of `re` reads the pattern, so it means the same.
Back-references and look-around need backtracking and are refused.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from re import _constants as sre  # type: ignore[attr-defined]  # the parser of `re` has no stubs
from re import _parser as sre_parser  # type: ignore[attr-defined]
from typing import Any

MOST_STATES = 1000
_KNOWN_FLAGS = re.UNICODE | re.IGNORECASE | re.DOTALL | re.VERBOSE | re.ASCII

Test = Callable[[str], bool]  # of one character
Check = Callable[[str, int], bool]  # of a place in a text


class PatternError(Exception):
    """The pattern is invalid, or cannot be matched in linear time."""


class Pattern:
    """A finite automaton. States are numbers. `tests` consume a character, `checks` only look at the position."""

    def __init__(self) -> None:
        self.tests: list[list[tuple[Test, int]]] = []
        self.checks: list[list[tuple[Check | None, int]]] = []
        self.start = self.end = 0

    def new(self) -> int:
        if len(self.tests) >= MOST_STATES:
            raise PatternError("it repeats too much")
        self.tests.append([])
        self.checks.append([])
        return len(self.tests) - 1

    def matches(self, text: str) -> bool:
        """Whether the whole text fits."""
        now = self._reachable({self.start}, text, 0)
        for position, character in enumerate(text):
            following = {to for state in now for test, to in self.tests[state] if test(character)}
            if not following:
                return False
            now = self._reachable(following, text, position + 1)
        return self.end in now

    def _reachable(self, states: set[int], text: str, position: int) -> set[int]:
        reached, waiting = set(states), list(states)
        while waiting:
            for check, to in self.checks[waiting.pop()]:
                if to not in reached and (check is None or check(text, position)):
                    reached.add(to)
                    waiting.append(to)
        return reached


@lru_cache(maxsize=256)
def compile_pattern(text: str) -> Pattern:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `re` warns about `[[`, which other tools read as a set
            parsed = sre_parser.parse(text)
    except (re.error, RecursionError, OverflowError) as problem:
        raise PatternError(str(problem)) from None
    return _Builder(parsed.state.flags).build(parsed)


class _Builder:
    def __init__(self, flags: int) -> None:
        self.pattern = Pattern()
        self.flags = flags

    def build(self, parsed: Any) -> Pattern:
        self._check_flags(self.flags)
        pattern = self.pattern
        pattern.start = pattern.new()
        pattern.end = self.sequence(parsed, pattern.start, self.flags)
        return pattern

    def _check_flags(self, flags: int) -> None:
        if flags & ~_KNOWN_FLAGS:
            raise PatternError("it has a flag other than `i`, `s`, `x` and `a`")

    def sequence(self, items: Any, state: int, flags: int) -> int:
        """Add all items, one after the other, from this state; the state after the last."""
        for operation, argument in items:
            state = self.item(operation, argument, state, flags)
        return state

    def item(self, operation: Any, argument: Any, state: int, flags: int) -> int:
        if operation in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN):
            after = self.pattern.new()
            self.pattern.tests[state].append((_test(operation, argument, flags), after))
            return after
        if operation is sre.AT:
            after = self.pattern.new()
            self.pattern.checks[state].append((_check(argument, flags), after))
            return after
        if operation is sre.BRANCH:
            after = self.pattern.new()
            for branch in argument[1]:
                self.pattern.checks[self.sequence(branch, state, flags)].append((None, after))
            return after
        if operation is sre.SUBPATTERN:
            _, more, fewer, inner = argument
            self._check_flags(more)
            return self.sequence(inner, state, (flags | more) & ~fewer)
        if operation in (sre.MAX_REPEAT, sre.MIN_REPEAT):  # for a match of the whole text, greediness does not matter
            least, most, inner = argument
            return self.repeated(least, most, inner, state, flags)
        raise PatternError("it uses back-references, look-around or possessive repetition")

    def repeated(self, least: int, most: int, inner: Any, state: int, flags: int) -> int:
        for _ in range(least):
            state = self.sequence(inner, state, flags)
        if most is sre.MAXREPEAT:
            # The loop needs a new state: otherwise it would lead back into other items that start at `state`.
            again = self.pattern.new()
            self.pattern.checks[state].append((None, again))
            self.pattern.checks[self.sequence(inner, again, flags)].append((None, again))
            return again
        after = self.pattern.new()
        self.pattern.checks[state].append((None, after))
        for _ in range(most - least):
            state = self.sequence(inner, state, flags)
            self.pattern.checks[state].append((None, after))
        return after


# --- characters --------------------------------------------------------------------------------------------------


def _test(operation: Any, argument: Any, flags: int) -> Test:
    if operation is sre.ANY:
        return (lambda character: True) if flags & re.DOTALL else (lambda character: character != "\n")
    if operation is sre.LITERAL:
        return _any_case([(sre.LITERAL, argument)], flags)
    if operation is sre.NOT_LITERAL:
        same = _any_case([(sre.LITERAL, argument)], flags)
        return lambda character: not same(character)
    if argument[0][0] is sre.NEGATE:
        inside = _any_case(argument[1:], flags)
        return lambda character: not inside(character)
    return _any_case(argument, flags)


def _any_case(members: Sequence[tuple[Any, Any]], flags: int) -> Test:
    inside = _one_of(members, flags)
    if not flags & re.IGNORECASE:
        return inside
    return lambda character: any(map(inside, {character, *_single(character.lower()), *_single(character.upper())}))


def _single(text: str) -> tuple[str, ...]:
    return (text,) if len(text) == 1 else ()


def _one_of(members: Sequence[tuple[Any, Any]], flags: int) -> Test:
    singles = {chr(argument) for operation, argument in members if operation is sre.LITERAL}
    ranges = [argument for operation, argument in members if operation is sre.RANGE]
    kinds = [_kind(argument, flags) for operation, argument in members if operation is sre.CATEGORY]

    def inside(character: str) -> bool:
        if character in singles:
            return True
        code = ord(character)
        return any(low <= code <= high for low, high in ranges) or any(kind(character) for kind in kinds)

    return inside


def _kind(category: Any, flags: int) -> Test:
    kind = _KINDS[str(category).removeprefix("CATEGORY_").removeprefix("NOT_")]
    ascii_only = bool(flags & re.ASCII)
    wanted = "NOT_" not in str(category)
    return lambda character: (kind(character) and (character.isascii() or not ascii_only)) is wanted


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


_KINDS: dict[str, Test] = {"DIGIT": str.isdecimal, "SPACE": str.isspace, "WORD": _is_word}


# --- places ------------------------------------------------------------------------------------------------------


def _check(where: Any, flags: int) -> Check:
    if where in (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING):
        return lambda text, position: position == 0
    if where is sre.AT_END:
        return lambda text, position: position == len(text) or (position == len(text) - 1 and text[position] == "\n")
    if where is sre.AT_END_STRING:
        return lambda text, position: position == len(text)
    word = _kind(sre.CATEGORY_WORD, flags)
    wanted = where is sre.AT_BOUNDARY

    def at_edge(text: str, position: int) -> bool:
        before = position > 0 and word(text[position - 1])
        after = position < len(text) and word(text[position])
        # In Python neither `\b` nor `\B` matches an empty text.
        return bool(text) and (before is not after) is wanted

    return at_edge
