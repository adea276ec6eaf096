"""`whyrun view` and `whyrun report`: the real commands, and the real server."""

from __future__ import annotations

import json
import signal
import socket
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))

from cli_lab import COMMAND, whyrun

from project_lab import Lab


def test_the_first_line_is_the_address_and_ctrl_c_ends_it(told: Lab) -> None:
    words = [*COMMAND, "view", "--port", "0", "--no-open"]
    with subprocess.Popen(words, cwd=told.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        with browser.open(address, timeout=300) as response:
            page, own = response.read().decode(), response.geturl()
        assert '"mode":"live"' in page
        assert "token" not in own
        with browser.open(f"{own}api/state", timeout=300) as response:
            assert json.load(response)["workflow"] == "stories"
        with browser.open(f"{own}live.js", timeout=300) as response:
            assert response.headers["content-type"].startswith("text/javascript")
        with browser.open(f"{own}events", timeout=300) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            assert response.readline() == b"retry: 1000\n"
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=300) in (0, 130)
        with pytest.raises(urllib.error.URLError):
            browser.open(own, timeout=300)
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def test_another_host_warns_and_names_that_are_allowed_are_known(told: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    from whyrun.cli.main import cli
    from whyrun.viewer import server

    served: list[server.Access] = []

    def not_served(listener: socket.socket, source: object, views: object, access: server.Access) -> None:
        listener.close()
        served.append(access)

    monkeypatch.setattr(server, "serve", not_served)
    words = ["view", str(told.file), "--no-open", "--port", "0"]
    answer = CliRunner().invoke(cli, [*words, "--host", "0.0.0.0", "--allow-host", "lab.example.org:8443"])
    assert answer.exit_code == 0, answer.output
    assert answer.stdout.startswith("http://127.0.0.1:")
    assert "0.0.0.0 can be reached from other machines, without encryption" in answer.stderr
    assert served[0].knows_host("lab.example.org")
    assert CliRunner().invoke(cli, words).stderr == ""
    assert not served[1].knows_host("lab.example.org")


def test_a_port_in_use_is_an_error_that_says_what_to_do(told: Lab) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        answer = whyrun(told.root, "view", "--no-open", "--port", str(taken.getsockname()[1]))
    assert answer.code == 2
    assert "error[USAGE]: cannot listen on 127.0.0.1, port" in answer.err
    assert "`--port 0` takes a free port" in answer.err


def test_a_missing_file_is_an_error_before_anything_listens(told: Lab) -> None:
    answer = whyrun(told.root, "view", "no.yaml", "--no-open", "--port", "0", "--json")
    assert (answer.code, answer.json["diagnostics"][0]["code"]) == (2, "FILE_MISSING")


def test_the_command_writes_one_file_that_only_the_user_may_read(told: Lab, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    answer = whyrun(told.root, "report", "-o", str(path), "--json")
    assert (answer.code, answer.json) == (
        0, {"path": str(path), "size": path.stat().st_size, "run": None, "left_out": []},
    )  # fmt: skip
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text().startswith("<!doctype html>")
    assert whyrun(told.root, "report", "-o", str(path)).code == 0, "a report may be replaced"
    path.write_text("my notes")
    assert whyrun(told.root, "report", "-o", "-").err.startswith("error[USAGE]: a report is a file\n")
    refused = whyrun(told.root, "report", "-o", str(path))
    assert (refused.code, path.read_text()) == (2, "my notes")
    assert "error[USAGE]" in refused.err
