"""The loopback server works with the real SDK. The other E2B tests build on it."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import e2b
import pytest
from loopback.exchange import Refused
from loopback.faults import Faults
from loopback.sandbox import HOME
from loopback.server import Loopback

PATIENCE = 300.0  # seconds; how long a condition may take on a loaded machine


def until(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.01)
    raise AssertionError(f"{what}: not within {PATIENCE:g} s")


@pytest.fixture
def sandbox(server: Loopback) -> e2b.Sandbox:
    return e2b.Sandbox.create(timeout=600, **server.options())


def inside(server: Loopback, sandbox: e2b.Sandbox) -> Any:
    return server.sandboxes[sandbox.sandbox_id]


class Heard:
    """What a background command says, read in a thread of its own."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.items: queue.Queue[Any] = queue.Queue()
        self.text = ""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            for stdout, _, _ in self.handle:
                self.text += stdout or ""
            self.items.put("the stream ended")
        except Exception as problem:
            self.items.put(problem)

    def ending(self) -> Any:
        return self.items.get(timeout=PATIENCE)


# --- sandboxes ---------------------------------------------------------------------------------------------------


def test_a_sandbox_is_made_found_prolonged_and_deleted(server: Loopback) -> None:
    sandbox = e2b.Sandbox.create("mine", timeout=100, metadata={"run": "r0001"}, envs={"GREETING": "hi"})
    info = sandbox.get_info()
    assert (info.template_id, info.metadata, info.state.value) == ("mine", {"run": "r0001"}, "running")
    assert 90 <= (info.end_at - info.started_at).total_seconds() <= 110
    sandbox.set_timeout(1000)
    prolonged = sandbox.get_info()
    assert (prolonged.end_at - prolonged.started_at).total_seconds() >= 900
    assert [found.sandbox_id for found in e2b.Sandbox.list(**server.options()).next_items()] == [sandbox.sandbox_id]
    assert e2b.Sandbox.connect(sandbox.sandbox_id, **server.options()).commands.run("echo $GREETING").stdout == "hi\n"
    assert sandbox.is_running()
    assert sandbox.kill()
    assert not sandbox.is_running()
    assert not sandbox.kill()
    with pytest.raises(e2b.NotFoundException):
        e2b.Sandbox.get_info(sandbox.sandbox_id, **server.options())
    with pytest.raises(e2b.TimeoutException, match="The sandbox was not found"):
        sandbox.commands.run("true")
    assert not inside(server, sandbox).root.exists()


def test_a_sandbox_ends_when_its_time_is_over_with_all_that_runs_in_it(server: Loopback, sandbox: e2b.Sandbox) -> None:
    heard = Heard(sandbox.commands.run("sleep 600 & echo $!; wait", background=True, timeout=0))
    child = int(until(lambda: heard.text.endswith("\n") and heard.text, "the child's pid"))
    sandbox.set_timeout(0)
    assert isinstance(heard.ending(), e2b.TimeoutException)
    until(lambda: not Path(f"/proc/{child}").exists(), "the end of the child")
    until(lambda: not inside(server, sandbox).root.exists(), "the end of its files")


def test_a_wrong_key_and_a_refusal_are_told(server: Loopback) -> None:
    with pytest.raises(e2b.AuthenticationException, match="Invalid API key"):
        e2b.Sandbox.create(**{**server.options(), "api_key": "e2b_" + "1" * 40})
    server.refuse_sandboxes = Refused(400, "no such template")
    with pytest.raises(e2b.SandboxException, match="400: no such template"):
        e2b.Sandbox.create("unknown", **server.options())
    assert server.sandboxes == {}


# --- files -------------------------------------------------------------------------------------------------------


