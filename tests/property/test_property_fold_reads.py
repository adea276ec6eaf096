"""Random logs of steps with undeclared reads: folded at once, in pieces, through the index, and by a plain model."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from whyrun.log.lean_events import scan
from whyrun.log.runs import WorkflowState
from whyrun.snapshot.history.fold import RunFold
from whyrun.snapshot.history.reader import History, fold_runs
from whyrun.snapshot.records import Records

SOAK = bool(os.environ.get("WHYRUN_SOAK"))
STEPS = ("Job:A", "Job:B[0]", "Job:B[x]")
SHAS = ("1" * 64, "2" * 64)
Reads = dict[str, tuple[str, str]]  # path → (hash, who saw it)


@dataclass
class Try:
    run: int
    fingerprint: str
    ok: bool
    traced: bool
    reads: Reads

    @property
    def kind(self) -> tuple[str, tuple[Any, ...]]:
        return self.fingerprint, tuple(sorted(self.reads.items()))


@dataclass
class Log:
    """`only_traced`: job → what only strace saw on its latest traced success."""

    state: WorkflowState
    draw: Any
    tries: dict[str, list[Try]] = field(default_factory=dict)
    only_traced: dict[str, Reads] = field(default_factory=dict)
    number: int = 0

    def write_run(self) -> None:
        self.number += 1
        lines: list[str] = []
        ended: list[tuple[str, Try]] = []

        def add(event: str, **fields: Any) -> None:
            head = {"seq": len(lines) + 1, "ts": "", "session": f"r{self.number:04d}", "event": event}
            lines.append(json.dumps({**head, **fields, "chain": ""}))

        add("run_start", mode="run", workflow="lab", workflow_sha256="w", options={}, backend="local")
        for step in self.draw(st.lists(st.sampled_from(STEPS), max_size=6)):
            one = self.some_try()
            add(
                "step_start", step_id=step, driver="d", attempt=1, fingerprint=one.fingerprint, bindings={"p": []}
            )  # fmt: skip
            observed = [
                {"path": path, "kind": "file", "sha256": sha, **({"by": by} if by == "strace" else {})}
                for path, (sha, by) in sorted(one.reads.items())
            ]
            more = {**({"observed": observed} if observed else {}), **({"traced": True} if one.traced else {})}
            more |= {"step_id": step, "driver": "d", "duration": 1.0}
            if one.ok:
                add("step_complete", output_dir="", status="EXECUTES", **more)
                if one.traced:
                    job = step.partition("[")[0]
                    self.only_traced[job] = {path: at for path, at in one.reads.items() if at[1] == "strace"}
            else:
                no = {"error": "no", "error_type": "E", "traceback": "", "will_retry": False}
                add("step_failed", status="FAILED", **no, **more)
            ended.append((step, one))
        add("run_complete", state="succeeded", counts={}, duration=1.0)
        for step, one in ended:
            if not one.traced:
                one.reads = {**self.only_traced.get(step.partition("[")[0], {}), **one.reads}
            self.tries.setdefault(step, []).append(one)
        file = self.state.runs_dir / f"r{self.number:04d}" / "events.jsonl"
        file.parent.mkdir(parents=True)
        file.write_text("".join(f"{line}\n" for line in lines))
        os.utime(file, (1, 1))

    def some_try(self) -> Try:
        by = st.sampled_from(["python", "strace"])
        reads = st.dictionaries(st.sampled_from(["p", "q"]), st.tuples(st.sampled_from(SHAS), by))
        fingerprint, often = st.sampled_from(["f1", "f2"]), st.sampled_from([True, True, False])
        return Try(self.number, self.draw(fingerprint), self.draw(often), not self.draw(often), self.draw(reads))


def check(records: Records, log: Log) -> None:
    assert records.steps.keys() == log.tries.keys()
    for step, tries in log.tries.items():
        record = records.steps[step]
        success = next((one for one in reversed(tries) if one.ok), None)
        assert shown(records, record.latest) == expected(tries[-1])
        assert shown(records, record.last_success()) == expected(success)
        latest = {one.kind: one for one in tries}
        found = sorted(map(repr, (shown(records, one) for one in record.attempts())))
        assert found == sorted(map(repr, map(expected, latest.values())))
        for one in latest.values():
            taken = record.by_fingerprint(one.fingerprint, lambda a, one=one: reads_of(records, a) == one.reads)  # type: ignore[misc]
            assert shown(records, taken) == expected(one)
    known = {f"Job:{job}": records.observations.known_reads(job) for job in records.observations.traced}
    assert {job: {r.path: (r.sha256, r.by) for r in reads} for job, reads in known.items()} == log.only_traced


def reads_of(records: Records, attempt: Any) -> Any:
    return {read.path: (read.sha256, read.by) for read in records.observations.reads_of(attempt.reads)}


def shown(records: Records, attempt: Any) -> Any:
    if attempt is None:
        return None
    return attempt.run, attempt.fingerprint, attempt.ok, sorted(reads_of(records, attempt).items())


def expected(one: Try | None) -> Any:
    return None if one is None else (one.run, one.fingerprint, one.ok, sorted(one.reads.items()))


@settings(max_examples=2000 if SOAK else 60)
@given(st.data())
def test_reads_are_folded_at_once_in_pieces_and_through_the_index_as_the_model_says(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = Log(WorkflowState(Path(folder), "lab"), data.draw)
        pieces = Records()
        for _ in range(data.draw(st.integers(1, 4))):
            log.write_run()
            history = History(log.state, lambda sha256: b"", worth_indexing=0)
            check(history.records, log)  # from the index of the runs before
            run = log.state.runs()[-1]
            pieces = msgspec.msgpack.decode(msgspec.msgpack.encode(pieces), type=Records)
            fold = RunFold(pieces, run.number, "")
            for events in scan(run.events_path):
                fold.feed(events)
            fold.finish()
        at_once = fold_runs(log.state.runs())
        check(at_once, log)
        assert pieces == at_once
