"""Calls of the E2B SDK: hanging calls are abandoned, broken ones are repeated, a lost sandbox stays lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import e2b
import httpx
import pytest
from connectrpc.code import Code
from connectrpc.errors import ConnectError
from e2b.envd.rpc import handle_rpc_exception
from loopback.server import Loopback
from pyqwest import WriteError

from whyrun.execution.backends.base import WorkerLost
from whyrun.execution.backends.e2b.calls import SandboxConnection


@pytest.fixture
def sandbox(server: Loopback) -> e2b.Sandbox:
    return e2b.Sandbox.create(timeout=600)


@pytest.fixture
def never() -> Iterator[threading.Event]:
    """What a call waits for that hangs; set at the end, so that its thread ends too."""
    event = threading.Event()
    yield event
    event.set()


def test_a_call_that_hangs_though_the_sandbox_answers_is_made_again(
    sandbox: e2b.Sandbox, never: threading.Event
) -> None:
    made: list[int] = []

    def call() -> str:
        made.append(1)
        if len(made) == 1:
            never.wait()
        return "answer"

    assert SandboxConnection(sandbox).call(call, limit=0.1) == "answer"
    assert len(made) == 2


def broken_while_it_was_written() -> Exception:
    """As the SDK tells of it, where the sandbox answers when it is asked after that."""
    broken = ConnectError(Code.UNAVAILABLE, "error writing a body to connection: Broken pipe")
    broken.__cause__ = WriteError(broken.message)
    told: Exception = handle_rpc_exception(broken, sandbox_running=True)
    return told


@pytest.mark.parametrize(
    "problem",
    [
        broken_while_it_was_written(),
        e2b.TimeoutException("no answer"),
        e2b.RateLimitException("too many"),
        httpx.ReadError("reset"),
        Exception("Command ended without an end event"),
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_what_may_pass_is_tried_again(sandbox: e2b.Sandbox, problem: Exception) -> None:
    problems = [problem, problem]

    def call() -> str:
        if problems:
            raise problems.pop()
        return "answer"

    assert SandboxConnection(sandbox).call(call) == "answer"
    problems.extend([problem] * 10)
    with pytest.raises(WorkerLost, match="the sandbox cannot be used"):
        SandboxConnection(sandbox).call(call)
    assert len(problems) == 7


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        (e2b.SandboxNotFoundException("x"), "the sandbox is gone"),
        (e2b.AuthenticationException("not you"), "the sandbox refused a request: not you"),
        (e2b.NotEnoughSpaceException("full"), "the sandbox refused a request: full"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_what_will_not_pass_is_not_tried_again_and_stays_so(
    sandbox: e2b.Sandbox, problem: Exception, told: str
) -> None:
    made: list[int] = []

    def call() -> None:
        made.append(1)
        raise problem

    connection = SandboxConnection(sandbox)
    for _ in range(2):
        with pytest.raises(WorkerLost, match=told):
            connection.call(call)
    assert len(made) == 1


def test_not_found_and_an_exit_status_are_for_the_caller(sandbox: e2b.Sandbox) -> None:
    connection = SandboxConnection(sandbox)
    with pytest.raises(e2b.FileNotFoundException):
        connection.call(lambda: sandbox.files.read("nothing"))
    with pytest.raises(e2b.CommandExitException):
        connection.call(lambda: sandbox.commands.run("exit 3"))
    with pytest.raises(ZeroDivisionError):
        connection.call(lambda: 1 / 0)
    assert not connection.is_lost


def test_a_call_under_way_is_left_when_the_network_is_cut(
    server: Loopback, sandbox: e2b.Sandbox, never: threading.Event
) -> None:
    connection = SandboxConnection(sandbox, outage=2.5)
    server.network.cut()
    with pytest.raises(WorkerLost, match="the sandbox cannot be reached"):
        connection.call(never.wait)
    with pytest.raises(WorkerLost, match="the sandbox cannot be reached"):
        connection.check_alive()
