"""Dask workers that are SLURM jobs: submitted, looked after and cancelled again, through dask-jobqueue.

How a job is asked for stands in dask-jobqueue's own configuration file. Beyond it: what `sbatch` refuses is told, jobs
that ended are replaced, and the environment of this process, where secrets may stand, is not given to SLURM.
"""

from __future__ import annotations

import getpass
import importlib.util
import math
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from whyrun.errors import error
from whyrun.execution.commands import PrepareFailed, Session
from whyrun.workflow.fields import parse_duration

WAIT = "WHYRUN_SLURM_WAIT"  # how long the queue may take
QUEUE = 600.0  # seconds, where it does not say
SUBMIT = 60.0  # seconds for SLURM to take all jobs, or to cancel them
SQUEUE = 10.0  # seconds for its answer
ALONE = 10.0  # seconds without a worker after which jobs that have all ended are not waited for
TOLD = 12  # lines of what a worker printed that a message repeats
NAMED = 4  # jobs that a message speaks of one by one

OVER = (
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED",
    "TIMEOUT",
)  # fmt: skip

# All that a job sees of this process's environment: what Python and the commands of SLURM need, and `module load`.
HANDED_ON = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "BASH_ENV",
)  # fmt: skip
HANDED_ON_TOO = ("LC_", "SLURM_", "SBATCH_", "DASK_", "MODULE", "LMOD_", "BASH_FUNC_")

EXAMPLE = "in ~/.config/dask/jobqueue.yaml: `jobqueue: {slurm: {cores: 4, memory: 8GB}}`"


def check_slurm() -> float:
    """Before anything runs: whether jobs can be asked for at all. How many seconds a first worker is waited for."""
    if importlib.util.find_spec("dask_jobqueue") is None:
        message, hint = "the package `dask_jobqueue` is not installed", "pip install 'whyrun[dask]'"
        raise error("BACKEND_UNAVAILABLE", message, hint=hint)
    if shutil.which("sbatch") is None:
        hint = "run it on a machine from which SLURM jobs are submitted"
        raise error("BACKEND_UNAVAILABLE", "`sbatch` is not on the PATH", hint=hint)
    missing = [name for name in ("cores", "memory") if _configured(name) is None]
    if missing:
        message = f"nobody says what a SLURM job needs: {' and '.join(missing)}"
        raise error("BACKEND_UNAVAILABLE", message, hint=EXAMPLE)
    written = os.environ.get(WAIT)
    wait = QUEUE if written is None else parse_duration(written)
    if wait is None:
        raise error("USAGE", f"`{WAIT}={written}` is no duration", hint="write it like `30m` or `2h`")
    return wait


def _configured(name: str) -> Any:
    import dask

    return dask.config.get(f"jobqueue.slurm.{name}", None)


def handed_on(environment: Mapping[str, str]) -> dict[str, str]:
    """Without all that others have no business with: SLURM keeps a job's environment in files of its own."""
    return {name: value for name, value in environment.items() if name in HANDED_ON or name.startswith(HANDED_ON_TOO)}


def _jobqueue() -> Any:
    """The package, without the handler of SIGINT that it installs when it is imported: at Ctrl-C that one leaves at
    once, with exit status 0 and steps running."""
    before = signal.getsignal(signal.SIGINT)
    try:
        import dask_jobqueue
    except ValueError as problem:
        where = "it can first be imported by the main thread only"
        raise PrepareFailed(f"dask_jobqueue: {where}: {problem}") from problem
    if before is not None and signal.getsignal(signal.SIGINT) is not before:
        signal.signal(signal.SIGINT, before)
    return dask_jobqueue


def _job_class() -> Any:
    from dask_jobqueue.slurm import SLURMJob
    from distributed.deploy.spec import ProcessInterface

    usual: Any = SLURMJob  # it has no types
    left: Any = ProcessInterface.close

    async def submit(self: Any, script_filename: str) -> Any:
        command = [*shlex.split(self.submit_command), script_filename]
        # Out of reach of the terminal's Ctrl-C, which could end it between the submission and the word of it.
        return await self._call(command, env=handed_on(os.environ), start_new_session=True)

    async def close(self: Any) -> None:
        await usual.close(self)
        await left(self)  # or it is never closed in the eyes of its cluster

    return type("WorkerJob", (usual,), {"_submit_job": submit, "close": close})


