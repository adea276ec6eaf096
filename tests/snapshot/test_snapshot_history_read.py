"""What is read of a log when somebody asks: what attempts consumed, IDs that do not parse, and the memo."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fold_lab import (
    END,
    ONE,
    PAGE,
    PRINT,
    RUN,
    Event,
    done,
    failed,
    new_state,
    no_blob,
    reading,
    start,
    stone,
    write_run,
)

from whyrun.artifacts.durable import with_checksum
from whyrun.artifacts.hashing import bytes_sha256, canonical_json
from whyrun.errors import StateError, error
from whyrun.log.runs import WorkflowState
from whyrun.snapshot.history.reader import History


@pytest.fixture
def state(tmp_path: Path) -> WorkflowState:
    return new_state(tmp_path)


# --- what attempts consumed --------------------------------------------------------------------------------------


def member(text: str, **more: Any) -> dict[str, Any]:
    return {"id": text, "sha256": "0" * 64, **more}


def long_list(count: int) -> tuple[dict[str, Any], bytes]:
    data = canonical_json([member(f"Input:Photo[{i}]") for i in range(count)])
    return {"count": count, "digest": bytes_sha256(data), "blob": bytes_sha256(data)}, data


def consumed(
    state: WorkflowState, bindings: list[dict[str, Any]], get_blob: Callable[[str], bytes] = no_blob
) -> dict[tuple[int, int], Any]:
    """What steps with these bindings consumed, each in a run of its own."""
    for number, each in enumerate(bindings, 1):
        write_run(state, number, [RUN, start(PAGE, f"{number}", bindings=each), done(PAGE), END])
    history = History(state, get_blob)
    return dict(history.consumed(history.records.steps[PAGE].attempts()))


def test_bindings_are_handed_out_as_they_stand(state: WorkflowState) -> None:
    folder = member("Input:A", **{"as": "f", "files": {"x": "y"}, "more": 1})
    one = {"a": [folder], "b": [], ".action": [member("Input:B")]}
    two = {"a": [member("Artifact:Other.Text[7]")]}
    assert consumed(state, [one, two]) == {(1, 2): one, (2, 2): two}


def test_long_lists_are_read_once_and_handed_out_with_their_members(state: WorkflowState) -> None:
    wide, data = long_list(70)
    asked: list[str] = []

    def get_blob(sha256: str) -> bytes:
        asked.append(sha256)
        return data

    found = consumed(state, [{"all": wide, "one": [member("Input:A")]}, {"all": wide}], get_blob)
    members = msgspec.json.decode(data)
    assert found == {(1, 2): {"all": members, "one": [member("Input:A")]}, (2, 2): {"all": members}}
    assert asked == [wide["blob"]]


def test_a_long_list_whose_blob_is_lost_stays_as_it_stands(state: WorkflowState) -> None:
    wide, _ = long_list(70)

    def lost(sha256: str) -> bytes:
        raise error("STORE_DAMAGED", f"{sha256} is gone")

    assert consumed(state, [{"all": wide}], lost) == {(1, 2): {"all": wide}}


def test_a_long_list_of_another_length_or_content_stays_as_it_stands(state: WorkflowState) -> None:
    wide, data = long_list(70)
    other = {**wide, "count": 71}
    assert consumed(state, [{"all": other}], lambda _: data) == {(1, 2): {"all": other}}


def test_any_other_trouble_with_a_blob_is_told(state: WorkflowState) -> None:
    wide, _ = long_list(70)

    def refused(sha256: str) -> bytes:
        raise error("LOG_DAMAGED", "something else")

    with pytest.raises(StateError, match="something else"):
        consumed(state, [{"all": wide}], refused)


BAD_BINDINGS: list[tuple[dict[str, Any], bytes, str]] = [
    ({"a": [{"id": "Input:A"}]}, b"", "the bindings cannot be read: "),
    ({"a": [member("Input:A", **{"as": 3})]}, b"", "the bindings cannot be read: "),
    ({"a": [member("Input:A", listed=3)]}, b"", "the bindings cannot be read: "),
    ({"a": [member("Input:A", files=[])]}, b"", "the bindings cannot be read: "),
    ({".action": long_list(70)[0]}, b"", "the bindings cannot be read: `.action` is a long list"),
    ({"a": [member("Input:A"), member("A")]}, b"", "`a`: `A`"),
    ({"a": long_list(70)[0]}, b"[1]", f"the blob {long_list(70)[0]['blob']} holds no list of members: "),
    ({"a": long_list(70)[0]}, canonical_json([member("A")]), f"`blob {long_list(70)[0]['blob']}`: `A`"),
]


@pytest.mark.parametrize(("bindings", "blob", "message"), BAD_BINDINGS, ids=map(str, range(len(BAD_BINDINGS))))
def test_malformed_bindings_are_told_with_their_line(
    state: WorkflowState, bindings: dict[str, Any], blob: bytes, message: str
) -> None:
    with pytest.raises(StateError) as stopped:
        consumed(state, [bindings], lambda _: blob)
    (problem,) = stopped.value.diagnostics
    path = state.runs_dir / "r0001" / "events.jsonl"
    assert (problem.code, problem.file, problem.line) == ("LOG_DAMAGED", str(path), 2)
    assert problem.message.startswith(message)


def test_lines_of_a_long_log_are_found_through_the_index(state: WorkflowState) -> None:
    events: list[Event] = [RUN]
    for number in range(900):
        step = f"Job:Page[{number}]"
        bindings = {"topic": [member(f"Input:Topic[{number}]")]}
        events += [start(step, PRINT, bindings=bindings), done(step)]
    path = write_run(state, 1, [*events, END])
    assert path.stat().st_size > 4 << 16
    reading(state).records  # noqa: B018
    history = reading(state)
    chosen = [history.records.steps[f"Job:Page[{number}]"].latest for number in (0, 450, 899)]
    expected = {(1, 2 + 2 * number): {"topic": [member(f"Input:Topic[{number}]")]} for number in (0, 450, 899)}
    for attempts in ([chosen[0]], [chosen[1]], [chosen[2]], chosen):
        wanted = {(a.run, a.seq): expected[a.run, a.seq] for a in attempts}
        assert history.consumed(attempts) == wanted
    assert history.consumed([]) == {}


# --- ids and the memo --------------------------------------------------------------------------------------------


def test_every_run_is_looked_through_for_ids_that_do_not_parse(state: WorkflowState) -> None:
    head = {"workflow": "w", "workflow_sha256": "", "backend": "local", "engine_version": "", "host": "", "pid": 1}
    begun = {**RUN, **head, "options": {}, "previous_chain": ""}
    write_run(state, 1, [begun, END])
    wrong = {**failed("Page"), "driver": "", "traceback": "", "duration": 0.0, "will_retry": False}
    write_run(state, 2, [begun, wrong])
    reading(state, through=1).check_ids()
    with pytest.raises(StateError) as stopped:
        reading(state).check_ids()
    (problem,) = stopped.value.diagnostics
    assert (problem.code, problem.line) == ("LOG_DAMAGED", 2)
    assert problem.file == str(state.runs_dir / "r0002" / "events.jsonl")


def test_the_memo_is_kept_beside_the_index(state: WorkflowState) -> None:
    assert reading(state).load_memo() == {}
    reading(state).save_memo({"Page": "digest"})
    assert not state.index_dir.exists(), "a workflow that has not run has nothing to remember"
    write_run(state, 1, ONE)
    for how in ({"through": 1}, {"without": [stone(1)]}):
        reading(state, **how).save_memo({"Page": "digest"})
        assert not state.index_dir.exists(), "a part of the log is not what is remembered"
    reading(state).save_memo({"Page": "digest"})
    assert reading(state).load_memo() == {"Page": "digest"}
    path = state.index_dir / "memo"
    for broken in (b"", path.read_bytes()[:-1], with_checksum(b"\x01")):
        path.write_bytes(broken)
        assert reading(state).load_memo() == {}
