from __future__ import annotations

import pytest

from whyrun.errors import StateError
from whyrun.log.decoding import LIMIT, long_list, read_long_list


def test_lists_up_to_64_stay_and_longer_ones_go_into_a_blob():
    blobs: dict[str, bytes] = {}

    def put(data: bytes) -> str:
        blobs["blob"] = data
        return "blob"

    narrow = [{"id": f"Input:A[{i}]", "sha256": "é"} for i in range(LIMIT)]
    assert long_list(narrow, put) == narrow
    assert blobs == {}
    members = [*narrow, {"sha256": "1", "id": "Input:A[64]"}]
    value = long_list(members, put)
    assert value == {"count": 65, "digest": value["digest"], "blob": "blob"}
    assert read_long_list(value, blobs.__getitem__) == members
    assert read_long_list(narrow, blobs.__getitem__) == narrow
    assert long_list([dict(reversed(m.items())) for m in members], put) == value
    blobs["blob"] = b"[1,2]"
    with pytest.raises(StateError, match="STORE_DAMAGED"):
        read_long_list(value, blobs.__getitem__)
