"""The runs of a workflow, one record each: how many steps, how they ended, and whether the run still goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import asdict

from whyrun.errors import StateError, error
from whyrun.log import events as ev
from whyrun.log.journal import STATUS_FILE, last_event
from whyrun.log.lock import Holder, holder_and_state, running_run
from whyrun.log.outcomes import RunOutcome, error_of, lost_end
from whyrun.log.runs import RunRef, WorkflowState, log_without_start


class RunSummary(msgspec.Struct, frozen=True):
    run: str
    state: str  # succeeded failed interrupted running
    mode: str  # run compare adopt decide
    started: str
    ended: str | None
    duration: float | None
    planned: int
    completed: int
    reused: int
    skipped: int  # inactive
    failed: int  # timed out as well
    blocked: int
    interrupted: int
    error: str | None
    identical: int = 0  # these three: of a comparison
    different: int = 0
    accepted: bool = False  # its results count as the latest

    @property
    def outcome(self) -> str:
        """The state for people: a comparison that found differences has not failed."""
        if self.mode != "compare" or self.state not in ("succeeded", "failed"):
            return self.state
        if self.failed or (self.state == "failed" and not self.different):
            return "failed"
        if self.accepted and self.completed:
            return "accepted"
        return "differences" if self.different else self.state

    def to_json(self) -> dict[str, Any]:
        record = asdict(self)
        compared = {name: record.pop(name) for name in ("identical", "different", "accepted")}
        return {**record, **compared} if self.mode == "compare" else record


class Unfinished(msgspec.Struct, frozen=True):
    """The last run, if its log has no end: running (the lock is held) or interrupted."""

    run: str
    state: str
    open_steps: tuple[str, ...]
    holder: Holder | None
    mode: str = "run"

    def to_json(self) -> dict[str, Any]:
        by = None
        if self.holder is not None:
            by = {"pid": self.holder.pid, "host": self.holder.host, "since": self.holder.started}
        return {"run": self.run, "state": self.state, "open_steps": list(self.open_steps), "by": by}


def list_runs(state: WorkflowState) -> list[RunSummary]:
    runs, running = state.runs(), running_run(state)
    summaries = []
    for run in runs:
        try:
            summaries.append(summarize_run(run, running == run.name))
        except StateError as refused:
            if refused.diagnostics[0].code != "RUN_PRUNED":
                raise  # RUN_PRUNED: it was pruned after the runs were listed
    return summaries


def summarize_run(run: RunRef, is_running: bool, also: Callable[[ev.AnyEvent], None] | None = None) -> RunSummary:
    """`also`: gets every event as well, so that a long log is read once."""
    outcome, reused, compared = _fold(run, also)
    assert outcome.start is not None
    counts = outcome.counts()
    state = "running" if is_running else "interrupted"
    if outcome.end is not None:
        state = outcome.end.state
    return RunSummary(
        run=run.name,
        state=state,
        mode=outcome.start.mode,
        started=outcome.start.ts,
        ended=outcome.end.ts if outcome.end is not None else None,
        duration=outcome.end.duration if outcome.end is not None else None,
        planned=outcome.planned if outcome.planned is not None else len(outcome.steps),
        completed=counts["completed"],
        reused=reused,
        skipped=counts["skipped"] - reused,
        failed=counts["failed"] + counts["timed_out"],
        blocked=counts["blocked"],
        interrupted=counts["interrupted"] + (0 if is_running else len(outcome.open_steps)),
        error=error_of(outcome),
        identical=compared["IDENTICAL"],
        different=compared["DIFFERENT"],
        accepted=bool(outcome.start.options.get("accept")),
    )


def unfinished_run(state: WorkflowState) -> Unfinished | None:
    """The last run, if it has not ended. LOG_DAMAGED if it had ended and the end was cut off."""
    runs = state.runs()
    if not runs:
        return None
    name = runs[-1].name
    is_running = running_run(state) == name  # asked before the log is read
    if run_end(runs[-1]) is not None:
        return None  # nearly always: the log need not be read
    has_status = (runs[-1].path / STATUS_FILE).exists()  # checked before the log is read: `status.json` is written last
    outcome, _, _ = _fold(runs[-1])
    if outcome.end is not None:
        return None
    assert outcome.start is not None
    lost = lost_end(ended=False, has_status=has_status, is_last=True)
    if lost is not None:
        raise error("LOG_DAMAGED", lost.what, file=str(runs[-1].events_path), hint=lost.hint)
    holder = holder_and_state(state.lock_path)[1] if is_running else None
    now = "running" if is_running else "interrupted"
    return Unfinished(name, now, tuple(outcome.open_steps), holder, outcome.start.mode)


def run_end(run: RunRef) -> ev.RunComplete | None:
    """The end of a run, from the last line of its log; None if it has not ended."""
    try:
        last = last_event(run.events_path)
    except FileNotFoundError:
        raise log_without_start(run) from None
    return last if isinstance(last, ev.RunComplete) else None


def _fold(run: RunRef, also: Callable[[ev.AnyEvent], None] | None = None) -> tuple[RunOutcome, int, Counter[str]]:
    """(outcome, number of reused steps, completed steps by status). LOG_INCOMPLETE without a `run_start`."""
    outcome = RunOutcome()
    completed: Counter[str] = Counter()
    reused: set[str] = set()
    try:
        for event in run.events():
            outcome.add(event)
            if also is not None:
                also(event)
            if isinstance(event, ev.StepSkipped) and event.why == "reused":
                reused.add(event.step_id)
            elif isinstance(event, ev.StepComplete):
                completed[event.status] += 1
    except FileNotFoundError:
        raise log_without_start(run) from None
    if outcome.start is None:
        raise log_without_start(run)
    # A reused step fails if its output cannot be published. It does not count as reused.
    return outcome, sum(outcome.steps[step] == "skipped" for step in reused), completed
