"""Runs Dask workers as SLURM jobs: submits, replaces and cancels them through dask-jobqueue.

The configuration file of dask-jobqueue describes a job. This module adds to it: it reports what `sbatch` refuses,
replaces jobs that ended, and does not pass the host's environment, which may hold secrets, to SLURM.
"""

from __future__ import annotations

import getpass
import importlib.util
import ipaddress
import math
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from whyrun.errors import error, to_install
from whyrun.execution.backends.base import PrepareFailed, Session
from whyrun.workflow.fields import parse_duration

# --- who may use a Dask cluster: certificates for those that a run starts, and checks for those that it reaches -------
# Without TLS, every user who reaches a port of a scheduler, worker or nanny can run code as the user of the run.


SLURM = "slurm"  # instead of an address
ENCRYPTED = "tls://"

# The certificates of a client: their names in Dask's configuration, and the variables that set them.
_CERTIFICATES = {
    "distributed.comm.tls.ca-file": "DASK_DISTRIBUTED__COMM__TLS__CA_FILE",
    "distributed.comm.tls.client.cert": "DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT",
    "distributed.comm.tls.client.key": "DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY",
}


def own_security() -> Any:
    """Certificates for one cluster, made now and kept in memory."""
    from distributed.security import Security

    made: Any = Security
    return made.temporary()


def check_certificates(address: str) -> None:
    """Check, before anything runs, that there are certificates for a scheduler that wants them."""
    import dask

    if not address.startswith(ENCRYPTED):
        return
    missing = [variable for name, variable in _CERTIFICATES.items() if not dask.config.get(name, None)]
    if missing:
        where = "or give them in Dask's configuration, `distributed.comm.tls`"
        hint = f"set {', '.join(missing)} to the paths of the files, {where}"
        raise error("BACKEND_UNAVAILABLE", f"there are no certificates for {address}", hint=hint)


def unprotected(address: str | None) -> str | None:
    """A warning for a scheduler that is reached without encryption through a network; else None."""
    if address is None or address == SLURM or address.startswith(ENCRYPTED):
        return None
    host = address.partition("://")[2] or address
    host = host.rpartition(":")[0].strip("[]") or host
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        is_loopback = host == "localhost"
    if is_loopback:
        return None
    return (
        f"the connection to the Dask scheduler {address} is not encrypted: whoever reaches its port can run code there "
        "and read what steps receive; start it with TLS certificates and use `tls://`"
    )


# --- SLURM jobs -------------------------------------------------------------------------------------------------------


WAIT = "WHYRUN_SLURM_WAIT"  # environment variable: how long jobs may wait in the queue
QUEUE = 600.0  # seconds, if the variable is not set
SUBMIT = 60.0  # seconds to submit or cancel all jobs
SQUEUE = 10.0  # seconds for an answer of squeue
ALONE = 10.0  # seconds without a worker after which the run stops waiting, if all jobs have ended
PRINTED = 12  # lines of a worker's output in a message
NAMED = 4  # jobs that a message names one by one

OVER = (
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED",
    "TIMEOUT",
)  # fmt: skip

# The only variables of this process that a job sees: those that Python, SLURM's commands and `module load` need.
PASSED = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "BASH_ENV",
)  # fmt: skip
PASSED_PREFIXES = ("LC_", "SLURM_", "SBATCH_", "DASK_", "MODULE", "LMOD_", "BASH_FUNC_")
NO_PAGES = {"DASK_DISTRIBUTED__WORKER__HTTP__ROUTES": "[]"}  # its HTTP server shows them to everybody

EXAMPLE = "in ~/.config/dask/jobqueue.yaml: `jobqueue: {slurm: {cores: 4, memory: 8GB}}`"