def test_files_go_in_and_come_back_byte_for_byte(server: Loopback, sandbox: e2b.Sandbox, tmp_path: Path) -> None:
    binary = bytes(range(256)) * 40_000  # 10 MB
    sandbox.files.write("folder/binary", binary)
    assert sandbox.files.read(f"{HOME}/folder/binary", format="bytes") == binary
    assert b"".join(sandbox.files.read("folder/binary", format="stream")) == binary
    (tmp_path / "local").write_bytes(binary[:1_000_001])
    with open(tmp_path / "local", "rb") as file:  # streamed
        sandbox.files.write("streamed", file)
    sandbox.files.write("packed", binary, gzip=True)
    sandbox.files.write("text", "größer\r\n--x")
    assert sandbox.files.read("streamed", format="bytes") == binary[:1_000_001]
    assert sandbox.files.read("packed", format="bytes") == binary
    assert sandbox.commands.run("cat text").stdout == "größer\r\n--x"
    many = [{"path": f"many/{n}", "data": bytes([n]) * n} for n in range(100)]
    sandbox.files.write_files(many)
    assert {entry.name: entry.size for entry in sandbox.files.list("many")} == {str(n): n for n in range(100)}


def test_folders_are_made_listed_moved_and_removed(sandbox: e2b.Sandbox) -> None:
    assert sandbox.files.make_dir("a/b")
    assert not sandbox.files.make_dir("a/b")
    sandbox.files.write("a/b/c", b"c")
    assert [entry.name for entry in sandbox.files.list("a", depth=2)] == ["b", "c"]
    sandbox.files.rename("a/b/c", "a/d")
    assert sandbox.files.exists("a/d")
    assert not sandbox.files.exists("a/b/c")
    sandbox.commands.run("ln -s d a/link")
    link = sandbox.files.get_info("a/link")
    assert (link.type, link.symlink_target) == (e2b.FileType.SYMLINK, "d")
    sandbox.files.remove("a")
    assert not sandbox.files.exists("a")
    for missing in (lambda: sandbox.files.read("a/d"), lambda: sandbox.files.list("a")):
        with pytest.raises(e2b.NotFoundException):
            missing()


# --- commands ----------------------------------------------------------------------------------------------------


def test_a_command_runs_in_the_home_folder_with_a_clean_environment(server: Loopback, sandbox: e2b.Sandbox) -> None:
    result = sandbox.commands.run("pwd; echo $HOME $USER; env; echo E >&2")
    home, user, *variables = result.stdout.splitlines()
    assert (home, user) == (str(inside(server, sandbox).home), f"{home} user")
    assert (result.stderr, result.exit_code) == ("E\n", 0)
    assert os.environ["PYTEST_CURRENT_TEST"]
    assert not [variable for variable in variables if variable.startswith("PYTEST_")]
    assert sandbox.commands.run("pwd; echo $X", cwd=HOME, envs={"X": "1"}).stdout == f"{home}\n1\n"
    with pytest.raises(e2b.CommandExitException) as failed:
        sandbox.commands.run("echo out; echo err >&2; exit 7")
    assert (failed.value.exit_code, failed.value.stdout, failed.value.stderr) == (7, "out\n", "err\n")


def test_a_background_command_takes_input_and_is_listed(sandbox: e2b.Sandbox) -> None:
    handle = sandbox.commands.run("cat; echo; wc -c </dev/null", background=True, stdin=True, timeout=0)
    (listed,) = sandbox.commands.list()
    assert (listed.pid, listed.cmd, listed.args[2]) == (handle.pid, "/bin/bash", "cat; echo; wc -c </dev/null")
    handle.send_stdin("one ")
    sandbox.commands.stream_input(handle.pid, ["two ", b"three"])
    handle.close_stdin()
    assert handle.wait().stdout == "one two three\n0\n"
    assert sandbox.commands.list() == []


def test_kill_ends_the_process_itself_and_not_what_it_started(sandbox: e2b.Sandbox) -> None:
    """As the real agent does; who wants the group ended must say so."""
    handle = sandbox.commands.run("sleep 600 >/dev/null 2>&1 & echo $!; wait", background=True, timeout=0)
    heard = Heard(handle)
    child = int(until(lambda: heard.text.endswith("\n") and heard.text, "the child's pid"))
    assert handle.kill()
    assert heard.ending() == "the stream ended"
    assert Path(f"/proc/{child}").exists()
    assert not handle.kill()
    with pytest.raises(e2b.CommandExitException) as killed:
        handle.wait()
    assert (killed.value.exit_code, killed.value.error) == (-1, "signal: killed")


