"""Random logs: folded at once, in pieces, through the index, and by a plain model. All must say the same."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from whyrun.ids import artifact_id, parse_id
from whyrun.log.lean_events import scan
from whyrun.log.runs import WorkflowState
from whyrun.snapshot.history.fold import RunFold
from whyrun.snapshot.history.reader import WORTH_INDEXING, History, fold_runs
from whyrun.snapshot.records import Records, StepRecord

SOAK = bool(os.environ.get("WHYRUN_SOAK"))
STEPS = ("Job:A", "Job:B[0]", "Job:B[x]")
PRINTS = ("f1", "f2", "f3")
Draw = Any


@dataclass
class Try:
    """The plain model: one attempt, reuse or adoption."""

    run: int
    seq: int
    number: int
    fingerprint: str
    ok: bool = False
    status: str = "INTERRUPTED"
    error_type: str = "Interrupted"
    origin: str = ""
    outputs: dict[str, str] = field(default_factory=dict)
    adopted: dict[str, int] = field(default_factory=dict)  # artifact → the run that adopted it
    whole: bool = True  # a reuse that lacks outputs of what it reuses does not take its place

    @property
    def usable(self) -> bool:
        """Its outputs may be taken again: also those that were made, and could not be put at their paths."""
        return self.ok or (self.error_type == "NotPublished" and bool(self.outputs))

    @property
    def settled(self) -> bool:
        if not self.whole:
            return False
        return self.ok or not (self.status == "INTERRUPTED" or self.error_type == "InputChangedDuringRun")


@dataclass
class Model:
    tries: dict[str, list[Try]] = field(default_factory=dict)
    requests: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)

    def ended(self, step: str, one: Try) -> None:
        self.tries.setdefault(step, []).append(one)
        if one.ok:
            self.requests.get(step, {}).pop(one.fingerprint, None)

    def with_print(self, step: str, fingerprint: str) -> Try | None:
        return next((t for t in reversed(self.tries[step]) if t.settled and t.fingerprint == fingerprint), None)


def artifact_of(step: str, output: str) -> str:
    return artifact_id(parse_id(step), output)


class Log:
    """Writes random runs, and keeps the model of what they mean."""

    def __init__(self, folder: Path, draw: Draw) -> None:
        self.state = WorkflowState(folder, "lab")
        self.draw = draw
        self.model = Model()
        self.number = 0

    def pick(self, *options: Any) -> Any:
        return self.draw(st.sampled_from(options))

    def write_run(self, *, length: int, whole: bool, padding: int = 0) -> None:
        self.number += 1
        self.name = f"r{self.number:04d}"
        self.lines: list[str] = []
        mode = self.pick("run", "run", "run", "compare", "adopt")
        self.add("run_start", mode=mode, workflow="lab", workflow_sha256="w", options={}, backend="lab")
        counted = mode != "compare"
        open_: dict[str, Try] = {}
        reused: set[str] = set()  # one run says only once what becomes of a step
        attempts: dict[str, int] = {}
        for _ in range(padding):
            self.add("task", step_id=STEPS[0], status="", message="")
        for _ in range(length):
            step = self.pick(*STEPS)
            if step in open_:
                self.go_on(step, open_, counted)
            elif step not in reused:
                self.begin(step, open_, reused, attempts, counted)
            if counted and self.pick(True, False, False):
                sha = self.pick("s1", "s2", "")
                self.add("input_recorded", id="Input:X", sha256=sha)
                self.model.inputs["Input:X"] = sha
        if whole:
            for step in list(open_):
                self.end(step, open_, counted, "fail")
            self.add("run_complete", state="succeeded", counts={}, duration=1.0)
        else:
            for step, one in open_.items():
                if counted:
                    self.model.ended(step, one)
        folder = self.state.runs_dir / self.name
        folder.mkdir(parents=True)
        file = folder / "events.jsonl"
        file.write_text("".join(f"{line}\n" for line in self.lines), encoding="utf-8")
        os.utime(file, (1, 1))  # a file of this very moment is not indexed yet

    def add(self, event: str, **fields: Any) -> int:
        seq = len(self.lines) + 1
        head = {"seq": seq, "ts": "2026-01-01T00:00:00.000000Z", "session": self.name, "event": event}
        self.lines.append(json.dumps({**head, **fields, "chain": f"{seq:064x}"}))
        return seq

    def begin(
        self, step: str, open_: dict[str, Try], reused: set[str], attempts: dict[str, int], counted: bool
    ) -> None:
        fingerprint = self.pick(*PRINTS)
        kind = self.pick("start", "start", "start", "reuse", "adopt", "blocked", "skipped")
        if kind == "start":
            attempts[step] = attempts.get(step, 0) + 1
            bindings = {"p": [{"id": "Input:X", "sha256": "s"}]}
            fields = {"step_id": step, "driver": "python", "fingerprint": fingerprint, "bindings": bindings}
            seq = self.add("step_start", attempt=attempts[step], **fields)
            open_[step] = Try(self.number, seq, attempts[step], fingerprint)
        elif kind == "reuse":
            reused.add(step)
            fields = {"step_id": step, "why": "reused", "fingerprint": fingerprint, "bindings": {"p": []}}
            seq = self.add("step_skipped", from_run="r0001", from_step=step, **fields)
            before = self.model.with_print(step, fingerprint) if step in self.model.tries else None
            one = Try(self.number, seq, 0, fingerprint, True, "", "", "reused")
            one.adopted = dict(before.adopted) if before is not None else {}
            one.outputs = self.outputs(step)
            one.whole = before is None or not before.usable or len(one.outputs) >= len(before.outputs)
            if counted:
                self.model.ended(step, one)
            if one.whole and self.pick(True, False, False):
                one.ok, one.status, one.error_type = False, "FAILED", "NotPublished"
                fields = {"error": "no", "error_type": one.error_type, "traceback": "", "duration": 0.0}
                self.add("step_failed", step_id=step, driver="python", status=one.status, will_retry=False, **fields)
        elif kind == "adopt":
            fields = {"step_id": step, "fingerprint": fingerprint, "bindings": {"p": []}, "by": "me"}
            artifact, sha = artifact_of(step, "adopted"), self.pick("a1", "a2")
            seq = self.add("artifact_adopted", artifact=artifact, sha256=sha, size=1, type="text", **fields)
            before = self.model.with_print(step, fingerprint) if step in self.model.tries else None
            kept = dict(before.outputs) if before is not None and before.usable else {}
            one = Try(self.number, seq, 0, fingerprint, True, "", "", "adopted", {**kept, artifact: sha})
            stands = before.adopted if before is not None else {}
            one.adopted = {**{a: run for a, run in stands.items() if a in kept}, artifact: self.number}
            if counted:
                self.model.ended(step, one)
        elif kind == "blocked":
            self.add("step_blocked", step_id=step, because=["Job:C"])
        else:
            self.add("step_skipped", step_id=step, why="condition_false")

    def outputs(self, step: str) -> dict[str, str]:
        made = {}
        for name in ("x", "y")[: self.pick(0, 1, 2)]:
            artifact, sha = artifact_of(step, name), self.pick("o1", "o2")
            self.add("artifact_available", artifact=artifact, step_id=step, sha256=sha, size=1, type="text")
            made[artifact] = sha
        return made

    def go_on(self, step: str, open_: dict[str, Try], counted: bool) -> None:
        if self.pick(True, False):
            value = self.pick(1, 2)
            fingerprint = open_[step].fingerprint
            self.add("request_recorded", step_id=step, fingerprint=fingerprint, key="id", value=value)
            if counted:
                self.model.requests.setdefault(step, {}).setdefault(fingerprint, {})["id"] = value
            return
        self.end(step, open_, counted, self.pick("well", "well", "fail"))

    def end(self, step: str, open_: dict[str, Try], counted: bool, how: str) -> None:
        one = open_.pop(step)
        made = self.outputs(step)
        if how == "well":
            one.ok, one.status, one.error_type, one.outputs = True, "", "", made
            self.add("step_complete", step_id=step, driver="python", output_dir="", duration=1.0, status="EXECUTES")
        else:
            one.status, one.error_type = self.pick(
                ("FAILED", "OSError"), ("FAILED", "InputChangedDuringRun"), ("TIMED_OUT", "TimedOut"),
                ("INTERRUPTED", "Interrupted"), ("FAILED", "NotPublished"),
            )  # fmt: skip
            if one.error_type == "NotPublished":
                one.outputs = made
            fields = {"error": "no", "error_type": one.error_type, "traceback": "", "duration": 1.0}
            self.add("step_failed", step_id=step, driver="python", status=one.status, will_retry=False, **fields)
        if counted:
            self.model.ended(step, one)


def check(records: Records, model: Model) -> None:
    assert records.steps.keys() == model.tries.keys()
    for step, tries in model.tries.items():
        record = records.steps[step]
        assert shown(record.latest) == expected(tries[-1])
        assert shown(record.last_success()) == expected(next((t for t in reversed(tries) if t.ok), None))
        for fingerprint in PRINTS:
            assert shown(record.by_fingerprint(fingerprint)) == expected(model.with_print(step, fingerprint))
        check_attempts(record, model, step)
        assert {k: v for k, v in (record.requests or {}).items() if v} == model.requests.get(step, {})
    assert {id_: record.sha256 for id_, record in records.inputs.items()} == model.inputs


def check_attempts(record: StepRecord, model: Model, step: str) -> None:
    latest = [one for fingerprint in PRINTS if (one := model.with_print(step, fingerprint)) is not None]
    assert sorted(map(repr, map(shown, record.attempts()))) == sorted(repr(expected(one)) for one in latest)


def shown(attempt: Any) -> Any:
    if attempt is None:
        return None
    outputs = {o.id: o.sha256 for o in attempt.outputs}
    facts = (attempt.run, attempt.seq, attempt.number, attempt.fingerprint, attempt.ok, attempt.origin)
    return (*facts, attempt.status, attempt.error_type, sorted(outputs.items()), sorted(attempt.adopted.items()))


def expected(one: Try | None) -> Any:
    if one is None:
        return None
    facts = (one.run, one.seq, one.number, one.fingerprint, one.ok, one.origin)
    return (*facts, one.status, one.error_type, sorted(one.outputs.items()), sorted(one.adopted.items()))


@settings(max_examples=3000 if SOAK else 100)
@given(st.data())
def test_a_log_folds_to_the_same_records_at_once_in_pieces_and_by_the_model(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = Log(Path(folder), data.draw)
        for last in [*[False] * data.draw(st.integers(0, 3)), True]:
            log.write_run(length=data.draw(st.integers(0, 12)), whole=not last or data.draw(st.booleans()))
        runs = log.state.runs()
        at_once = fold_runs(runs)
        check(at_once, log.model)
        pieces = Records()
        for run in runs:
            # Between runs through the format of the index, within a run cut anywhere.
            pieces = msgspec.msgpack.decode(msgspec.msgpack.encode(pieces), type=Records)
            events = [event for chunk in scan(run.events_path) for event in chunk]
            fold = RunFold(pieces, run.number, str(run.events_path))
            cut = data.draw(st.integers(0, len(events)))
            fold.feed(events[:cut])
            fold.feed(events[cut:])
            fold.finish()
        assert pieces == at_once


@settings(max_examples=100 if SOAK else 6)
@given(st.data())
def test_the_index_changes_nothing(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = Log(Path(folder), data.draw)
        log.write_run(length=10, whole=True, padding=WORTH_INDEXING)
        for _ in range(data.draw(st.integers(1, 3))):
            assert reading(log.state).records == fold_runs(log.state.runs())
            assert (log.state.index_dir / "fold").is_file()
            whole = data.draw(st.booleans())
            log.write_run(length=10, whole=whole)
            check(reading(log.state).records, log.model)
            if not whole:
                break  # an unfinished run is the last
        shutil.rmtree(log.state.index_dir)
        check(reading(log.state).records, log.model)


def reading(state: WorkflowState) -> History:
    return History(state, lambda sha256: b"")
