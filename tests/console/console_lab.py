"""The real command in a project folder of its own, with what it told and what it left as evidence."""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fork_server import COMMAND as COMMAND
from fork_server import run_command
from project_lab import NOT_TRACED

# `whyrun` in scripts is the one under test; and nothing of the shell in which the tests were started.
ENVIRONMENT = {
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    "HOME": os.environ.get("HOME", "/"),
    "LANG": "C.UTF-8",
}


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def notes(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.startswith("note: ")]


class Project:
    def __init__(self, root: Path, files: Mapping[str, str]) -> None:
        self.root = root
        for name, text in {**NOT_TRACED, **files}.items():
            self.write(name, text)

    def write(self, name: str, text: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")

    def read(self, name: str) -> str:
        return (self.root / name).read_text(encoding="utf-8")

    def __call__(self, *words: str) -> Answer:
        done = run_command(words, cwd=self.root, env=ENVIRONMENT, timeout=300)
        return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())

    def runs(self) -> list[str]:
        return sorted(path.name for path in self.root.glob(".whyrun/*/runs/*"))

    def evidence(self, run: str, name: str) -> str:
        (path,) = self.root.glob(f".whyrun/*/runs/{run}/{name}")
        return path.read_text(encoding="utf-8")

    def metrics(self, run: str) -> dict[str, dict[str, float]]:
        """Step → metric → value."""
        found: dict[str, dict[str, float]] = {}
        for line in self.evidence(run, "metrics.jsonl").splitlines():
            metric = json.loads(line)
            assert set(metric) == {"ts", "session", "metric", "value", "unit", "step_id"}
            found.setdefault(metric["step_id"], {})[metric["metric"]] = metric["value"]
        return found

    def durations(self, run: str) -> dict[str, float]:
        """Completed step → seconds, as logged: what estimates and savings are made from. (The worker's own metric of
        it has other ends.)"""
        events = [json.loads(line) for line in self.evidence(run, "events.jsonl").splitlines()]
        return {event["step_id"]: event["duration"] for event in events if event["event"] == "step_complete"}


def timeless(line: str) -> str:
    """A status line without its date and durations."""
    line = re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", "", line)
    return re.sub(r"\b(in|after) (~?)\d+(\.\d+)?s", r"\1 \2T", line)
