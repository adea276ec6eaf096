"""A worker, sandbox, server, scheduler or network is lost: the host notices it, keeps the evidence, and the next plan
retries exactly what did not finish."""

from __future__ import annotations

import os
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from subprocess import Popen

import pytest
from backends_lab import (
    EVERY_RUN,
    BackendLab,
    Environment,
    children,
    environment_of,
    named,
    parents,
    program,
    run_files,
)
from cluster_lab import Cluster
from loopback.server import Loopback
from parity_lab import BACKENDS

from project_lab import PATIENCE, wait_until
from whyrun.log import events as ev

WAITING = """
    workflow: lost
    jobs:
      First:
        uses: shell
        with: {run: 'echo first > "$out_Word"'}
        outputs: {Word: {type: text, path: out/first.txt}}
      Wait:
        uses: python
        with: {call: "waiting:wait", word: "${{ jobs.First.outputs.Word }}"}
        outputs: {Word: {type: text, path: out/second.txt}}
      Last:
        uses: shell
        with: {run: 'cat "$word" > "$out_Word"', word: "${{ jobs.Wait.outputs.Word }}"}
        outputs: {Word: {type: text}}
"""
# Its process gives itself a name by which it is found from outside, whatever it is in.
WAITING_CODE = """
    import ctypes
    import sys
    import time

    def wait(word, context):
        ctypes.CDLL(None).prctl(15, b"MARK", 0, 0, 0)
        print("some words", file=sys.stderr)
        open("partial", "w").write("partial")
        context.remember("request", "q-1")
        context.task("EXECUTES", "it waits")
        time.sleep(600)
"""


@dataclass(frozen=True)
class Scene:
    """What there is to be lost."""

    lab: BackendLab
    worker: int  # the process that executes the step: a fork of the worker or, in the sandbox, the worker itself
    server: Loopback | None
    cluster: Cluster | None
    dask_worker: Popen[bytes] | None


def kill_worker(scene: Scene) -> None:
    os.kill(scene.worker, signal.SIGKILL)


def kill_forking_worker(scene: Scene) -> None:
    os.kill(parents(scene.worker)[0], signal.SIGKILL)


def kill_sandbox(scene: Scene) -> None:
    """The bubblewrap that holds it: a child of the process that put the worker into it."""
    (keeper, *_) = parents(scene.worker)
    (holder,) = [pid for pid in children(keeper) if program(pid) == "bwrap"]
    os.kill(holder, signal.SIGKILL)


def delete_sandbox(scene: Scene) -> None:
    assert scene.server is not None
    for sandbox in list(scene.server.sandboxes.values()):
        sandbox.kill()


def kill_dask_worker(scene: Scene) -> None:
    assert scene.dask_worker is not None
    os.killpg(scene.dask_worker.pid, signal.SIGKILL)


def kill_own_dask_worker(scene: Scene) -> None:
    """One that the run has started: its folder lies with the host."""
    os.kill(parents(scene.worker)[1], signal.SIGKILL)


def stop_own_dask_worker(scene: Scene) -> None:
    os.kill(parents(scene.worker)[1], signal.SIGSTOP)


def stop_dask_worker(scene: Scene) -> None:
    """It hangs: its connections stay, and it says nothing."""
    assert scene.dask_worker is not None
    os.killpg(scene.dask_worker.pid, signal.SIGSTOP)


def kill_scheduler(scene: Scene) -> None:
    assert scene.cluster is not None
    os.killpg(scene.cluster.scheduler.pid, signal.SIGKILL)


def stop_scheduler(scene: Scene) -> None:
    """As a network that is cut: connections stay, and nobody answers."""
    assert scene.cluster is not None
    os.killpg(scene.cluster.scheduler.pid, signal.SIGSTOP)


@dataclass(frozen=True)
class Loss:
    backend: str
    lose: Callable[[Scene], None]
    reason: str  # how it begins
    place_stands: bool = False  # and with it what the step had written
    own_cluster: bool = False


