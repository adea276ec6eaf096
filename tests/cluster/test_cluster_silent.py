"""A Dask worker that hangs or is cut off is noticed, though no connection ends. Its late messages are dropped."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from cluster_lab import Cluster, Network, wait_until

from project_lab import Lab, has_ended
from whyrun.execution.backends.dask.backend import DaskBackend
from whyrun.log import events as ev

WORK = """
    import os
    import time
    from pathlib import Path


    def wait(here, context):
        number = len(list(Path(here).glob("begun-*"))) + 1
        Path(here, "half").write_text(f"{os.getpid()} {os.getppid()}")
        os.rename(Path(here, "half"), Path(here, f"begun-{number}"))
        context.task("EXECUTES", f"attempt {number}")
        deadline = time.monotonic() + 600
        said = 0
        while time.monotonic() < deadline and not Path(here, f"go-{number}").exists():
            time.sleep(0.05)
            if number == 1 and said < 1000:
                said += 1
                context.metric("said", said)
        return {"Text": f"by attempt {number}"}


    def burn(seconds):
        deadline = time.monotonic() + seconds
        for _ in range(2 * (os.cpu_count() or 1)):
            if os.fork() == 0:
                while time.monotonic() < deadline:
                    pass
                os._exit(0)
        while time.monotonic() < deadline:  # and whoever holds the lock of the interpreter gives it to nobody
            sum(range(10**6))
        return {"Text": "burnt"}
"""
WORKFLOW = """
    workflow: w
    jobs:
      Wait:
        uses: python
        retries: {max: 1, backoff: 10ms}
        with: {call: "work:wait", here: HERE}
        outputs: {Text: {type: string}}
"""
LOST = " hangs or is cut off: it sends no heartbeats"


def processes(begun: Path) -> tuple[int, int]:
    """The process of the step, and that of the Dask worker: it started the worker that forked the step."""
    step, worker = map(int, begun.read_text().split())
    return step, int(Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[1])


class Scene:
    """A run whose one step waits."""

    def __init__(self, folder: Path) -> None:
        self.here = folder / "here"
        self.here.mkdir()
        self.lab = Lab(folder / "project").write({"work.py": WORK, "workflow.yaml": WORKFLOW})
        self.lab.edit("workflow.yaml", "HERE", str(self.here))
        self.cluster = Cluster(folder / "cluster")
        self.network = Network()
        self._found: list[Any] = []
        self._silenced = 0.0

    def start(self) -> None:
        def go() -> None:
            self._found.append(self.lab.run(backend=DaskBackend(self.cluster.address)))

        self._thread = threading.Thread(target=go)
        self._thread.start()

    def begun(self, attempt: int) -> tuple[int, int]:
        """The process of the step, and that of the Dask worker."""
        wait_until((self.here / f"begun-{attempt}").exists)
        wait_until(lambda: f"attempt {attempt}" in self._tasks())  # and the host has heard of it
        return processes(self.here / f"begun-{attempt}")

    def _tasks(self) -> list[str]:
        return [e.message for run in self.lab.runs() for e in self.lab.events(run) if isinstance(e, ev.Task)]

    def silence(self, how: Callable[[], None]) -> None:
        self._silenced = time.time()
        how()

    def go(self, attempt: int) -> None:
        (self.here / f"go-{attempt}").touch()

    def check_second_attempt_counts(self) -> None:
        self.go(2)
        self._thread.join(300)
        (ran,) = self._found
        assert (ran.exit_code, ran.starts) == (0, [("Job:Wait", 1), ("Job:Wait", 2)])
        (violation,) = ran.of(ev.StatusContractViolation)
        assert violation.reason.startswith("the Dask worker tcp://")
        assert violation.reason.endswith(LOST)
        (failed,) = ran.of(ev.StepFailed)
        print(f"noticed after {datetime.fromisoformat(failed.ts).timestamp() - self._silenced:.2f} s")
        assert (failed.step_id, failed.error_type, failed.will_retry) == ("Job:Wait", "WorkerDied", True)
        assert [e.message for e in ran.of(ev.Task)] == ["attempt 1", "attempt 2"]
        assert self.lab.content("Artifact:Wait.Text") == "by attempt 2"

    def close(self) -> None:
        self.go(1)
        self.go(2)
        self.cluster.close()
        self.network.close()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.close()


def test_a_worker_that_hangs_is_given_up_and_ends_when_it_wakes(scene: Scene) -> None:
    worker = scene.cluster.add_worker()
    scene.start()
    step, pid = scene.begun(1)
    scene.silence(lambda: os.kill(pid, signal.SIGSTOP))
    scene.cluster.add_worker()
    scene.begun(2)
    scene.go(1)  # the step itself goes on, and has a result that nobody wants
    os.kill(pid, signal.SIGCONT)
    assert worker.wait(300) is not None
    wait_until(lambda: has_ended(step))
    scene.check_second_attempt_counts()


def test_a_nanny_ends_a_worker_that_hangs_and_starts_another(scene: Scene) -> None:
    scene.cluster.add_worker(nanny=True)
    scene.start()
    step, pid = scene.begun(1)
    scene.silence(lambda: os.kill(pid, signal.SIGSTOP))
    _, other = scene.begun(2)
    assert other != pid
    wait_until(lambda: has_ended(pid) and has_ended(step))
    scene.check_second_attempt_counts()


def test_a_worker_that_was_cut_off_is_given_up_and_ends_when_it_is_back(scene: Scene) -> None:
    worker = scene.cluster.add_worker_behind(scene.network)
    scene.start()
    step, _ = scene.begun(1)
    scene.silence(scene.network.cut)
    scene.cluster.add_worker()
    scene.begun(2)
    scene.network.mend()
    assert worker.wait(300) is not None
    wait_until(lambda: has_ended(step))
    scene.check_second_attempt_counts()


def test_a_worker_of_a_cluster_of_its_own_is_replaced(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    lab = Lab(tmp_path / "project").write({"work.py": WORK, "workflow.yaml": WORKFLOW})
    lab.edit("workflow.yaml", "HERE", str(here))
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(lab.run(backend=DaskBackend(), jobs=1)))
    thread.start()
    wait_until((here / "begun-1").exists)
    # And the host has heard of it: before, the worker may still be at its start, which takes any time.
    wait_until(lambda: any(isinstance(e, ev.Task) for run in lab.runs() for e in lab.events(run)))
    step, pid = processes(here / "begun-1")
    os.kill(pid, signal.SIGSTOP)
    wait_until((here / "begun-2").exists)
    wait_until(lambda: has_ended(pid) and has_ended(step))
    (here / "go-2").touch()
    thread.join(300)
    (ran,) = found
    assert (ran.exit_code, ran.starts) == (0, [("Job:Wait", 1), ("Job:Wait", 2)])
    assert [e.reason.endswith(LOST) for e in ran.of(ev.StatusContractViolation)] == [True]


def test_a_step_that_takes_all_processors_does_not_make_its_worker_silent(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "project").write({"work.py": WORK, "workflow.yaml": WORKFLOW})
    lab.edit("workflow.yaml", "work:wait", "work:burn")
    lab.edit("workflow.yaml", "here: HERE", "seconds: 6")
    ran = lab.succeed(backend=DaskBackend())
    assert (ran.starts, ran.of(ev.StatusContractViolation)) == ([("Job:Wait", 1)], [])
