"""A result with an array is shared with all its elements, whose keys may have dots."""

from __future__ import annotations

from shared_lab import Team

ARRAYS = """
workflow: demo
jobs:
  Make:
    uses: shell
    deterministic: true
    with: {run: 'echo 1 > "$out_Parts/a.b.txt"; echo 2 > "$out_Parts/c"; echo 3 > "$out_Names/d"'}
    outputs: {Parts: {type: "file[]", path: parts}, Names: {type: "string[]"}}
"""


def test_a_result_with_an_array_is_given_and_taken(folder_team: Team) -> None:
    folder_team.clone(ARRAYS).succeed()
    second = folder_team.clone(ARRAYS)
    ran = second.succeed()
    assert ran.executed == []
    assert {name: second.read(f"parts/{name}") for name in ("a.b.txt", "c")} == {"a.b.txt": "1\n", "c": "2\n"}
    assert second.plan().headlines() == {}
