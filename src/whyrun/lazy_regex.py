"""Regular expressions that are compiled when they are first used.

Compiling one takes 0.1 to 0.5 ms. A command imports dozens of them and uses few.
"""

from __future__ import annotations

import re
import sys
from _thread import allocate_lock, get_ident  # `threading` costs every fork of a worker
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, AnyStr, cast

_compile = re.compile  # below, `re.compile` can be replaced for a moment
_replacing = allocate_lock()


def lazy_regex(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """The same as `re.compile`, for a constant of a module."""
    return cast("re.Pattern[AnyStr]", _LazyRegex(pattern, flags))


@contextmanager
def lazy_regexes_in(library: str) -> Iterator[None]:
    """Import this library in the context, and its regular expressions are lazy ones.

    For a library that compiles many and needs few for what we ask of it. Other threads, which may be in the middle of
    anything, get real ones meanwhile.
    """
    if library in sys.modules:
        yield
        return
    importer = get_ident()

    def compile_later(pattern: Any, flags: int = 0) -> Any:
        return lazy_regex(pattern, flags) if get_ident() == importer else _compile(pattern, flags)

    with _replacing:  # a second thread would take our function for the original, and put it back for good
        before, re.compile = re.compile, compile_later
        try:
            yield
        finally:
            re.compile = before


class _LazyRegex:
    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self._pattern: Any = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(_compile(self._pattern, self._flags), name)
        setattr(self, name, value)  # later uses find the method without this function
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        return _compile, (self._pattern, self._flags)  # a copy is compiled
