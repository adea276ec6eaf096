"""Reads a saved plan for `whyrun run --plan FILE`."""

from __future__ import annotations

import errno
import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whyrun.planning.plan import PlanOptions
    from whyrun.project import Project

LARGEST_PLAN = 1 << 30  # bytes: ten times a plan of a million jobs


def saved_plan(path: str, options: PlanOptions, project: Project) -> tuple[PlanOptions, dict[str, Any]]:
    """A saved plan and its options. The run computes the plan with these options again, and both must be equal."""
    from whyrun.errors import error
    from whyrun.planning.plan import PlanOptions, written_digest

    if options != PlanOptions():
        raise error(
            "USAGE",
            "a saved plan has its own options",
            hint="omit `--up`, `--target` and `--force`, or omit `--plan`",
        )
    try:
        if os.path.exists(path) and not os.path.isfile(path):  # opening a pipe would wait forever
            raise OSError(errno.EINVAL, "it is not a regular file")
        with open(path, "rb") as file:
            data = decode_plan(file.read(LARGEST_PLAN + 1), path)
    except OSError as problem:
        hint = "save one with `whyrun plan --save FILE`"
        raise error("FILE_MISSING", f"the plan `{path}` cannot be read: {problem.strerror}", hint=hint) from None
    if "snapshot_sha256" not in data:
        raise error(
            "USAGE",
            f"`{path}` does not record what its plan was made from, so it cannot be checked before it runs",
            hint="save it with `whyrun plan --save FILE`",
        )
    if data["workflow"] != project.workflow.name:
        raise error(
            "USAGE",
            f"`{path}` is a plan of `{data['workflow']}`, but this workflow is `{project.workflow.name}`",
            hint="name the workflow file that the plan was saved for",
        )
    if written_digest(data) != data["digest"]:
        # Only the digest decides what may run, so an edited file must not pass for the plan that was saved.
        raise error(
            "USAGE",
            f"`{path}` was changed after it was saved: its content does not match its digest",
            hint="save it again with `whyrun plan --save FILE`; `--target` and `--up` save a plan of fewer jobs",
        )
    saved = data["options"]
    return PlanOptions(saved["up"], tuple(saved["targets"]), tuple(saved["force"])), data


def decode_plan(content: bytes, path: str) -> dict[str, Any]:
    """Decode a saved plan. Anything else is a USAGE error."""
    from whyrun.errors import error

    if len(content) > LARGEST_PLAN:
        raise error("USAGE", f"`{path}` is too large for a plan", hint="save one with `whyrun plan --save FILE`")
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):  # not JSON, not text, or nested too deeply
        data = None
    if not _is_plan(data):
        raise error("USAGE", f"`{path}` is not a saved plan", hint="save one with `whyrun plan --save FILE`")
    assert isinstance(data, dict)
    return data


def _is_plan(data: Any) -> bool:
    if not isinstance(data, dict) or not isinstance(data.get("options"), dict):
        return False
    options = data["options"]
    lists = [options.get("targets"), options.get("force")]
    return (
        data.get("version") == 1
        and isinstance(data.get("workflow"), str)
        and isinstance(data.get("digest"), str)
        and (options.get("up") is None or type(options.get("up")) is int)
        and all(isinstance(each, list) and all(isinstance(text, str) for text in each) for each in lists)
        and all(isinstance(data.get(name), dict) for name in ("snapshot", "totals"))
        and isinstance(data.get("snapshot_sha256", ""), str)
        and _is_identity(data)
        and isinstance(data.get("jobs"), list)
        and all(_is_job(job) for job in data["jobs"])
    )


def _is_identity(data: dict[str, Any]) -> bool:
    """What `plan --save` adds to a plan; `plan --json` does not have it."""
    parts = data.get("snapshot_parts", {})
    return ("snapshot_sha256" in data) == ("snapshot_parts" in data) and (
        isinstance(parts, dict) and all(isinstance(part, dict) for part in parts.values())
    )


def _is_job(job: Any) -> bool:
    return (
        isinstance(job, dict)
        and all(isinstance(job.get(name), str) for name in ("id", "state"))
        and isinstance(job.get("reasons", []), list)
        and all(isinstance(each, dict) and "code" in each for each in job.get("reasons", []))
    )
