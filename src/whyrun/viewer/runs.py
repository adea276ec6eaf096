"""Views 4 and 5: the runs, one run with its timeline, and the plan that it had."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whyrun.facts.previews import read_text
from whyrun.ids import by_number, without_indices
from whyrun.log import events as ev
from whyrun.log.journal import parse_timestamp
from whyrun.viewer.current import CurrentState, Params, State
from whyrun.viewer.why import Failures

if TYPE_CHECKING:
    from whyrun.log.runs import RunRef
    from whyrun.planning.plan import Plan

ATTEMPTS = 20_000  # of a timeline
MARKS = 5000
LOG_LINES = 200
EVENTS = 500
JOBS = 2000  # of an earlier plan
REPLAYED = 20_000  # instances of an earlier graph that is compared with that of today
SLOWEST = 20
SILENT = (ev.ArtifactAvailable, ev.CfgMaterialized)  # most lines of a log: they say nothing about times and failures
LONGEST_GAP = 0.04  # of a run's duration: an idle time is drawn as it is; a longer one is compressed


def runs_view(state: State, params: Params) -> dict[str, Any]:
    from whyrun.facts.history import runs_json

    command = state.command_now("runs") if isinstance(state, CurrentState) else None
    return {"command": command, **runs_json(state.project)}


def _command(state: State, *words: str) -> str | None:
    return state.command(*words) if isinstance(state, CurrentState) else None


def _run(state: State, name: str) -> RunRef:
    """A run that the page may show: in a report none after its own."""
    run = state.project.state.run(name)
    if isinstance(state, CurrentState) and state.at is not None and run.number > int(state.at[1:]):
        from whyrun.errors import error

        raise error("RUN_UNKNOWN", f"`{name}` is later than this report", hint=f"this is the state after {state.at}")
    return run


def run_view(state: State, params: Params) -> dict[str, Any]:
    """One run: its facts, a timeline of attempts, progress, usage, failures and the last lines of its log."""
    from whyrun.facts.show import last_lines, run_facts
    from whyrun.log.lock import running_run

    run = _run(state, params.one("id"))
    live = running_run(state.project.state) == run.name and getattr(state, "at", None) is None
    key = run.name, _log_size(run)
    if key in state.ended_runs and not live:
        return state.ended_runs[key]
    told, failures = _Told(), Failures()

    def also(event: Any) -> None:
        if type(event) not in SILENT:
            told.add(event)
            failures.add(event)

    facts = run_facts(state.project, run.name, also)
    live = live and not told.has_ended  # a run holds its lock for a moment longer
    if live:
        told.last = max(told.last, time.time() - told.began)  # steps that run have logged nothing for a while
    lines, more = _tail(run.path / "whyrun.log", last_lines)
    usage, by_job = _usage(run, told)
    answer = {
        "command": _command(state, "show", run.name),
        "id": run.name,
        "facts": facts,
        "live": live,
        "engine_version": told.engine_version,
        "sources": list(_sources(run.path / "source")),
        "timeline": told.timeline(live),
        "progress": _progress(state, told, live),
        "usage": usage,
        "by_job": by_job,
        "slowest": [{"id": step, "seconds": seconds} for step, seconds in told.slowest()],
        "failures": failures.listed(state, run),
        "comparisons": sorted(told.comparisons, key=lambda one: by_number(one["artifact"])),
        "log": {"lines": lines, "more": more},
    }
    if not live:
        state.ended_runs[key] = answer
    return answer


def _log_size(run: RunRef) -> int:
    try:
        return run.status().st_size
    except FileNotFoundError:
        return 0  # reading it says what is wrong


def _tail(path: Path, last_lines: Any) -> tuple[list[str], bool]:
    if not path.is_file():
        return [], False
    lines, more = last_lines(path, LOG_LINES)
    return lines, more


def _sources(folder: Path) -> Iterator[dict[str, Any]]:
    """The workflow files as the run read them."""
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if path.is_file() and not path.is_symlink():
            text, truncated = read_text(str(path))
            yield {"path": str(path.relative_to(folder)), "text": text, "truncated": truncated}


@dataclass
class _Told:
    """What the events of one run say about its steps. Times are seconds since it began."""

    engine_version: str = ""
    began: float = 0.0
    last: float = 0.0
    planned: int = 0
    has_ended: bool = False
    steps: dict[str, int] = field(default_factory=dict)  # step → its number
    actions: list[str] = field(default_factory=list)  # by step
    attempts: list[list[Any]] = field(default_factory=list)  # [step, attempt, start, end, status, will retry]
    marks: list[dict[str, Any]] = field(default_factory=list)
    comparisons: list[dict[str, Any]] = field(default_factory=list)
    open: dict[str, list[Any]] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    seconds: dict[str, float] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)

    def add(self, event: Any) -> None:
        at = parse_timestamp(event.ts).timestamp()
        if isinstance(event, ev.RunStart):
            self.began, self.engine_version = at, event.engine_version
        # Workers on other machines have clocks of their own.
        at = max(0.0, round(at - self.began, 6))
        self.last = max(self.last, at)
        match event:
            case ev.PlanComputed():
                self.planned += event.planned  # a stage adds to the first plan
            case ev.StepStart():
                row = [self._number(event.step_id, event.driver), event.attempt, at, None, "RUNNING", False]
                self.open[event.step_id] = row
                self.attempts.append(row)
            case ev.StepComplete() | ev.StepFailed():
                self._end(event, at)
            case ev.StepSkipped():
                text = event.from_run or event.reason or "" if event.why == "reused" else event.reason or ""
                self._mark(event.step_id, at, event.why.upper(), text)
            case ev.StepBlocked():
                self._mark(event.step_id, at, "BLOCKED", ", ".join(event.because[:3]))
            case ev.ResultKept():
                self._mark(event.step_id, at, "KEPT", f"from {event.from_run} by {event.by}: {event.because}")
            case ev.ArtifactAdopted():
                self._mark(event.step_id, at, "ADOPTED", f"{event.artifact} by {event.by}")
            case ev.Comparison():
                names = ("artifact", "status", "against", "summary", "details", "more")
                self.comparisons.append({name: getattr(event, name) for name in names})
            case ev.RunComplete():
                self.has_ended = True
            case _:
                pass

    def _number(self, step: str, action: str = "") -> int:
        if step not in self.steps:
            self.steps[step] = len(self.steps)
            self.actions.append(action)
        return self.steps[step]

    def _end(self, event: Any, at: float) -> None:
        row = self.open.pop(event.step_id, None)
        if row is None:
            return
        retried = bool(getattr(event, "will_retry", False))
        row[3], row[4], row[5] = at, event.status, retried
        self.seconds[event.step_id] = self.seconds.get(event.step_id, 0.0) + event.duration
        if not retried:
            self.ended.add(event.step_id)
        (self.failed.discard if type(event).__name__ == "StepComplete" else self.failed.add)(event.step_id)

    def _mark(self, step: str, at: float, status: str, text: str) -> None:
        self.ended.add(step)
        if len(self.marks) < MARKS:
            self.marks.append({"step": self._number(step), "at": at, "status": status, "text": text})

    def slowest(self) -> list[tuple[str, float]]:
        return sorted(self.seconds.items(), key=lambda one: -one[1])[:SLOWEST]

    def timeline(self, live: bool) -> dict[str, Any]:
        if not live:
            for row in self.open.values():
                row[4] = "INTERRUPTED"
        shown = self.attempts[:ATTEMPTS]
        named = 1 + max([*(row[0] for row in shown), *(mark["step"] for mark in self.marks)], default=-1)
        columns = ("step", "attempt", "start", "end", "status", "retry")
        body: dict[str, Any] = {name: [row[i] for row in shown] for i, name in enumerate(columns)}
        return {
            "steps": list(self.steps)[:named],
            "actions": self.actions[:named],
            **body,
            "marks": self.marks,
            "duration": self.last,
            "gaps": list(self._gaps()),
            "more": len(self.attempts) - len(shown),
        }

    def _gaps(self) -> Iterator[list[float]]:
        """Long times in which nothing ran."""
        busy_until = 0.0
        long = max(1.0, LONGEST_GAP * self.last)
        for row in sorted(self.attempts, key=lambda one: float(one[2])):
            if row[2] - busy_until > long:
                yield [busy_until, row[2]]
            busy_until = max(busy_until, self.last if row[3] is None else row[3])
        if self.attempts and self.last - busy_until > long:
            yield [busy_until, self.last]


def _progress(state: State, told: _Told, live: bool) -> dict[str, Any]:
    ended = len(told.ended)
    planned = max(told.planned, ended)
    left = None
    if live and isinstance(state, CurrentState):
        left = state.found.estimate()  # the plan now has what is left
    return {
        "ended": ended,
        "planned": planned,
        "done": ended / planned if planned else 1.0,
        "left": left,
        "elapsed": told.last,
    }


def _usage(run: RunRef, told: _Told) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What the steps of a run used, in all and by job, from its metrics, and what they spent, as text."""
    from whyrun.evidence.queries.costs import cost_rows, spent_in

    jobs: dict[str, dict[str, Any]] = {}

    def row(step: str) -> dict[str, Any]:
        name = without_indices(step.removeprefix("Job:"))
        empty = {"steps": 0, "failed": 0, "seconds": 0.0, "cpu_seconds": None, "max_rss_bytes": None, "cost": None}
        return jobs.setdefault(name, {"job": name, **empty})

    for step, seconds in told.seconds.items():
        one = row(step)
        one["steps"] += 1
        one["seconds"] += seconds
        one["failed"] += step in told.failed
    for metric in _metrics(run.path / "metrics.jsonl"):
        id_, name, value = metric.get("step_id"), metric.get("metric"), metric.get("value")
        if not isinstance(id_, str) or not isinstance(value, int | float) or not id_.startswith("Job:"):
            continue
        one = row(id_)
        if name == "max_rss_bytes":
            one[name] = max(one[name] or 0, int(value))
        elif name == "cpu_seconds":
            one[name] = (one[name] or 0.0) + value
    for spent in cost_rows([run], "job"):
        row(f"Job:{spent.name}")["cost"] = spent.spent.text()
    rows = sorted(jobs.values(), key=lambda one: -one["seconds"])
    cpu = [one["cpu_seconds"] for one in rows if one["cpu_seconds"] is not None]
    peak = [one["max_rss_bytes"] for one in rows if one["max_rss_bytes"] is not None]
    usage = {"cpu_seconds": sum(cpu) if cpu else None, "cost": spent_in(run).text() or None}
    return {**usage, "max_rss_bytes": max(peak, default=None)}, rows


