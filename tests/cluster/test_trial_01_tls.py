"""A cluster that Whyrun starts takes orders from its own run alone, not from every user of the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("distributed")
from whyrun.execution.backends.base import Session
from whyrun.execution.backends.dask.cluster import DaskCluster, unprotected

FOREIGN = Path(__file__).with_name("foreign_client.py")


def session(folder: Path) -> Session:
    folders = [folder / name for name in ("run", "project", "store", "tmp")]
    for path in folders:
        path.mkdir()
    return Session("r0001", *folders, workers=1)


def foreign_attempts(address: str) -> list[str]:
    done = subprocess.run([sys.executable, str(FOREIGN), address], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_another_user_cannot_run_code_on_a_cluster_that_whyrun_started(tmp_path: Path) -> None:
    cluster = DaskCluster(session(tmp_path), None)
    cluster.connect()
    try:
        address = cluster.client.scheduler.address
        assert address.startswith("tls://")
        assert cluster.client.submit(os.getuid, pure=False).result(timeout=60) == os.getuid()
        attempts = foreign_attempts(address)
        assert [attempt.split()[0] for attempt in attempts] == ["refused", "refused"]
        assert cluster.answers()
    finally:
        cluster.left.set()
        assert cluster.leave(reachable=False) == []


def test_the_attempt_of_another_user_succeeds_where_nothing_protects_a_cluster(tmp_path: Path) -> None:
    """So the test above can fail."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0",
        local_directory=str(tmp_path), silence_logs=50,
    ) as cluster:  # fmt: skip
        attempts = foreign_attempts(cluster.scheduler_address)
    assert attempts[0] == f"ran as {os.getuid()}"


@pytest.mark.parametrize(
    ("address", "is_warned"),
    [
        (None, False),
        ("slurm", False),
        ("tls://10.0.0.7:8786", False),
        ("tcp://127.0.0.1:8786", False),
        ("tcp://[::1]:8786", False),
        ("localhost:8786", False),
        ("tcp://10.0.0.7:8786", True),
        ("head-node:8786", True),
        ("tcp://[2001:db8::1]:8786", True),
        ("ucx://head-node:8786", True),
    ],
)
def test_a_scheduler_beyond_this_machine_without_encryption_is_told(address: str | None, is_warned: bool) -> None:
    note = unprotected(address)
    assert (note is not None) == is_warned
    if note is not None:
        assert note.startswith(f"the connection to the Dask scheduler {address} is not encrypted: whoever reaches")
