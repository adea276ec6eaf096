"""The Dask backend against a real scheduler and real workers that share no folder with the project."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_lab import PATIENCE, Cluster, wait_until

from project_lab import Lab, codes
from whyrun.errors import WhyrunError
from whyrun.execution.backends.dask import cluster as dask_cluster
from whyrun.execution.backends.dask import tasks as dask_tasks
from whyrun.execution.backends.dask.backend import DaskBackend
from whyrun.execution.backends.dask.cluster import DaskCluster
from whyrun.log import events as ev

WORK = """
    import hashlib
    import os
    import signal
    import time
    from pathlib import Path


    def where(context):
        return {"Place": str(Path.cwd()), "Seen": sorted(os.listdir(context.project))}


    def digest(data, folder):
        told = {str(p.relative_to(folder)): p.read_text() for p in sorted(folder.rglob("*")) if p.is_file()}
        return {"Digest": hashlib.sha256(data.read_bytes()).hexdigest(), "Folder": told}


    def big(context):
        context.output("Big").write_bytes(bytes(range(256)) * 4096)
        inner = context.output("Tree")
        (inner / "a" / "b").mkdir(parents=True)
        (inner / "a" / "b" / "c.txt").write_text("deep")


    def count(big, tree):
        print("counted", flush=True)
        return {"Bytes": len(big.read_bytes()), "Deep": (tree / "a" / "b" / "c.txt").read_text()}


    def marked(here, context):
        Path(here, "pid").write_text(str(os.getpid()))
        Path(here, "parent").write_text(str(os.getppid()))
        context.task("EXECUTES", "it has begun")
        print("the last words", file=__import__("sys").stderr, flush=True)
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline and not Path(here, "go").exists():
            time.sleep(0.02)
        return {"Text": "done"}


    def suicide():
        os.kill(os.getpid(), signal.SIGKILL)


    def paid(here, context):
        request = context.recall("request")
        if request is None:
            context.remember("request", "q-1")
            Path(here, "paid").write_text("once")
            os.kill(os.getpid(), signal.SIGKILL)
        return {"Text": request}


    def secretly(token):
        print("the token is", token)
        raise ValueError(f"bad token {token}")
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    made.add_worker("--resources", "gpu=1")
    yield made
    made.close()


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "project").write({"work.py": WORK})


def job(name: str, call: str, outputs: str, **more: Any) -> str:
    words = "".join(f", {key}: {value!r}" for key, value in more.pop("with_", {}).items())
    lines = [f"  {name}:", "    uses: python", f'    with: {{call: "work:{call}"{words}}}', f"    outputs: {outputs}"]
    lines += [f"    {key}: {value}" for key, value in more.items()]
    return "\n".join(lines) + "\n"


def workflow(*jobs: str, inputs: str = "") -> str:
    return f"workflow: w\n{inputs}jobs:\n{''.join(jobs)}"


def test_artifacts_reach_workers_that_share_no_folder_with_the_host(lab: Lab, cluster: Cluster) -> None:
    inputs = "inputs:\n  Data: {type: file, default: data/in.bin}\n  Folder: {type: directory, default: data/tree}\n"
    lab.write(
        {
            "data/in.bin": bytes(range(256)) * 2000,
            "data/tree/x/one.txt": "1",
            "data/tree/two.txt": "2",
            "data/other.txt": "not mine",
            "workflow.yaml": workflow(
                job("Where", "where", "{Place: {type: string}, Seen: {type: json}}"),
                job(
                    "Digest", "digest", "{Digest: {type: string}, Folder: {type: json}}",
                    with_={"data": "${{ inputs.Data }}", "folder": "${{ inputs.Folder }}"},
                ),
                job("Big", "big", "{Big: {type: file}, Tree: {type: directory}}"),
                job(
                    "Count", "count", "{Bytes: {type: integer}, Deep: {type: string}}",
                    with_={"big": "${{ jobs.Big.outputs.Big }}", "tree": "${{ jobs.Big.outputs.Tree }}"},
                ),
                inputs=inputs,
            ),
        }
    )  # fmt: skip
    ran = lab.succeed(backend=DaskBackend(cluster.address))
    assert ran.executed == ["Job:Big", "Job:Count", "Job:Digest", "Job:Where"]
    assert str(lab.content("Artifact:Where.Place")).startswith(str(cluster.folder))
    assert lab.content("Artifact:Digest.Folder") == {"two.txt": "2", "x/one.txt": "1"}
    assert (lab.content("Artifact:Count.Bytes"), lab.content("Artifact:Count.Deep")) == (1 << 20, "deep")
    assert ran.folder is not None
    assert (ran.folder / "steps" / "Count" / "stdout.log").read_text() == "counted\n"
    assert ran.status()["backend"] == "dask"
    assert lab.run(backend=DaskBackend(cluster.address)).result.run is None  # nothing to do
    # Nothing of the run is left on the worker.
    wait_until(lambda: not list(cluster.folder.glob("local-*/**/whyrun-*")))


