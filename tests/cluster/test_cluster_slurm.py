"""`--dask-address slurm` against a real SLURM: its controller, its node, its `sbatch` and `scancel`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cluster_lab import foreign_attempts, listening, wait_until, ways
from slurm_lab import CPUS, WHERE, Slurm, SlurmMissing

from project_lab import Lab, codes
from whyrun.execution.backends.dask.slurm import passed_environment
from whyrun.log import events as ev

SMALL = {"CORES": "1", "MEMORY": "200MB"}  # of a job
SECRET = "correct-horse-battery"
KEY = b"PRIVATE KEY"

WORK = """
    import os
    import time
    from pathlib import Path


    def meet(here, me):
        Path(here, f"began-{me}").write_text(str(os.getpid()))
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline and len(list(Path(here).glob("began-*"))) < 2:
            time.sleep(0.02)
        return {"Text": f"{me} met {len(list(Path(here).glob('began-*'))) - 1}"}


    def together(one, two, context):
        context.output("All").write_text(f"{one}; {two}")


    def long(here):
        Path(here, "pid").write_text(str(os.getpid()))
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline and not Path(here, "go").exists():
            time.sleep(0.02)
        return {"Text": "done"}
"""


@pytest.fixture(scope="module")
def started() -> Iterator[Slurm]:
    try:
        made = Slurm()
    except SlurmMissing as missing:
        pytest.skip(f"SLURM: {missing}")
    yield made
    made.close()


@pytest.fixture
def slurm(started: Slurm) -> Iterator[Slurm]:
    """With an empty queue: no test leaves a job behind."""
    yield started
    wait_until(lambda: not started.jobs())


@pytest.fixture
def wall(slurm: Slurm) -> Iterator[str]:
    """A job that takes the whole node."""
    number = slurm.command("sbatch", "--parsable", "-c", str(CPUS), "-o", "/dev/null", "--wrap", "sleep 600")
    yield number
    slurm.command("scancel", number)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    (tmp_path / "here").mkdir()
    return Lab(tmp_path / "project").write({"work.py": WORK})


class Command:
    """`whyrun run` in a process of its own, with a terminal's Ctrl-C: the whole process group gets it."""

    def __init__(
        self, lab: Lab, slurm: Slurm, *words: str, job: Mapping[str, str] = SMALL, wait: str = "1h", **more: str
    ) -> None:
        settings = {f"DASK_JOBQUEUE__SLURM__{name}": value for name, value in job.items()}
        self._said = lab.root.parent / f"said-{time.monotonic_ns()}"
        with open(self._said, "wb") as said:
            self.process = subprocess.Popen(
                [
                    Path(sys.executable).with_name("whyrun"),
                    "run",
                    "--backend",
                    "dask",
                    "--dask-address",
                    "slurm",
                    *words,
                ],
                cwd=lab.root,
                env={
                    **slurm.environment,
                    "WHYRUN_SLURM_WAIT": wait,
                    "DASK_CONFIG": str(lab.root),
                    "PYTHONFAULTHANDLER": "1",
                    **settings,
                    **more,
                },
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def said(self) -> str:
        return self._said.read_text(errors="replace")

    def wait_until(self, seen: Callable[[], bool]) -> None:
        """Of a run that goes on meanwhile."""
        try:
            wait_until(lambda: seen() or self.process.poll() is not None)
        finally:
            if not seen():
                self.process.kill()
                print(self.end()[1])
        assert seen(), "the run ended too early"

    def interrupt(self) -> None:
        os.killpg(self.process.pid, signal.SIGINT)

    def end(self) -> tuple[int, str]:
        try:
            return self.process.wait(300), self.said()
        except subprocess.TimeoutExpired:
            # Where it stands is worth more than the bare fact; and no later test finds its jobs in the queue.
            os.kill(self.process.pid, signal.SIGABRT)
            self.process.wait(300)
            raise AssertionError(self.said()) from None


def job(name: str, call: str, outputs: str, **more: Any) -> str:
    words = "".join(f", {key}: {value!r}" for key, value in more.pop("with_", {}).items())
    lines = [f"  {name}:", "    uses: python", f'    with: {{call: "work:{call}"{words}}}', f"    outputs: {outputs}"]
    lines += [f"    {key}: {value}" for key, value in more.items()]
    return "\n".join(lines) + "\n"


def workflow(*jobs: str) -> str:
    return f"workflow: w\njobs:\n{''.join(jobs)}"


def long_job(here: Path, **more: Any) -> str:
    return workflow(job("Long", "long", "{Text: {type: string}}", with_={"here": str(here)}, **more))


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_steps_run_at_once_in_jobs_of_slurm_and_their_outputs_come_back(lab: Lab, slurm: Slurm, tmp_path: Path) -> None:
    here = str(tmp_path / "here")
    before = set(slurm.ended())
    lab.write(
        {
            "workflow.yaml": workflow(
                job("One", "meet", "{Text: {type: string}}", with_={"here": here, "me": "one"}),
                job("Two", "meet", "{Text: {type: string}}", with_={"here": here, "me": "two"}),
                job(
                    "All", "together", "{All: {type: file}}",
                    with_={"one": "${{ jobs.One.outputs.Text }}", "two": "${{ jobs.Two.outputs.Text }}"},
                ),
            )
        }
    )  # fmt: skip
    status, told = Command(lab, slurm, "--jobs", "2").end()
    assert status == 0, told
    assert lab.content("Artifact:All.All") == "one met 1; two met 1"
    assert codes(lab.plan()) == {}
    wait_until(lambda: not slurm.jobs())
    assert len(set(slurm.ended()) - before) == 2  # a job for each of the two that ran at once
    assert not list(lab.root.glob("slurm-*.out"))
    assert not list((lab.root / ".whyrun" / "tmp").glob("*slurm*"))


def test_the_file_of_the_docs_asks_for_a_job_in_which_two_steps_run_at_once(
    lab: Lab, slurm: Slurm, tmp_path: Path
) -> None:
    here = str(tmp_path / "here")
    page = (Path(__file__).parents[2] / "docs" / "backends.md").read_text()
    written = page.partition("### SLURM")[2].partition("```yaml\n")[2].partition("```")[0]
    lab.write(
        {
            "jobqueue.yaml": written,
            "workflow.yaml": workflow(
                job("One", "meet", "{Text: {type: string}}", with_={"here": here, "me": "one"}),
                job("Two", "meet", "{Text: {type: string}}", with_={"here": here, "me": "two"}),
            ),
        }
    )
    before = set(slurm.ended())
    status, told = Command(lab, slurm, "--jobs", "2", job={}).end()
    assert status == 0, told
    assert [lab.content(f"Artifact:{name}.Text") for name in ("One", "Two")] == ["one met 1", "two met 1"]
    wait_until(lambda: not slurm.jobs())
    (number,) = set(slurm.ended()) - before
    asked = slurm.command("scontrol", "show", "job", number).split()
    wanted = {"Partition=short", "Account=my-project", "TimeLimit=04:00:00", "NumCPUs=2", "MinMemoryNode=2G"}
    assert wanted <= set(asked)


def test_ctrl_c_ends_the_step_and_cancels_its_job(lab: Lab, slurm: Slurm, tmp_path: Path) -> None:
    lab.write({"workflow.yaml": long_job(tmp_path / "here")})
    before = set(slurm.ended())
    command = Command(lab, slurm, "--jobs", "1")
    command.wait_until((tmp_path / "here" / "pid").exists)
    (number,) = slurm.jobs()
    command.interrupt()
    status, told = command.end()
    assert status == 130, told
    wait_until(lambda: number in slurm.ended())
    assert {n: state for n, state in slurm.ended().items() if n not in before} == {number: "CANCELLED"}
    wait_until(lambda: not alive(int((tmp_path / "here" / "pid").read_text())))
    (failed,) = [e for e in lab.events("r0001") if isinstance(e, ev.StepFailed)]
    assert (failed.step_id, failed.status) == ("Job:Long", "INTERRUPTED")


def test_a_host_that_is_killed_leaves_no_job_behind(lab: Lab, slurm: Slurm, tmp_path: Path) -> None:
    lab.write({"workflow.yaml": long_job(tmp_path / "here")})
    command = Command(lab, slurm, "--jobs", "1")
    command.wait_until((tmp_path / "here" / "pid").exists)
    command.process.kill()
    assert command.end()[0] == -signal.SIGKILL
    wait_until(lambda: not slurm.jobs())
    wait_until(lambda: not alive(int((tmp_path / "here" / "pid").read_text())))


def test_a_queue_that_is_full_ends_the_run_before_its_first_step(
    lab: Lab, slurm: Slurm, wall: str, tmp_path: Path
) -> None:
    lab.write({"workflow.yaml": long_job(tmp_path / "here")})
    status, told = Command(lab, slurm, "--jobs", "1", wait="3s").end()
    (number,) = (n for n, state in slurm.ended().items() if state == "CANCELLED" and int(n) > int(wall))
    complete = lab.events("r0001")[-1]
    assert isinstance(complete, ev.RunComplete)
    assert complete.error is not None
    assert re.fullmatch(  # whether the reason is known already is a matter of SLURM's own time
        r"PrepareFailed: the Dask cluster has no worker after 3 s: "
        rf"the SLURM jobs of its workers: {number} PENDING \((Resources|Priority|None)\)",
        complete.error,
    )
    assert (status, complete.state) == (1, "failed")
    assert not [e for e in lab.events("r0001") if isinstance(e, ev.StepStart)], told
    assert set(slurm.jobs()) == {wall}


def test_ctrl_c_while_the_queue_is_full_cancels_the_job_that_waits(
    lab: Lab, slurm: Slurm, wall: str, tmp_path: Path
) -> None:
    lab.write({"workflow.yaml": long_job(tmp_path / "here")})
    command = Command(lab, slurm, "--jobs", "1")
    command.wait_until(lambda: len(slurm.jobs()) == 2)
    (number,) = set(slurm.jobs()) - {wall}
    told = rf"note: waiting for a worker, at most 3600 s; the SLURM jobs of its workers: {number} PENDING \(\w+\)\n"
    command.wait_until(lambda: re.search(told, command.said()) is not None)  # or he would think that nothing happens
    command.interrupt()
    status, said = command.end()
    assert status == 130, said
    wait_until(lambda: set(slurm.jobs()) == {wall})


def failing_scancel(folder: Path, script: str) -> str:
    """A PATH on which `scancel` is this shell script, and everything else is SLURM's own."""
    folder.mkdir()
    (folder / "scancel").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "scancel").chmod(0o755)
    return f"{folder}:{WHERE}"


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo 'scancel: error: Access/permission denied' >&2; exit 1", "scancel: error: Access/permission denied"),
        ("exit 3", "`scancel` ended with status 3"),
    ],
)
def test_a_job_that_could_not_be_cancelled_is_told_with_the_command_to_try(
    lab: Lab, slurm: Slurm, wall: str, tmp_path: Path, script: str, why: str
) -> None:
    lab.write({"workflow.yaml": long_job(tmp_path / "here")})
    command = Command(lab, slurm, "--jobs", "1", PATH=failing_scancel(tmp_path / "bin", script))
    command.wait_until(lambda: "waiting for a worker" in command.said())
    (number,) = set(slurm.jobs()) - {wall}
    command.interrupt()
    status, said = command.end()
    try:
        assert status == 130, said
        assert f"note: SLURM did not cancel the job {number}: {why}; try `scancel {number}`\n" in said
        assert slurm.jobs()[number] == "PENDING"
    finally:
        slurm.command("scancel", number)  # as the note says


