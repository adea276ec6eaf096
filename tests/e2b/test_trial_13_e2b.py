"""E2B as it is: lives that end, networks that come back, bare templates, limits on creation. Issue 17, number 13."""

from __future__ import annotations

import re
import threading
import time
import zipfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import e2b
import pytest
from loopback.exchange import Refused
from loopback.sandbox import Sandbox, Template
from loopback.server import Loopback
from test_e2b_faults import WAITING, WAITING_FILES, markers, meanwhile, running_in, timed, until

from project_lab import Lab
from whyrun.errors import WhyrunError
from whyrun.execution.backends.base import WorkerLost
from whyrun.execution.backends.e2b import backend
from whyrun.execution.backends.e2b.backend import LIFETIME, RENEWED_AFTER, E2BInstance, Order, Timing, Turns
from whyrun.execution.backends.e2b.calls import OUTAGE, SandboxConnection
from whyrun.execution.backends.registry import check_options
from whyrun.execution.bundle.bundle import Bundle
from whyrun.log import events as ev

Project = Callable[..., Lab]


class Clock:
    """The real one, which can be put forward."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


# --- the life of a sandbox ---------------------------------------------------------------------------------------

THREE = """
workflow: three
jobs:
  One:
    uses: shell
    with: {run: 'echo one > "$out_T"'}
    outputs: {T: {type: text}}
  Two:
    uses: shell
    with: {text: "${{ jobs.One.outputs.T }}", run: 'cat "$text" > "$out_T"; touch here'}
    outputs: {T: {type: text}}
  Three:
    uses: shell
    with: {text: "${{ jobs.Two.outputs.T }}", run: 'cat "$text" > "$out_T"'}
    outputs: {T: {type: text}}