def test_a_step_that_kills_its_process_is_a_failed_attempt_and_retried_as_often_as_the_job_says(
    lab: Lab, cluster: Cluster
) -> None:
    lab.write({"workflow.yaml": workflow(job("Dies", "suicide", "{X: {type: string}}", retries=1))})
    ran = lab.run(backend=DaskBackend(cluster.address))
    assert (ran.exit_code, ran.starts) == (1, [("Job:Dies", 1), ("Job:Dies", 2)])
    assert ran.failed == {"Job:Dies": ("FAILED", "WorkerDied")}
    violations = ran.of(ev.StatusContractViolation)
    assert [(v.step_id, v.reason) for v in violations] == [("Job:Dies", "the worker was killed by SIGKILL")] * 2
    assert codes(lab.plan()) == {"Job:Dies": ["RETRY_PREVIOUS_FAILURE", "MISSING_OUTPUT"]}


def test_what_was_paid_for_is_picked_up_by_the_retry(lab: Lab, cluster: Cluster, tmp_path: Path) -> None:
    text = workflow(job("Paid", "paid", "{Text: {type: string}}", with_={"here": str(tmp_path)}, retries=1))
    lab.write({"workflow.yaml": text})
    ran = lab.succeed(backend=DaskBackend(cluster.address))
    assert [(e.key, e.value) for e in ran.of(ev.RequestRecorded)] == [("request", "q-1")]
    assert lab.content("Artifact:Paid.Text") == "q-1"


def test_a_timeout_reaches_the_step_and_ends_it(lab: Lab, cluster: Cluster, tmp_path: Path) -> None:
    text = workflow(job("Slow", "marked", "{Text: {type: string}}", with_={"here": str(tmp_path)}, timeout="6s"))
    lab.write({"workflow.yaml": text})
    ran = lab.run(backend=DaskBackend(cluster.address))
    assert (ran.exit_code, ran.failed) == (1, {"Job:Slow": ("TIMED_OUT", "TimedOut")})
    assert [(e.status, e.message) for e in ran.of(ev.Task)] == [("EXECUTES", "it has begun")]
    assert ran.folder is not None
    assert (ran.folder / "steps" / "Slow" / "stderr.log").read_text() == "the last words\n"
    wait_until(lambda: not alive(int((tmp_path / "pid").read_text())))


