"""The end of the last log is checked only if its run has a status: otherwise it may be running."""

from __future__ import annotations

import pytest
from gc_lab import Past

from whyrun.errors import StateError
from whyrun.evidence.retention.gc import check_log


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("status", [True, False])
@pytest.mark.parametrize("end", ["cut off", "more after it"])
def test_the_last_log_needs_an_end_if_its_run_has_a_status(past: Past, running: bool, status: bool, end: str) -> None:
    state = past.opened().state
    runs, stones = state.runs_and_tombstones()
    log = runs[-1].events_path
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-1] if end == "cut off" else [*lines, b"{"]))
    if not status:
        (runs[-1].path / "status.json").unlink()
    if status or (end == "more after it" and not running):
        told = "its end was cut off" if end == "cut off" else "1 bytes follow the last line"
        with pytest.raises(StateError, match=told):
            check_log(state, runs, stones, running)
    else:
        check_log(state, runs, stones, running)
