"""Places in `with:` blocks that take a connection, as an action tells them: plain data that can be kept and sent."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

REFERENCE = re.compile(r"@[A-Za-z][A-Za-z0-9_-]*(?:\.[A-Za-z][A-Za-z0-9_-]*)?")  # to a connection
SECRET_FIELDS = ("password",)  # of any connection whose action says nothing else


class ConnectionPlace(msgspec.Struct, frozen=True):
    """A place in a `with:` block that takes a connection. A `*` in its path is any member of a list or mapping."""

    path: tuple[str, ...]
    secret_fields: tuple[str, ...] = SECRET_FIELDS
    required_fields: tuple[str, ...] = ()
    families: tuple[str, ...] = ()  # of which it may be; empty: of any

    def fits(self, path: Sequence[str | int]) -> bool:
        return len(path) == len(self.path) and all(own in ("*", key) for own, key in zip(self.path, path, strict=True))