def test_a_job_that_is_over_is_not_told_although_scancel_fails(
    lab: Lab, slurm: Slurm, wall: str, tmp_path: Path
) -> None:
    lab.write({"workflow.yaml": long_job(tmp_path / "here")})
    script = f"PATH={WHERE} scancel \"$@\"; echo 'scancel: error: Invalid job id' >&2; exit 1"
    command = Command(lab, slurm, "--jobs", "1", PATH=failing_scancel(tmp_path / "bin", script))
    command.wait_until(lambda: "waiting for a worker" in command.said())
    command.interrupt()
    status, said = command.end()
    assert (status, "did not cancel" in said) == (130, False), said
    wait_until(lambda: set(slurm.jobs()) == {wall})


def test_what_sbatch_refuses_is_told(lab: Lab, slurm: Slurm, tmp_path: Path) -> None:
    lab.write({"workflow.yaml": long_job(tmp_path / "here")})
    status, told = Command(lab, slurm, "--jobs", "2", job={**SMALL, "QUEUE": "nowhere"}).end()
    complete = lab.events("r0001")[-1]
    assert isinstance(complete, ev.RunComplete)
    assert (status, complete.error) == (
        1,
        "PrepareFailed: SLURM refused the job of a worker: "
        "sbatch: error: invalid partition specified: nowhere\n"
        "sbatch: error: Batch job submission failed: Invalid partition name specified",
    ), told


