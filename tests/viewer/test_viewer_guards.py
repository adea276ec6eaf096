"""Each guard of the server is taken away, one at a time: then a test of `test_viewer_security.py` fails.

A guard is taken away by compiling its function again with one piece of its source replaced. If nobody notices, the
guard does nothing, or nothing checks it.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import test_viewer_report as reported
import test_viewer_security as safety
from viewer_lab import Client, client_of

from project_lab import Lab
from whyrun.facts import previews
from whyrun.viewer import contents, questions, server, views
from whyrun.viewer import report as report_module
from whyrun.viewer.contents import NamedContents, Served
from whyrun.viewer.server import HEADERS, Access, Guard, Pages


@dataclass
class Given:
    """What the tests are called with: everything is made after the guard is gone."""

    told: Lab
    tmp_path: Path
    monkeypatch: pytest.MonkeyPatch

    @property
    def client(self) -> Client:
        return client_of(self.told, "lab.example.org")


def on_client(test: Callable[..., None], *arguments: Any) -> Callable[[Given], None]:
    return lambda given: test(given.client, *arguments)


def on_folder(test: Callable[..., None], *arguments: Any) -> Callable[[Given], None]:
    return lambda given: test(given.tmp_path, *arguments)


def on_told(test: Callable[..., None]) -> Callable[[Given], None]:
    return lambda given: test(given.client, given.told)


def alone(test: Callable[[], None]) -> Callable[[Given], None]:
    return lambda given: test()


NO_GUARD = "False"
# The guard: (owner, function, piece of its source, what stands there instead), and the test that then fails.
GUARDS: dict[str, tuple[tuple[Any, str, str, str], Callable[[Given], None]]] = {
    "unknown host": (
        (Guard, "refuse", "not access.knows_host(hosts[0])", NO_GUARD),
        on_client(safety.test_a_wrong_host_is_refused_on_every_route, "evil.example"),
    ),
    "two hosts": (
        (Guard, "refuse", "len(hosts) != 1", "not hosts"),
        on_client(safety.test_two_hosts_are_refused),
    ),
    "host with a port that is none": (
        (server, "host_name", "and _is_port(colon + port)", ""),
        on_client(safety.test_a_wrong_host_is_refused_on_every_route, "localhost:port"),
    ),
    "other methods": (
        (Guard, "refuse", 'request.method != "GET"', NO_GUARD),
        on_client(safety.test_only_get, "POST"),
    ),
    "websockets": (
        (Guard, "__call__", 'scope["type"] != "http"', NO_GUARD),
        on_client(safety.test_a_websocket_is_closed),
    ),
    "outside of the folder": (
        (Guard, "refuse", "not request.url.path.startswith(access.path)", NO_GUARD),
        on_client(safety.test_an_unknown_route_is_denied),
    ),
    "token": (
        (Guard, "_exchange", "not _equal(token, self.access.token)", NO_GUARD),
        on_client(safety.test_a_wrong_token_gives_no_cookie),
    ),
    "token elsewhere": (
        (Guard, "refuse", "request.url.path == access.path and given is not None", "given is not None"),
        on_client(safety.test_a_wrong_token_gives_no_cookie),
    ),
    "cookie": (
        (Guard, "refuse", 'not _equal(request.cookies.get(access.cookie, ""), access.key)', NO_GUARD),
        on_client(safety.test_nothing_is_served_without_the_cookie),
    ),
    "cookie for scripts": (
        (Guard, "_exchange", "httponly=True", "httponly=False"),
        on_client(safety.test_the_token_is_exchanged_for_a_cookie_and_leaves_the_address),
    ),
    "cookie for other sites": (
        (Guard, "_exchange", 'samesite="strict"', 'samesite="none"'),
        on_client(safety.test_the_token_is_exchanged_for_a_cookie_and_leaves_the_address),
    ),
    "cookie for all paths": (
        (Guard, "_exchange", "path=self.access.path", 'path="/"'),
        on_client(safety.test_the_token_is_exchanged_for_a_cookie_and_leaves_the_address),
    ),
    "other pages of this machine": (
        (Guard, "refuse", 'request.headers.get("sec-fetch-site", "none") not in', "'none' not in"),
        on_client(safety.test_another_page_of_this_machine_may_not_ask),
    ),
    "headers": (
        (server, "_with_headers", "*message[\"headers\"], *extra", '*message["headers"]'),
        on_client(safety.test_every_answer_has_the_headers_that_protect_it),
    ),
    "unknown parameters": (
        (views, "_check", "name not in known", NO_GUARD),
        on_client(safety.test_a_parameter_that_a_view_does_not_have_is_refused),
    ),
    "hashes that the log does not name": (
        (NamedContents, "find", "None if found is None else Named(sha256, *found)", 'Named(sha256, 1, "file", "")'),
        on_told(safety.test_only_hashes_that_the_log_names_are_served),
    ),
    "what is no hash": (
        (contents, "known_content", "if is_sha256(sha256) else None", ""),
        on_told(safety.test_no_path_leads_out_of_the_store),
    ),
    "inputs that are no files": (
        (contents, "served_input", "value.path is None", NO_GUARD),
        on_told(safety.test_no_path_leads_out_of_the_store),
    ),
    "other contents": (
        (Pages, "_file", "self._hashes[version] != served.sha256", NO_GUARD),
        on_folder(safety.test_an_input_is_served_only_while_it_has_the_observed_content),
    ),
    "damaged contents": (
        (Pages, "_file", "self._hashes[version] != served.sha256", NO_GUARD),
        on_told(safety.test_a_stored_content_that_is_damaged_is_not_sent),
    ),
    "scripts of artifacts": (
        (server, "ARTIFACT_POLICY", "sandbox; ", ""),
        on_folder(safety.test_html_of_an_artifact_is_sandboxed),
    ),
    "what a browser could run": (
        (contents, "served_input", "kind in ACTIVE", NO_GUARD),
        on_folder(safety.test_no_content_is_served_as_something_that_a_browser_runs),
    ),
    "paths in assumptions": (
        (questions, "_refuse_path", "if is_path:", "if False:"),
        on_client(safety.test_an_assumed_path_is_refused),
    ),
    "one script": (
        (views, "content_policy", "f\"'{script_hash(script)}'\"", '"\'unsafe-inline\'"'),
        on_client(safety.test_the_page_runs_exactly_its_own_script),
    ),
    "report without a network": (
        (views, "content_policy", "\"'self'\" if live else \"'none'\"", "\"'self'\""),
        alone(safety.test_a_report_loads_nothing_from_outside),
    ),
    "title": (
        (views, "head", "<title>{escape(title)}</title>", "<title>{title}</title>"),
        alone(safety.test_a_title_and_data_cannot_end_their_element),
    ),
    "data in the page": (
        (views, "json_in_html", '.replace("<", "\\\\u003c")', ""),
        alone(safety.test_a_title_and_data_cannot_end_their_element),
    ),
    "secrets in reports": (
        (report_module._Writer, "_refuse_secret", "self.secrets.found_in(data)", NO_GUARD),
        lambda given: reported.test_a_known_secret_is_refused(partial(lab_of, given.tmp_path), given.monkeypatch),
    ),
}  # fmt: skip


def lab_of(root: Path, workflow: str, files: dict[str, str]) -> Lab:
    return Lab(root).write({"workflow.yaml": workflow, **files})


def take_away(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, old: str, new: str) -> None:
    """The same function or text with another piece in its source."""
    whole = getattr(owner, name)
    if isinstance(whole, str):
        assert old in whole
        monkeypatch.setattr(owner, name, whole.replace(old, new))
        return
    source = textwrap.dedent(inspect.getsource(whole))
    assert source.count(old) == 1, f"{name} has no guard `{old}`"
    made: dict[str, Any] = {}
    exec(compile(source.replace(old, new), f"<{name} without a guard>", "exec"), whole.__globals__, made)
    monkeypatch.setattr(owner, name, made[name])
    for module in (server, contents, questions, views, report_module, safety):  # that imported it by name
        if getattr(module, name, None) is whole:
            monkeypatch.setattr(module, name, made[name])


@pytest.mark.parametrize("name", GUARDS)
def test_without_its_guard_a_test_fails(name: str, told: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (owner, function, old, new), test = GUARDS[name]
    take_away(monkeypatch, owner, function, old, new)
    with pytest.raises((AssertionError, ValueError, AttributeError, TypeError, KeyError, pytest.fail.Exception)):
        test(Given(told, tmp_path, monkeypatch))


@pytest.mark.parametrize("header", HEADERS)
def test_without_a_header_a_test_fails(header: str, told: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(HEADERS, header)
    with pytest.raises((AssertionError, KeyError)):
        safety.test_every_answer_has_the_headers_that_protect_it(client_of(told))


def test_guards_that_are_classes_and_tables(told: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in one piece, opened again, or written to while it is sent; a cookie without the port; any type."""
    with monkeypatch.context() as patch:
        patch.setattr(server._OpenFile, "chunk_size", 1 << 30)
        with pytest.raises(AssertionError):
            safety.test_a_huge_file_and_many_ranges_fill_no_memory(made(tmp_path / "huge"))
    with monkeypatch.context() as patch:
        patch.setattr(server, "_OpenFile", OpenedAgain)
        with pytest.raises(AssertionError):
            safety.test_what_is_sent_is_what_was_hashed(made(tmp_path / "again"), True)
    with monkeypatch.context() as patch:
        patch.setattr(server, "_version", lambda descriptor: (descriptor, 0))
        with pytest.raises(AssertionError):
            safety.test_what_is_sent_is_what_was_hashed(made(tmp_path / "sent"), False)
    with monkeypatch.context() as patch:
        patch.setattr(Access, "cookie", property(lambda self: "whyrun"))
        with pytest.raises(AssertionError):
            safety.test_the_name_of_the_cookie_has_the_port_and_each_server_its_own_secrets()
    with monkeypatch.context() as patch:
        patch.setattr(contents, "kind_of", lambda *given: ("text", "text/javascript"))
        with pytest.raises(AssertionError):
            safety.test_no_content_is_served_as_something_that_a_browser_runs(made(tmp_path / "types"))
    assert previews.kind_of("file", ".js", None)[1] != "text/javascript"


class OpenedAgain(server._OpenFile):
    def __init__(self, descriptor: int, version: Any, served: Served, *more: Any, **named: Any) -> None:
        super().__init__(descriptor, version, served, *more, **named)
        self.path = served.path


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder
