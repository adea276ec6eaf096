"""Reads in events: their form, long lists, what a log must not hold, and the names of a folder."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from whyrun.errors import StateError
from whyrun.log import events as ev
from whyrun.log.decoding import LIMIT, observed_field, read_observed
from whyrun.log.events import check_ids
from whyrun.log.journal import check
from whyrun.log.lean_events import LeanEvent
from whyrun.log.reads import (
    LongReads,
    Read,
    counted_names,
    folder_sha256,
    is_project_path,
    reads_problem,
)

SHA = "ab" * 32
HELPER = Read("lib/helper.py", "file", SHA)
FOLDER = Read("data", "folder", SHA, "strace")
ABSENT = Read("conf.json", "absent")


def complete(**more: Any) -> ev.StepComplete:
    return ev.StepComplete(step_id="Job:A", driver="shell", output_dir="o", duration=1.0, status="EXECUTES", **more)


def blobs() -> tuple[dict[str, bytes], Any]:
    stored: dict[str, bytes] = {}

    def put(data: bytes) -> str:
        stored["cd" * 32] = data
        return "cd" * 32

    return stored, put


def test_an_event_holds_reads_in_the_order_of_paths_and_says_only_what_is_special() -> None:
    _, put = blobs()
    event = complete(observed=observed_field([HELPER, FOLDER, ABSENT], put), traced=True, packages={"numpy": "2.1.0"})
    written = msgspec.json.decode(check(event))
    assert written["observed"] == [
        {"path": "conf.json", "kind": "absent"},
        {"path": "data", "kind": "folder", "sha256": SHA, "by": "strace"},
        {"path": "lib/helper.py", "kind": "file", "sha256": SHA},
    ]
    assert (written["traced"], written["packages"]) == (True, {"numpy": "2.1.0"})


def test_an_event_without_observations_has_the_bytes_of_older_logs() -> None:
    assert check(complete()) == (
        b'{"event":"step_complete","step_id":"Job:A","driver":"shell","output_dir":"o","duration":1.0,'
        b'"status":"EXECUTES"}'
    )


@pytest.mark.parametrize("count", [LIMIT, LIMIT + 1])
def test_more_than_64_reads_are_in_a_blob(count: int) -> None:
    stored, put = blobs()
    reads = [Read(f"f{number:03}", "file", SHA) for number in range(count)]
    observed = observed_field(reversed(reads), put)
    assert isinstance(observed, LongReads) == (count > LIMIT)
    assert read_observed(observed, stored.__getitem__) == reads
    read_again = msgspec.json.decode(check(complete(observed=observed)), type=ev.StepComplete)
    assert read_again.observed == observed


def test_the_lean_reader_keeps_reads_undecoded() -> None:
    observed = [FOLDER, HELPER]
    line = check(complete(observed=observed, traced=True, packages={"a": "1"}))
    lean: Any = msgspec.json.decode(line[:1] + b'"seq":1,"session":"r0001",' + line[1:], type=LeanEvent)
    assert msgspec.json.decode(lean.observed, type=list[Read]) == observed
    assert (lean.traced, bytes(lean.packages)) == (True, b'{"a":"1"}')


@pytest.mark.parametrize(
    ("reads", "says"),
    [
        ([Read("/etc/passwd", "absent")], "`/etc/passwd` is not a path in the project"),
        ([Read("../x", "absent")], "`../x` is not a path in the project"),
        ([Read("a//b", "absent")], "`a//b` is not a path in the project"),
        ([Read("", "absent")], "`` is not a path in the project"),
        ([HELPER, HELPER], "`lib/helper.py` is read twice"),
        ([HELPER, FOLDER], "`data` is read twice, or not in the order of paths"),
        ([Read("a", "file")], "the read `a` is `file`, which does not go with its hash `None`"),
        ([Read("a", "unknown", SHA)], f"the read `a` is `unknown`, which does not go with its hash `{SHA}`"),
    ],
)
def test_reads_that_a_log_must_not_hold(reads: list[Read], says: str) -> None:
    assert (reads_problem(reads) or "").startswith(says)
    with pytest.raises(StateError) as caught:
        check_ids(complete(observed=reads), "events.jsonl")
    assert caught.value.diagnostics[0].code == "LOG_DAMAGED"
    assert says in caught.value.diagnostics[0].message


def test_observed_field_refuses_what_a_log_must_not_hold() -> None:
    with pytest.raises(ValueError, match="not a path in the project"):
        observed_field([Read("/x", "absent")], blobs()[1])


def test_paths_of_the_project() -> None:
    assert [is_project_path(path) for path in (".", "a", "a/b.c", "..a")] == [True] * 4
    assert [is_project_path(path) for path in ("", "/a", "a/", "./a", "a/../b", "a//b")] == [False] * 6


def test_the_names_of_a_folder_count_in_any_order_without_state_and_byte_code() -> None:
    names = ["b.csv", "a.csv", ".git", ".whyrun", "__pycache__", "m.pyc"]
    assert counted_names(names) == ["a.csv", "b.csv"]
    assert folder_sha256(names) == folder_sha256(["a.csv", "b.csv"]) != folder_sha256(["a.csv"])
    assert folder_sha256(["a.csv", "own.csv"], {"own.csv"}) == folder_sha256(["a.csv"])