def test_jobs_that_end_without_a_worker_are_not_waited_for(lab: Lab, slurm: Slurm, tmp_path: Path) -> None:
    lab.write({"workflow.yaml": long_job(tmp_path / "here")})
    before = set(slurm.ended())
    status, told = Command(lab, slurm, "--jobs", "1", job={**SMALL, "PYTHON": "/nowhere/python"}).end()
    complete = lab.events("r0001")[-1]
    assert isinstance(complete, ev.RunComplete)
    assert complete.error is not None
    headline, *printed = complete.error.split("\n")
    assert status == 1, told
    (number,) = set(slurm.ended()) - before
    assert headline == (
        "PrepareFailed: the Dask cluster has no worker: "
        f"the SLURM jobs of its workers have ended ({number} FAILED (NonZeroExitCode))"
    )
    assert len(printed) == 1
    assert printed[0].endswith("/nowhere/python: No such file or directory")


def test_a_job_that_ended_is_replaced_and_the_step_that_it_had_is_retried(
    lab: Lab, slurm: Slurm, tmp_path: Path
) -> None:
    """As at the end of a job's wall time."""
    lab.write({"workflow.yaml": long_job(tmp_path / "here", retries=2)})
    command = Command(lab, slurm, "--jobs", "1")
    command.wait_until((tmp_path / "here" / "pid").exists)
    (first,) = slurm.jobs()
    slurm.command("scancel", first)
    wait_until(lambda: first in slurm.ended())
    (tmp_path / "here" / "go").touch()
    status, told = command.end()
    assert status == 0, told
    events = lab.events("r0001")
    # SLURM tells all processes of the job to end, and the step may say so before its worker is gone, or not. Where it
    # does, its second attempt may have come to this worker, too, and ended with it.
    failed = [e for e in events if isinstance(e, ev.StepFailed)]
    assert len(failed) in (1, 2)
    assert {(e.error_type in ("WorkerDied", "StepCancelled"), e.will_retry) for e in failed} == {(True, True)}
    last = len(failed) + 1
    assert [e.attempt for e in events if isinstance(e, ev.StepStart)] == list(range(1, last + 1))
    assert [e.step_id for e in events if isinstance(e, ev.StepComplete)] == ["Job:Long"]
    wait_until(lambda: not slurm.jobs())


