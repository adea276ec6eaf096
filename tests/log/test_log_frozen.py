"""What the log hands around is what it was when it was read: nobody can change it in another's hands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from whyrun.log.lean_events import Options
from whyrun.log.lock import Holder
from whyrun.log.outcomes import RunOutcome
from whyrun.log.repair import RepairReport, Survived
from whyrun.log.runs import RunRef, WorkflowState
from whyrun.log.sync_mark import Synced
from whyrun.log.tombstones import Adopted, CarriedInput, Displaced, PublishedSite, Tombstone
from whyrun.project_config import ProjectConfig

STONE = Tombstone(
    run="r0001", mode="run", state="failed", started="", ended="", events=1, previous_chain="", chain="", pruned=""
)  # fmt: skip


@pytest.mark.parametrize(
    ("record", "field"),
    [
        (Holder(1, "host", "since"), "run"),
        (RepairReport("r0001", 0, "", ()), "run"),
        (ProjectConfig(), "store"),
        (RunRef("r0001", "runs/r0001", 1), "number"),
        (WorkflowState(Path(".whyrun"), "wf"), "workflow"),
        (Options(), "accept"),
        (Survived(RunOutcome(), None, 0, ()), "size"),
        (Synced("r0001", 1), "seq"),
        (Adopted("Artifact:A.B", "", "text"), "type"),
        (CarriedInput("Input:A", ""), "value"),
        (Displaced("out", ""), "section"),
        (PublishedSite("Artifact:A.B", "out", ""), "site"),
        (STONE, "events"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_record_cannot_be_changed(record: Any, field: str) -> None:
    before = getattr(record, field)
    with pytest.raises(AttributeError):
        setattr(record, field, "other")
    assert getattr(record, field) == before
