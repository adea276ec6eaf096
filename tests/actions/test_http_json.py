"""`http/json` against a real loopback service, through real runs: requests, second tries, answers that are none."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from http_lab import Asked, Reply, Service, free_port

from project_lab import Lab, Ran, codes
from whyrun.actions.http.exchange import ABSENT, same, value_at, with_query
from whyrun.errors import InvalidError
from whyrun.log import events as ev

Make = Callable[..., Lab]
QUICK = {"max": 3, "backoff": "10ms"}
ANSWER = {"Answer": {"type": "json"}}


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as service:
        yield service


def flow(jobs: dict[str, dict[str, Any]], inputs: dict[str, Any] | None = None, **more: Any) -> str:
    """A workflow of `http/json` jobs. JSON is YAML."""
    made = {name: {"uses": "http/json", "with": with_, "outputs": ANSWER, **more} for name, with_ in jobs.items()}
    return json.dumps({"workflow": "w", "inputs": inputs or {}, "jobs": made})


def errors(ran: Ran) -> dict[str, tuple[str, str]]:
    """Job → error type and message, of every failed attempt."""
    return {e.step_id.removeprefix("Job:"): (e.error_type, e.error) for e in ran.of(ev.StepFailed)}


def said(ran: Ran, job: str) -> list[str]:
    """What the step wrote into its log."""
    assert ran.folder is not None
    log = ran.folder / "steps" / job / "stderr.log"
    return log.read_text().splitlines() if log.exists() else []


# --- arrays ------------------------------------------------------------------------------------------------------


def test_a_list_or_an_object_in_an_answer_is_an_array(project: Make, service: Service) -> None:
    """Issue 20, number 3."""
    service.answer("GET /parts", Reply(200, {"parts": {"a": {"n": 1}, "b c": [2]}, "names": ["x", "y"]}))
    answers = {"Parts": ("/parts", "json[]"), "Names": ("/names", "string[]"), "Wrong": ("/names", "integer[]")}
    jobs = {
        name: {
            "uses": "http/json",
            "with": {"url": f"{service.url}/parts", "result": result},
            "outputs": {"Answer": {"type": type_, "path": f"out/{name}"}},
        }
        for name, (result, type_) in answers.items()
    }
    lab = project(json.dumps({"workflow": "w", "jobs": jobs}))
    ran = lab.run()
    assert errors(ran) == {
        "Wrong": ("WrongOutputType", "`Answer[0]` is declared as integer, but is str: 'x'"),
    }
    made = {e.artifact: e.value for e in ran.of(ev.ArtifactAvailable) if e.type in ("json", "string")}
    assert sorted(made) == [
        "Artifact:Names.Answer[0]", "Artifact:Names.Answer[1]", 'Artifact:Parts.Answer["b c"]',
        "Artifact:Parts.Answer[a]",
    ]  # fmt: skip
    assert (made["Artifact:Names.Answer[1]"], lab.read("out/Parts/b c.json")) == ("y", "[2]")


# --- requests ----------------------------------------------------------------------------------------------------


def test_a_request_says_what_the_job_says_and_the_answer_is_an_artifact(project: Make, service: Service) -> None:
    service.answer("POST /things", Reply(201, {"made": {"id": 7, "name": "é"}}))
    service.answer("GET /things", Reply(200, [1, 2.5, None]))
    lab = project(
        flow(
            {
                "Make": {
                    "url": f"{service.url}/things?v=1",
                    "headers": {"X-Kind": "plain"},
                    "query": {"tags": ["a", "b c"], "deep": True, "n": 3, "none": None},
                    "json": {"topic": "${{ inputs.Topic }}", "list": [1, {"x": None}]},
                    "result": "/made",
                },
                "List": {"url": f"{service.url}/things"},
            },
            {"Topic": {"type": "string", "default": "cinéma"}},
        )
    )
    lab.succeed(jobs=1)
    assert lab.content("Artifact:Make.Answer") == {"id": 7, "name": "é"}
    assert lab.content("Artifact:List.Answer") == [1, 2.5, None]
    made, listed = sorted(service.asked, key=lambda one: one.method, reverse=True)
    assert str(made) == "POST /things?v=1&deep=true&n=3&none=&tags=a&tags=b+c"
    assert made.json == {"topic": "cinéma", "list": [1, {"x": None}]}
    assert made.headers == {
        "host": service.url.removeprefix("http://"),
        "accept-encoding": "identity",
        "content-length": str(len(made.body)),
        "x-kind": "plain",
        "content-type": "application/json",
        "user-agent": "whyrun",
        "accept": "application/json",
    }
    assert (str(listed), listed.body, "content-type" in listed.headers) == ("GET /things", b"", False)
    assert lab.plan().headlines() == {}, "an answer is not asked for again"
    lab.edit("workflow.yaml", "cin\\u00e9ma", "theatre")
    assert codes(lab.plan()) == {"Job:Make": ["INPUT_CHANGED"]}


def test_bodies_are_texts_or_files_and_the_bytes_of_an_answer_may_be_an_output(project: Make, service: Service) -> None:
    picture = bytes(range(256)) * 400
    service.answer("PUT /file", lambda asked: Reply(200, {"size": len(asked.body)}))
    service.answer("POST /text", lambda asked: Reply(200, asked.body[::-1]))
    service.answer("GET /both", Reply(200, {"a": 1}))
    jobs = {
        "File": {
            "uses": "http/json",
            "with": {"url": f"{service.url}/file", "method": "PUT", "body": "${{ inputs.Picture }}"},
            "outputs": ANSWER,
        },
        "Text": {
            "uses": "http/json",
            "with": {"url": f"{service.url}/text", "body": "abc", "headers": {"Content-Type": "text/plain"}},
            "outputs": {"Body": {"type": "file", "path": "out/answer.bin"}},
        },
        "Both": {
            "uses": "http/json",
            "with": {"url": f"{service.url}/both"},
            "outputs": {**ANSWER, "Body": {"type": "text"}},
        },
    }
    inputs = {"Picture": {"type": "file", "default": "picture.bin"}}
    lab = project(json.dumps({"workflow": "w", "inputs": inputs, "jobs": jobs}), {"picture.bin": picture})
    lab.succeed()
    assert lab.content("Artifact:File.Answer") == {"size": len(picture)}
    (put,) = [one for one in service.asked if one.method == "PUT"]
    assert (put.body, put.headers["content-length"]) == (picture, str(len(picture)))
    assert lab.read("out/answer.bin") == "cba"
    assert (lab.content("Artifact:Both.Answer"), lab.content("Artifact:Both.Body")) == ({"a": 1}, '{"a": 1}')


def test_what_an_answer_names_can_be_downloaded_and_no_secret_goes_to_another_server(
    project: Make, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHYRUN_TEST_TOKEN", "tok-1234567")
    with Service() as other:
        picture = b"\x89PNG" + bytes(200_000)
        other.answer("GET /picture", Reply(503), Reply(200, picture))
        service.answer("POST /draw", Reply(200, {"images": [{"url": f"{other.url}/picture?sig=1"}]}))
        service.answer("GET /own", Reply(200, {"url": "/there"})).answer("GET /there", Reply(200, b"own"))
        headers = {"Authorization": "Bearer ${{ secrets.WHYRUN_TEST_TOKEN }}"}
        common = {"headers": headers, "retries": QUICK}
        jobs = {
            "Draw": {
                "uses": "http/json",
                "secrets": ["WHYRUN_TEST_TOKEN"],
                "with": {"url": f"{service.url}/draw", "json": {}, "download": "/images/0/url", **common},
                "outputs": {"Body": {"type": "image", "path": "out/a.png"}, **ANSWER},
            },
            "Own": {
                "uses": "http/json",
                "secrets": ["WHYRUN_TEST_TOKEN"],
                "with": {"url": f"{service.url}/own", "download": "/url", **common},
                "outputs": {"Body": {"type": "file", "path": "out/own"}},
            },
        }
        lab = project(json.dumps({"workflow": "w", "jobs": jobs}))
        lab.succeed()
        assert (lab.root / "out/a.png").read_bytes() == picture
        assert lab.read("out/own") == "own"
        assert other.heard() == ["GET /picture?sig=1"] * 2
        assert {one.headers.get("authorization") for one in other.asked} == {None}
        assert {one.headers.get("authorization") for one in service.asked} == {"Bearer tok-1234567"}


def test_parameters_that_make_no_sense_are_found_before_anything_is_sent(project: Make, service: Service) -> None:
    poll = {"id": "/id", "url": "http://h/{id}", "until": {"/s": "done"}}
    url = service.url
    wrong: dict[str, tuple[dict[str, Any], str]] = {
        "NoUrl": ({}, "the action `http/json` needs the parameter `url`"),
        "Scheme": ({"url": "ftp://h/x"}, '`url` is "ftp://h/x"'),
        "User": ({"url": "http://me:pw@h/"}, "`url` is refused: it contains a user or password; use the header"),
        "Port": ({"url": "http://h:99999/"}, "`url` is refused: Port out of range 0-65535"),
        "Two": ({"url": url, "json": 1, "body": "x"}, "use either `json` or `body`: a request has one body"),
        "Get": ({"url": url, "json": 1, "method": "GET"}, "a GET has no body: write `method: POST`, or use `query`"),
        "Method": ({"url": url, "method": "get"}, '`method` is "get"'),
        "Time": ({"url": url, "timeout": "soon"}, '`timeout` is "soon"'),
        "Zero": ({"url": url, "timeout": "0s"}, '`timeout` is "0s"'),
        "Tries": ({"url": url, "retries": {"max": -1}}, "`retries.max` is -1"),
        "Unknown": ({"url": url, "retry": 3}, "the action `http/json` has no parameter `retry`"),
        "Header": ({"url": url, "headers": {"a b": "x"}}, "`a b` is not a valid name of a header"),
        "Own": ({"url": url, "headers": {"Host": "x"}}, "the action itself sets the header `Host`; remove it"),
        "Line": ({"url": url, "headers": {"X": "a\nb"}}, "the header `X` contains characters that headers cannot have"),
        "Pointer": ({"url": url, "result": "a.b"}, '`result` is "a.b"'),
        "NoId": ({"url": url, "poll": {**poll, "url": "http://h/"}}, "`poll.url` does not contain the id"),
        "Until": ({"url": url, "poll": {**poll, "until": {}}}, "`poll.until` is empty; write when the request is done"),
        "Slash": ({"url": url, "poll": {**poll, "id": "id"}}, "`poll.id` must be a JSON pointer, or the name of a"),
        "Every": ({"url": url, "poll": poll, "wait": {"every": 0}}, "`wait.every` must be at least 10ms"),
        "Long": ({"url": url, "poll": poll, "wait": {"timeout": 0}}, "`wait"),
        "Wait": ({"url": url, "wait": {"every": 1}}, "and there is no `poll`"),
        "Body": ({"url": url, "download": "/u"}, "`download` writes the output `Body`, which the job does not declare"),
    }
    lab = project(flow({name: with_ for name, (with_, _) in wrong.items()}))
    with pytest.raises(InvalidError) as refused:
        lab.plan()
    found = [d.message for d in refused.value.diagnostics]
    assert {d.code for d in refused.value.diagnostics} == {"INVALID_PARAMETER"}
    assert [(name, text) for name, (_, text) in wrong.items() if not any(text in message for message in found)] == []
    assert len(found) == len(wrong)
    assert service.asked == []


# --- second tries ------------------------------------------------------------------------------------------------


def test_429_and_5xx_are_tried_again_on_a_schedule_and_retry_after_is_honoured(project: Make, service: Service) -> None:
    service.answer("POST /busy", Reply(429), Reply(500), Reply(503, headers={"Retry-After": "1"}), Reply(200, {"n": 4}))
    lab = project(flow({"Ask": {"url": f"{service.url}/busy", "json": {"q": 1}, "retries": QUICK}}))
    began = time.monotonic()
    ran = lab.succeed()
    assert time.monotonic() - began > 1.03
    assert service.heard() == ["POST /busy"] * 4
    assert len({(one.body, tuple(one.headers.items())) for one in service.asked}) == 1, "the same request each time"
    place = f"{service.url}/busy answered"
    assert said(ran, "Ask") == [
        f"{place} 429: an empty body; again in 0.01s",
        f"{place} 500: an empty body; again in 0.02s",
        f"{place} 503: an empty body; again in 1s",
    ]
    assert ran.starts == [("Job:Ask", 1)], "tries of a request are not attempts of the step"


def test_tries_end_and_what_cannot_be_bettered_is_not_tried_again(project: Make, service: Service) -> None:
    down = free_port()
    service.answer("GET /down", Reply(502, b"<html>bad gateway</html>"))
    service.answer("GET /denied", Reply(403, {"error": "no credit"}))
    service.answer("GET /later", Reply(429, headers={"Retry-After": "3600"}))
    service.answer("GET /tomorrow", Reply(429, headers={"Retry-After": formatdate(time.time() + 86400, usegmt=True)}))
    service.answer("GET /teapot", Reply(418))
    service.answer("GET /only", Reply(500), Reply(200, {}))
    ran = project(
        flow(
            {
                "Down": {"url": f"{service.url}/down", "retries": QUICK},
                "Denied": {"url": f"{service.url}/denied", "retries": QUICK},
                "Later": {"url": f"{service.url}/later", "retries": QUICK},
                "Tomorrow": {"url": f"{service.url}/tomorrow", "retries": QUICK},
                "Closed": {"url": f"http://127.0.0.1:{down}/x", "retries": {"max": 1, "backoff": "10ms"}},
                "Only": {"url": f"{service.url}/only", "retries": {**QUICK, "on": [503]}},
                "Teapot": {"url": f"{service.url}/teapot", "expect": [200, 404], "retries": QUICK},
            }
        )
    ).run()
    found = errors(ran)
    assert found.pop("Tomorrow")[0] == "UnexpectedStatus"
    assert found == {
        "Down": (
            "UnexpectedStatus",
            f"{service.url}/down answered 502: '<html>bad gateway</html>' (tried 4 times)",
        ),
        "Denied": ("UnexpectedStatus", f'{service.url}/denied answered 403: \'{{"error": "no credit"}}\''),
        "Later": (
            "UnexpectedStatus",
            f"{service.url}/later answered 429: an empty body; "
            "it asks to wait 3600s, more than `retries.limit` allows (60s)",
        ),
        "Closed": ("NoConnection", f"GET http://127.0.0.1:{down}/x: Connection refused (tried 2 times)"),
        "Only": ("UnexpectedStatus", f"{service.url}/only answered 500: an empty body"),
        "Teapot": ("UnexpectedStatus", f"{service.url}/teapot answered 418: an empty body"),
    }
    assert sorted(service.heard()) == [
        *["GET /denied", *["GET /down"] * 4, "GET /later", "GET /only", "GET /teapot", "GET /tomorrow"]
    ]


def test_a_request_whose_answer_was_lost_is_repeated_only_where_that_is_safe(project: Make, service: Service) -> None:
    for path in ("/get", "/keyed", "/paid", "/slow"):
        method = "GET" if path == "/get" else "POST"
        service.answer(f"{method} {path}", Reply(200, {"long": "x" * 100}, cut=50), Reply(200, {"ok": True}))
    service.answer("POST /slow", Reply(200, {}, delay=600), Reply(200, {"ok": True}))
    lab = project(
        flow(
            {
                "Get": {"url": f"{service.url}/get", "retries": QUICK},
                "Keyed": {"url": f"{service.url}/keyed", "json": 1, "idempotency_key": True, "retries": QUICK},
                "Named": {"url": f"{service.url}/slow", "json": 1, "idempotency_key": "X-Key", "timeout": "3s",
                          "retries": QUICK},
                "Paid": {"url": f"{service.url}/paid", "json": 1, "retries": QUICK},
            }
        )
    )  # fmt: skip
    ran = lab.run()
    assert errors(ran) == {
        "Paid": (
            "AnswerLost",
            f"POST {service.url}/paid: the answer broke off after 50 of 112 bytes; "
            "it may have been accepted, so this attempt does not send it again (see `idempotency_key`)",
        )
    }
    assert ran.executed == ["Job:Get", "Job:Keyed", "Job:Named"]
    assert sorted(service.heard()) == ["GET /get"] * 2 + ["POST /keyed"] * 2 + ["POST /paid"] + ["POST /slow"] * 2
    keys = {str(one): [] for one in service.asked}  # type: dict[str, list[str | None]]
    for one in service.asked:
        keys[str(one)].append(one.headers.get("idempotency-key") or one.headers.get("x-key"))
    assert keys["GET /get"] == [None, None]
    assert keys["POST /keyed"][0] == keys["POST /keyed"][1] != None  # noqa: E711
    assert keys["POST /slow"][0] == keys["POST /slow"][1] != keys["POST /keyed"][0]
    assert said(ran, "Named") == [f"POST {service.url}/slow: the server sent nothing for 3s; again in 0.01s"]


def test_a_key_lasts_over_attempts_and_ends_with_success_refusal_and_force(project: Make, service: Service) -> None:
    service.answer("POST /pay", Reply(500), Reply(200, {}), Reply(200, {}), Reply(400), Reply(200, {}))
    lab = project(
        flow({"Pay": {"url": f"{service.url}/pay", "json": 1, "idempotency_key": True, "retries": {"max": 0}}})
    )
    for number in range(5):
        lab.run(force=["Job:Pay"] if number > 1 else [])
    assert lab.plan().planned == []
    first, again, forced, refused, fresh = (one.headers["idempotency-key"] for one in service.asked)
    assert first == again, "an attempt of a later run asks for the same"
    assert len({first, forced, refused, fresh}) == 4


# --- answers that are none -------------------------------------------------------------------------------------


def test_malformed_answers_are_clear_failures(project: Make, service: Service) -> None:
    html, long = b"<!doctype html><title>Login</title>", b"{" + b"x" * 300
    url = service.url
    replies: dict[str, Reply] = {
        "html": Reply(200, html, {"Content-Type": "text/html; charset=utf-8"}),
        "broken": Reply(200, b'{"a": 1', {"Content-Type": "application/json"}),
        "nan": Reply(200, b'{"a": NaN}', {"Content-Type": "application/problem+json"}),
        "latin": Reply(200, b'"\xe9"', {"Content-Type": "application/json"}),
        "long": Reply(200, long),
        "empty": Reply(204),
        "gzip": Reply(200, b"\x1f\x8b", {"Content-Encoding": "gzip"}),
        "large": Reply(200, b"x" * 2000),
        "part": Reply(200, {"a": {"b": 1}}),
        "nothttp": Reply(raw=b"SSH-2.0-OpenSSH_9.9\r\n"),
        "silent": Reply(raw=b""),
        "chunks": Reply(raw=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"),
    }
    for name, reply in replies.items():
        service.answer(f"GET /{name}", reply)
    more: dict[str, dict[str, Any]] = {"large": {"max_bytes": 1000}, "part": {"result": "/a/c"}}
    jobs = {
        name: {"url": f"{url}/{name}", "retries": {"max": 0}, "query": {"key": "in-query"}, **more.get(name, {})}
        for name in replies
    }
    found = errors(project(flow(jobs)).run())
    text = "answered 200:"
    assert found == {
        "html": ("MalformedAnswer", f"{url}/html {text} {html.decode()!r}: its content type is `text/html`, not JSON"),
        "broken": ("MalformedAnswer", f"{url}/broken {text} '{{\"a\": 1': it is not JSON (Input data was truncated)"),
        "nan": (
            "MalformedAnswer",
            f"{url}/nan {text} '{{\"a\": NaN}}': it is not JSON (JSON is malformed: invalid character (byte 6))",
        ),
        "latin": (
            "MalformedAnswer",
            f"{url}/latin {text} '\"\\\\xe9\"': it is not JSON "
            "('utf-8' codec can't decode byte 0xe9 in position 0: unexpected end of data)",
        ),
        "long": (
            "MalformedAnswer",
            f"{url}/long {text} {long[:200].decode()!r} …: it is not JSON "
            "(JSON is malformed: object keys must be strings (byte 1))",
        ),
        "empty": (
            "MalformedAnswer",
            f"{url}/empty answered 204: an empty body: it is not JSON (Input data was truncated)",
        ),
        "gzip": (
            "MalformedAnswer",
            f"GET {url}/gzip: the answer is encoded as `gzip`, which was not requested",
        ),
        "large": ("MalformedAnswer", f"GET {url}/large: status 200, the answer has more than `max_bytes: 1000`"),
        "part": (
            "NotInAnswer",
            f'{url}/part {text} \'{{"a": {{"b": 1}}}}\': there is nothing at `result: /a/c`',
        ),
        "nothttp": ("MalformedAnswer", f"GET {url}/nothttp: this is not HTTP: BadStatusLine: SSH-2.0-OpenSSH_9.9\r\n"),
        "silent": ("AnswerLost", f"GET {url}/silent: the connection was closed without an answer"),
        "chunks": ("AnswerLost", f"GET {url}/chunks: the answer broke off"),
    }


def test_redirects_are_followed_where_that_is_right_and_refused_where_not(
    project: Make, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHYRUN_TEST_TOKEN", "tok-1234567")
    with Service() as other:
        to = {"Location": "/end"}
        service.answer("GET /end", Reply(200, {"end": 1})).answer("POST /end", Reply(200, {"posted": 1}))
        other.answer("GET /end", Reply(200, {"elsewhere": 1}))
        service.answer("GET /moved", Reply(301, headers=to))
        service.answer("POST /see", Reply(303, headers=to))
        service.answer("POST /same", Reply(307, headers=to))
        service.answer("POST /lost", Reply(302, headers=to))
        service.answer("GET /away", Reply(302, headers={"Location": f"{other.url}/end"}))
        service.answer("POST /away", Reply(308, headers={"Location": f"{other.url}/end"}))
        service.answer("GET /loop", Reply(302, headers={"Location": "/pool"}))
        service.answer("GET /pool", Reply(302, headers={"Location": "/loop"}))
        service.answer("GET /odd", Reply(302, headers={"Location": "file:///etc/passwd"}))
        url = service.url
        headers = {"X-Token": "${{ secrets.WHYRUN_TEST_TOKEN }}"}
        jobs: dict[str, dict[str, Any]] = {
            "Moved": {"url": f"{url}/moved"}, "See": {"url": f"{url}/see", "json": 1},
            "Same": {"url": f"{url}/same", "json": {"a": 1}}, "Lost": {"url": f"{url}/lost", "json": 1},
            "Away": {"url": f"{url}/away"}, "PostAway": {"url": f"{url}/away", "json": 1},
            "Loop": {"url": f"{url}/loop"}, "Odd": {"url": f"{url}/odd"},
        }  # fmt: skip
        jobs = {name: {**with_, "headers": headers} for name, with_ in jobs.items()}
        lab = project(flow(jobs, secrets=["WHYRUN_TEST_TOKEN"]))
        ran = lab.run()
        assert {name: lab.content(f"Artifact:{name}.Answer") for name in ("Moved", "See", "Same", "Away")} == {
            "Moved": {"end": 1}, "See": {"end": 1}, "Same": {"posted": 1}, "Away": {"elsewhere": 1},
        }  # fmt: skip
        nothing = "an empty body"
        assert errors(ran) == {
            "Lost": ("RedirectRefused", f"{url}/lost answered 302: {nothing}: "
                     f"a POST is not sent on to {url}/end; write that as `url`"),
            "PostAway": ("RedirectRefused", f"{url}/away answered 308: {nothing}: "
                         f"a POST is not sent on to {other.url}/end; write that as `url`"),
            "Loop": ("RedirectRefused", f"{url}/pool answered 302: {nothing}: more than 5 redirects: … "
                     f"{url}/loop → {url}/pool → {url}/loop → {url}/pool"),
            "Odd": ("RedirectRefused", f"{url}/odd answered 302: {nothing}: the redirect is refused: "
                    "it does not start with http:// or https:// and a host"),
        }  # fmt: skip
        assert [one.headers.get("x-token") for one in other.asked] == [None]
        (posted,) = [one for one in service.asked if str(one) == "POST /end"]
        assert (posted.json, posted.headers["x-token"]) == ({"a": 1}, "tok-1234567")


# --- secrets -----------------------------------------------------------------------------------------------------


def test_secrets_reach_the_service_and_no_file_of_ours(
    project: Make, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "tök/en&value=1"
    monkeypatch.setenv("WHYRUN_TEST_TOKEN", "s3cr3t-token-99")
    monkeypatch.setenv("WHYRUN_TEST_KEY", secret)

    def echo(asked: Asked) -> Reply:
        return Reply(401, {"you said": [asked.headers["authorization"], asked.path]})

    service.answer("GET /ok", Reply(503), Reply(200, {"fine": True})).answer("GET /echo", echo)
    service.answer("GET /leak", lambda asked: Reply(200, {"token": asked.headers["authorization"]}))
    with_ = {
        "headers": {"Authorization": "Bearer ${{ secrets.WHYRUN_TEST_TOKEN }}"},
        "query": {"key": "${{ secrets.WHYRUN_TEST_KEY }}"},
        "retries": {"max": 1, "backoff": "10ms"},
    }
    jobs = {name: {"url": f"{service.url}/{name.lower()}", **with_} for name in ("Ok", "Echo", "Leak")}
    lab = project(flow(jobs, secrets=["WHYRUN_TEST_TOKEN", "WHYRUN_TEST_KEY"]))
    ran = lab.run()
    assert ran.executed == ["Job:Ok"]
    assert service.asked[0].headers["authorization"] == "Bearer s3cr3t-token-99"
    assert {str(one).partition("?")[2] for one in service.asked} == {"key=t%C3%B6k%2Fen%26value%3D1"}
    found = errors(ran)
    assert found["Leak"][0] == "SecretInOutput"
    assert found["Echo"] == (
        "UnexpectedStatus",
        f'{service.url}/echo answered 401: \'{{"you said": ["Bearer ***", "/echo?key=***"]}}\'',
    )
    forbidden = [b"s3cr3t-token-99", secret.encode(), b"t%C3%B6k", b"en%26value"]
    files = [path for path in lab.root.rglob("*") if path.is_file()]
    assert [(p, s) for p in files for s in forbidden if s in p.read_bytes()] == []


# --- ways there --------------------------------------------------------------------------------------------------


def test_an_expected_status_counts_as_an_answer_also_where_it_goes_into_a_file(project: Make, service: Service) -> None:
    service.answer("GET /none", Reply(404, b"no such thing"))
    job = {"uses": "http/json", "with": {"url": f"{service.url}/none", "expect": 404}}
    jobs = {"Ask": {**job, "outputs": {"Body": {"type": "text"}}}}
    lab = project(json.dumps({"workflow": "w", "jobs": jobs}))
    lab.succeed()
    assert lab.content("Artifact:Ask.Body") == "no such thing"


def test_a_proxy_is_used_where_the_job_names_one(project: Make, service: Service) -> None:
    service.answer("GET http://nowhere.invalid/x", Reply(200, {"via": "proxy"})).answer(
        "GET /x", Reply(200, {"via": 0})
    )
    env = {"http_proxy": service.url, "no_proxy": "127.0.0.1"}
    lab = project(flow({"Far": {"url": "http://nowhere.invalid/x"}, "Near": {"url": f"{service.url}/x"}}, env=env))
    lab.succeed()
    assert lab.content("Artifact:Far.Answer") == {"via": "proxy"}
    assert lab.content("Artifact:Near.Answer") == {"via": 0}


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate of our own for 127.0.0.1, with its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes a certificate for this test, is not installed")
    made = tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
               "-days", "2", "-subj", "/CN=loopback", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", made,
               "-out", tmp_path / "public.pem"]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    with made.open("a") as file:
        file.write((tmp_path / "public.pem").read_text())
    return made


def test_https_trusts_what_the_job_trusts_and_nothing_else(project: Make, certificate: Path) -> None:
    with Service(certificate) as secure, Service() as plain:
        assert secure.url.startswith("https://")
        secure.answer("GET /x", Reply(200, {"secure": True}))
        secure.answer("GET /down", Reply(302, headers={"Location": f"{plain.url}/x"}))
        jobs = {"Trusted": {"url": f"{secure.url}/x"}, "Down": {"url": f"{secure.url}/down"}}
        lab = project(flow(jobs, env={"SSL_CERT_FILE": str(certificate)}))
        ran = lab.run()
        assert lab.content("Artifact:Trusted.Answer") == {"secure": True}
        assert errors(ran) == {
            "Down": (
                "RedirectRefused",
                f"{secure.url}/down answered 302: an empty body: it leads from https to {plain.url}/x",
            )
        }
        ran = project(flow({"Strange": {"url": f"{secure.url}/x"}})).run()
        assert errors(ran) == {
            "Strange": (
                "MalformedAnswer",
                f"GET {secure.url}/x: the certificate is refused: self-signed certificate",
            )
        }
        assert secure.heard("GET /x") == ["GET /x"]
        assert plain.asked == []


# --- small parts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("", {"a/b": [0, {"~": 1}], "0": "name", "": 2}),
        ("/a~1b/0", 0),
        ("/a~1b/1/~0", 1),
        ("/0", "name"),
        ("/", 2),
        ("/a~1b/2", ABSENT),
        ("/a~1b/-1", ABSENT),
        ("/a~1b/01", ABSENT),
        ("/a~1b/٠", ABSENT),
        ("/0/0", ABSENT),
        ("/none", ABSENT),
    ],
)
def test_json_pointers(pointer: str, value: Any) -> None:
    found = value_at({"a/b": [0, {"~": 1}], "0": "name", "": 2}, pointer)
    assert found is value if value is ABSENT else found == value


def test_true_is_not_one() -> None:
    assert [same(True, True), same(1, True), same(True, 1), same(1, 1.0), same(None, None)] == [
        True, False, False, True, True,
    ]  # fmt: skip


def test_a_query_is_added_to_what_the_url_has() -> None:
    assert with_query("http://h/p?a=1#x", {"b": ["ü", 2]}) == "http://h/p?a=1&b=%C3%BC&b=2#x"
    assert with_query("http://h/p", {}) == "http://h/p"


def test_the_host_process_loads_no_http_client_to_plan() -> None:
    """The built-in table is data: a workflow without `http/json` pays nothing for it."""
    program = "import sys, whyrun.project; print([m for m in sys.modules if m.startswith('http')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout == "[]\n"