class SlurmJobs:
    """Of one run. The Dask scheduler that their workers come to is in this process."""

    def __init__(self, session: Session) -> None:
        import dask

        jobqueue = _jobqueue()
        # A job of ours has no more threads than steps may run; steps are processes, so one Dask process is enough.
        cores = min(int(_configured("cores")), session.workers)
        processes = min(int(_configured("processes") or 1), cores)
        self._count = math.ceil(session.workers / cores)
        self._logs = session.tmp / f"{session.run}-slurm"
        self._alone_since: float | None = None
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1s"})  # then its job is over, and replaced
        self.cluster: Any = jobqueue.SLURMCluster(
            job_cls=_job_class(),
            cores=cores,
            processes=processes,
            silence_logs=50,  # what it means for steps is told by those who watch it
            nanny=processes > 1,  # it would end a worker for memory that its steps do not use
            log_directory=_configured("log-directory") or str(self._logs),  # else SLURM writes into the current folder
            scheduler_options={
                "dashboard": False,
                "dashboard_address": ":0",
                **(_configured("scheduler-options") or {}),
            },
        )

    def submit(self) -> None:
        for _ in range(self._count):
            self.cluster.worker_spec.update(self.cluster.new_worker_spec())
        try:
            self._correct()
        except Exception as problem:
            if not self._ids():  # where some were taken, those will do
                raise PrepareFailed(f"SLURM did not take the job of a worker: {_said(problem)}") from problem

    def _correct(self) -> None:
        """Submits a job for every worker that has none: at the beginning, and where one has ended."""
        self.cluster.sync(self.cluster._correct_state, callback_timeout=SUBMIT)

    def tend(self, has_workers: bool) -> str | None:
        """To be called from time to time. Why no worker will ever come again, if so."""
        refused = ""
        if not has_workers:
            self._forget_refused()  # they are asked for again; while others work, SLURM is not bothered
        try:
            self._correct()
        except Exception as problem:
            refused = f", and SLURM takes no other: {_said(problem)}"
        if has_workers:
            self._alone_since = None
            return None
        self._alone_since = self._alone_since or time.monotonic()
        if time.monotonic() - self._alone_since < ALONE:
            return None
        over = self.over(self.states())
        return over and f"{over}{refused}"

    def _forget_refused(self) -> None:
        from distributed.core import Status

        for name, job in list(self.cluster.workers.items()):
            if not job.job_id:
                job.status = Status.failed
                del self.cluster.workers[name]

    # --- looking at them -------------------------------------------------------------------------------------------

    def over(self, states: Mapping[str, str] | None) -> str | None:
        """That all jobs have ended, and how; None while one may still bring a worker, or where SLURM does not say."""
        ids = self._ids()
        if states is None or not all(states.get(job, "COMPLETED").split()[0] in OVER for job in ids):
            return None
        told = self._told(states)
        return f"the SLURM jobs of its workers have ended{f' ({told})' if told else ''}"

    def waiting(self, states: Mapping[str, str] | None) -> str:
        return "squeue does not answer" if states is None else f"the SLURM jobs of its workers: {self._told(states)}"

    def printed(self) -> str:
        """The last lines that workers printed, for a message that goes on with them."""
        folder = Path(_configured("log-directory") or self._logs)
        lines: list[str] = []
        for job in self._ids():
            for path in sorted(folder.glob(f"*-{job}*.err")):
                with suppress(OSError):  # the message is about something else
                    lines += path.read_text(encoding="utf-8", errors="replace").splitlines()
        return "".join(f"\n{line}" for line in lines[-TOLD:])

    def _ids(self) -> list[str]:
        return [job.job_id for job in list(self.cluster.workers.values()) if job.job_id]

    def _told(self, states: Mapping[str, str]) -> str:
        ids = self._ids()
        told = [f"{job} {states.get(job, 'gone')}" for job in ids[:NAMED]]
        return ", ".join([*told, f"and {len(ids) - NAMED} more"] if len(ids) > NAMED else told)

    def states(self) -> dict[str, str] | None:
        """By job, like `PENDING (Resources)`; None where SLURM does not say."""
        told = _command("squeue", "-h", "-t", "all", "-u", getpass.getuser(), "-o", "%i %T (%r)")
        if told is None:
            return None
        return {job: state for job, _, state in (line.partition(" ") for line in told.splitlines())}

    # --- going -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """All at once, and before anything that may wait: a run that ends leaves no job behind."""
        ids = self._ids()
        if ids:
            _command("scancel", *ids)
        try:
            self.cluster.close(timeout=SUBMIT)
        finally:
            shutil.rmtree(self._logs, ignore_errors=True)  # a job that just ends may still write there


def _command(*words: str) -> str | None:
    """What it printed; None where it failed."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=SQUEUE, start_new_session=True)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _said(problem: Exception) -> str:
    """Of dask-jobqueue's text, what `sbatch` itself said."""
    text = str(problem)
    return text.partition("stderr:\n")[2].strip() or f"{type(problem).__name__}: {text}"
