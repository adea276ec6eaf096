"""A plan that was saved, read back: `run --plan FILE`."""

from __future__ import annotations

import errno
import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whyrun.planning.plan import PlanOptions
    from whyrun.snapshot.world import World

LARGEST_PLAN = 1 << 30  # bytes: ten times what a million jobs take


def saved_plan(path: str, options: PlanOptions, world: World) -> tuple[PlanOptions, dict[str, Any]]:
    """A saved plan and its options: with them the same plan must come out again."""
    from whyrun.errors import error
    from whyrun.planning.plan import PlanOptions, written_digest

    if options != PlanOptions():
        raise error(
            "USAGE",
            "a saved plan has its own options",
            hint="leave `--up`, `--target` and `--force` away, or leave `--plan` away",
        )
    try:
        if os.path.exists(path) and not os.path.isfile(path):  # a pipe would be waited for, for ever
            raise OSError(errno.EINVAL, "it is not a regular file")
        with open(path, "rb") as file:
            data = decode_plan(file.read(LARGEST_PLAN + 1), path)
    except OSError as problem:
        hint = "save one with `whyrun plan --save FILE`"
        raise error("FILE_MISSING", f"the plan `{path}` cannot be read: {problem.strerror}", hint=hint) from None
    if data["workflow"] != world.workflow.name:
        raise error(
            "USAGE",
            f"`{path}` is a plan of `{data['workflow']}`, and this workflow is `{world.workflow.name}`",
            hint="name the workflow file that it was made for",
        )
    if written_digest(data) != data["digest"]:
        # What runs is what is planned now, if it has this digest: not what was left of the file.
        raise error(
            "USAGE",
            f"`{path}` is not as it was saved: its content does not have its digest",
            hint="save it again with `whyrun plan --save FILE`; `--target` and `--up` make it a plan of fewer jobs",
        )
    given = data["options"]
    return PlanOptions(given["up"], tuple(given["targets"]), tuple(given["force"])), data


def decode_plan(content: bytes, path: str) -> dict[str, Any]:
    """A saved plan, or USAGE for anything else."""
    from whyrun.errors import error

    if len(content) > LARGEST_PLAN:
        raise error("USAGE", f"`{path}` is larger than any plan", hint="save one with `whyrun plan --save FILE`")
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):  # no JSON, no text, or nested as no plan is
        data = None
    if not _is_plan(data):
        raise error("USAGE", f"`{path}` is no saved plan", hint="save one with `whyrun plan --save FILE`")
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
        and isinstance(data.get("jobs"), list)
        and all(_is_job(job) for job in data["jobs"])
    )


def _is_job(job: Any) -> bool:
    return (
        isinstance(job, dict)
        and all(isinstance(job.get(name), str) for name in ("id", "state"))
        and isinstance(job.get("reasons", []), list)
        and all(isinstance(each, dict) and "code" in each for each in job.get("reasons", []))
    )
