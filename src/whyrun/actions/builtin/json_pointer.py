"""JSON pointers (RFC 6901): `/choices/0/text` names one value in a document, and `` the whole of it."""

from __future__ import annotations

import re
from typing import Any

ABSENT: Any = object()  # there is no such place; not the same as `null`

_INDEX = re.compile(r"0|[1-9][0-9]*")


def value_at(document: Any, pointer: str) -> Any:
    """The value at that place, or ABSENT. Nothing stands in for another: no negative index, no number as a name."""
    if not pointer:
        return document
    for token in pointer[1:].split("/"):
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict) and name in document:
            document = document[name]
        elif isinstance(document, list) and _INDEX.fullmatch(name) and int(name) < len(document):
            document = document[int(name)]
        else:
            return ABSENT
    return document


def same(found: Any, wanted: Any) -> bool:
    """JSON's own equality: `true` is not `1`, which Python would say."""
    return found == wanted and isinstance(found, bool) == isinstance(wanted, bool)
