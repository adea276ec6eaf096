"""Check that the log of a workflow is complete, before `gc` removes anything: lines, chain and ends, as in `verify`.

The first damage raises an error. Files and blobs are not checked, except for the `status.json` of the last run.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from whyrun.errors import WhyrunError, error
from whyrun.evidence.verify.lines import LineCheck, check_end, tombstone_problem
from whyrun.evidence.verify.report import VerifyProblem
from whyrun.log import events as ev
from whyrun.log.journal import FIRST_CHAIN, STATUS_FILE, read_blocks
from whyrun.log.outcomes import RunOutcome
from whyrun.log.runs import RunRef, WorkflowState, log_without_start
from whyrun.log.tombstones import Tombstone


def check_log(state: WorkflowState, runs: Sequence[RunRef], stones: Sequence[Tombstone], running: bool) -> None:
    """LOG_DAMAGED if anything in the log was changed or is lost. Streamed: no events are kept.

    `running`: the last run may be going on, so its log need not have an end.
    """
    chain: str | None = FIRST_CHAIN
    before = "an empty log"
    all_runs: list[RunRef | Tombstone] = sorted([*runs, *stones], key=lambda one: one.number)
    line = 0
    for run in all_runs:
        if isinstance(run, Tombstone):
            line += 1
            stones_file = str(state.tombstones_path)
            problem = tombstone_problem(run.run, run.previous_chain, stones_file, line, chain, before)
            if problem is not None:
                raise _refused(problem)
            chain, before = run.chain, run.run
        elif run is runs[-1]:
            _check_last(run, chain, before, running)
        else:
            chain, before = _check_closed(run, chain, before), run.name


def _check_closed(run: RunRef, chain: str | None, before: str) -> str | None:
    """Check a run that is not the last, and return the last link of its chain."""
    log, outcome, repaired, torn = _read(run, chain, before)
    _check_end(log, outcome, repaired, torn, is_last=False)
    return log.chain


def _check_last(run: RunRef, chain: str | None, before: str, running: bool) -> None:
    # Checked before the log is read: a run that ends meanwhile writes its status last.
    has_status = (run.path / STATUS_FILE).exists()
    log, outcome, repaired, torn = _read(run, chain, before)
    if has_status or not running:
        _check_end(log, outcome, repaired, torn, is_last=True, has_status=has_status)


def _check_end(
    log: LineCheck, outcome: RunOutcome, repaired: bool, torn: int, *, is_last: bool, has_status: bool = False
) -> None:
    ended = outcome.end is not None
    end = check_end(log, torn, ended=ended, repaired=repaired, is_last=is_last, has_status=has_status)
    if end.problem is not None:
        raise _refused(end.problem)


def _read(run: RunRef, chain: str | None, before: str) -> tuple[LineCheck, RunOutcome, bool, int]:
    """(checked lines, outcome, whether a repair wrote some of them, bytes after the last line)."""
    log = LineCheck(str(run.events_path), run.name, chain, before, _refuse)
    outcome, repaired, size = RunOutcome(), False, 0
    try:
        for block in read_blocks(run.events_path):
            size += len(block)
            for event in log.feed(block)[0]:
                outcome.add(event)
                repaired = repaired or type(event) is ev.LogRepaired
        torn = os.stat(run.events_path).st_size - size
    except FileNotFoundError:
        raise log_without_start(run) from None
    if not log.lines:
        raise log_without_start(run)
    return log, outcome, repaired, torn


def _refuse(problem: VerifyProblem) -> None:
    raise _refused(problem)


def _refused(problem: VerifyProblem) -> WhyrunError:
    subject = " ".join(word for word in (problem.event, problem.subject) if word is not None)
    what = problem.what + (f" ({subject})" if subject else "")
    return error("LOG_DAMAGED", what, file=problem.file, line=problem.line, hint=problem.hint or ev.DAMAGE_HINT)