"""


def test_an_old_sandbox_is_replaced_before_the_next_step(server: Loopback, project: Project) -> None:
    """The service ends each after an hour. So none takes a step once it is 15 minutes old."""
    clock = Clock()
    lab = project(WAITING, {**WAITING_FILES, "whyrun.toml": 'prepare = "touch ready"\n'})

    def grow_old() -> None:
        sandbox = running_in(server, "waiting")
        clock.ahead += RENEWED_AFTER + 1
        next(iter(markers(sandbox, "waiting"))).with_name("go-on").touch()

    with meanwhile(server, grow_old):
        ran = lab.succeed(backend=timed(Timing(clock, pause=0)), jobs=1)
    assert ran.starts == [("Job:first", 1), ("Job:wait", 1), ("Job:last", 1)]
    assert len(server.sandboxes) == 2  # `last` has another, and the one before is deleted
    assert [sandbox.alive for sandbox in server.sandboxes.values()] == [False, False]
    assert RENEWED_AFTER + LIFETIME < 3600


@pytest.fixture
def instance(server: Loopback, tmp_path: Path) -> E2BInstance:
    """A sandbox without a worker."""
    sandbox = e2b.Sandbox.create(timeout=LIFETIME)
    timing = Timing(pause=0)
    order = Order(Bundle(b"", "", ()), "r0001", tmp_path, None, Turns(timing), timing)
    return E2BInstance(sandbox, order, time.monotonic(), lambda received: None)


def at(server: Loopback, instance: E2BInstance, age: float) -> Sandbox:
    """Both sides believe that the sandbox is this old."""
    (sandbox,) = server.sandboxes.values()
    sandbox.began -= age
    instance._began -= age
    return sandbox


def test_what_the_service_grants_is_looked_at(server: Loopback, instance: E2BInstance) -> None:
    """It cuts off an extension beyond the longest life without a word."""
    at(server, instance, 100)
    instance.prolong()
    assert instance.takes_steps
    sandbox = at(server, instance, 3600 - 100 - 120)
    instance.prolong()
    assert 0 < sandbox.ends - time.time() < 121
    assert (instance.is_ending, instance.takes_steps) == (True, False)
    sandbox.kill()
    with pytest.raises(WorkerLost) as lost:
        instance.connection.call(lambda: instance._sandbox.files.read("x"))
    assert str(lost.value) == (
        "the sandbox is gone: E2B lets no sandbox live longer than 60 min here. A step must end before that; split it, "
        "or use a plan with longer lives"
    )


def test_a_refusal_is_not_swallowed(server: Loopback, instance: E2BInstance) -> None:
    (sandbox,) = server.sandboxes.values()
    sandbox.longest_life = -1.0
    instance.prolong()
    assert instance.is_ending
    assert "E2B refused to extend its lifetime: " in instance.connection.end_of_life
    assert "Max instance length exceeded" in instance.connection.end_of_life


def test_a_network_that_is_away_for_a_moment_is_no_refusal(
    server: Loopback, instance: E2BInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise e2b.TimeoutException("no answer")

    monkeypatch.setattr(instance._sandbox, "set_timeout", broken)
    instance.prolong()
    assert (instance.is_ending, instance.takes_steps) == (False, True)


# --- a network that comes back -----------------------------------------------------------------------------------


def test_a_cut_of_the_network_fails_no_step_whose_sandbox_lives(
    server: Loopback, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """4.5 seconds were enough to fail it, and the step went on in the sandbox, unseen."""
    clock, noticed = Clock(), threading.Event()
    failed = SandboxConnection.failed

    def note(self: SandboxConnection, problem: Exception) -> None:
        failed(self, problem)
        if clock.ahead:
            noticed.set()  # it does not answer, long after its last sign of life

    monkeypatch.setattr(SandboxConnection, "failed", note)
    lab = project(WAITING, WAITING_FILES)

    def cut() -> None:
        sandbox = running_in(server, "waiting")
        server.network.cut()
        clock.ahead = 4.5
        assert noticed.wait(300)
        next(iter(markers(sandbox, "waiting"))).with_name("go-on").touch()
        noticed.clear()
        assert noticed.wait(300)  # what the step sends now has to wait
        server.network.mend()

    with meanwhile(server, cut):
        ran = lab.succeed(backend=timed(Timing(clock, pause=0)), jobs=1)
    assert ran.starts == [("Job:first", 1), ("Job:wait", 1), ("Job:last", 1)]
    assert [task.message for task in ran.of(ev.Task)] == ["waiting"]
    assert len(server.sandboxes) == 1


def test_an_outage_has_an_end(server: Loopback) -> None:
    clock = Clock()
    connection = SandboxConnection(e2b.Sandbox.create(timeout=600), clock=clock)
    clock.ahead = OUTAGE - 1
    connection.failed(e2b.TimeoutException("no answer"))
    assert connection.is_silent
    clock.ahead = OUTAGE + 1
    with pytest.raises(WorkerLost, match="the sandbox cannot be reached: no answer"):
        connection.failed(e2b.TimeoutException("no answer"))
    assert OUTAGE + backend._PROLONG < LIFETIME, "else its sandbox would end before it is given up"


def test_a_call_goes_on_when_the_sandbox_is_back(server: Loopback) -> None:
    """However often it is tried meanwhile. What hangs in a connection from before is made again."""
    connection = SandboxConnection(e2b.Sandbox.create(timeout=600))
    answers = iter([e2b.TimeoutException("away")] * 7)
    probes = iter([False] * 6)
    connection._answers = lambda: next(probes, True)  # type: ignore[method-assign]
    made: list[int] = []

    def call() -> str:
        made.append(1)
        if (problem := next(answers, None)) is not None:
            raise problem
        return "answer"

    assert connection.call(call) == "answer"
    assert len(made) == 8


# --- making sandboxes --------------------------------------------------------------------------------------------


def test_sandboxes_are_made_at_most_one_a_second() -> None:
    now, slept = [100.0], list[float]()
    turns = Turns(Timing(lambda: now[0], slept.append))
    for _ in range(3):
        turns.wait()
    assert slept == [1.0, 2.0]  # the second waits for a second, the third, who came with it, for two
    now[0] = 110.0
    turns.wait()
    assert slept == [1.0, 2.0]
    assert Timing().pause == 1.0


def test_a_busy_service_is_asked_again(server: Loopback, project: Project) -> None:
    server.refuse_sandboxes = Refused(429, "Rate limit exceeded")

    def relent() -> None:
        until(lambda: server.requests.count("POST /v2/sandboxes") >= 2, "a second try")
        server.refuse_sandboxes = None

    lab = project(THREE)
    with meanwhile(server, relent):
        lab.succeed(backend=timed(Timing(pause=0.05)), jobs=1)
    assert len(server.sandboxes) == 1


def test_the_template_is_an_option_and_a_job_that_asks_for_more_memory_is_told(
    server: Loopback, project: Project
) -> None:
    flow = THREE.replace("  Two:\n", '  Two:\n    sandbox: {memory: "4 GB"}\n')
    lab = project(flow)
    ran = lab.run(backend=timed(Timing(pause=0), "large"), jobs=1)
    assert {sandbox.template for sandbox in server.sandboxes.values()} == {"large"}
    (failed,) = ran.of(ev.StepFailed)
    assert failed.step_id == "Job:Two"
    assert failed.error == (
        "the job asks for 4.0GB of memory (`sandbox: {memory: …}`), and the E2B template `large` has 536.9MB and 2 "
        "processors. Build a template with more (`e2b template build --cpu-count N --memory-mb N`), and name it with "
        "`--e2b-template`"
    )
    check_options("e2b", {"e2b_template": "large"})
    with pytest.raises(WhyrunError, match="`--e2b-template` is for `--backend e2b`"):
        check_options("local", {"e2b_template": "large"})


# --- a bare template ---------------------------------------------------------------------------------------------


def test_a_bare_template_gets_what_the_worker_needs(server: Loopback, project: Project, tmp_path: Path) -> None:
    """The base template of E2B has pip and no package of ours. The sandboxes of the tests saw those of the host."""
    wheels = tmp_path / "wheels"
    server.template = Template(("pip",), {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)})
    packed_again("msgspec", wheels)
    seen: list[set[str]] = []
    server.before_deletion = lambda sandbox: seen.append(installed(sandbox))
    lab = project(THREE)
    lab.succeed(backend=timed(Timing(pause=0)), jobs=1)
    assert seen == [{"msgspec", "pip"}]


def test_what_a_template_lacks_is_named_before_the_first_step(server: Loopback, project: Project) -> None:
    lab = project(
        """
        workflow: joins
        inputs: {Table: {type: file, default: table.csv}}
        jobs:
          Read:
            uses: data/sql
            with: {tables: {t: "${{ inputs.Table }}"}, query: "SELECT * FROM t"}
            outputs: {T: {type: file, path: t.csv}}
        """,
        {"table.csv": "a\n1\n"},
    )
    ran = lab.run(backend=timed(Timing(pause=0)), jobs=1)
    assert (ran.exit_code, ran.starts) == (1, [])
    first, *rest = ran.status()["error"].split("\n")
    assert first == (
        "PrepareFailed: the template `base` lacks `duckdb>=1.3`, `openpyxl>=3.1`, `pyarrow>=16`, `pyreadstat>=1.3`, "
        "and pip could not install it there. Use a template that has it (`--e2b-template`), or one with pip and a "
        "network"
    )
    assert "No matching distribution found for duckdb>=1.3" in "\n".join(rest)


def installed(sandbox: Sandbox) -> set[str]:
    (library,) = (sandbox.root / "usr/lib").glob("python3.*/site-packages")
    return {path.name for path in library.iterdir() if "." not in path.name}


def packed_again(package: str, folder: Path) -> None:
    """A wheel of an installed package."""
    files = metadata.files(package) or ()
    (facts,) = {file.parent for file in files if file.name == "WHEEL"}
    tag = re.search(r"^Tag: (.*)$", (metadata.distribution(package).read_text("WHEEL") or ""), re.MULTILINE)
    assert tag is not None
    folder.mkdir()
    with zipfile.ZipFile(folder / f"{facts.name.removesuffix('.dist-info')}-{tag[1]}.whl", "w") as wheel:
        for file in files:
            if "__pycache__" not in file.parts:
                wheel.write(str(file.locate()), file.as_posix())
