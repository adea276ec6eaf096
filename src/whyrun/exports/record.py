"""What one run did, folded from its log: the ground on which all formats stand. Pure.

A record holds no host, process number or absolute path: `texts.py` has cleaned its texts. A run that has not ended has
`ended` None, and its open steps are `running` or `interrupted`; every format marks it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from whyrun.exports.texts import Cleaner
from whyrun.ids import by_number, job_of, output_of, without_indices
from whyrun.log import events as ev
from whyrun.money import Totals
from whyrun.planning.reasons import read_reason

# How a step ended, or where it is.
STATUSES = (
    "succeeded", "identical", "different", "reused", "kept", "adopted", "skipped", "held", "blocked", "failed",
    "timed_out", "interrupted", "running", "not_started",
)  # fmt: skip
GOOD = frozenset({"succeeded", "identical", "reused", "kept", "adopted"})
BAD = frozenset({"different", "failed", "timed_out", "interrupted"})
NO_PLAN = "without reasons: `plan.json` is gone or is not the plan that the log names"
_SUCCESS = {"EXECUTES": "succeeded", "IDENTICAL": "identical", "DIFFERENT": "different"}
_FAILURE = {"FAILED": "failed", "TIMED_OUT": "timed_out", "INTERRUPTED": "interrupted"}
# Why a step was skipped, for people.
_SKIPPED = {
    "condition_false": "its condition is false",
    "source_inactive": "a job that it reads is inactive",
    "not_comparable": "not comparable",
    "budget": "the budget held it back",
}


@dataclass(slots=True)
class Output:
    """A version of an artifact. `value`: UNSET for a file."""

    id: str
    sha256: str
    size: int
    type: str
    path: str | None = None
    suffix: str = ""
    value: Any = msgspec.UNSET

    @property
    def is_leaf(self) -> bool:
        return output_of(self.id) is None


@dataclass(slots=True)
class TaskMark:
    ts: str
    status: str
    message: str


@dataclass(slots=True)
class Attempt:
    """One execution of a step. `end` is None while it runs, or if the log does not say when it ended."""

    number: int
    start: str
    end: str | None = None
    status: str = "running"
    duration: float | None = None
    error_type: str = ""
    error: str = ""
    traceback: str = ""
    will_retry: bool = False
    fingerprint: str = ""
    bindings: Mapping[str, Any] = field(default_factory=dict)  # of a long list, what the log has: `Subject.members`
    outputs: list[Output] = field(default_factory=list)
    tasks: list[TaskMark] = field(default_factory=list)
    packages: Mapping[str, str] = field(default_factory=dict)
    spent: Totals = field(default_factory=Totals)


@dataclass(slots=True)
class Compared:
    artifact: str
    status: str
    against: str
    summary: str
    details: list[str]
    more: int


@dataclass(slots=True)
class Step:
    """One job instance in this run."""

    id: str
    action: str = ""
    status: str = "not_started"
    note: str = ""  # why it was skipped, blocked, reused, kept
    at: str | None = None  # when that was
    by: str = ""  # who adopted or kept its result
    attempts: list[Attempt] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)  # of its last success, reuse, adoption or kept result
    compared: list[Compared] = field(default_factory=list)
    reasons: list[tuple[str, str]] = field(default_factory=list)  # (code, particulars)

    @property
    def job(self) -> str:
        """The name of the job with its imports, without the indices of the instance: `Shot/Picture`."""
        return without_indices(self.id).removeprefix("Job:")

    @property
    def seconds(self) -> float | None:
        times = [attempt.duration for attempt in self.attempts if attempt.duration is not None]
        return round(sum(times), 6) if times else None

    @property
    def last(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def retries(self) -> int:
        return max(0, len(self.attempts) - 1)

    @property
    def error(self) -> str:
        return f"{self.last.error_type}: {self.last.error}" if self.last is not None and self.last.error_type else ""

    def spent(self) -> Totals:
        totals = Totals()
        for attempt in self.attempts:
            totals.add_all(attempt.spent.to_record())
        return totals


@dataclass(slots=True)
class RecordedInput:
    id: str
    sha256: str
    size: int | None = None
    value: Any = msgspec.UNSET


@dataclass(slots=True)
class RunRecord:
    """One run. `state`: succeeded, failed, interrupted, running. `outcome` says `differences` for a comparison."""

    workflow: str
    run: str
    mode: str = "run"
    state: str = "running"
    outcome: str = "running"
    backend: str = ""
    engine_version: str = ""
    started: str = ""
    ended: str | None = None
    last_ts: str = ""
    duration: float | None = None
    error: str = ""
    workflow_sha256: str = ""
    plan_sha256: str = ""
    start_chain: str = ""  # of its first line: a name of this run that no other run has
    up_to_date: int = 0
    without_plan: str = ""  # why it has no reasons, and not what was not started
    steps: dict[str, Step] = field(default_factory=dict)
    inputs: list[RecordedInput] = field(default_factory=list)

    @property
    def unfinished(self) -> bool:
        return self.ended is None

    @property
    def number(self) -> int:
        return int(self.run[1:])

    def ordered(self) -> list[Step]:
        """By ID: `[9]` before `[10]`."""
        return [self.steps[id_] for id_ in sorted(self.steps, key=by_number)]

    def counts(self) -> dict[str, int]:
        """Status → number of steps, in the order of `STATUSES`; only those that occur."""
        found = [step.status for step in self.steps.values()]
        return {status: found.count(status) for status in STATUSES if status in found}

    def spent(self) -> Totals:
        totals = Totals()
        for step in self.steps.values():
            totals.add_all(step.spent().to_record())
        return totals

    def attempts(self) -> Iterator[tuple[Step, Attempt]]:
        """In the order of their start."""
        rows = [(attempt.start, step.id, attempt.number, step, attempt)
                for step in self.steps.values() for attempt in step.attempts]  # fmt: skip
        for *_, step, attempt in sorted(rows, key=lambda row: (row[0], by_number(row[1]), row[2])):
            yield step, attempt


@dataclass(frozen=True, slots=True)
class Rendered:
    """What a format makes. `said`: for stdout, beside the file. `printed`: in place of `data`, if there is no file."""

    data: bytes = b""
    said: bytes = b""
    printed: bytes | None = None
    # Of a format that is a folder: relative path → content, or the path of a file with it.
    folder: Mapping[str, bytes | str] = field(default_factory=dict)


class Subject(Protocol):
    """What a format renders: one run, and what led to it."""

    @property
    def link(self) -> str:
        """A URL of the report, for people."""

    @property
    def namespace(self) -> str:
        """Of jobs and datasets in lineage, if it is not that of the workflow."""

    def members(self, long: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The members of a long list of bindings; none if its blob is gone."""

    @property
    def metadata_only(self) -> bool:
        """Whether a format that is a folder leaves out the bytes of inputs and artifacts."""

    def blobs(self, sha256: str) -> Mapping[str, tuple[str, int]]:
        """Path and size of a content in the store, under the key ""; of a folder those of its files, by their paths.

        Empty if a byte is missing or damaged.
        """

    def checks(self) -> Mapping[str, list[str]] | None:
        """What `whyrun verify` checks of the run, with the problems of each; None if nobody asked for it."""

    def sources(self) -> Mapping[str, bytes]:
        """The files of the workflow as the run read them, the workflow file first."""

    def record(self) -> RunRecord:
        """The run, with the inputs that it saw."""

    def records(self) -> Iterator[RunRecord]:
        """Every run that is kept, up to this one."""