def check_slurm() -> float:
    """Check, before anything runs, that jobs can be submitted. Returns the seconds to wait for the first worker."""
    if importlib.util.find_spec("dask_jobqueue") is None:
        message, hint = "the package `dask_jobqueue` is not installed", to_install("dask")
        raise error("BACKEND_UNAVAILABLE", message, hint=hint)
    if shutil.which("sbatch") is None:
        hint = "run it on a machine from which SLURM jobs are submitted"
        raise error("BACKEND_UNAVAILABLE", "`sbatch` is not on the PATH", hint=hint)
    missing = [name for name in ("cores", "memory") if _configured(name) is None]
    if missing:
        message = f"the configuration of SLURM jobs lacks {' and '.join(missing)}"
        raise error("BACKEND_UNAVAILABLE", message, hint=EXAMPLE)
    text = os.environ.get(WAIT)
    wait = QUEUE if text is None else parse_duration(text)
    if wait is None:
        raise error("USAGE", f"`{WAIT}={text}` is not a duration", hint="write it like `30m` or `2h`")
    return wait


def _configured(name: str) -> Any:
    import dask

    return dask.config.get(f"jobqueue.slurm.{name}", None)


def passed_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that a job may see: SLURM writes a job's environment to files of its own."""
    return {name: value for name, value in environment.items() if name in PASSED or name.startswith(PASSED_PREFIXES)}


def _jobqueue() -> Any:
    """Import the package without the SIGINT handler that it installs: on Ctrl-C that handler would exit at once, with
    status 0 and steps still running."""
    before = signal.getsignal(signal.SIGINT)
    try:
        import dask_jobqueue
    except ValueError as problem:
        raise PrepareFailed(f"dask_jobqueue: only the main thread can import it first: {problem}") from problem
    if before is not None and signal.getsignal(signal.SIGINT) is not before:
        signal.signal(signal.SIGINT, before)
    return dask_jobqueue


def _job_class() -> Any:
    from dask_jobqueue.slurm import SLURMJob
    from distributed.deploy.spec import ProcessInterface

    base: Any = SLURMJob  # untyped
    close_interface: Any = ProcessInterface.close

    async def submit(self: Any, script_filename: str) -> Any:
        command = [*shlex.split(self.submit_command), script_filename]
        # In its own session: Ctrl-C in the terminal could kill `sbatch` after the submission and before its answer.
        return await self._call(command, env={**passed_environment(os.environ), **NO_PAGES}, start_new_session=True)

    async def close(self: Any) -> None:
        await base.close(self)
        await close_interface(self)  # or its cluster never counts it as closed

    return type("WorkerJob", (base,), {"_submit_job": submit, "close": close})