def _metrics(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        return
    with path.open("rb") as file:
        for line in file:
            try:
                metric = json.loads(line)
            except ValueError:
                continue  # the last line of a run that is being written
            if isinstance(metric, dict):
                yield metric


# --- the log ---------------------------------------------------------------------------------------------------------


def log_view(state: State, params: Params) -> dict[str, Any]:
    """The events of a run after a line, as text."""
    from whyrun.facts.history import step_of
    from whyrun.ids import IdPattern
    from whyrun.log.journal import read_raw_lines
    from whyrun.viewer.live import fields_of, shown_event

    run = _run(state, params.one("run"))
    after, limit = params.number("after", 0), min(params.number("limit", EVENTS), EVENTS)
    job = params.maybe("job")
    pattern = IdPattern(job) if job else None
    found: list[dict[str, Any]] = []
    last = 0
    for last, line in enumerate(read_raw_lines(run.events_path), 1):
        if last <= after or len(found) > limit:
            continue
        fields = fields_of(line)
        if fields is not None and (pattern is None or pattern.matches(step_of(fields))):
            found.append(shown_event(fields))
    shown = found[:limit]
    words = ["log", run.name, *(["--job", job] if job else [])]
    return {"command": _command(state, *words), "run": run.name, "events": shown, "last": last,
            "more": len(found) > limit}  # fmt: skip


def prints_view(state: State, params: Params) -> dict[str, Any]:
    """The last lines that a step printed in a run."""
    from whyrun.errors import error
    from whyrun.facts.show import last_lines, step_logs
    from whyrun.ids import parse_id_of

    run, id_, stream = _run(state, params.one("run")), params.one("id"), params.maybe("stream") or "stderr"
    parse_id_of("Job", id_)
    paths = {path.stem: path for path in step_logs(run.path, id_)}
    if stream not in ("stdout", "stderr"):
        raise error("USAGE", f"`{stream[:20]}` is no stream of a step", hint="write `stdout` or `stderr`")
    lines, truncated = last_lines(paths[stream], 2000) if stream in paths else ([], False)
    command = _command(state, "log", run.name, "--job", id_)
    return {"command": command, "run": run.name, "id": id_, "stream": stream, "lines": lines, "truncated": truncated}


# --- earlier plans ---------------------------------------------------------------------------------------------------


def plan_view(state: State, params: Params) -> dict[str, Any]:
    """The plan of a run: from `plan.json`, checked against the log."""
    from whyrun.errors import WhyrunError
    from whyrun.evidence.run_directory import RunDirectory
    from whyrun.facts.history import tombstone_json

    name = params.one("run")
    stones = {stone.run: stone for stone in state.project.state.tombstones()}
    if name in stones:
        return {"command": None, "run": name, "pruned": tombstone_json(stones[name])}
    run = _run(state, name)
    body: dict[str, Any] = {"command": _command(state, "plan", "--at", name), "run": name}
    try:
        plan = json.loads((run.path / "plan.json").read_bytes())
    except (OSError, ValueError) as problem:
        return {**body, "digest": None, "checked": False, "problem": str(problem), "jobs": [], "more": 0}
    jobs = plan.get("jobs", [])
    body |= {key: plan.get(key) for key in ("digest", "log_position", "options", "totals")}
    computed = RunDirectory(run.path).plan_digests()
    body |= _check_plan(computed[0] if computed else None, plan)
    jobs = [*jobs, *(job for stage in RunDirectory(run.path).stage_plans(computed) for job in stage["jobs"])]
    body |= {"layers": list(_layers(jobs)), "jobs": jobs[:JOBS], "more": max(0, len(jobs) - JOBS)}
    if isinstance(state, CurrentState) and plan.get("totals", {}).get("jobs", 0) <= REPLAYED:
        try:
            body |= _compared_with_now(state, name)
        except WhyrunError as wrong:
            body["problem"] = body["problem"] or wrong.diagnostics[0].message
    return body


def _check_plan(computed: str | None, plan: dict[str, Any]) -> dict[str, Any]:
    """Whether the file is the plan that the log names."""
    from whyrun.planning.plan import written_digest

    recorded = f"sha256:{computed}" if computed is not None else None
    problem = None
    if recorded is None:
        problem = "the log has no plan of this run"
    elif plan.get("digest") != recorded:
        problem = f"the log has another plan: {recorded}"
    elif written_digest(plan) != recorded:
        problem = "the content of plan.json does not have its digest"
    return {"checked": problem is None, "problem": problem}


def _layers(jobs: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """By layer, what is planned of each job."""
    layers: dict[int, dict[tuple[str, str], dict[str, Any]]] = {}
    for job in jobs:
        name = without_indices(job["id"])
        state = "reused" if job["state"] == "planned" and "reuse" in job else job["state"]
        row = layers.setdefault(job["layer"], {}).setdefault(
            (name, state), {"job": name, "state": state, "count": 0, "codes": {}, "first": job["id"]}
        )
        row["count"] += 1
        for reason in job.get("reasons", [])[:1]:
            row["codes"][reason["code"]] = row["codes"].get(reason["code"], 0) + 1
    for number in sorted(layers):
        rows = list(layers[number].values())
        yield {"layer": number, "count": sum(row["count"] for row in rows), "jobs": rows}


def _compared_with_now(state: CurrentState, name: str) -> dict[str, Any]:
    """The jobs that the workflow had then and has no more, and those that came since; and the instances as letters."""
    from whyrun.facts.plans import plan_of_run

    then = plan_of_run(state.project, name)
    old = [table.name for table in then.snapshot.dependency_graph.tables]
    return {
        "removed": [f"Job:{job}" for job in old if job not in state.tables],
        "added": [f"Job:{job}" for job in state.tables if job not in old],
        "states": state_letters(then.plan, then.snapshot.dependency_graph),
    }


def state_letters(plan: Plan, graph: Any) -> dict[str, str]:
    """Job → one letter an instance, as in `cells`."""
    from whyrun.evidence.queries.current import job_states
    from whyrun.viewer.current import STATE_LETTERS

    letters = bytearray(b"c") * graph.size
    for node, one in job_states(plan).items():
        letters[node] = ord(STATE_LETTERS[one])
    text = letters.decode()
    return {table.name: text[table.base : table.base + len(table)] for table in graph.tables}