def test_where_slurm_takes_no_other_job_the_step_is_lost_and_not_waited_for(
    lab: Lab, slurm: Slurm, tmp_path: Path
) -> None:
    lab.write({"workflow.yaml": long_job(tmp_path / "here", retries=2)})
    command = Command(lab, slurm, "--jobs", "1")
    command.wait_until((tmp_path / "here" / "pid").exists)
    (first,) = slurm.jobs()
    slurm.command("scontrol", "update", "partitionname=short", "state=inactive")
    try:
        slurm.command("scancel", first)
        status, told = command.end()
    finally:
        slurm.command("scontrol", "update", "partitionname=short", "state=up")
    assert status == 1, told
    failed = [e for e in lab.events("r0001") if isinstance(e, ev.StepFailed)]
    # `scancel` tells the Dask worker and the step to end, both at once: either may be what the host hears of first, and
    # the second attempt may still have come to the worker that is about to end.
    assert [e.will_retry for e in failed] == [True, True, False]
    assert {e.error_type for e in failed[:2]} <= {"WorkerDied", "StepCancelled"}
    assert failed[2].error_type == "WorkerDied"
    assert failed[2].error == (
        "the SLURM jobs of its workers have ended, and SLURM accepts no other: "
        "sbatch: error: Batch job submission failed: Required partition not available (inactive or drain)"
    )
    assert codes(lab.plan()) == {"Job:Long": ["RETRY_PREVIOUS_FAILURE", "MISSING_OUTPUT"]}


