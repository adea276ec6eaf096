"""The results that loops go over: recorded before, or made by the run that goes on. Pure."""

from __future__ import annotations

from collections.abc import Container
from types import MappingProxyType

import msgspec

from whyrun.graph.ragged import Recorded, RecordedValue
from whyrun.ids import job_of
from whyrun.snapshot.records import MadeInRun, MadeOutput, Output
from whyrun.snapshot.snapshot import LogReader
from whyrun.workflow.arrays import elements_of, is_array
from whyrun.workflow.inputs import files_of
from whyrun.workflow.model import Workflow

NOTHING_MADE: MadeInRun = MappingProxyType({})


def recorded_results(log: LogReader, known: Container[str], made: MadeInRun = NOTHING_MADE) -> Recorded:
    """The values that a run has made; else those of the last successes, of the results that are known."""
    steps = log.records.steps

    def recorded(artifact: str) -> RecordedValue | None:
        outputs = made.get(job_of(artifact))
        if outputs is not None and artifact in outputs:
            return _as_values(outputs[artifact])
        record = steps.get(job_of(artifact)) if artifact in known else None
        success = record.last_success() if record is not None else None
        last = next((output for output in success.outputs if output.id == artifact), None) if success else None
        return None if last is None or last.value is msgspec.UNSET else _as_values(last)

    return recorded


def _as_values(output: Output | MadeOutput) -> RecordedValue:
    if not is_array(output.type):
        return RecordedValue(output.value, output.sha256)
    elements = elements_of(output.value)
    return RecordedValue([each.value for each in elements], output.sha256, tuple(each.key for each in elements))


def is_over_results(workflow: Workflow) -> bool:
    return any(loop.is_over_result for flow in files_of(workflow) for loop in flow.loops.values())
