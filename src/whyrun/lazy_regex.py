"""Regular expressions that are compiled when they are first used.

Compiling one takes 0.1 to 0.5 ms. A command imports dozens of them and uses few.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


def lazy_regex(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """The same as `re.compile`, for a constant of a module."""
    return cast("re.Pattern[AnyStr]", _LazyRegex(pattern, flags))


class _LazyRegex:
    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self._pattern: Any = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(self._pattern, self._flags), name)
        setattr(self, name, value)  # later uses find the method without this function
        return value
