"""The planner again, the slow and plain way: raw `events.jsonl`, the files on disk, the rules one by one.

Uses nothing of Whyrun. What it says of every instance (state, every reason, reuse) is compared with the real plan.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oracle_evaluate import (
    ABSENT,
    Consumption,
    Evaluator,
    Item,
    Look,
    Waiting,
    all_sources,
    may_be_inactive,
    slot_kinds,
)
from oracle_flow import Artifact, Flow, Indices, Job, artifacts_of, job_id, published_path, rows
from oracle_truth import artifact_item, declared

VALUES = ("string", "integer", "boolean")
Signature = tuple[Any, ...]


# --- the log, read plainly ---------------------------------------------------------------------------------------


@dataclass
class Try:
    """One attempt, or a reuse, of one step."""

    step: str
    run: str
    seq: int
    number: int
    fingerprint: str
    bindings: Mapping[str, Any]
    kind: str  # executed, reused
    status: str = "INTERRUPTED"  # until an event says how it ended
    error_type: str = "Interrupted"
    outputs: dict[str, Mapping[str, Any]] = field(default_factory=dict)  # by artifact ID
    made: str = ""  # a reuse: the run that executed it
    needs: int = 0  # a reuse: how many outputs it must have to count
    maker: str = ""  # a reuse: the instance of the same job that executed it, if that is another one

    @property
    def ok(self) -> bool:
        return self.status == "OK"

    @property
    def settled(self) -> bool:
        return self.ok or not (self.status == "INTERRUPTED" or self.error_type == "InputChangedDuringRun")


def raw_events(run: Path) -> list[dict[str, Any]]:
    data = (run / "events.jsonl").read_bytes()
    return [json.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]


def read_log(runs: list[Path]) -> list[Try]:
    """All tries in the order of the log; one that has no end is interrupted."""
    found: list[Try] = []
    for run in runs:
        open_: dict[str, Try] = {}
        reused: dict[str, Try] = {}
        for e in raw_events(run):
            kind = e["event"]
            if kind == "step_start":
                one = Try(e["step_id"], run.name, e["seq"], e["attempt"], e["fingerprint"], e["bindings"], "executed")
                open_[e["step_id"]] = one
                found.append(one)
            elif kind == "step_skipped" and e["why"] == "reused":
                one = Try(e["step_id"], run.name, e["seq"], 0, e["fingerprint"], e["bindings"], "reused", "OK", "")
                one.made = e["from_run"]
                # Cut short, a reuse does not take the place of what it reused: it must have as many outputs.
                steps = (one.step, e["from_step"])
                bases = [t for t in found if t.step in steps and t.fingerprint == one.fingerprint and t.ok]
                one.needs = max((len(t.outputs) for t in bases), default=0)
                made = [t for t in bases if t.step == e["from_step"] and (t.made or t.run) == e["from_run"]]
                if _job_of(one.step) == _job_of(e["from_step"]):
                    maker = (made[-1].maker if made else "") or e["from_step"]
                    one.maker = "" if maker == one.step else maker
                reused[e["step_id"]] = one
                found.append(one)
            elif kind == "artifact_available":
                (open_.get(e["step_id"]) or reused[e["step_id"]]).outputs[e["artifact"]] = e
            elif kind == "step_complete":
                open_.pop(e["step_id"]).status = "OK"
            elif kind == "step_failed":
                one = open_.pop(e["step_id"])
                one.status, one.error_type = e["status"], e["error_type"]
    return found


# --- what is on disk ---------------------------------------------------------------------------------------------


class Disk:
    def __init__(self, project: Path) -> None:
        self.project = project
        self.store = project / ".whyrun" / "store"

    def blob(self, sha256: str) -> bool:
        return (self.store / sha256[:2] / sha256[2:]).is_file()

    def file(self, path: str) -> str | None:
        try:
            return hashlib.sha256((self.project / path).read_bytes()).hexdigest()
        except FileNotFoundError:
            return None

    def stored(self, event: Mapping[str, Any]) -> bool:
        return "value" in event or self.blob(event["sha256"])

    def bytes_there(self, event: Mapping[str, Any]) -> bool:
        """Can the recorded bytes still be had: from the log itself, the store or the published file?"""
        if self.stored(event):
            return True
        return event.get("path") is not None and self.file(event["path"]) == event["sha256"]


# --- verdicts ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reused:
    run: str
    step: str
    events: Mapping[str, Mapping[str, Any]]  # by key within the step
    moved: bool = False

    def told_by(self, step: str) -> str:
        return f"{self.run} ({self.step})" if self.moved and self.step != step else self.run


@dataclass
class Verdict:
    state: str  # clean dirty inactive
    reasons: list[tuple[str, str]] = field(default_factory=list)  # (code, particular)
    reuse: Reused | None = None
    conditional: bool = False
    maybe: bool = False
    shown: Mapping[str, Any] = field(default_factory=dict)


class Judge:
    """`flows`: the workflow as it was in every run, to know which recorded slot was a fan-in and what was declared."""

    def __init__(
        self, flow: Flow, runs: list[Path], flows: Mapping[str, Flow], actions: Mapping[str, str], project: Path
    ) -> None:
        self.flow, self.flows, self.actions = flow, flows, actions
        self.disk = Disk(project)
        self._signatures: dict[tuple[str, int], Signature | None] = {}
        self._given: dict[tuple[str, str], str] = {}  # result → the instance that takes it
        self.tries = read_log(runs)
        self.by_step: dict[str, list[Try]] = {}
        for one in self.tries:
            self.by_step.setdefault(one.step, []).append(one)
        self.instances = {job_id(name, row): (job, row) for name, job in flow.jobs.items() for row in rows(flow, job)}
        maybe = may_be_inactive(flow)
        self.sources = {step: all_sources(flow, maybe, *instance) for step, instance in self.instances.items()}
        self.layers: dict[str, int] = {}
        for step in self.instances:
            self.layer(step)

    # -- the graph --

    def upstream(self, step: str) -> set[str]:
        return {artifact.step for artifact in self.sources[step]}

    def needed(self, step: str) -> set[str]:
        job = self.instances[step][0]
        return {job_id(name, row) for name in job.needs for row in rows(self.flow, self.flow.jobs[name])}

    def layer(self, step: str) -> int:
        if step not in self.layers:
            above = [self.layer(other) for other in self.upstream(step) | self.needed(step)]
            self.layers[step] = 1 + max(above, default=-1)
        return self.layers[step]

    # -- the past --

    def latest(self, step: str) -> Try | None:
        return self.by_step[step][-1] if step in self.by_step else None

    def last_success(self, step: str) -> Try | None:
        return next((t for t in reversed(self.by_step.get(step, [])) if t.ok), None)

    def signature_of_try(self, one: Try) -> Signature | None:
        """What it consumed and declared; None where its workflow is not known to have this step."""
        key = (one.run, one.seq)
        if key not in self._signatures:
            self._signatures[key] = self._signature_of_try(one)
        return self._signatures[key]

    def _signature_of_try(self, one: Try) -> Signature | None:
        flow = self.flows[one.run]
        place = _locate(flow, one.step)
        if place is None:
            return None
        job, row = place
        kinds = slot_kinds(job)
        slots = tuple(
            sorted(
                (name, kinds[name], tuple(_token(m) for m in members))
                for name, members in one.bindings.items()
                if name != ".action"
            )
        )
        return one.bindings[".action"][0]["sha256"], slots, declared(job, flow, row)

    def signature_now(self, job: Job, row: Indices, found: Consumption) -> Signature:
        slots = tuple(
            sorted(
                (name, isinstance(slot, list), tuple(i.token for i in (slot if isinstance(slot, list) else [slot])))
                for name, slot in found.slots.items()
            )
        )
        return self.actions[job.name], slots, declared(job, self.flow, row)

    # -- judging --

    def available(self, artifact: Artifact, type_: str) -> Mapping[str, Any] | None:
        """The event of an artifact that the latest attempt recorded and that is still there."""
        latest = self.latest(artifact.step)
        event = latest.outputs.get(artifact.id) if latest is not None and latest.ok else None
        if event is None or event["type"] != type_:
            return None
        job = self.flow.jobs[artifact.job]
        output = job.output(artifact.output)
        if not artifact.leaf and suffix_of(event) != output.shown_suffix:
            return None  # with another suffix it is another output, also where its bytes lie at the new place
        path = None if artifact.leaf else published_path(job, artifact.row, output)
        if path is not None:
            return event if self.disk.file(path) == event["sha256"] else None
        return event if "value" in event or self.disk.blob(event["sha256"]) else None

    def judge_all(self, forced: set[str] = frozenset()) -> dict[str, Verdict]:  # type: ignore[assignment]
        verdicts: dict[str, Verdict] = {}

        def look(artifact: Artifact) -> Look:
            verdict = verdicts[artifact.step]
            if verdict.state == "inactive":
                return ABSENT
            if verdict.state == "clean":
                latest = self.latest(artifact.step)
                assert latest is not None
                return self.item(artifact, latest.outputs[artifact.id])
            if verdict.reuse is not None:
                return self.item(artifact, verdict.reuse.events[artifact.key])
            return Waiting(verdict.maybe)

        self._look = look
        self._given.clear()
        for step in sorted(self.instances, key=lambda s: self.layers[s]):
            job, row = self.instances[step]
            found = Evaluator(self.flow, look).consume(job, row)
            verdicts[step] = self.verdict(step, job, row, found, step in forced)
        return verdicts

    def item(self, artifact: Artifact, event: Mapping[str, Any]) -> Item:
        return artifact_item(self.flow, artifact, event["sha256"], event.get("value"))

    def verdict(self, step: str, job: Job, row: Indices, found: Consumption, forced: bool) -> Verdict:
        if found.inactive:
            return Verdict("inactive")
        latest, success = self.latest(step), self.last_success(step)
        reasons: list[tuple[str, str]] = []
        if latest is not None and not latest.ok:
            reasons.append(("RETRY_PREVIOUS_FAILURE", f"{latest.run}/{latest.number}/{latest.error_type}"))
        missing = sorted(a.id for a, t in artifacts_of(self.flow, job, row).items() if self.available(a, t) is None)
        reasons += [("MISSING_OUTPUT", id_) for id_ in missing]
        if not missing and success is None:
            reasons.append(("MISSING_OUTPUT", ""))
        if success is not None:
            reasons += [("INPUT_CHANGED", name) for name in self.changed(job, row, success, found)]
        failed = sorted(a.id for a in found.pending if (last := self.latest(a.step)) is not None and not last.ok)
        reasons += [("UPSTREAM_FAILED", id_) for id_ in failed]
        reasons += [("UPSTREAM_DIRTY", s) for s in sorted({a.step for a in found.pending})]
        if forced:
            reasons.append(("FORCED", ""))
        if not reasons:
            return Verdict("clean")
        reuse = None
        if not found.unknown and not found.maybe and not forced:
            reuse = self.reuse(job, row, found)
        return Verdict("dirty", reasons, reuse, found.undecided, found.maybe, found.shown)

    def changed(self, job: Job, row: Indices, success: Try, found: Consumption) -> list[str]:
        """The slots whose content differs from what the last success consumed."""
        then = self.signature_of_try(success)
        assert then is not None
        before: dict[str, tuple[bool, Any]] = {name: (many, tokens) for name, many, tokens in then[1]}
        now: dict[str, tuple[bool, Any]] = {
            name: (isinstance(slot, list), tuple(i.token for i in (slot if isinstance(slot, list) else [slot])))
            for name, slot in found.slots.items()
        }
        before[".action"] = (False, then[0])
        now[".action"] = (False, self.actions[job.name])
        names = (before.keys() | now.keys()) - found.unknown
        return sorted(name.removeprefix(".") for name in names if before.get(name) != now.get(name))

    # -- reuse --

    def reuse(self, job: Job, row: Indices, found: Consumption) -> Reused | None:
        wanted = self.signature_now(job, row, found)
        step = job_id(job.name, row)
        own = self.last_with(step, wanted)
        if not job.deterministic:
            return self.own_or_moved(job, row, step, wanted, own)
        if own is not None:
            taken = self.taken(job, row, own)
            if taken is not None or not own.ok:
                return taken
        # The latest attempt with this fingerprint counts, whoever made it, and however it ended.
        others = [t for s in self.by_step if (t := self.last_with(s, wanted)) is not None]
        if not others:
            return None
        return self.taken(job, row, max(others, key=lambda t: (t.run, t.seq)))

    def own_or_moved(self, job: Job, row: Indices, step: str, wanted: Signature, own: Try | None) -> Reused | None:
        """Its own earlier result, unless another instance has it now; else one that no instance of the job needs."""
        if own is not None and (not own.ok or not self.has_moved(step, wanted, own)):
            taken = self.taken(job, row, own)
            if taken is not None:
                self._given[result_of(own)] = step
            return taken
        by_result: dict[tuple[str, str], list[Try]] = {}
        for other in self.by_step:
            one = self.last_with(other, wanted) if _job_of(other) == job.name else None
            if one is not None and one.ok:
                by_result.setdefault(result_of(one), []).append(one)
        order = sorted(by_result, key=lambda r: min((t.made or t.run, t.run, t.seq) for t in by_result[r]))
        for result in order:
            tries = sorted(by_result[result], key=lambda t: (t.run, t.seq, t.step))
            held = any(self.needs_now(t.step, step, wanted) for t in tries)
            if held or self._given.get(result, step) != step or tries[0].step == step:
                continue
            taken = self.taken(job, row, tries[0])
            if taken is not None:
                self._given[result] = step
                return taken
        return None

    def needs_now(self, other: str, step: str, wanted: Signature) -> bool:
        """Whether an instance of the workflow would compute this now, or may turn out to."""
        if other not in self.instances:
            return False
        if self.layers[other] > self.layers[step]:
            return True
        job, row = self.instances[other]
        found = Evaluator(self.flow, self._look).consume(job, row)
        certain = not (found.inactive or found.unknown or found.maybe)
        return not certain or self.signature_now(job, row, found) == wanted

    def has_moved(self, step: str, wanted: Signature, own: Try) -> bool:
        result = result_of(own)
        if self._given.get(result, step) != step:
            return True
        if self.has_now(step, result):
            return False
        others = [s for s in self.by_step if s != step and s in self.instances and _job_of(s) == _job_of(step)]
        with_it = [s for s in others if self.last_with(s, wanted) is not None and self.has_now(s, result)]
        return any(self.needs_now(s, step, wanted) for s in with_it)

    def has_now(self, step: str, result: tuple[str, str]) -> bool:
        present = (self.latest(step), self.last_success(step))
        return any(t is not None and t.ok and result_of(t) == result for t in present)

    def last_with(self, step: str, wanted: Signature) -> Try | None:
        for one in reversed(self.by_step.get(step, [])):
            if one.settled and len(one.outputs) >= one.needs and self.signature_of_try(one) == wanted:
                return one
        return None

    def taken(self, job: Job, row: Indices, one: Try) -> Reused | None:
        if not one.ok:
            return None
        place = _locate(self.flows[one.run], one.step)
        assert place is not None
        events: dict[str, Mapping[str, Any]] = {}
        for artifact, type_ in artifacts_of(self.flow, job, row).items():
            same = Artifact(place[0].name, place[1], artifact.output, artifact.leaf)
            event = one.outputs.get(same.id)
            if event is None or event["type"] != type_ or not self.disk.bytes_there(event):
                return None
            events[artifact.key] = event
        return Reused(one.made or one.run, one.step, events, not job.deterministic)

    # -- controls --

    def planned(
        self, verdicts: Mapping[str, Verdict], up: int | None = None, targets: tuple[str, ...] = ()
    ) -> set[str]:
        dirty = {s for s, v in verdicts.items() if v.state == "dirty"}
        if targets:
            wanted = set(targets)
            stack = list(targets)
            while stack:
                here = stack.pop()
                for other in self.upstream(here) | self.needed(here):
                    if other not in wanted:
                        wanted.add(other)
                        stack.append(other)
            dirty &= wanted
        if up is not None:
            kept = sorted({self.layers[s] for s in dirty})[:up]
            dirty = {s for s in dirty if self.layers[s] in kept}
        return dirty


def suffix_of(event: Mapping[str, Any]) -> str:
    """That of the path which the step wrote to: told where it matters to a reader, and where it is an unusual one."""
    told: str = event.get("suffix", "")
    if told or event["type"] == "text":
        return told.removesuffix(".")  # a mark for none
    return {"json": ".json"}.get(event["type"], "")


def result_of(one: Try) -> tuple[str, str]:
    """The run and the instance that made it, however often it has moved since."""
    return one.made or one.run, one.maker or one.step


def _job_of(step: str) -> str:
    return step.removeprefix("Job:").partition("[")[0]


def _token(member: Mapping[str, Any]) -> tuple[str, str]:
    return member.get("as", "v"), member["sha256"]


def _locate(flow: Flow, step: str) -> tuple[Job, Indices] | None:
    for name, job in flow.jobs.items():
        if step.startswith(f"Job:{name}"):
            for row in rows(flow, job):
                if job_id(name, row) == step:
                    return job, row
    return None
