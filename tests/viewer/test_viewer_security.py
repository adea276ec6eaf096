"""Who may ask, and what a hostile artifact or log can do: each test fails without its guard."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from viewer_lab import FILES, WORKFLOW, Client, client_of, open_state, result_of, view

from project_lab import Lab
from whyrun.viewer.server import Access, address, host_name, known_hosts
from whyrun.viewer.views import content_policy, json_in_html, live_page, script_hash


def answered(client: Client, path: str, **more: Any) -> httpx.Response:
    return result_of(client.get(path, **more))


def raw(client: Client, path: str, **more: Any) -> httpx.Response:
    return result_of(client.raw(path, **more))


# --- the host, the method, the path ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "localhost:port", "[::2]", "127.0.0.1:1:2"]
)
def test_a_wrong_host_is_refused_on_every_route(client: Client, host: str) -> None:
    """DNS rebinding: a page of another name whose address is ours."""
    at = client.access.path
    for path in (
        at,
        f"{at}api/state",
        f"{at}events",
        f"{at}live.js",
        f"{at}blob/{'a' * 64}",
        f"{at}input?id=x",
        "/",
        "/no",
    ):
        assert raw(client, path, headers={"host": host}).status_code == 403


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:9999", "127.0.0.1:1", "[::1]:8080", "[::1]", "lab.example.org:443"]
)
def test_hosts_are_compared_by_name_and_any_port_is_right(client: Client, host: str) -> None:
    """A tunnel comes through another port."""
    assert raw(client, f"{client.access.path}api/state", headers={"host": host}).status_code == 200


def test_names_of_hosts() -> None:
    assert [host_name(text) for text in ("a:1", "A.", "[::1]:80", "[::1", "a:b", "a:123456", "")] == [
        "a", "a", "::1", None, None, None, None,
    ]  # fmt: skip
    assert known_hosts("0.0.0.0", ["Lab.Example.org"]) == {"127.0.0.1", "localhost", "::1", "lab.example.org"}


def test_two_hosts_are_refused(client: Client) -> None:
    """A proxy may look at the first one, and a server at the last one."""
    at = f"{client.access.path}api/state"
    cookie = ("cookie", f"{client.access.cookie}={client.access.key}")
    asked = client.plain.request("GET", at, headers=[("host", "localhost"), ("host", "evil.example"), cookie])
    assert result_of(asked).status_code == 403


def test_a_websocket_is_closed(client: Client) -> None:
    sent: list[Any] = []

    async def never(*message: Any) -> Any:
        sent.append(message)

    result_of(client.app({"type": "websocket", "path": client.access.path, "headers": []}, never, never))
    assert sent == []


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])
def test_only_get(client: Client, method: str) -> None:
    response = raw(client, f"{client.access.path}api/state", method=method)
    assert (response.status_code, response.headers["allow"]) == (405, "GET")


def test_an_unknown_route_is_denied(client: Client) -> None:
    at = client.access.path
    for path in (
        "/",
        "/api/state",
        "/static/app.js",
        f"{at}static",
        f"{at}api",
        f"{at}api/",
        f"{at}api/state/x",
        f"{at}docs",
    ):
        assert raw(client, path).status_code == 404
    assert raw(client, "/", cookies=False).status_code == 404
    answer = answered(client, "api/secrets")
    assert (answer.status_code, answer.json()["diagnostics"][0]["code"]) == (404, "UNKNOWN_REFERENCE")


def test_a_parameter_that_a_view_does_not_have_is_refused(client: Client) -> None:
    answer = answered(client, "api/graph", file="/etc/passwd")
    assert (answer.status_code, answer.json()["diagnostics"][0]["code"]) == (400, "USAGE")


# --- the token and the cookie ----------------------------------------------------------------------------------------


def test_nothing_is_served_without_the_cookie(client: Client) -> None:
    at = client.access.path
    for path in (
        at,
        f"{at}api/state",
        f"{at}events",
        f"{at}live.js",
        f"{at}blob/{'a' * 64}",
        f"{at}input?id=x",
        f"{at}no",
    ):
        assert raw(client, path, cookies=False).status_code == 401
    wrong = {"cookie": f"{client.access.cookie}={'x' * 32}"}
    assert raw(client, f"{at}api/state", headers=wrong).status_code == 401


def test_the_token_is_exchanged_for_a_cookie_and_leaves_the_address(client: Client) -> None:
    access = client.access
    response = raw(client, address("127.0.0.1", access).partition("7780")[2], cookies=False)
    assert (response.status_code, response.headers["location"]) == (303, access.path)
    cookie = response.headers["set-cookie"]
    assert cookie.startswith(f"whyrun-7780={access.key};")
    assert {"HttpOnly", "SameSite=strict", f"Path={access.path}"} <= set(re.split("; ?", cookie))
    assert access.token not in cookie
    assert raw(client, access.path).status_code == 200


def test_a_wrong_token_gives_no_cookie(client: Client) -> None:
    response = raw(client, f"{client.access.path}?token={'x' * 32}")
    assert (response.status_code, "set-cookie" in response.headers) == (401, False)
    assert raw(client, f"{client.access.path}api/state?token={client.access.token}", cookies=False).status_code == 401


def test_the_name_of_the_cookie_has_the_port_and_each_server_its_own_secrets() -> None:
    one, other = Access(1, frozenset()), Access(2, frozenset())
    assert (one.cookie, other.cookie) == ("whyrun-1", "whyrun-2")
    assert len({one.folder, one.token, one.key, other.folder, other.token, other.key}) == 6
    assert min(map(len, (one.folder, one.token, one.key))) >= 16


def test_another_page_of_this_machine_may_not_ask(client: Client) -> None:
    """A page on another port is the same site: it would send our cookie along."""
    for site in ("cross-site", "same-site"):
        assert answered(client, "api/state", headers={"sec-fetch-site": site}).status_code == 403
    assert answered(client, "api/state", headers={"sec-fetch-site": "same-origin"}).status_code == 200


# --- headers ---------------------------------------------------------------------------------------------------------


def test_every_answer_has_the_headers_that_protect_it(client: Client) -> None:
    at = client.access.path
    for path, more in ((f"{at}api/state", {}), (at, {}), ("/no", {}), (f"{at}api/x", {}), (at, {"cookies": False})):
        headers = raw(client, path, **more).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["cross-origin-opener-policy"] == "same-origin"
        assert headers["permissions-policy"] == "camera=(), geolocation=(), microphone=()"
        assert headers["cache-control"] == "no-store"
        assert "'none'" in headers["content-security-policy"]
    policy = "default-src 'none'; sandbox; frame-ancestors 'none'"
    assert answered(client, "api/state").headers["content-security-policy"] == policy


def test_the_page_runs_exactly_its_own_script(client: Client) -> None:
    response = raw(client, client.access.path)
    scripts = re.findall(r"<script(?![^>]*type=)[^>]*>(.*?)</script>", response.text, re.DOTALL)
    policy = response.headers["content-security-policy"]
    assert [f"script-src '{script_hash(script)}'" in policy for script in scripts] == [True]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy


def test_a_report_loads_nothing_from_outside() -> None:
    policy = content_policy("x", live=False)
    assert "'self'" not in policy
    assert "connect-src 'none'" in policy


def test_a_title_and_data_cannot_end_their_element() -> None:
    assert "<script>alert" not in live_page("</title><script>alert(1)</script>", {"x": "</script><script>alert(2)"})
    assert json_in_html("<!--</script>&") == '"\\u003c!--\\u003c/script\\u003e\\u0026"'


# --- contents --------------------------------------------------------------------------------------------------------


def stored(lab: Lab, artifact: str) -> dict[str, Any]:
    return view(open_state(lab), "artifact", id=artifact)["facts"]


def test_no_path_leads_out_of_the_store(client: Client, told: Lab) -> None:
    (told.root / "secret.txt").write_text("what it hides")
    for text in (
        "..%2f..%2fsecret.txt",
        "../../secret.txt",
        "%2e%2e/secret.txt",
        "..",
        "a",
        "A" * 64,
        "%00" * 64,
        "/etc/passwd",
    ):
        response = answered(client, f"blob/{text}")
        assert response.status_code in (401, 404), text
        assert "hides" not in response.text
    for id_ in (
        "Input:../secret.txt",
        "Input:Photos[../../secret]",
        "photos/a.txt",
        "/etc/passwd",
        "Input:Topic",
        "Job:Script",
    ):
        response = answered(client, "input", id=id_)
        assert response.status_code in (400, 404), id_
        assert "hides" not in response.text


def test_only_hashes_that_the_log_names_are_served(client: Client, told: Lab) -> None:
    """The snapshot of a run is in the same store, and holds what a page must not see."""
    from whyrun.log import events as ev

    (computed,) = [e for e in told.events("r0001") if isinstance(e, ev.PlanComputed)]
    assert told.blob(computed.snapshot_sha256).is_file()
    assert answered(client, f"blob/{computed.snapshot_sha256}").status_code == 404
    sha256 = stored(told, "Artifact:Print.Copy[0]")["sha256"]
    response = answered(client, f"blob/{sha256}")
    assert response.status_code == 200
    assert response.content == told.blob(sha256).read_bytes()


def test_an_input_is_served_only_while_it_has_the_observed_content(tmp_path: Path) -> None:
    lab = Lab(tmp_path).write({"workflow.yaml": WORKFLOW, **FILES})
    client = client_of(lab)
    assert answered(client, "input", id="Input:Photos[0]").text == "Ada\n"
    lab.write({"photos/a.txt": "another\n"})
    assert answered(client, "input", id="Input:Photos[0]").status_code == 404


def test_html_of_an_artifact_is_sandboxed(tmp_path: Path) -> None:
    lab = Lab(tmp_path).write({"workflow.yaml": WORKFLOW, **FILES})
    lab.succeed(sets=["Topic=opera"])
    client = client_of(lab)
    from whyrun.project import Project
    from whyrun.viewer.current import StateSource

    client.pages.source = StateSource(lambda: Project.open(lab.file, sets=["Topic=opera"]))
    facts = view(client.pages.source.state(), "artifact", id="Artifact:Epilogue.Copy")["facts"]
    response = answered(client, f"blob/{facts['sha256']}")
    policy = response.headers["content-security-policy"]
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert "sandbox" in policy.split("; ")  # without allow-scripts
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    attached = answered(client, f"blob/{facts['sha256']}", download="1").headers["content-disposition"]
    assert attached.startswith("attachment")


HOSTILE = {
    "a.svg": b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
    "b.html": b"<script>alert(1)</script>",
    "c.bin": b"\x00\x01<script>",
    "d.js": b"alert(1)",
    "e.xml": b"<?xml version='1.0'?><x:script xmlns:x='http://www.w3.org/1999/xhtml'>alert(1)</x:script>",
    "f": b"<!DOCTYPE html><script>alert(1)</script>",
    "g.pdf": b"%PDF-1.7 /JS",
}


def test_no_content_is_served_as_something_that_a_browser_runs(tmp_path: Path) -> None:
    lab = Lab(tmp_path).write({
        "workflow.yaml": """
            workflow: hostile
            inputs: {Files: {type: "file[]", default: "given/*"}}
            loops: {file: {each: inputs.Files}}
            jobs:
              Take:
                for: [file]
                uses: file/copy
                with: {source: "${{ inputs.Files[file] }}"}
                outputs: {File: {type: file}}
        """,
        **{f"given/{name}": data for name, data in HOSTILE.items()},
    })  # fmt: skip
    client = client_of(lab)
    for position, name in enumerate(sorted(HOSTILE)):
        response = answered(client, "input", id=f"Input:Files[{position}]")
        assert response.content == HOSTILE[name]
        assert "javascript" not in response.headers["content-type"]
        assert "sandbox" in response.headers["content-security-policy"]
        assert response.headers["x-content-type-options"] == "nosniff"
        kind = response.headers["content-type"].partition(";")[0]
        framed = kind in ("image/svg+xml", "text/html", "text/plain", "application/xml")
        assert framed or response.headers["content-disposition"].startswith("attachment"), name


def test_a_huge_file_and_many_ranges_fill_no_memory(tmp_path: Path) -> None:
    import tracemalloc

    lab = Lab(tmp_path).write({"workflow.yaml": WORKFLOW, **FILES})
    with (tmp_path / "photos/a.txt").open("wb") as file:
        file.truncate(64 << 20)
    client = client_of(lab)
    asked = {"id": "Input:Photos[0]"}
    part = answered(client, "input", headers={"range": "bytes=67108860-"}, **asked)
    assert (part.status_code, part.headers["content-range"], part.content) == (
        206, f"bytes 67108860-67108863/{64 << 20}", b"\0\0\0\0",
    )  # fmt: skip
    sent = 0

    def count(message: dict[str, Any]) -> None:
        nonlocal sent
        sent += len(message.get("body", b""))

    tracemalloc.start()
    send_input(client, asked["id"], count)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sent == 64 << 20
    assert most < 16 << 20
    many = ",".join(f"{i}-{i}" for i in range(0, 4000, 2))
    assert answered(client, "input", headers={"range": f"bytes={many}"}, **asked).status_code in (200, 206, 416)


def send_input(client: Client, id_: str, send: Callable[[dict[str, Any]], None]) -> None:
    """Ask for an input file; `send` gets each message of the answer before the next one is made."""

    async def send_one(message: dict[str, Any]) -> None:
        send(message)

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(3600)
        return {"type": "http.disconnect"}

    cookie = f"{client.access.cookie}={client.access.key}".encode()
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": f"{client.access.path}input", "raw_path": b"", "root_path": "",
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 7780),
        "query_string": f"id={quote(id_)}".encode(),
        "headers": [(b"host", b"127.0.0.1"), (b"cookie", cookie)],
    }  # fmt: skip
    result_of(client.app(scope, receive, send_one))


@pytest.mark.parametrize("replaced", [True, False])
def test_what_is_sent_is_what_was_hashed(tmp_path: Path, replaced: bool) -> None:
    """Another file under the same name is not sent; of a file that is written to, no more is sent."""
    lab = Lab(tmp_path).write({"workflow.yaml": WORKFLOW, **FILES, "photos/a.txt": "old " * 100_000})
    path, other = tmp_path / "photos/a.txt", tmp_path / "other"
    other.write_text("new " * 100_000)
    client = client_of(lab)
    body: list[bytes] = []

    def change(message: dict[str, Any]) -> None:
        body.append(message.get("body", b""))
        if len(body) == (1 if replaced else 2):  # after the head; after the first piece
            if replaced:
                other.replace(path)
            else:
                path.write_text("new " * 100_001)

    send_input(client, "Input:Photos[0]", change)
    assert b"new" not in b"".join(body)
    assert (len(b"".join(body)) == 400_000) is replaced
    assert len(b"".join(body)) >= 4


def test_a_stored_content_that_is_damaged_is_not_sent(client: Client, told: Lab) -> None:
    sha256 = stored(told, "Artifact:Print.Copy[1]")["sha256"]
    blob = told.blob(sha256)
    right = blob.read_bytes()
    blob.chmod(0o644)
    try:
        blob.write_bytes(b"wrong")
        assert answered(client, f"blob/{sha256}").status_code == 404
    finally:
        blob.write_bytes(right)
    assert answered(client, f"blob/{sha256}").content == right


# --- text that somebody else wrote -----------------------------------------------------------------------------------


def test_text_of_steps_stays_text(client: Client, told: Lab) -> None:
    """Errors, what steps print, descriptions: JSON, which a browser shows as text and never as a page."""
    for path, parameters in (("api/state", {}), ("api/why", {"id": "Job:Check"}), ("api/run", {"id": "r0003"})):
        response = answered(client, path, **parameters)
        assert response.headers["content-type"] == "application/json"
        assert response.headers["x-content-type-options"] == "nosniff"
    failure = answered(client, "api/why", id="Job:Check").json()["failure"]
    assert failure["error"] == "<script>alert('error')</script>"
    assert failure["stderr"] == ["<script>alert(1)</script>"]


def test_an_assumed_path_is_refused(client: Client) -> None:
    """A path would tell the page which files exist, and their hashes."""
    for path in ("/etc/passwd", "story.py", "../x"):
        answer = answered(client, "api/whatif", assume=f"Input:Photos[0]={path}")
        assert (answer.status_code, answer.json()["diagnostics"][0]["code"]) == (400, "USAGE")
    assert answered(client, "api/whatif", assume="Input:Photos[0]=changed").status_code == 200
    assert answered(client, "api/whatif", assume="Input:Topic=/etc/passwd").status_code == 200
