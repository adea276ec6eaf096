"""Which lines of a log without an end are borne out by the bytes that they speak of."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from whyrun.artifacts.store import Store
from whyrun.errors import StateError
from whyrun.log import events as ev
from whyrun.log.journal import Clock
from whyrun.log.repair import survived
from whyrun.log.runs import RunRef, WorkflowState, create_run

GONE = "d" * 64


class Begun:
    """A run that wrote these events after its start, and what is in its store."""

    def __init__(self, state: WorkflowState, clock: Clock, start: ev.RunStart) -> None:
        self.run, self.journal = create_run(state, start, clock)
        self.writing = Store(state.store)
        self.state = state

    def wrote(self, *events: ev.Event) -> RunRef:
        for event in events:
            self.journal.append(event)
        self.journal.close()
        return self.run

    def counts(self, synced: int = 0) -> int:
        """How many lines count; a new process asks, which has not seen any bytes yet."""
        left = survived(self.run, Store(self.state.store), synced)
        lines = self.run.events_path.read_bytes().splitlines(keepends=True)
        assert left.last is not None
        count = left.last.seq
        assert left.size == sum(len(line) for line in lines[:count])
        assert left.outcome.last_ts == left.last.ts
        return count

    def blob(self, data: bytes) -> str:
        return self.writing.put_bytes(data)

    def lose(self, sha256: str) -> None:
        Path(self.writing.path(sha256)).unlink()


@pytest.fixture
def begun(state: WorkflowState, clock: Clock, run_start: ev.RunStart) -> Begun:
    return Begun(state, clock, run_start)


def available(sha256: str, artifact: str = "Artifact:A.B", **fields: Any) -> ev.ArtifactAvailable:
    return ev.ArtifactAvailable(**{
        "artifact": artifact, "step_id": "Job:A", "sha256": sha256, "size": 1, "type": "text", **fields
    })  # fmt: skip


def started(bindings: Any) -> ev.StepStart:
    return ev.StepStart(step_id="Job:A", driver="d", attempt=1, fingerprint="f", bindings=bindings)


def reused(bindings: Any) -> ev.StepSkipped:
    return ev.StepSkipped(step_id="Job:A", why="reused", bindings=bindings)


def wide(blob: str) -> dict[str, Any]:
    return {"count": 65, "digest": "e" * 64, "blob": blob}


@pytest.mark.parametrize(
    "event",
    [
        available(GONE),
        available(GONE, type="directory"),
        started({"x": wide(GONE)}),
        reused({"x": [], "y": wide(GONE)}),
        ev.FileDisplaced(path="out/x", sha256=GONE),
        ev.CfgMaterialized(path="cfg/A.json", size=2, sha256=GONE),
        ev.CfgMaterialized(path="cfg/\0.json", size=2, sha256=GONE),
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_line_whose_bytes_are_gone_does_not_count_nor_what_follows(begun: Begun, event: ev.Event) -> None:
    note = ev.Task(step_id="Job:A", status="s", message="m")
    begun.wrote(note, event, note)
    assert begun.counts() == 2
    assert begun.counts(synced=2) == 2
    assert begun.counts(synced=3) == 4, "what was synced is not doubted"


@pytest.mark.parametrize(
    "event",
    [
        ev.RequestRecorded(step_id="Job:A", fingerprint=GONE, key="k", value=GONE),
        ev.ManifestMaterialized(path="manifest.yaml", size=1, sha256=GONE),
        ev.InputRecorded(id="Input:A", sha256=GONE),
        started(None),
        started({"x": [{"id": "Input:A", "sha256": GONE}], "y": {"no": "blob"}, "z": ["blob"]}),
        reused(None),
        available(GONE, "Artifact:A.B.Leaf"),
        available(GONE, value=7),
        available(GONE, value=None),
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_line_that_speaks_of_no_bytes_of_its_own_counts(begun: Begun, event: ev.Event) -> None:
    begun.wrote(event)
    assert begun.counts() == 2


def test_bytes_that_are_there_bear_their_lines_out(begun: Begun, tmp_path: Path) -> None:
    text, members, old = begun.blob(b"text"), begun.blob(b"[]"), begun.blob(b"old")
    book = tmp_path / "book"
    book.mkdir()
    (book / "page").write_bytes(b"page")
    tree, _ = begun.writing.put_tree(book)
    cfg = begun.run.path / "cfg" / "A.json"
    cfg.parent.mkdir()
    cfg.write_bytes(b"{}")
    begun.wrote(
        ev.CfgMaterialized(path="cfg/A.json", size=2, sha256=hashlib.sha256(b"{}").hexdigest()),
        started({"x": wide(members)}),
        available(text),
        available(text, value="text"),
        ev.FileDisplaced(path="out/x", sha256=old),
        reused({"x": wide(members)}),
        available(tree, type="directory"),
    )
    assert begun.counts() == 8
    page = hashlib.sha256(b"page").hexdigest()
    begun.lose(page)
    assert begun.counts() == 7, "a file of the folder is gone"
    begun.blob(b"page")
    cfg.write_bytes(b"{ }")
    assert begun.counts() == 1
    cfg.unlink()
    assert begun.counts() == 1
    assert begun.counts(synced=2) == 8


@pytest.mark.parametrize("lost", [0, 1])
def test_of_several_long_lists_each_must_be_there(begun: Begun, lost: int) -> None:
    shas = [begun.blob(b"[1]"), begun.blob(b"[2]")]
    begun.wrote(started({"x": wide(shas[0]), "y": wide(shas[1])}))
    assert begun.counts() == 2
    begun.lose(shas[lost])
    assert begun.counts() == 1


@pytest.mark.parametrize("wrong", [7, None, ["d" * 64], "", "d" * 63, "d" * 65, "D" * 64, "\0" * 64, "../" * 40])
def test_what_is_no_hash_is_damage_at_its_line(begun: Begun, wrong: Any) -> None:
    """A power cut does not make such a line: somebody has, so it is not cut off as if it had never been."""
    text = str(wrong)
    run = begun.wrote(
        started({}), reused({"x": wide(GONE), "y": wide(wrong)}), available(text), available(text, value=7),
        ev.FileDisplaced(path="out/x", sha256=text), available(text, reused_from="r0001"),
    )  # fmt: skip
    for before in range(2, 7):
        with pytest.raises(StateError) as refused:
            begun.counts(synced=before)
        (told,) = refused.value.diagnostics
        assert (told.code, told.file, told.line, told.message) == (
            "LOG_DAMAGED", str(run.events_path), before + 1, f"`{text[:80]}` is not a hash"
        )  # fmt: skip


@pytest.mark.parametrize("fields", [{"value": "x"}, {"artifact": "Artifact:A.B.Leaf"}])
def test_a_small_value_whose_blob_is_torn_did_not_survive(begun: Begun, fields: dict[str, Any]) -> None:
    sha256 = begun.blob(b"x")
    begun.wrote(available(**{"sha256": sha256, **fields}))
    assert begun.counts() == 2
    blob = Path(begun.writing.path(sha256))
    blob.unlink()
    assert begun.counts() == 2, "the event itself holds it"
    blob.write_bytes(b"\0")
    assert begun.counts() == 1


@pytest.mark.parametrize("type_", ["text", "directory"])
@pytest.mark.parametrize("left", [None, b"other bytes"])
def test_bytes_of_an_earlier_run_that_are_gone_or_damaged_show_nothing_of_this_one(
    begun: Begun, type_: str, left: bytes | None
) -> None:
    """They were synced before it began; it may have removed them itself, because they were damaged."""
    sha256 = begun.blob(b"made by an earlier run")
    begun.wrote(
        reused({}),
        available(sha256, type=type_, reused_from="r0001"),
        ev.RequestRecorded(step_id="Job:B", fingerprint="f", key="k", value="paid"),
    )
    begun.lose(sha256)
    if left is not None:
        Path(begun.writing.path(sha256)).write_bytes(left)
    assert begun.counts() == 4


def test_bytes_that_came_from_others_in_this_run_must_be_there(begun: Begun) -> None:
    begun.wrote(reused({}), available(GONE, reused_from="shared store"))
    assert begun.counts() == 2


def test_a_small_value_of_an_earlier_run_is_stored_anew_and_may_be_torn(begun: Begun) -> None:
    sha256 = begun.blob(b"x")
    begun.wrote(reused({}), available(sha256, value="x", reused_from="r0001"))
    blob = Path(begun.writing.path(sha256))
    blob.unlink()
    assert begun.counts() == 3
    blob.write_bytes(b"\0")
    assert begun.counts() == 2


def test_what_is_no_manifest_of_a_folder_is_no_folder(begun: Begun) -> None:
    begun.wrote(available(begun.blob(b"no manifest"), type="directory"))
    assert begun.counts() == 1


def test_how_the_steps_ended_is_told_of_the_lines_that_count(begun: Begun) -> None:
    begun.wrote(started({}), available(GONE), ev.StepComplete(
        step_id="Job:A", driver="d", output_dir="", duration=1.0, status="EXECUTES"
    ))  # fmt: skip
    left = survived(begun.run, Store(begun.state.store), 0)
    assert left.outcome.steps == {"Job:A": "open"}
    assert survived(begun.run, Store(begun.state.store), 3).outcome.steps == {"Job:A": "completed"}