def test_secrets_reach_their_step_and_stay_nowhere(lab: Lab, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    value = "correct-horse-battery"
    monkeypatch.setenv("TOKEN", value)
    text = workflow(
        job("Secret", "secretly", "{X: {type: string}}", with_={"token": "${{ secrets.TOKEN }}"}, secrets="[TOKEN]")
    )
    lab.write({"workflow.yaml": text})
    ran = lab.run(backend=DaskBackend(cluster.address))
    (failed,) = ran.of(ev.StepFailed)
    assert (failed.error_type, failed.error) == ("ValueError", "bad token ***")
    assert ran.folder is not None
    assert (ran.folder / "steps" / "Secret" / "stdout.log").read_text() == "the token is ***\n"
    for root in (lab.root / ".whyrun", cluster.folder):
        for path in root.rglob("*"):
            if path.is_file():
                assert value.encode() not in path.read_bytes(), path


def test_resources_that_the_cluster_offers_are_asked_of_it(lab: Lab, cluster: Cluster) -> None:
    lab.write(
        {
            "workflow.yaml": workflow(
                job("Where", "where", "{Place: {type: string}, Seen: {type: json}}", resources="{gpu: 1}")
            )
        }
    )
    assert lab.succeed(backend=DaskBackend(cluster.address)).executed == ["Job:Where"]
    lab.edit("workflow.yaml", "gpu: 1", "gpu: 2")
    ran = lab.run(backend=DaskBackend(cluster.address), force=["Job:Where"])
    (failed,) = ran.of(ev.StepFailed)
    assert "no worker of the cluster has gpu: 2" in failed.error


def test_an_address_where_nobody_answers_ends_the_run_before_its_first_step(lab: Lab) -> None:
    lab.write({"workflow.yaml": workflow(job("Where", "where", "{Place: {type: string}, Seen: {type: json}}"))})
    backend = DaskBackend("tcp://127.0.0.1:9")
    ran = lab.run(backend=backend)
    assert (ran.exit_code, ran.starts) == (1, [])
    assert str(ran.status()["error"]).startswith("PrepareFailed: the Dask cluster: ")


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def in_thread(lab: Lab, address: str, **options: Any) -> tuple[threading.Thread, list[Any]]:
    found: list[Any] = []

    def go() -> None:
        found.append(lab.run(backend=DaskBackend(address), **options))

    thread = threading.Thread(target=go)
    thread.start()
    return thread, found


def test_a_dask_worker_that_is_killed_is_noticed_and_the_next_plan_retries_what_did_not_finish(
    lab: Lab, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cluster = Cluster(tmp_path_factory.mktemp("mortal"))
    try:
        worker = cluster.add_worker()
        here = tmp_path / "here"
        here.mkdir()
        text = workflow(
            job("Big", "big", "{Big: {type: file}, Tree: {type: directory}}"),
            job("Long", "marked", "{Text: {type: string}}", with_={"here": str(here)}, needs="[Big]"),
        )
        lab.write({"workflow.yaml": text})
        thread, found = in_thread(lab, cluster.address)
        wait_until(lambda: any(isinstance(event, ev.Task) for run in lab.runs() for event in lab.events(run)))
        killed = time.monotonic()
        os.killpg(worker.pid, signal.SIGKILL)
        thread.join(300)
        print("noticed after", time.monotonic() - killed)
        (ran,) = found
        assert (ran.exit_code, ran.executed, ran.failed) == (1, ["Job:Big"], {"Job:Long": ("FAILED", "WorkerDied")})
        (violation,) = ran.of(ev.StatusContractViolation)
        assert violation.step_id == "Job:Long"
        assert violation.reason.startswith("the Dask worker tcp://")
        assert [(e.status, e.message) for e in ran.of(ev.Task)] == [("EXECUTES", "it has begun")]
        assert ran.status()["steps_failed"] == 1
        assert codes(lab.plan()) == {"Job:Long": ["RETRY_PREVIOUS_FAILURE", "MISSING_OUTPUT"]}
        # Its process there ended with it: it would otherwise go on without a host.
        wait_until(lambda: not alive(int((here / "pid").read_text())))
        cluster.add_worker()
        (here / "go").touch()
        assert lab.succeed(backend=DaskBackend(cluster.address)).executed == ["Job:Long"]
    finally:
        cluster.close()


def test_a_scheduler_that_is_gone_is_noticed(
    lab: Lab, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cluster = Cluster(tmp_path_factory.mktemp("headless"))
    try:
        cluster.add_worker()
        here = tmp_path / "here"
        here.mkdir()
        text = workflow(job("Long", "marked", "{Text: {type: string}}", with_={"here": str(here)}))
        lab.write({"workflow.yaml": text})
        thread, found = in_thread(lab, cluster.address)
        wait_until((here / "parent").exists)
        os.killpg(cluster.scheduler.pid, signal.SIGKILL)
        thread.join(300)
        (ran,) = found
        assert (ran.exit_code, ran.failed) == (1, {"Job:Long": ("FAILED", "WorkerDied")})
        (violation,) = ran.of(ev.StatusContractViolation)
        assert violation.reason.startswith("the Dask scheduler is gone")
        assert ran.status()["state"] == "failed"
        assert codes(lab.plan()) == {"Job:Long": ["RETRY_PREVIOUS_FAILURE", "MISSING_OUTPUT"]}
    finally:
        cluster.close()


def test_an_address_without_the_backend_is_refused(lab: Lab) -> None:
    from whyrun.execution.backends.registry import choose_backend

    with pytest.raises(WhyrunError) as refused:
        choose_backend("local", {"dask_address": "tcp://127.0.0.1:9"})
    assert [d.code for d in refused.value.diagnostics] == ["USAGE"]
    with pytest.raises(WhyrunError) as refused:
        choose_backend("dask", sandbox_required=True)
    assert [d.code for d in refused.value.diagnostics] == ["SANDBOX_UNAVAILABLE"]


def test_what_a_scheduler_gives_to_another_worker_is_not_executed_again_unasked(
    lab: Lab, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cluster = Cluster(tmp_path_factory.mktemp("repeating"), allowed_failures=3)
    try:
        worker = cluster.add_worker()
        here = tmp_path / "here"
        here.mkdir()
        lab.write(
            {"workflow.yaml": workflow(job("Long", "marked", "{Text: {type: string}}", with_={"here": str(here)}))}
        )
        thread, found = in_thread(lab, cluster.address)
        wait_until((here / "parent").exists)
        (here / "pid").unlink()
        cluster.add_worker()
        os.killpg(worker.pid, signal.SIGKILL)
        thread.join(300)
        (ran,) = found
        assert (ran.exit_code, ran.starts, ran.failed) == (
            1, [("Job:Long", 1)], {"Job:Long": ("FAILED", "WorkerDied")},
        )  # fmt: skip
        assert not (here / "pid").exists()  # it would have written that
    finally:
        cluster.close()


def test_inputs_from_outside_the_project_and_programs_in_folders_arrive(lab: Lab, cluster: Cluster) -> None:
    (lab.root.parent / "up.txt").write_text("from above")
    inputs = "inputs:\n  Data: {type: file, default: ../up.txt}\n  Folder: {type: directory, default: data/tree}\n"
    lab.write(
        {
            "data/tree/run.sh": "exit 0\n",
            "workflow.yaml": workflow(
                job(
                    "Digest", "digest", "{Digest: {type: string}, Folder: {type: json}}",
                    with_={"data": "${{ inputs.Data }}", "folder": "${{ inputs.Folder }}"},
                ),
                job("Where", "where", "{Place: {type: string}, Seen: {type: json}}", needs="[Digest]"),
                inputs=inputs,
            ),
        }
    )  # fmt: skip
    (lab.root / "data/tree/run.sh").chmod(0o755)
    assert lab.succeed(backend=DaskBackend(cluster.address)).executed == ["Job:Digest", "Job:Where"]
    assert lab.content("Artifact:Digest.Folder") == {"run.sh": "exit 0\n"}
    # What an earlier step read does not lie beside the code of the next.
    assert lab.content("Artifact:Where.Seen") == ["work.py", "workflow.yaml"]


def test_all_that_is_open_at_a_worker_that_dies_is_an_attempt_and_nothing_is_executed_twice_unseen(
    lab: Lab, tmp_path: Path
) -> None:
    """Of short steps some are sent together, and what a worker said just before its death nobody has heard."""
    here = tmp_path / "here"
    here.mkdir()
    lab.write(
        {
            "work.py": f"""
                import os, signal
                from pathlib import Path

                HERE = Path({str(here)!r})

                def short(number):
                    with open(HERE / str(number), "a") as file:
                        file.write("x")
                    if number == 60:
                        os.kill(os.getppid(), signal.SIGKILL)  # the Dask worker
                        os.kill(os.getpid(), signal.SIGKILL)
                    return {{"N": number}}
            """,
            "workflow.yaml": """
                workflow: w
                loops: {number: {range: 0-119}}
                jobs:
                  Short:
                    for: [number]
                    uses: python
                    with: {call: "work:short", number: "${{ number }}"}
                    outputs: {N: {type: integer}}
            """,
        }
    )
    ran = lab.run(backend=DaskBackend())
    executions = {int(path.name): len(path.read_text()) for path in here.iterdir()}
    attempts = {number: [s for s, _ in ran.starts].count(f"Job:Short[{number}]") for number in executions}
    assert {n: (times, attempts[n]) for n, times in executions.items() if times > attempts[n]} == {}
    assert ran.exit_code == 1
    assert ran.failed["Job:Short[60]"] == ("FAILED", "WorkerDied")


def test_a_task_that_somebody_cancels_is_a_lost_attempt_and_the_cluster_is_not_lost(
    lab: Lab, cluster: Cluster, tmp_path: Path
) -> None:
    """So it is also where data that a task needs is gone with the worker that had it."""
    from distributed import Client, Future

    text = workflow(job("Long", "marked", "{Text: {type: string}}", with_={"here": str(tmp_path)}, retries=1))
    lab.write({"workflow.yaml": text})
    thread, found = in_thread(lab, cluster.address)
    wait_until((tmp_path / "parent").exists)
    first = int((tmp_path / "pid").read_text())
    (tmp_path / "parent").unlink()
    with Client(cluster.address, set_as_default=False) as somebody:
        ((key,),) = somebody.processing().values()
        somebody.cancel([Future(key, somebody)], force=True)
    wait_until((tmp_path / "parent").exists)
    wait_until(lambda: not alive(first))
    (tmp_path / "go").touch()
    thread.join(300)
    (ran,) = found
    assert (ran.exit_code, ran.starts, ran.executed) == (0, [("Job:Long", 1), ("Job:Long", 2)], ["Job:Long"])
    (violation,) = ran.of(ev.StatusContractViolation)
    assert violation.reason.startswith("Dask has dropped the task: ")


@pytest.mark.parametrize(
    ("deaths", "heard"), [(1, "nothing"), (1, "of the death"), (1, "a refusal"), (2, "of the death")]
)
def test_a_result_that_died_with_its_worker_is_a_lost_attempt_and_not_waited_for(
    deaths: int, heard: str, lab: Lab, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where SLURM ends a job: its steps end, and a moment later the worker that has their results."""
    cluster = Cluster(tmp_path_factory.mktemp("bequest"))
    usual = DaskCluster.fetch
    here = tmp_path_factory.mktemp("here")
    dead: list[int] = []

    def fetch(self: DaskCluster, futures: Any) -> dict[str, Any]:
        """After both have ended, and then workers of theirs."""
        if not dead:
            wait_until(lambda: len(list(here.iterdir())) == 2)
            wait_until(lambda: all(future.status == "finished" for future in self.client.futures.values()))
            dead.extend(worker.pid for worker in workers[:deaths])
            for pid in dead:
                os.killpg(pid, signal.SIGKILL)
            if heard != "nothing":
                wait_until(lambda: len(self.workers()) == 2 - deaths)
            if heard == "a refusal":  # by the worker that is left, which Dask gave the task of the other
                wait_until(lambda: any(future.status == "error" for future in self.client.futures.values()))
        return usual(self, futures)

    try:
        workers = [cluster.add_worker(), cluster.add_worker()]
        lab.write(
            {
                "work.py": f"""
                    import os, time
                    from pathlib import Path

                    def meet(number):
                        Path({str(here)!r}, str(number)).touch()
                        while len(os.listdir({str(here)!r})) < 2:
                            time.sleep(0.02)
                        return {{"N": number}}
                """,
                "workflow.yaml": """
                    workflow: w
                    loops: {number: {range: 1-2}}
                    jobs:
                      Meet:
                        for: [number]
                        uses: python
                        with: {call: "work:meet", number: "${{ number }}"}
                        outputs: {N: {type: integer}}
                """,
            }
        )
        monkeypatch.setattr(DaskCluster, "fetch", fetch)
        thread, found = in_thread(lab, cluster.address)
        thread.join(300)
        (ran,) = found
    finally:
        cluster.close()
    lost = list(ran.failed)
    kept = sorted({"Job:Meet[1]", "Job:Meet[2]"} - set(lost))
    assert len(lost) == deaths
    assert (ran.exit_code, ran.executed, ran.failed) == (1, kept, dict.fromkeys(lost, ("FAILED", "WorkerDied")))
    for violation in ran.of(ev.StatusContractViolation):
        assert re.fullmatch(r"the Dask worker tcp://[0-9.:]+ died while it had the step", violation.reason)
    assert sorted(ran.starts) == [("Job:Meet[1]", 1), ("Job:Meet[2]", 1)]


def test_after_a_step_that_somebody_else_ended_its_worker_is_not_trusted_at_once(
    lab: Lab, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As at the end of a SLURM job's time: the retry would be lost with the same job."""
    monkeypatch.setattr(dask_tasks, "CAUTION", PATIENCE)  # this test may be slow; a worker that is gone ends it
    cluster = Cluster(tmp_path_factory.mktemp("ending"))
    try:
        worker = cluster.add_worker()
        text = workflow(job("Long", "marked", "{Text: {type: string}}", with_={"here": str(tmp_path)}, retries=1))
        lab.write({"workflow.yaml": text})
        thread, found = in_thread(lab, cluster.address)
        wait_until((tmp_path / "parent").exists)
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGTERM)
        wait_until(lambda: any(isinstance(event, ev.StepFailed) for event in lab.events("r0001")))
        os.killpg(worker.pid, signal.SIGKILL)
        cluster.add_worker()
        (tmp_path / "go").touch()
        thread.join(300)
        (ran,) = found
    finally:
        cluster.close()
    assert (ran.exit_code, ran.starts, ran.executed) == (0, [("Job:Long", 1), ("Job:Long", 2)], ["Job:Long"])
    assert [(e.error_type, e.will_retry) for e in ran.of(ev.StepFailed)] == [("StepCancelled", True)]


class Unreachable:
    """The scheduler, which is in this process, cannot reach workers for data, though they are there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
        import distributed.worker

        self.asked = 0
        self._times = times
        self._usual: Any = distributed.worker.get_data_from_worker
        monkeypatch.setattr(distributed.worker, "get_data_from_worker", self._get)

    async def _get(self, *words: Any, **more: Any) -> Any:
        self.asked += 1
        if self.asked <= self._times:
            raise OSError("Timed out trying to connect")
        return await self._usual(*words, **more)


def test_a_result_that_a_worker_still_has_is_asked_for_again(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is paid for; and nobody has died."""
    lab.write({"workflow.yaml": workflow(job("Where", "where", "{Place: {type: string}, Seen: {type: json}}"))})
    unreachable = Unreachable(monkeypatch, times=2)
    ran = lab.succeed(backend=DaskBackend(), jobs=1)
    assert (ran.starts, ran.executed, ran.of(ev.StatusContractViolation)) == ([("Job:Where", 1)], ["Job:Where"], [])
    assert unreachable.asked == 3


def test_a_result_that_does_not_come_is_a_lost_attempt(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.write({"workflow.yaml": workflow(job("Where", "where", "{Place: {type: string}, Seen: {type: json}}"))})
    monkeypatch.setattr(dask_cluster, "AGAIN", 1.0)
    Unreachable(monkeypatch, times=10_000)
    ran = lab.run(backend=DaskBackend(), jobs=1)
    assert (ran.exit_code, ran.failed) == (1, {"Job:Where": ("FAILED", "WorkerDied")})
    (violation,) = ran.of(ev.StatusContractViolation)
    assert violation.reason == "its result did not arrive in 1 s from the Dask worker that has it"