def fold(
    workflow: str,
    run: str,
    events: Iterable[ev.AnyEvent],
    cleaner: Cleaner,
    *,
    plan: Mapping[str, Any] | None = None,
    is_running: bool = False,
) -> RunRecord:
    """`plan`: the content of `plan.json`, if the log names it; only reasons and what was not started come from it."""
    folding = Folding(RunRecord(workflow, run), cleaner)
    for event in events:
        folding.add(event)
    return folding.finished(plan, is_running)


@dataclass(slots=True)
class Folding:
    """Takes the events of one run in their order; `finished` says how the run and its open steps stand."""

    record: RunRecord
    cleaner: Cleaner
    open: dict[str, Attempt] = field(default_factory=dict)
    started: ev.RunStart | None = None

    def step(self, id_: str) -> Step:
        return self.record.steps.setdefault(id_, Step(id_))

    def add(self, event: ev.AnyEvent) -> None:
        record, text = self.record, self.cleaner.text
        record.last_ts = max(record.last_ts, event.ts)
        match event:
            case ev.RunStart():
                self.started = event
                record.mode, record.backend, record.engine_version = event.mode, event.backend, event.engine_version
                record.started, record.workflow_sha256 = event.ts, event.workflow_sha256
                record.start_chain = event.chain
            case ev.PlanComputed():
                record.plan_sha256 = record.plan_sha256 or event.plan_sha256  # that before it began
            case ev.StepStart():
                step = self.step(event.step_id)
                step.action, step.status = event.driver, "running"
                step.outputs = []
                attempt = Attempt(event.attempt, event.ts, fingerprint=event.fingerprint)
                attempt.bindings = _short(event.bindings, self.cleaner)
                self.open[event.step_id] = attempt
                step.attempts.append(attempt)
            case ev.ArtifactAvailable():
                self._output(event)
            case ev.StepComplete() | ev.StepFailed():
                self._end(event)
            case ev.StepSkipped() | ev.StepBlocked():
                self._not_executed(event)
            case ev.Task() if event.step_id in self.open:
                mark = TaskMark(event.ts, event.status, text(event.message))
                self.open[event.step_id].tasks.append(mark)
            case ev.CostRecorded():
                attempts = self.step(event.step_id).attempts
                if attempts:
                    attempts[-1].spent.add(event.amount, event.currency)
            case ev.Comparison():
                step = self.step(event.step_id or job_of(event.artifact))
                details = [text(line) for line in event.details]
                compared = Compared(
                    event.artifact, event.status, event.against, text(event.summary), details, event.more
                )
                step.compared.append(compared)
            case ev.ResultKept():
                step = self.step(event.step_id)
                step.status, step.at, step.by = "kept", event.ts, text(event.by)
                step.note = text(f"from {event.from_run} by {event.by}: {event.because}")
            case ev.ArtifactAdopted():
                step = self.step(event.step_id)
                step.status, step.at, step.by, step.note = "adopted", event.ts, text(event.by), text(f"by {event.by}")
                self._output(event)
            case ev.RunComplete():
                record.state, record.ended, record.duration = event.state, event.ts, event.duration
                record.error = text(event.error or "")
            case _:
                pass

    def _output(self, event: ev.ArtifactAvailable | ev.ArtifactAdopted) -> None:
        path = None if event.path is None else self.cleaner.text(event.path)
        value = event.value if event.value is msgspec.UNSET else self.cleaner.json(event.value)
        output = Output(event.artifact, event.sha256, event.size, event.type, path, event.suffix, value)
        attempt = self.open.get(event.step_id)
        if attempt is not None:
            attempt.outputs.append(output)
        self.step(event.step_id).outputs.append(output)

    def _end(self, event: ev.StepComplete | ev.StepFailed) -> None:
        step = self.step(event.step_id)
        attempt = self.open.pop(event.step_id, None)
        text = self.cleaner.text
        if isinstance(event, ev.StepComplete):
            step.status = _SUCCESS[event.status]
        else:
            step.status = _FAILURE[event.status]
            step.outputs = []
        if attempt is None:
            step.note = text(f"{event.error_type}: {event.error}") if isinstance(event, ev.StepFailed) else ""
            step.at = event.ts
            return
        attempt.end, attempt.status, attempt.duration = event.ts, step.status, event.duration
        attempt.packages = event.packages
        if isinstance(event, ev.StepFailed):
            attempt.error_type, attempt.error = text(event.error_type), text(event.error)
            attempt.traceback, attempt.will_retry = text(event.traceback), event.will_retry
            attempt.outputs = []

    def _not_executed(self, event: ev.StepSkipped | ev.StepBlocked) -> None:
        step, text = self.step(event.step_id), self.cleaner.text
        step.at = event.ts
        if isinstance(event, ev.StepBlocked):
            step.status, step.note = "blocked", f"waits for {', '.join(event.because[:3])}"
            step.note += f" and {len(event.because) - 3} more" if len(event.because) > 3 else ""
        elif event.why == "reused":
            step.status = "reused"
            step.note = "from the shared store" if event.shared is not None else f"from {event.from_run}"
        else:
            step.status = "held" if event.why == "budget" else "skipped"
            step.note = _SKIPPED[event.why] + (text(f": {event.reason}") if event.reason else "")

    def finished(self, plan: Mapping[str, Any] | None, is_running: bool) -> RunRecord:
        record = self.record
        if record.ended is None:
            record.state = "running" if is_running else "interrupted"
        for id_, attempt in self.open.items():
            attempt.status = self.step(id_).status = "running" if is_running else "interrupted"
            attempt.outputs = self.step(id_).outputs = []
        if plan is not None:
            self.add_plan(plan)
        elif record.plan_sha256:
            record.without_plan = NO_PLAN
        record.outcome = _outcome(record)
        if not record.error:
            failed = (step for step in record.ordered() if step.status in ("failed", "timed_out") and step.error)
            record.error = next((f"{step.id}: {step.error}" for step in failed), "")
        return record

    def add_plan(self, plan: Mapping[str, Any]) -> None:
        self.record.up_to_date = plan.get("totals", {}).get("clean", 0)
        for job in plan.get("jobs", []):
            if job["state"] != "planned" or "[?]" in job["id"]:
                continue
            step = self.step(job["id"])
            step.action = step.action or job.get("action", "")
            step.reasons = list(_reasons(job.get("reasons", []), job["id"], self.cleaner))