@pytest.mark.parametrize(
    ("given", "missing"), [({}, "cores and memory"), ({"CORES": "1"}, "memory"), ({"MEMORY": "1GB"}, "cores")]
)
def test_a_job_whose_size_nobody_says_is_refused_before_anything_starts(
    lab: Lab, slurm: Slurm, tmp_path: Path, given: dict[str, str], missing: str
) -> None:
    lab.write({"workflow.yaml": long_job(tmp_path / "here")})
    status, told = Command(lab, slurm, job=given).end()
    assert status == 2
    assert "[BACKEND_UNAVAILABLE]" in told
    assert f"the configuration of SLURM jobs lacks {missing}\n" in told
    assert "hint: in ~/.config/dask/jobqueue.yaml: `jobqueue: {slurm: {cores: 4, memory: 8GB}}`" in told
    assert lab.runs() == []


def test_a_wait_that_is_no_duration_is_refused(lab: Lab, slurm: Slurm, tmp_path: Path) -> None:
    lab.write({"workflow.yaml": long_job(tmp_path / "here")})
    status, told = Command(lab, slurm, wait="soon").end()
    assert status == 2
    assert "`WHYRUN_SLURM_WAIT=soon` is not a duration" in told


def test_other_users_get_neither_the_environment_nor_the_cluster_of_a_run(
    lab: Lab, slurm: Slurm, tmp_path: Path
) -> None:
    """Issue 17, number 1. And its certificates stay out of SLURM's files, of the run folder and of readable files."""
    lab.write({"workflow.yaml": long_job(tmp_path / "here")})
    command = Command(lab, slurm, "--jobs", "1", CLOUD_KEY=SECRET)
    command.wait_until((tmp_path / "here" / "pid").exists)
    kept = files_below(slurm.folder)
    assert [path for path in kept if path.name == "environment"]  # SLURM keeps it in a file, so this looks at something
    assert [path for path, content in kept.items() if SECRET.encode() in content or KEY in content] == []
    certificates = [path for path, content in files_below(lab.root).items() if KEY in content]
    assert certificates
    assert {path.relative_to(lab.root).parts[:2] for path in certificates} == {(".whyrun", "tmp")}
    assert [path for path in certificates if path.stat().st_mode & 0o077 or path.parent.stat().st_mode & 0o077] == []
    ports = listening([command.process.pid, *slurm.processes_of_jobs()])
    got = foreign_attempts(ways(ports))
    (tmp_path / "here" / "go").touch()
    status, told = command.end()
    assert status == 0, told
    assert len(set(ports)) >= 4  # scheduler, worker, and their HTTP servers
    assert {what.split()[0].strip(":") for what in got.values()} == {"refused"}, got
    assert [path for path, content in files_below(lab.root).items() if KEY in content] == []


def files_below(folder: Path) -> dict[Path, bytes]:
    """Whatever is there while it is looked at: SLURM goes on, and makes and removes files."""
    found: dict[Path, bytes] = {}
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names):
            with suppress(OSError):  # it is gone, or a socket
                found[path] = path.read_bytes()
    return found


def test_the_environment_that_a_job_sees() -> None:
    given = {"PATH": "/bin", "LC_ALL": "C", "SLURM_CONF": "/c", "CLOUD_KEY": "k", "TMPDIR": "/mine", "DASK_X": "1"}
    assert passed_environment(given) == {"PATH": "/bin", "LC_ALL": "C", "SLURM_CONF": "/c", "DASK_X": "1"}
