"""Logs in a few words: the events of each run as they stand in a log, folded without files or written as files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec

from whyrun.log.lean_events import LeanEvent
from whyrun.log.runs import WorkflowState
from whyrun.log.tombstones import CarriedInput, Tombstone
from whyrun.snapshot.history.fold import RunFold
from whyrun.snapshot.history.reader import History
from whyrun.snapshot.records import Records

_decoder = msgspec.json.Decoder(LeanEvent)

Event = dict[str, Any]
BINDINGS = {"topic": [{"id": "Input:Topic", "sha256": "0" * 64}]}
RUN: Event = {"event": "run_start", "mode": "run"}
COMPARE: Event = {"event": "run_start", "mode": "compare"}
ACCEPT: Event = {"event": "run_start", "mode": "compare", "options": {"accept": True}}
ADOPT: Event = {"event": "run_start", "mode": "adopt"}
END: Event = {"event": "run_complete", "state": "succeeded", "counts": {}, "duration": 1.0}


def start(step: str, fingerprint: str, attempt: int = 1, **more: Any) -> Event:
    fields = {"step_id": step, "fingerprint": fingerprint, "attempt": attempt, "bindings": BINDINGS}
    return {"event": "step_start", **fields, **more}


def made(artifact: str, sha256: str, **more: Any) -> Event:
    """An output of `Job:Page`, unless another step is named."""
    fields = {"artifact": artifact, "step_id": "Job:Page", "sha256": sha256, "size": len(sha256), "type": "text"}
    return {"event": "artifact_available", **fields, **more}


def done(step: str, duration: float = 1.0) -> Event:
    return {"event": "step_complete", "step_id": step, "duration": duration}


def failed(step: str, error_type: str = "ValueError", error: str = "no", status: str = "FAILED") -> Event:
    return {"event": "step_failed", "step_id": step, "error": error, "error_type": error_type, "status": status}


def reused(step: str, fingerprint: str | None, **more: Any) -> Event:
    fields = {"step_id": step, "why": "reused", "fingerprint": fingerprint, "bindings": BINDINGS}
    return {"event": "step_skipped", **fields, **more}


def adopted(artifact: str, sha256: str, fingerprint: str, **more: Any) -> Event:
    """An output of `Job:Page`."""
    fields = {"artifact": artifact, "step_id": "Job:Page", "sha256": sha256, "size": len(sha256), "type": "text"}
    return {"event": "artifact_adopted", **fields, "fingerprint": fingerprint, "bindings": BINDINGS, **more}


def request(step: str, fingerprint: str, key: str, value: object) -> Event:
    fields = {"step_id": step, "fingerprint": fingerprint, "key": key, "value": value}
    return {"event": "request_recorded", **fields}


def decoded(number: int, events: list[Event]) -> list[LeanEvent]:
    head = {"session": f"r{number:04}"}
    return [_decoder.decode(json.dumps({"seq": seq, **head, **event})) for seq, event in enumerate(events, 1)]


def folded(*runs: list[Event]) -> Records:
    """Runs 1, 2, …, each with these events."""
    records = Records()
    for number, events in enumerate(runs, 1):
        fold = RunFold(records, number, f"r{number:04}/events.jsonl")
        fold.feed(decoded(number, events))
        fold.finish()
    return records


def write_run(state: WorkflowState, number: int, events: list[Event], *, old: bool = True) -> Path:
    """The log of one run, as a file. `old`: written long ago, so that an index may cover it."""
    head = {"ts": "2026-01-01T00:00:00.000000Z", "session": f"r{number:04}"}
    lines = [{"seq": seq, **head, **event, "chain": f"{seq:064x}"} for seq, event in enumerate(events, 1)]
    path = state.runs_dir / f"r{number:04}" / "events.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    if old:
        os.utime(path, (1, 1))
    return path


def stone(number: int, inputs: list[CarriedInput] | None = None, mode: str = "run", events: int = 9) -> Tombstone:
    return msgspec.convert(
        {
            "run": f"r{number:04}", "mode": mode, "state": "succeeded", "started": "", "ended": "", "events": events,
            "previous_chain": "", "chain": "", "pruned": "2026-01-02", "inputs": inputs or [],
        },
        type=Tombstone,
        from_attributes=True,
    )  # fmt: skip


def new_state(folder: Path) -> WorkflowState:
    state = WorkflowState(folder / ".whyrun", "w")
    state.folder.mkdir(parents=True)
    return state


def no_blob(sha256: str) -> bytes:
    raise AssertionError(f"nobody should ask for {sha256}")


def reading(state: WorkflowState, worth: int = 1, **how: Any) -> History:
    return History(state, no_blob, worth_indexing=worth, **how)


# --- a log of a few runs -----------------------------------------------------------------------------------------

PAGE, TEXT = "Job:Page", "Artifact:Page.Text"
SHA, PRINT = "5" * 64, "f" * 64


def topic(sha256: str) -> Event:
    return {"event": "input_recorded", "id": "Input:Topic", "sha256": sha256}


def page(fingerprint: str = PRINT) -> list[Event]:
    return [start(PAGE, fingerprint), made(TEXT, SHA), done(PAGE)]


ONE = [RUN, topic("1"), *page(), END]  # six events
TWO = [RUN, topic("2"), *page("e" * 64), END]
OPEN = [RUN, topic("3")]
