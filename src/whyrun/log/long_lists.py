"""Long lists: events and plans hold a list of more than 64 members as `{count, digest, blob}`; a blob holds the list.

Otherwise a fan-in of 10,000 members would be written again with every attempt.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from whyrun.artifacts.hashing import bytes_sha256, canonical_json
from whyrun.errors import error

LIMIT = 64


def long_list(members: Sequence[Any], put_blob: Callable[[bytes], str]) -> list[Any] | dict[str, Any]:
    """The list itself, or its `{count, digest, blob}`."""
    if len(members) <= LIMIT:
        return list(members)
    data = canonical_json(list(members))
    return {"count": len(members), "digest": bytes_sha256(data), "blob": put_blob(data)}


def read_long_list(value: list[Any] | dict[str, Any], get_blob: Callable[[str], bytes]) -> list[Any]:
    """The members. `get_blob` raises STORE_DAMAGED if the blob is gone or its digest does not match."""
    if isinstance(value, list):
        return value
    data = get_blob(value["blob"])
    members = json.loads(data)
    if not isinstance(members, list) or len(members) != value["count"] or bytes_sha256(data) != value["digest"]:
        raise error(
            "STORE_DAMAGED",
            f"the blob {value['blob']} does not hold the list of {value['count']} members that the log says",
            hint="`whyrun verify` lists all damaged blobs",
        )
    return members
