"""A timeline in the Trace Event Format: one complete event an attempt, one instant event a task.

Viewers draw a lane a thread, and mangle events that overlap in one. So each attempt takes the first lane that is free,
and the numbers of processes and threads are those of lanes. Pure.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from whyrun.exports.record import Attempt, Rendered, RunRecord, Step, Subject

_PROCESS = 1
_TASKS = 1000  # of one attempt


def render(subject: Subject) -> Rendered:
    return Rendered(chrome_trace(subject.record()))


def chrome_trace(record: RunRecord) -> bytes:
    began = micros(record.started)
    last = max(0, micros(record.ended or record.last_ts) - began)
    state = f"{record.state} (unfinished)" if record.unfinished else record.outcome
    process = {"name": f"{record.workflow} {record.run} ({state})"}
    events: list[dict[str, Any]] = [{"ph": "M", "pid": _PROCESS, "tid": 0, "name": "process_name", "args": process}]
    lanes: list[int] = []  # when each is free again
    drawn: list[dict[str, Any]] = []
    for step, attempt in record.attempts():
        start = max(0, micros(attempt.start) - began)
        end = max(start, last if attempt.end is None else micros(attempt.end) - began)
        lane = next((i for i, free in enumerate(lanes) if free <= start), len(lanes))
        lanes[lane : lane + 1] = [end]
        drawn.append({
            "ph": "X", "pid": _PROCESS, "tid": lane + 1, "ts": start, "dur": end - start, "name": step.id,
            "cat": attempt.status, "args": _arguments(step, attempt),
        })  # fmt: skip
        for task in attempt.tasks[:_TASKS]:
            at = min(end, max(start, micros(task.ts) - began))
            message = {"message": task.message}
            drawn.append({
                "ph": "i", "s": "t", "pid": _PROCESS, "tid": lane + 1, "ts": at, "name": task.status, "cat": "task",
                "args": message,
            })  # fmt: skip
    for lane in range(1, len(lanes) + 1):
        name = {"name": f"lane {lane}"}
        events.append({"ph": "M", "pid": _PROCESS, "tid": lane, "name": "thread_name", "args": name})
    about = {
        "workflow": record.workflow, "run": record.run, "mode": record.mode, "state": record.state,
        "unfinished": record.unfinished, "started": record.started, "whyrun": record.engine_version,
    }  # fmt: skip
    body = {"traceEvents": [*events, *drawn], "displayTimeUnit": "ms", "otherData": about}
    return json.dumps(body, ensure_ascii=False, indent=1, sort_keys=True).encode() + b"\n"


def micros(ts: str) -> int:
    """Microseconds since 1970, without the errors of floats."""
    moment = datetime.fromisoformat(ts)
    return int(moment.replace(microsecond=0).timestamp()) * 1_000_000 + moment.microsecond


def _arguments(step: Step, attempt: Attempt) -> dict[str, Any]:
    found: dict[str, Any] = {"status": attempt.status, "attempt": attempt.number, "action": step.action}
    if step.reasons:
        found["reasons"] = [f"{code}  {text}".rstrip() for code, text in step.reasons]
    if attempt.error_type:
        found["error"] = f"{attempt.error_type}: {attempt.error}"
    if attempt.spent:
        found["spent"] = attempt.spent.text()
    if attempt.end is None:
        found["unfinished"] = True
    return found
