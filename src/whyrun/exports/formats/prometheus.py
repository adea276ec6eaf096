"""The present state as metrics for Prometheus, in the text format that a textfile collector reads. Pure.

Labels are the workflow, the name of a job, a state and a currency: never an instance or a run, of which there are too
many. Times are written as they are; the age of the last success is for the query, which has a clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from whyrun.exports.formats.chrome_trace import micros
from whyrun.exports.record import Rendered, RunRecord, Step, Subject
from whyrun.money import Totals, written

Samples = list[tuple[dict[str, str], str]]  # labels and value

RUN_STATES = ("succeeded", "failed", "interrupted", "running")
_SAME = {"identical": "succeeded", "reused": "succeeded", "kept": "succeeded", "adopted": "succeeded"}
JOB_STATES = ("succeeded", "skipped", "held", "blocked", "failed", "timed_out", "interrupted", "running", "not_started")


def render(subject: Subject) -> Rendered:
    return Rendered(prometheus(subject.records()))


def prometheus(records: Iterable[RunRecord]) -> bytes:
    """Metrics of these runs, the oldest first."""
    state = _State()
    for record in records:
        state.add(record)
    return state.text().encode()


@dataclass(slots=True)
class _Job:
    states: dict[str, str] = field(default_factory=dict)  # instance → how it last ended
    seconds: dict[str, float] = field(default_factory=dict)  # instance → of its last execution that succeeded
    spent: Totals = field(default_factory=Totals)


@dataclass(slots=True)
class _State:
    last: RunRecord | None = None
    last_success: str = ""
    runs: dict[str, int] = field(default_factory=dict)
    jobs: dict[str, _Job] = field(default_factory=dict)

    def add(self, record: RunRecord) -> None:
        self.last = record
        self.runs[record.state] = self.runs.get(record.state, 0) + 1
        if record.mode == "run" and record.state == "succeeded" and record.ended is not None:
            self.last_success = record.ended
        for step in record.steps.values():
            self._add_step(step, compared=record.mode == "compare")

    def _add_step(self, step: Step, *, compared: bool) -> None:
        job = self.jobs.setdefault(step.job, _Job())
        job.spent.add_all(step.spent().to_record())
        if compared:
            return  # a comparison says nothing about what the job has
        status = _SAME.get(step.status, step.status)
        job.states[step.id] = status
        if step.status == "succeeded" and step.last is not None and step.last.duration is not None:
            job.seconds[step.id] = step.last.duration

    def text(self) -> str:
        assert self.last is not None, "an export is of a run"
        workflow, last = self.last.workflow, self.last
        page = _Page()
        page.metric("last_run_start_timestamp_seconds", "When the last run began.", [({}, _unix(last.started))])
        ended: Samples = [] if last.ended is None else [({}, _unix(last.ended))]
        page.metric("last_run_end_timestamp_seconds", "When the last run ended; absent while it is unfinished.", ended)
        took: Samples = [] if last.duration is None else [({}, f"{last.duration:.6f}")]
        page.metric("last_run_duration_seconds", "How long the last run took; absent while it is unfinished.", took)
        states = [({"state": state}, str(int(last.state == state))) for state in RUN_STATES]
        page.metric("last_run_state", "1 for the state of the last run, 0 for the others.", states)
        good: Samples = [({}, _unix(self.last_success))] if self.last_success else []
        page.metric("last_success_timestamp_seconds", "When the last run that succeeded ended.", good)
        kept = [({"state": state}, str(self.runs.get(state, 0))) for state in RUN_STATES]
        page.metric("runs", "Runs in the log, by state; pruned runs are not counted.", kept)
        instances: Samples = []
        for name, job in sorted(self.jobs.items()):
            found = list(job.states.values())
            instances += [({"job": name, "state": state}, str(found.count(state))) for state in JOB_STATES]
        page.metric("jobs", "Instances of a job, by how each of them last ended.", instances)
        seconds = [({"job": name}, f"{sum(job.seconds.values()):.6f}") for name, job in sorted(self.jobs.items())]
        page.metric("job_duration_seconds", "Time of the last success of all instances of a job, added up.", seconds)
        spent = [
            ({"job": name, "currency": currency}, written(amount))
            for name, job in sorted(self.jobs.items())
            for currency, amount in sorted(job.spent.sums.items())
        ]
        page.metric("spent", "What the runs in the log have spent, by job and currency.", spent)
        unknown = [({"job": name}, str(job.spent.unknown)) for name, job in sorted(self.jobs.items())]
        page.metric("costs_of_unknown_amount", "Costs that nobody knows the amount of.", unknown)
        return page.text(workflow)


class _Page:
    def __init__(self) -> None:
        self._metrics: list[tuple[str, str, Samples]] = []

    def metric(self, name: str, meaning: str, samples: Samples) -> None:
        """One without samples is left out: a consumer would take it for an empty one of another type."""
        if samples:
            self._metrics.append((f"whyrun_{name}", meaning, samples))

    def text(self, workflow: str) -> str:
        lines = []
        for name, meaning, samples in self._metrics:
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} gauge"]
            for labels, value in samples:
                pairs = {"workflow": workflow, **labels}
                written_labels = ",".join(f'{label}="{_escaped(text)}"' for label, text in pairs.items())
                lines.append(f"{name}{{{written_labels}}} {value}")
        return "".join(f"{line}\n" for line in lines)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _unix(ts: str) -> str:
    whole = micros(ts)
    return f"{whole // 1_000_000}.{whole % 1_000_000:06d}"
