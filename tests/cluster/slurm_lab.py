"""A real SLURM of one node: munged, slurmctld and slurmd as processes of their own, with a folder and ports of theirs.

It knows nothing of a SLURM that the machine may have, and needs no cgroups, no accounting and no root.
"""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from cluster_lab import free_ports, wait_until

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scancel", "squeue", "sinfo", "scontrol")
WHERE = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
CPUS = 3
MEMORY = 3000  # megabytes

CONFIGURATION = """\
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={controller_port}
SlurmdPort={node_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=sched_min_interval=0,bf_interval=1
SlurmdParameters=config_overrides
MailProg=/bin/true
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=2
MinJobAge=300
NodeName=here NodeHostName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} State=UNKNOWN
PartitionName=short Nodes=here Default=YES MaxTime=INFINITE State=UP
"""


class SlurmMissing(Exception):
    """This machine has no SLURM, or it does not start here; the text says why."""


class Slurm:
    def __init__(self) -> None:
        missing = [name for name in PROGRAMS if shutil.which(name, path=WHERE) is None]
        if missing:
            raise SlurmMissing(f"not installed: {', '.join(missing)} (apt-get install slurm-wlm munge)")
        # Not in pytest's own folder: the path of a socket has at most 107 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="slurm-"))
        self._processes: list[subprocess.Popen[bytes]] = []
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        self.configuration = self.folder / "slurm.conf"
        self.environment = {**os.environ, "PATH": WHERE, "SLURM_CONF": str(self.configuration)}
        try:
            self._start_all()
        except (OSError, AssertionError) as problem:
            logs = {log.name: log.read_text(errors="replace")[-800:] for log in sorted(self.folder.glob("*.log"))}
            self.close()
            raise SlurmMissing(f"it does not start: {problem}: {logs}") from problem

    def _start_all(self) -> None:
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        controller_port, node_port = free_ports(2)
        self.configuration.write_text(
            CONFIGURATION.format(
                folder=self.folder,
                host=socket.gethostname(),
                user=getpass.getuser(),
                controller_port=controller_port,
                node_port=node_port,
                cpus=CPUS,
                memory=MEMORY,
            )
        )
        self._start(
            "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={self.folder / 'munge.socket'}",
            f"--pid-file={self.folder / 'munged.pid'}", f"--log-file={self.folder / 'munged.log'}",
            f"--seed-file={self.folder / 'munge.seed'}",
        )  # fmt: skip
        wait_until((self.folder / "munge.socket").exists)
        self._start("slurmctld", "-D")
        self._start("slurmd", "-D", "-N", "here")
        wait_until(lambda: self._alive() and self.command("sinfo", "-h", "-o", "%T", failing=True) == "idle")

    def _start(self, program: str, *words: str) -> None:
        with open(self.folder / f"{program}-said.log", "wb") as log:
            self._processes.append(
                subprocess.Popen(
                    [str(shutil.which(program, path=WHERE)), *words],
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL,
                    env=self.environment,
                    cwd=self.folder,
                    start_new_session=True,
                )
            )

    def _alive(self) -> bool:
        for process in self._processes:
            if process.poll() is not None:
                raise OSError(f"{process.args!r} ended with {process.returncode}")
        return True

    def command(self, *words: str, failing: bool = False) -> str:
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=300)
        assert failing or done.returncode == 0, done.stderr
        return done.stdout.strip()

    def jobs(self) -> dict[str, str]:
        """Those that wait or run, by their number; those that are about to end, too."""
        return dict(line.split() for line in self.command("squeue", "-h", "-o", "%i %T").splitlines())

    def ended(self) -> dict[str, str]:
        """Those that are over, and how."""
        told = self.command("squeue", "-h", "-t", "all", "-o", "%i %T").splitlines()
        over = ("CANCELLED", "COMPLETED", "FAILED", "TIMEOUT")
        return {job: state for job, state in (line.split() for line in told) if state in over}

    def close(self) -> None:
        if self._processes and (self.folder / "slurmctld.pid").exists():
            for job in self.jobs():
                self.command("scancel", job, failing=True)
            wait_until(lambda: not self.jobs())
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(300)
        for pid in self.processes_of_jobs():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder)

    def processes_of_jobs(self) -> list[int]:
        """Also those that did not heed SLURM's SIGTERM, and to which no slurmd sends a SIGKILL any more."""
        mark = f"SLURM_CONF={self.configuration}\0".encode()
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError):  # it has ended meanwhile
                variables = Path(f"/proc/{name}/environ").read_bytes()
                if mark in variables and b"SLURM_JOB_ID=" in variables:
                    found.append(int(name))
        return found
