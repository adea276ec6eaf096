"""Faults between host and E2B sandbox: no message is lost or repeated, and a lost sandbox is noticed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from loopback.sandbox import Sandbox
from loopback.server import Loopback

from project_lab import PATIENCE, Lab, Ran, has_ended
from whyrun.execution.backends.e2b.backend import LIFETIME, Timing, Workers, e2b_backend
from whyrun.execution.backends.remote.threaded import ThreadedBackend
from whyrun.log import events as ev

Project = Callable[..., Lab]
SOON = Timing(outage=2.5, pause=0)  # an unreachable sandbox counts as lost soon


def timed(timing: Timing, template: str | None = None) -> ThreadedBackend:
    return ThreadedBackend("e2b", Workers(template, timing).make)


def until(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what}: not within {PATIENCE:g} s")


@contextmanager
def meanwhile(server: Loopback, act: Callable[[], None]) -> Iterator[None]:
    """While the body runs, this happens; what it raises, the test raises, and nothing waits for it any more."""
    problems: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as problem:
            problems.append(problem)
            server.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join(PATIENCE)
        if problems:
            raise problems[0]
    assert not thread.is_alive()


def markers(sandbox: Sandbox, name: str) -> list[Path]:
    """Not all folders are looked through: some go meanwhile."""
    return list(sandbox.home.glob(f"whyrun/site-*/out/scratch/work/{name}"))


def running_in(server: Loopback, marker: str) -> Sandbox:
    """The sandbox in which a step has left this marker in its working folder."""

    def look() -> Sandbox | None:
        for sandbox in list(server.sandboxes.values()):
            if sandbox.alive and markers(sandbox, marker):
                return sandbox
        return None

    found: Sandbox = until(look, f"a step that left `{marker}`")
    return found


TALKING = """
workflow: talking
jobs:
  talk:
    uses: python
    with: {call: "talking:talk", count: 600}
    outputs: {said: {type: json}}
  after:
    uses: python
    with: {call: "talking:length", said: "${{ jobs.talk.outputs.said }}"}
    outputs: {length: {type: json}}
"""
TALKING_FILES = {
    "talking.py": """
        def talk(count, context):
            said = [f"Wort {n}: „größer“ 🎈" + "·" * (n % 90) for n in range(count)]
            for word in said:
                context.task("EXECUTES", word)
            return {"said": said}
        def length(said):
            return {"length": len(said)}
        """,
}


def words(ran: Ran) -> list[str]:
    return [task.message for task in ran.of(ev.Task)]


def check_talk(lab: Lab, ran: Ran) -> None:
    """Every word once and in order, whatever happened on the way."""
    assert lab.content("Artifact:talk.said") == words(ran)
    assert len(words(ran)) == 600
    assert lab.content("Artifact:after.length") == 600
    assert ran.executed == ["Job:after", "Job:talk"]
    assert ran.starts == [("Job:talk", 1), ("Job:after", 1)]


def test_small_chunks_lose_and_reorder_nothing(server: Loopback, project: Project) -> None:
    server.faults.chunk = 7
    lab = project(TALKING, TALKING_FILES)
    check_talk(lab, lab.succeed(backend=e2b_backend()))


def test_streams_that_break_again_and_again_lose_and_repeat_nothing(server: Loopback, project: Project) -> None:
    server.faults.chunk = 501
    # The first streams are those of short commands that set the sandbox up, each of which prints something.
    server.faults.drop_streams_after = [0, 10**9, 10**9, 3000, 1, 5000, 0, 20_000, 7]
    lab = project(TALKING, TALKING_FILES)
    check_talk(lab, lab.succeed(backend=e2b_backend(), jobs=1))
    (sandbox,) = server.sandboxes.values()
    assert sandbox.faults.drop_streams_after == []
    assert server.requests.count("POST /process.Process/Connect") >= 6


def test_requests_that_get_lost_are_made_again_and_carried_out_once(server: Loopback, project: Project) -> None:
    server.faults.drop_requests.update({"files": 2, "SendInput": 2, "Stat": 1, "Start": 2})
    server.faults.lose_answers.update({"SendInput": 3, "Stat": 1, "Remove": 1})
    lab = project(TALKING, TALKING_FILES)
    check_talk(lab, lab.succeed(backend=e2b_backend(), jobs=1))
    (sandbox,) = server.sandboxes.values()
    assert +sandbox.faults.drop_requests == {}
    assert sandbox.faults.lose_answers["SendInput"] == 0


def test_a_short_break_of_everything_is_survived(server: Loopback, project: Project) -> None:
    lab = project(WAITING, WAITING_FILES)

    def break_all() -> None:
        sandbox = running_in(server, "waiting")
        server.drop_connections()
        until(lambda: "POST /process.Process/Connect" in server.requests, "another connection")
        next(iter(until(lambda: markers(sandbox, "waiting"), "its folder"))).with_name("go-on").touch()

    with meanwhile(server, break_all):
        ran = lab.succeed(backend=e2b_backend(), jobs=1)
    assert ran.starts == [("Job:first", 1), ("Job:wait", 1), ("Job:last", 1)]


# --- lost for good -----------------------------------------------------------------------------------------------

WAITING = """
workflow: waiting
jobs:
  first:
    uses: shell
    with: {run: 'echo 1 > "$out_o"'}
    outputs: {o: {type: text}}
  wait:
    uses: python
    with: {call: "waiting:wait", o: "${{ jobs.first.outputs.o }}"}
    outputs: {o: {type: text}}
  last:
    uses: shell
    with: {run: 'cat "$o" > "$out_o"', o: "${{ jobs.wait.outputs.o }}"}
    outputs: {o: {type: text}}
