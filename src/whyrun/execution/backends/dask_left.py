"""What a step left at a Dask worker of this machine that is gone: where the run has started the cluster itself, it lies
with the host, and is evidence as after the death of any worker."""

from __future__ import annotations

import time
from pathlib import Path

from whyrun.execution.backends.dask_sent import Sent
from whyrun.execution.commands import ExecStep, Message, Session, StepBegan, StepLost
from whyrun.execution.leftovers import end_workers
from whyrun.execution.scratch import Scratch, step_folder
from whyrun.execution.secrets import Redactor
from whyrun.execution.wire import timestamp

_AT_WORK = (b"R", b"S", b"D", b"I")  # states of a process; others are stopped, or have ended


def words_on_loss(sent: Sent, reason: str, session: Session, sites: Path | None) -> list[Message]:
    """What nobody else can say of it any more."""
    command, redactor, stderr = sent.job.command, Redactor(sent.job.secrets), ""
    duration = time.monotonic() - sent.began if sent.began else 0.0
    if sites is not None:
        try:
            stderr = _keep_left(sites, session, command, redactor)
        except OSError as problem:  # the loss itself is what counts
            reason += redactor.text(f" (and its files could not be kept: {problem})")
    lost = StepLost(command.step_id, command.attempt, timestamp(), reason, stderr, duration)
    return [lost] if sent.expected else [StepBegan(command.step_id, command.attempt, timestamp()), lost]


def _keep_left(sites: Path, session: Session, command: ExecStep, redactor: Redactor) -> str:
    """The last lines of its stderr, if there is anything to keep."""
    for folder in sorted(sites.glob(f"whyrun-*/tmp/{session.run}-*")):
        scratch = Scratch(folder)
        if scratch.marked() != (command.step_id, command.attempt) or _is_at_work(folder.parents[1].name):
            continue
        end_workers([scratch])
        stderr = scratch.tail("stderr", redactor)
        scratch.keep_all(step_folder(session.run_dir, command.step_id), redactor)
        return stderr
    return ""


def _is_at_work(site: str) -> bool:
    """The Dask worker whose number its site has at the end: then all this is its own to keep."""
    try:
        stat = Path(f"/proc/{site.rpartition('-')[2]}/stat").read_bytes()
    except FileNotFoundError:
        return False
    return stat.rpartition(b")")[2].split()[0] in _AT_WORK
