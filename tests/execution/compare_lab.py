"""`compare` in a real project, with its result and evidence."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from project_lab import Heard, Lab
from whyrun.execution.backends.registry import RunOptions
from whyrun.execution.compare.compare import CompareOptions, CompareResult, compare_workflow
from whyrun.log import events as ev


@dataclass
class Compared:
    result: CompareResult
    heard: Heard
    events: list[ev.AnyEvent]
    folder: Path | None

    @property
    def lines(self) -> list[str]:
        """Sorted, without times and durations."""
        return sorted(re.sub(r"\bin [\d.]+s", "in #s", text[20:]) for _, text in self.heard.lines)

    @property
    def comparisons(self) -> dict[str, tuple[str, str, str]]:
        found = [e for e in self.events if isinstance(e, ev.Comparison)]
        assert len({e.artifact for e in found}) == len(found)
        return {e.artifact: (e.status, e.against, e.summary) for e in found}

    def of(self, kind: type[ev.Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def status(self) -> dict[str, Any]:
        assert self.folder is not None
        return json.loads((self.folder / "status.json").read_bytes())


def compare(
    lab: Lab, *ids: str, against: str | None = None, accept: bool = False, sets: tuple[str, ...] = (), **options: Any
) -> Compared:
    heard = Heard()
    found = CompareOptions(ids, against, accept)
    result = compare_workflow(lab.opened(sets), found, RunOptions(jobs=2, **options), heard)
    if result.run is None:
        return Compared(result, heard, [], None)
    return Compared(result, heard, lab.events(result.run), lab.run_folder(result.run))
