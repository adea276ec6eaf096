"""Workflows with data actions: files in, one job, what it wrote and what it told."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from project_lab import Lab, Ran
from whyrun.log import events as ev

Make = Callable[..., Lab]

# Random tables for each property. `make soak-data` tries many more, and other ones each time.
EXAMPLES = 600 if os.environ.get("WHYRUN_SOAK") else 25


def flow(
    uses: str, with_: Mapping[str, Any], files: Mapping[str, str], out: str = "out/made.csv", **output: Any
) -> str:
    """One job `J` that makes `made`; every file is an input `F_<stem>`, written as `@stem` in `with`."""
    inputs = {f"F_{stem}": {"type": "dataset", "default": path} for stem, path in files.items()}
    job = {"uses": uses, "with": _bound(with_), "outputs": {"made": {"type": "dataset", "path": out, **output}}}
    return json.dumps({"workflow": "w", "inputs": inputs, "jobs": {"J": job}})


def _bound(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("@"):
        return f"${{{{ inputs.F_{value[1:]} }}}}"
    if isinstance(value, Mapping):
        return {key: _bound(member) for key, member in value.items()}
    return [_bound(member) for member in value] if isinstance(value, list) else value


def lab_of(project: Make, uses: str, with_: Mapping[str, Any], files: Mapping[str, str | bytes], **output: Any) -> Lab:
    stems = {Path(path).stem: path for path in files}
    return project(flow(uses, with_, stems, **output), files)


def made(project: Make, uses: str, with_: Mapping[str, Any], files: Mapping[str, str | bytes]) -> list[list[str]]:
    lab = lab_of(project, uses, with_, files)
    lab.succeed()
    return table(lab.root / "out/made.csv")


def table(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def failure(project: Make, uses: str, with_: Mapping[str, Any], files: Mapping[str, str | bytes], **output: Any) -> str:
    """`Type: message` of a step that fails."""
    ran = lab_of(project, uses, with_, files, **output).run()
    (failed,) = ran.of(ev.StepFailed)
    assert ran.exit_code == 1
    return f"{failed.error_type}: {failed.error}"


def task_details(ran: Ran) -> list[dict[str, Any]]:
    return [event.details for event in ran.of(ev.Task)]