class SlurmJobs:
    """The SLURM jobs of one run. The Dask scheduler that their workers join is in this process."""

    def __init__(self, session: Session) -> None:
        import dask

        jobqueue = _jobqueue()
        # No more threads than steps may run. Steps are processes of their own, so one Dask process per job is enough.
        cores = min(int(_configured("cores")), session.workers)
        processes = min(int(_configured("processes") or 1), cores)
        self._count = math.ceil(session.workers / cores)
        self._logs = session.tmp / f"{session.run}-slurm"
        self._alone_since: float | None = None
        self._note = session.note
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1s"})  # then its job is replaced
        # The jobs read their certificates from files, which only this user can read.
        certificates = self._logs / "tls"
        certificates.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.cluster: Any = jobqueue.SLURMCluster(
            job_cls=_job_class(),
            cores=cores,
            processes=processes,
            silence_logs=50,  # the watching thread reports what matters for steps
            security=own_security(),
            protocol="tls://",
            shared_temp_directory=_configured("shared-temp-directory") or str(certificates),
            nanny=processes > 1,  # a nanny would kill a worker for the memory of its steps
            log_directory=_configured("log-directory") or str(self._logs),  # else SLURM writes to the current folder
            worker_extra_args=[*(_configured("worker-extra-args") or ()), "--no-dashboard"],
            scheduler_options={
                "dashboard": False,
                "dashboard_address": "127.0.0.1:0",
                **(_configured("scheduler-options") or {}),
            },
        )

    def submit(self) -> None:
        for _ in range(self._count):
            self.cluster.worker_spec.update(self.cluster.new_worker_spec())
        try:
            self._correct()
        except Exception as problem:
            if not self._ids():  # if SLURM accepted some jobs, those are enough
                raise PrepareFailed(f"SLURM refused the job of a worker: {_sbatch_message(problem)}") from problem

    def _correct(self) -> None:
        """Submit a job for every worker that has none: at the beginning, and after one has ended."""
        self.cluster.sync(self.cluster._correct_state, callback_timeout=SUBMIT)

    def tend(self, has_workers: bool) -> str | None:
        """Replace ended jobs; called regularly. Returns why no worker will ever join again, else None."""
        refused = ""
        if not has_workers:
            self._forget_refused()  # submit them again, but not while other workers are running
        try:
            self._correct()
        except Exception as problem:
            refused = f", and SLURM accepts no other: {_sbatch_message(problem)}"
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

    # --- state of the jobs --------------------------------------------------------------------------------------

    def over(self, states: Mapping[str, str] | None) -> str | None:
        """How all jobs ended; None while one may still bring a worker, or if SLURM does not answer."""
        ids = self._ids()
        if states is None or not all(states.get(job, "COMPLETED").split()[0] in OVER for job in ids):
            return None
        shown = self._shown(states)
        return f"the SLURM jobs of its workers have ended{f' ({shown})' if shown else ''}"

    def waiting(self, states: Mapping[str, str] | None) -> str:
        return "squeue does not answer" if states is None else f"the SLURM jobs of its workers: {self._shown(states)}"

    def printed(self) -> str:
        """The last lines that workers printed, to be appended to a message."""
        folder = Path(_configured("log-directory") or self._logs)
        lines: list[str] = []
        for job in self._ids():
            for path in sorted(folder.glob(f"*-{job}*.err")):
                with suppress(OSError):  # the message is useful without them too
                    lines += path.read_text(encoding="utf-8", errors="replace").splitlines()
        return "".join(f"\n{line}" for line in lines[-PRINTED:])

    def _ids(self) -> list[str]:
        return [job.job_id for job in list(self.cluster.workers.values()) if job.job_id]

    def _shown(self, states: Mapping[str, str]) -> str:
        ids = self._ids()
        named = [f"{job} {states.get(job, 'gone')}" for job in ids[:NAMED]]
        return ", ".join([*named, f"and {len(ids) - NAMED} more"] if len(ids) > NAMED else named)

    def states(self) -> dict[str, str] | None:
        """The state of each job, like `PENDING (Resources)`; None if SLURM does not answer."""
        printed, _ = _command("squeue", "-h", "-t", "all", "-u", getpass.getuser(), "-o", "%i %T (%r)")
        if printed is None:
            return None
        return {job: state for job, _, state in (line.partition(" ") for line in printed.splitlines())}

    # --- the end ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Cancel all jobs, before anything that may wait: a run that ends leaves no job behind."""
        ids = self._ids()
        problem = _command("scancel", *ids)[1] if ids else ""
        try:
            self.cluster.close(timeout=SUBMIT)  # cancels them once more, and drops what `scancel` says
        finally:
            shutil.rmtree(self._logs, ignore_errors=True)  # an ending job may still write there
            if problem:
                self._report_remaining(ids, problem)

    def _report_remaining(self, ids: Sequence[str], problem: str) -> None:
        """Tell the user which jobs still wait or run. `scancel` also fails for a job that has just ended."""
        states = self.states()
        over = (*OVER, "COMPLETING")
        left = [job for job in ids if states is None or states.get(job, "COMPLETED").split()[0] not in over]
        if left and self._note is not None:
            jobs = "job" if len(left) == 1 else "jobs"
            names = ", ".join(left)
            self._note(f"SLURM did not cancel the {jobs} {names}: {problem}; try `scancel {' '.join(left)}`")


def _command(*command: str) -> tuple[str | None, str]:
    """The output of a command and ""; or None and why it failed."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SQUEUE, start_new_session=True)
    except subprocess.TimeoutExpired:
        return None, f"`{command[0]}` does not answer"
    except OSError as problem:
        return None, f"`{command[0]}`: {problem.strerror}"
    if done.returncode:
        return None, "; ".join(
            done.stderr.strip().splitlines()
        ) or f"`{command[0]}` ended with status {done.returncode}"
    return done.stdout, ""


def _sbatch_message(problem: Exception) -> str:
    """The message of `sbatch` within the error of dask-jobqueue."""
    text = str(problem)
    return text.partition("stderr:\n")[2].strip() or f"{type(problem).__name__}: {text}"