def _outcome(record: RunRecord) -> str:
    """As `whyrun runs` has it: a comparison that found differences has not failed."""
    if record.mode != "compare" or record.state not in ("succeeded", "failed"):
        return record.state
    counts = record.counts()
    if counts.get("failed") or counts.get("timed_out") or (record.state == "failed" and not counts.get("different")):
        return "failed"
    return "differences" if counts.get("different") else record.state


def _reasons(written: Sequence[Mapping[str, Any]], job: str, cleaner: Cleaner) -> Iterator[tuple[str, str]]:
    for one in written:
        reason = read_reason(one)
        text = "" if reason is None else reason.text(job)
        name = one.get("binding") or ""  # a name as much as an ID is
        name = name if text.startswith(name) else ""
        yield str(one["code"]), name + cleaner.text(text.removeprefix(name))


def _short(bindings: Mapping[str, Any] | None, cleaner: Cleaner) -> dict[str, Any]:
    """ID, hash and small value of each member. A list that is kept in a blob stays as it is."""
    found: dict[str, Any] = {}
    for name, members in (bindings or {}).items():
        if isinstance(members, list):
            found[name] = [cleaner.member(_member(member)) for member in members]
        else:
            found[name] = members
    return found


def _member(member: Any) -> dict[str, Any]:
    if not isinstance(member, Mapping):
        return {"id": str(member)}
    return {name: member[name] for name in ("id", "sha256", "value") if name in member}