"""
WAITING_FILES = {
    "waiting.py": """
        import os, sys, time
        def wait(o, context):
            context.task("EXECUTES", "waiting")
            print("the last words", file=sys.stderr, flush=True)
            open("waiting", "w").close()
            while not os.path.exists("go-on"):
                time.sleep(0.01)
            return {"o": "waited\\n"}
        """,
}
MUST_EXIST = {
    "events.jsonl",
    "metrics.jsonl",
    "status.json",
    "manifest.yaml",
    "plan.json",
    "commands.jsonl",
    "whyrun.log",
    "cfg/first.json",
    "cfg/wait.json",
}


def kill_worker(server: Loopback, sandbox: Sandbox) -> None:
    for pid in sandbox.real_processes():
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            if b"whyrun.execution.worker.main" in file.read():
                os.kill(pid, signal.SIGKILL)


def kill_relay(server: Loopback, sandbox: Sandbox) -> None:
    for process in sandbox.processes.values():
        process.signal(signal.SIGKILL)


def close_port(server: Loopback, sandbox: Sandbox) -> None:
    sandbox.faults.port_closed = True
    server.drop_connections()


ENDINGS: dict[str, tuple[Callable[[Loopback, Sandbox], None], str, bool]] = {
    "worker killed": (kill_worker, "the worker was killed by SIGKILL", True),
    "relay killed": (kill_relay, "the worker's process in the sandbox", True),
    "sandbox deleted": (lambda server, sandbox: sandbox.kill(), "the sandbox is gone", False),
    "network cut": (lambda server, sandbox: server.network.cut(), "the sandbox cannot be reached", False),
    "server gone": (lambda server, sandbox: server.die(), "the sandbox cannot be reached", False),
    "agent gone": (close_port, "the sandbox cannot be reached", False),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_loss_is_noticed_and_the_evidence_is_complete(server: Loopback, project: Project, ending: str) -> None:
    lose, reason, files_left = ENDINGS[ending]
    lab = project(WAITING, WAITING_FILES)

    def act() -> None:
        sandbox = running_in(server, "waiting")
        until(
            lambda: '"message":"waiting"' in lab.read(".whyrun/waiting/runs/r0001/events.jsonl"), "its word in the log"
        )
        lose(server, sandbox)

    with meanwhile(server, act):
        ran = lab.run(backend=timed(SOON), jobs=1)
    assert ran.exit_code == 1
    assert ran.executed == ["Job:first"]
    (failed,) = ran.of(ev.StepFailed)
    (violation,) = ran.of(ev.StatusContractViolation)
    assert (failed.step_id, violation.step_id) == ("Job:wait", "Job:wait")
    assert reason in failed.error
    assert reason in violation.reason
    assert ran.blocked == {"Job:last": ["Job:wait"]}
    assert words(ran) == ["waiting"]
    assert ran.folder is not None
    assert {name for name in MUST_EXIST if not (ran.folder / name).exists()} == set()
    assert ran.status()["steps_failed"] == 1
    if files_left:  # the sandbox is still there, and with it what the step left
        assert violation.last_stderr == "the last words\n"
        assert (ran.folder / "steps/wait/stderr.log").read_text() == "the last words\n"
        left = {path.relative_to(ran.folder).as_posix() for path in (ran.folder / "steps/wait").rglob("*")}
        scratch = {"steps/wait/scratch", "steps/wait/scratch/work", "steps/wait/scratch/work/waiting"}
        assert left == {"steps/wait/stderr.log", *scratch}
    assert lab.plan().headlines() == {"Job:wait": "RETRY_PREVIOUS_FAILURE", "Job:last": "MISSING_OUTPUT"}


def test_a_worker_that_can_still_be_heard_but_not_be_told_anything_is_lost(server: Loopback, project: Project) -> None:
    files = {
        "waiting.py": """
            import os, time
            def wait(o, context):
                open("waiting", "w").close()
                while not os.path.exists("go-on"):
                    time.sleep(0.01)
                context.remember("request", "q-1")  # and waits until it is told that this is in the log
            """,
    }
    lab = project(WAITING, files)

    def act() -> None:
        sandbox = running_in(server, "waiting")
        sandbox.faults.drop_requests["SendInput"] = 1 << 30
        next(iter(until(lambda: markers(sandbox, "waiting"), "its folder"))).with_name("go-on").touch()

    with meanwhile(server, act):
        ran = lab.run(backend=e2b_backend(), jobs=1)
    assert (ran.exit_code, ran.executed) == (1, ["Job:first"])
    (violation,) = ran.of(ev.StatusContractViolation)
    assert (violation.step_id, violation.reason[:26]) == ("Job:wait", "the sandbox takes no input")
    assert [(e.key, e.value) for e in ran.of(ev.RequestRecorded)] == [("request", "q-1")]
    assert ran.folder is not None
    assert (ran.folder / "steps/wait/scratch/work/waiting").exists()


def test_a_network_that_is_lost_while_the_place_is_made_ready_ends_the_run(server: Loopback, project: Project) -> None:
    lab = project(WAITING, WAITING_FILES)
    server.faults.request_delay = 0.2

    def act() -> None:
        until(lambda: "POST /files" in server.requests, "the bundle on its way")
        server.network.cut()

    with meanwhile(server, act):
        ran = lab.run(backend=timed(SOON), jobs=1)
    assert (ran.exit_code, ran.starts) == (1, [])
    assert ran.status()["error"].startswith("PrepareFailed: the sandbox cannot be reached: ")


def test_a_lost_attempt_is_retried_in_another_sandbox_if_the_job_says_so(server: Loopback, project: Project) -> None:
    workflow = WAITING.replace('    with: {call: "waiting', '    retries: 1\n    with: {call: "waiting')
    lab = project(workflow, {**WAITING_FILES, "whyrun.toml": 'prepare = "touch ready"\n'})

    def act() -> None:
        first = running_in(server, "waiting")
        first.kill()
        second = running_in(server, "waiting")
        assert second is not first
        assert list(second.home.rglob("ready"))
        (marker,) = markers(second, "waiting")
        marker.with_name("go-on").touch()

    with meanwhile(server, act):
        ran = lab.succeed(backend=e2b_backend(), jobs=1)
    assert ran.starts == [("Job:first", 1), ("Job:wait", 1), ("Job:wait", 2), ("Job:last", 1)]
    assert [failed.will_retry for failed in ran.of(ev.StepFailed)] == [True]


def test_a_timeout_ends_the_whole_group_there(server: Loopback, project: Project) -> None:
    lab = project(
        """
        workflow: slow
        jobs:
          slow:
            uses: shell
            timeout: 3
            with: {run: 'sleep 3000 & echo $! > child; echo partial; wait'}
            outputs: {o: {type: text}}
        """
    )
    children: list[int] = []

    def act() -> None:
        sandbox = running_in(server, "child")
        (file,) = markers(sandbox, "child")
        children.append(int(until(file.read_text, "the child's pid")))

    with meanwhile(server, act):
        ran = lab.run(backend=e2b_backend(), jobs=1, grace=10.0)
    assert ran.failed == {"Job:slow": ("TIMED_OUT", "TimedOut")}
    assert has_ended(children[0])
    assert ran.folder is not None
    assert (ran.folder / "steps/slow/stdout.log").read_text() == "partial\n"


# --- the host's own end ------------------------------------------------------------------------------------------


@contextmanager
def started_by_hand(server: Loopback, lab: Lab) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "whyrun.cli.main", "run", "--backend", "e2b", "--jobs", "1"],
        cwd=lab.root,
        env={**os.environ, **server.environment()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_ctrl_c_reaches_the_step_there_and_leaves_no_sandbox(server: Loopback, project: Project) -> None:
    lab = project(WAITING, WAITING_FILES)
    with started_by_hand(server, lab) as process:
        sandbox = running_in(server, "waiting")
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, output
    events = lab.events("r0001")
    (failed,) = (event for event in events if isinstance(event, ev.StepFailed))
    assert (failed.step_id, failed.status) == ("Job:wait", "INTERRUPTED")
    assert isinstance(events[-1], ev.RunComplete)
    assert (lab.run_folder("r0001") / "steps/wait/stderr.log").read_text() == "the last words\n"
    assert not sandbox.alive


def test_a_host_that_is_killed_leaves_a_sandbox_that_ends_by_itself(server: Loopback, project: Project) -> None:
    lab = project(WAITING, WAITING_FILES)
    with started_by_hand(server, lab) as process:
        sandbox = running_in(server, "waiting")
        process.kill()
        process.communicate(timeout=PATIENCE)
    assert sandbox.alive
    assert 0 < sandbox.ends - time.time() <= LIFETIME

    def act() -> None:
        until(lambda: len(server.sandboxes) > 1, "the sandbox of the next run")
        (second,) = (found for found in server.sandboxes.values() if found is not sandbox)
        (marker,) = until(lambda: markers(second, "waiting"), "its step")
        marker.with_name("go-on").touch()

    with meanwhile(server, act):
        ran = lab.succeed(backend=e2b_backend(), jobs=1)
    assert ran.executed == ["Job:last", "Job:wait"]
