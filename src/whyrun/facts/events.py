"""What the events of a log say: their names, their steps, how a step ended, and their details on one line."""

from __future__ import annotations

from typing import Any

from whyrun.json_values import value_text

_HEAD = ("seq", "ts", "session", "event", "chain", "step_id", "v")
# These would make a line too long; `--json` has them.
_LONG = frozenset({"bindings", "traceback", "previous_chain", "fingerprint", "plan_sha256", "snapshot_sha256"})


def event_names() -> list[str]:
    from typing import get_args

    from whyrun.log.events import AnyEvent

    return sorted(str(kind.__struct_config__.tag) for kind in get_args(AnyEvent))


def step_of(fields: dict[str, Any]) -> str:
    """The step of an event. A comparison has only the artifact; its ID names the step."""
    if fields["event"] != "comparison" or fields.get("step_id") is not None:
        return str(fields.get("step_id", ""))
    from whyrun.ids import job_of

    return job_of(fields["artifact"])


def status_of(fields: dict[str, Any]) -> str | None:
    """The final status of a step or task; None for other events."""
    match fields["event"]:
        case "step_complete" | "step_failed" | "comparison" | "task":
            return str(fields["status"])
        case "step_skipped" | "step_blocked":
            return "SKIPS"
    return None


def event_details(fields: dict[str, Any]) -> str:
    """The particulars of an event on one line, without its time, name and step."""
    details = []
    for name, value in fields.items():
        if name in _HEAD or name in _LONG or value in (None, "", [], {}):
            continue
        if name in ("sha256", "cut_sha256", "workflow_sha256"):
            value = f"{value[:8]}…"
        details.append(f"{name}={value if isinstance(value, str) and ' ' not in value else value_text(value)}")
    return " ".join(details)
