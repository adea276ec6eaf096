"""The parameters of a view, from its address. What is missing or no number is an error that says what to give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import urlencode

from whyrun.errors import error

LARGEST = 10**9


class Params:
    """Names with one or more values."""

    def __init__(self, values: Mapping[str, Iterable[str]]) -> None:
        self._values = {name: tuple(given) for name, given in values.items()}

    @classmethod
    def of(cls, **values: str) -> Params:
        return cls({name: (value,) for name, value in values.items()})

    def names(self) -> Iterable[str]:
        return self._values

    def many(self, name: str) -> tuple[str, ...]:
        return self._values.get(name, ())

    def maybe(self, name: str) -> str | None:
        given = self.many(name)
        if len(given) > 1:
            raise error("USAGE", f"`{name}` is given {len(given)} times", hint=f"give `{name}` once")
        return given[0] if given else None

    def one(self, name: str) -> str:
        value = self.maybe(name)
        if value is None:
            raise error("USAGE", f"this view needs `{name}`", hint=f"add `?{name}=…` to its address")
        return value

    def number(self, name: str, default: int) -> int:
        value = self.maybe(name)
        if value is None:
            return default
        if not (value.isascii() and value.isdigit() and int(value[:12]) <= LARGEST):
            raise error("USAGE", f"`{name}={value[:20]}` is not a whole number from 0", hint=f"write `{name}=1`")
        return int(value)

    def query(self) -> str:
        """In alphabetic order, as the page asks for it."""
        return urlencode([(name, value) for name in sorted(self._values) for value in self._values[name]])
