"""A cluster that Whyrun starts takes orders from its own run alone, not from every user of the machine.

Issue 17, number 1. The same for SLURM is in `test_cluster_slurm.py`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("distributed")
import dask
from cluster_lab import PATIENCE, foreign_attempts, listening, ways
from distributed import LocalCluster
from distributed.security import Security

from whyrun.errors import WhyrunError
from whyrun.execution.backends.base import PrepareFailed, Session
from whyrun.execution.backends.dask.backend import dask_backend
from whyrun.execution.backends.dask.cluster import DaskCluster
from whyrun.execution.backends.dask.slurm import unprotected
from whyrun.execution.worker.processes import descendants


def session(folder: Path) -> Session:
    folders = [folder / name for name in ("run", "project", "store", "tmp")]
    for path in folders:
        path.mkdir()
    return Session("r0001", *folders, workers=1)


def test_another_user_can_use_no_port_of_a_cluster_that_whyrun_started(tmp_path: Path) -> None:
    """Issue 17, number 1. Scheduler, worker, nanny and their HTTP servers."""
    before = set(listening([os.getpid()]))
    cluster = DaskCluster(session(tmp_path), None)
    cluster.connect()
    try:
        assert cluster.client.scheduler.address.startswith("tls://")
        assert cluster.client.submit(os.getuid, pure=False).result(timeout=300) == os.getuid()
        ports = set(listening([os.getpid(), *descendants(os.getpid())])) - before
        assert len(ports) >= 4
        got = foreign_attempts(ways(ports))
        assert {what.split()[0].strip(":") for what in got.values()} == {"refused"}, got
        assert cluster.answers()
    finally:
        cluster.left.set()
        assert cluster.leave(reachable=False) == []


def test_the_attempts_of_another_user_succeed_where_nothing_protects_a_cluster(tmp_path: Path) -> None:
    """So the test above can fail."""
    usual = dask.config.set({"distributed.scheduler.http.routes": ["distributed.http.scheduler.info"]})
    with usual, LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0",
        local_directory=str(tmp_path), silence_logs=50,
    ) as cluster:  # fmt: skip
        ((worker, facts),) = cluster.scheduler_info["workers"].items()
        page = f"http://127.0.0.1:{cluster.scheduler.http_server.port}"
        got = foreign_attempts([cluster.scheduler_address, worker, facts["nanny"], page], PATIENCE)
    assert [got[cluster.scheduler_address], got[worker], got[facts["nanny"]]] == [
        f"ran as {os.getuid()}", "answered Worker", "answered Nanny",
    ]  # fmt: skip
    assert got[page].startswith("read info/main/workers.html")


# --- a cluster that is reached by its address ------------------------------------------------------------------------


def written(security: Security, folder: Path) -> dict[str, str]:
    """The variables of the docs, with certificates in files."""
    given = security.get_tls_config_for_role("client")  # type: ignore[no-untyped-call]
    names = {"ca_file": "CA_FILE", "cert": "CLIENT__CERT", "key": "CLIENT__KEY"}
    for name in names:
        (folder / f"{name}.pem").write_text(given[name])
    return {f"DASK_DISTRIBUTED__COMM__TLS__{word}": str(folder / f"{name}.pem") for name, word in names.items()}


def test_a_scheduler_with_tls_is_reached_with_the_certificates_of_the_docs_and_not_without(tmp_path: Path) -> None:
    """Issue 17, number 1."""
    page = (Path(__file__).parents[2] / "docs" / "backends.md").read_text()
    theirs, strangers = (Security.temporary() for _ in range(2))  # type: ignore[no-untyped-call]
    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, security=theirs, dashboard_address="127.0.0.1:0",
        local_directory=str(tmp_path), silence_logs=50,
    ) as cluster:  # fmt: skip
        address = cluster.scheduler_address
        with pytest.raises(WhyrunError) as refused:
            dask_backend(address)
        (told,) = refused.value.diagnostics
        assert (told.code, told.message) == ("BACKEND_UNAVAILABLE", f"there are no certificates for {address}")
        for who, reaches in ((theirs, True), (strangers, False)):
            folder = tmp_path / str(reaches)
            folder.mkdir()
            variables = written(who, folder)
            for name in variables:
                assert f"`{name}`" in page
                assert name in str(told.hint)
            with dask.config.set(dask.config.merge(dask.config.config, dask.config.collect_env(variables))):
                assert dask_backend(address).name == "dask"
                joined = DaskCluster(session(folder), address)
                try:
                    if reaches:
                        joined.connect()
                        assert joined.answers()
                    else:
                        with pytest.raises(PrepareFailed, match="certificate"):
                            joined.connect()
                finally:
                    joined.leave(reachable=False)


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