def test_the_timeout_of_a_command_ends_it(sandbox: e2b.Sandbox) -> None:
    with pytest.raises(e2b.TimeoutException):
        sandbox.commands.run("sleep 600", timeout=0.5)
    until(lambda: sandbox.commands.list() == [], "the end of the command")


# --- what goes wrong ---------------------------------------------------------------------------------------------


def test_small_chunks_split_lines_and_characters_and_lose_nothing(server: Loopback, sandbox: e2b.Sandbox) -> None:
    faults = inside(server, sandbox).faults
    faults.chunk, faults.frame_delay = 3, 0.001
    text = "Zeile mit Ümläuten und 🎈\n" * 20
    sandbox.files.write("text", text)
    assert sandbox.commands.run("cat text; cat text >&2") == e2b.CommandResult(
        stdout=text, stderr=text, exit_code=0, error=None
    )


def test_a_dropped_stream_leaves_the_command_running_and_what_came_meanwhile_is_not_repeated(
    server: Loopback, sandbox: e2b.Sandbox
) -> None:
    inside(server, sandbox).faults.drop_streams_after = [5]
    handle = sandbox.commands.run("echo 12345678; read line; echo got $line", background=True, stdin=True, timeout=0)
    heard = Heard(handle)
    assert isinstance(heard.ending(), e2b.TimeoutException)
    assert heard.text == "12345"
    again = Heard(sandbox.commands.connect(handle.pid, timeout=0))
    sandbox.commands.send_stdin(handle.pid, "it\n")
    assert again.ending() == "the stream ended"
    assert again.text == "got it\n"
    with pytest.raises(e2b.NotFoundException):
        sandbox.commands.connect(handle.pid)


def test_requests_and_answers_get_lost_as_often_as_asked(server: Loopback, sandbox: e2b.Sandbox) -> None:
    faults = inside(server, sandbox).faults
    handle = sandbox.commands.run("cat", background=True, stdin=True, timeout=0)
    faults.drop_requests["SendInput"] = 1
    with pytest.raises(e2b.TimeoutException, match="could not be reached"):
        handle.send_stdin("dropped ")
    faults.lose_answers["SendInput"] = 1
    with pytest.raises(e2b.TimeoutException, match="could not be reached"):
        handle.send_stdin("done without an answer ")
    handle.send_stdin("done")
    handle.close_stdin()
    assert handle.wait().stdout == "done without an answer done"


def test_a_closed_port_is_not_a_dead_sandbox(server: Loopback, sandbox: e2b.Sandbox) -> None:
    inside(server, sandbox).faults.port_closed = True
    with pytest.raises(e2b.TimeoutException, match="port is not open"):
        sandbox.commands.run("true")
    inside(server, sandbox).faults.port_closed = False
    assert sandbox.commands.run("echo back").stdout == "back\n"


def test_while_the_network_is_cut_nothing_arrives_and_afterwards_all_goes_on(tmp_path: Path) -> None:
    with Loopback(tmp_path, Faults(chunk=2)) as server:
        sandbox = e2b.Sandbox.create(timeout=600, **server.options())
        handle = sandbox.commands.run("read line; echo $line", background=True, stdin=True, timeout=0)
        heard = Heard(handle)
        server.network.cut()
        with pytest.raises(e2b.TimeoutException):
            handle.send_stdin("lost\n", request_timeout=5)
        assert heard.text == ""
        server.network.mend()
        assert heard.ending() == "the stream ended"
        assert heard.text == "lost\n"  # it was on its way: the other side got it after all


def test_a_server_that_dies_resets_what_runs_and_refuses_what_comes(server: Loopback, sandbox: e2b.Sandbox) -> None:
    heard = Heard(sandbox.commands.run("sleep 600", background=True, timeout=0))
    server.die()
    assert isinstance(heard.ending(), e2b.TimeoutException)
    with pytest.raises(e2b.TimeoutException, match="could not be reached"):
        sandbox.commands.list(request_timeout=5)
    assert inside(server, sandbox).real_processes() != []
    server.close()
    assert inside(server, sandbox).real_processes() == []