LOSSES: dict[str, Loss] = {
    "local: step's process killed": Loss("local", kill_worker, "the worker was killed by SIGKILL", True),
    "local: worker killed": Loss("local", kill_forking_worker, "the worker was killed by SIGKILL", True),
    "sandbox: worker killed": Loss("sandbox", kill_worker, "the worker was killed by SIGKILL", True),
    "sandbox: bubblewrap killed": Loss("sandbox", kill_sandbox, "the worker was killed by SIGKILL", True),
    "e2b: worker killed": Loss("e2b", kill_worker, "the worker was killed by SIGKILL", True),
    "e2b: sandbox deleted": Loss("e2b", delete_sandbox, "the sandbox is gone"),
    # A network that is cut and a server that is gone: tests/e2b, with less patience than the minute that hosts have.
    "dask: worker killed": Loss("dask", kill_worker, "the worker was killed by SIGKILL", True),
    "dask: own Dask worker killed": Loss("dask", kill_own_dask_worker, "the Dask worker tls://", True),
    "dask: own Dask worker hangs": Loss("dask", stop_own_dask_worker, "the Dask worker tls://", True),
    "dask: Dask worker killed": Loss("dask", kill_dask_worker, "the Dask worker tcp://", own_cluster=True),
    "dask: Dask worker hangs": Loss("dask", stop_dask_worker, "the Dask worker tcp://", own_cluster=True),
    "dask: scheduler killed": Loss("dask", kill_scheduler, "the Dask scheduler is gone", own_cluster=True),
    "dask: network cut": Loss("dask", stop_scheduler, "the Dask scheduler is gone", own_cluster=True),
}


@contextmanager
def around(loss: Loss, folder: Path) -> Iterator[tuple[Environment, Cluster | None, Popen[bytes] | None]]:
    if not loss.own_cluster:
        with environment_of(loss.backend, folder) as environment:
            yield environment, None, None
        return
    cluster = Cluster(folder / "cluster")
    try:
        dask_worker = cluster.add_worker()
        words = (*BACKENDS["dask"].words, "--dask-address", cluster.address)
        yield Environment({}, words), cluster, dask_worker
    finally:
        cluster.close()


@pytest.mark.parametrize("kind", LOSSES)
def test_lesson_27_what_is_gone_is_noticed_at_once(kind: str, tmp_path: Path) -> None:
    """A dead worker noticed only at the full timeout."""
    loss = LOSSES[kind]
    lacks = BACKENDS[loss.backend].lacks
    if lacks is not None:
        pytest.skip(lacks)
    mark = f"w{secrets.token_hex(6)}"
    with around(loss, tmp_path) as (environment, cluster, dask_worker):
        (tmp_path / "project").mkdir()
        lab = BackendLab(tmp_path / "project", loss.backend, environment)
        lab.write({"workflow.yaml": WAITING, "waiting.py": WAITING_CODE.replace("MARK", mark)})
        running = lab.start("--jobs", "1")
        running.wait_for_task("it waits")
        (worker,) = named(mark)
        scene = Scene(lab, worker, environment.server, cluster, dask_worker)
        lost = time.time()
        loss.lose(scene)
        ended = running.ended()
        whole = time.time() - lost
        if loss.lose not in (stop_scheduler, stop_dask_worker):  # there nobody could be told
            wait_until(lambda: named(mark) == [])
    assert ended.code == 1, ended.said
    (failed,) = ended.of(ev.StepFailed)
    noticed = datetime.fromisoformat(failed.ts).timestamp() - lost
    print(f"{kind}: noticed after {noticed:.2f} s; the run ended after {whole:.2f} s")
    assert noticed < PATIENCE
    (violation,) = ended.of(ev.StatusContractViolation)
    assert (failed.step_id, failed.status, failed.error_type) == ("Job:Wait", "FAILED", "WorkerDied")
    assert violation.step_id == "Job:Wait"
    assert violation.reason.startswith(loss.reason), violation.reason
    assert ended.completed == ["Job:First"]
    assert [(e.step_id, e.because) for e in ended.of(ev.StepBlocked)] == [("Job:Last", ["Job:Wait"])]
    # What it had said, it has said.
    assert [e.message for e in ended.of(ev.Task)] == ["it waits"]
    assert [(e.key, e.value) for e in ended.of(ev.RequestRecorded)] == [("request", "q-1")]
    kept = {"steps/Wait/stderr.log", "steps/Wait/scratch/work/partial"} if loss.place_stands else set()
    assert run_files(ended.folder) == {
        *EVERY_RUN, "cfg/First.json", "cfg/Wait.json", "artifacts/First/Word.txt", "steps/First/script.sh", *kept,
    }  # fmt: skip
    if loss.place_stands:
        assert violation.last_stderr == "some words\n"
        assert ended.file("steps/Wait/stderr.log") == b"some words\n"
    status = {name: value for name, value in ended.status.items() if name not in ("started", "ended")}
    assert status == {
        "ok": False, "state": "failed", "exit_code": 1, "steps_total": 3, "steps_completed": 1, "steps_failed": 1,
        "steps_skipped": 0, "steps_blocked": 1, "steps_interrupted": 0, "backend": loss.backend,
        "error": f"Job:Wait: WorkerDied: {violation.reason}",
    }  # fmt: skip
    assert lab.left_over() == []
    assert lab.plan().headlines() == {"Job:Wait": "RETRY_PREVIOUS_FAILURE", "Job:Last": "MISSING_OUTPUT"}
