"""`http/json` after a mistake in the workflow was corrected: what was ordered is asked for, not ordered again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from http_lab import Asked, Reply, Service, free_port

from project_lab import Heard, Lab, Process, Ran, codes, wait_until
from whyrun.errors import InvalidError
from whyrun.execution.backends.registry import RunOptions
from whyrun.execution.compare.compare import CompareOptions, compare_workflow
from whyrun.log import events as ev

Make = Callable[..., Lab]


@pytest.fixture
def service() -> Iterator[Service]:
    """Orders are done at once; `GET /orders/N` says what came of it."""
    with Service() as service:

        def order(asked: Asked) -> Reply:
            number = len(service.heard("POST"))
            service.answer(f"GET /orders/{number}", Reply(200, {"state": "done", "result": {"of": number}}))
            return Reply(202, {"order": {"id": number}, "account": {"id": "me"}}, {"X-Request-Id": str(number)})

        service.answer("POST /orders", order)
        yield service


def flow(service: Service, job: dict[str, Any] | None = None, **changes: Any) -> str:
    poll = {"id": "/order/id", "url": f"{service.url}/orders/{{id}}", "until": {"/state": "done"}}
    with_ = {
        "url": f"{service.url}/orders",
        "json": {"prompt": "a cat"},
        "result": "/result",
        "retries": {"max": 1, "backoff": "10ms"},
        **changes,
        "poll": {**poll, **changes.get("poll", {})},
        "wait": {"every": "20ms", **changes.get("wait", {})},
    }
    ask = {"uses": "http/json", "with": with_, "outputs": {"Answer": {"type": "json"}}, **(job or {})}
    return json.dumps({"workflow": "w", "jobs": {"Ask": ask}})


def change(lab: Lab, workflow: str) -> Lab:
    return lab.write({"workflow.yaml": workflow})


def paid(service: Service) -> int:
    return len(service.heard("POST"))


def failure(ran: Ran) -> tuple[str, str]:
    (failed,) = ran.of(ev.StepFailed)
    return failed.error_type, failed.error


def tasks(ran: Ran) -> list[str]:
    return [event.message for event in ran.of(ev.Task)]


# --- how to wait does not count ----------------------------------------------------------------------------------


def test_how_to_wait_does_not_count_before_or_after_success(project: Make, service: Service) -> None:
    lab = project(flow(service))
    lab.succeed()
    changed: list[dict[str, Any]] = [
        {"wait": {"every": "30ms"}},
        {"wait": {"timeout": "5m", "progress": {"done": "/percent"}}},
        {"retries": {"max": 7}},
        {"timeout": "3m", "connect_timeout": 5},
        {"max_bytes": 1_000_000},
        {"redirects": 3},
    ]
    for changes in changed:
        assert codes(change(lab, flow(service, **changes)).plan()) == {}, changes
    assert codes(change(lab, flow(service, headers={"X": "1"})).plan()) == {"Job:Ask": ["INPUT_CHANGED"]}


def test_a_longer_wait_after_one_that_was_too_short_asks_for_the_same_order(project: Make, service: Service) -> None:
    lab = project(flow(service, poll={"until": {"/state": "sent"}}, wait={"timeout": "100ms"}))
    assert failure(lab.run())[0] == "PollTimedOut"
    service.answer("GET /orders/1", Reply(200, {"state": "sent", "result": "here"}))
    ran = change(lab, flow(service, poll={"until": {"/state": "sent"}}, wait={"timeout": "1m"})).succeed()
    assert (lab.content("Artifact:Ask.Answer"), paid(service)) == ("here", 1)
    assert ran.plan.headlines() == {"Job:Ask": "RETRY_PREVIOUS_FAILURE"}


def test_the_action_receives_what_does_not_count(project: Make, service: Service) -> None:
    """They stand in the step's configuration and in the record of what it was given."""
    lab = project(flow(service, wait={"timeout": "7m"}))
    ran = lab.succeed()
    assert ran.cfg("Ask")["with"]["wait"] == {"every": "20ms", "timeout": "7m"}
    (start,) = ran.of(ev.StepStart)
    (recorded,) = start.bindings["wait"]
    assert recorded["value"] == {"every": "20ms", "timeout": "7m"}


# --- found again under other parameters --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ({"result": "/reslt"}, "NotInAnswer"),
        ({"poll": {"fail": {"/state": "failed"}, "until": {"/state": "finished"}}, "wait": {"timeout": "60ms"}},
         "PollTimedOut"),
        ({"poll": {"url": "URL/order/{id}"}}, "RequestGone"),
        ({"download": "/image"}, "NotInAnswer"),
        ({"poll": {"id": "/account/id"}}, "RequestGone"),
    ],
)  # fmt: skip
def test_a_mistake_in_what_to_do_with_the_answer_is_paid_for_once(
    project: Make, service: Service, wrong: dict[str, Any], kind: str
) -> None:
    wrong = json.loads(json.dumps(wrong).replace("URL", service.url))
    body = {"outputs": {"Answer": {"type": "json"}, "Body": {"type": "file"}}} if "download" in wrong else {}
    lab = project(flow(service, body, **wrong))
    for _ in range(2):
        assert failure(lab.run())[0] == kind
    ran = change(lab, flow(service, body)).succeed()
    assert (lab.content("Artifact:Ask.Answer"), paid(service)) == ({"of": 1}, 1)
    assert tasks(ran) == ["polls request 1, which an earlier attempt submitted"]


def test_success_ends_it_for_the_parameters_that_took_it_up(project: Make, service: Service) -> None:
    lab = project(flow(service, result="/reslt"))
    lab.run()
    change(lab, flow(service)).succeed()
    change(lab, flow(service, result="/result/of")).succeed()
    assert (lab.content("Artifact:Ask.Answer"), paid(service)) == (2, 2), "what was delivered is asked for anew"


def test_what_failed_there_is_over_for_all_parameters(project: Make, service: Service) -> None:
    lab = project(flow(service, result="/reslt"))
    lab.run()
    service.answer("GET /orders/1", Reply(200, {"state": "failed"}))
    failing = {"fail": {"/state": "failed"}}
    assert failure(change(lab, flow(service, poll=failing)).run())[0] == "RequestFailed"
    change(lab, flow(service, poll={"fail": {"/state": ["failed", "canceled"]}})).succeed()
    assert (lab.content("Artifact:Ask.Answer"), paid(service)) == ({"of": 2}, 2)


@pytest.mark.parametrize("other", [{"json": {"prompt": "a dog"}}, {"headers": {"X-Style": "oil"}}, {"query": {"v": 2}}])
def test_another_request_never_finds_it(project: Make, service: Service, other: dict[str, Any]) -> None:
    lab = project(flow(service, result="/reslt"))
    lab.run()
    change(lab, flow(service, **other)).succeed()
    assert (lab.content("Artifact:Ask.Answer"), paid(service)) == ({"of": 2}, 2)


def test_forced_steps_and_comparisons_ignore_it(project: Make, service: Service) -> None:
    lab = project(flow(service, result="/reslt"))
    lab.run()
    change(lab, flow(service)).succeed(force=["Job:Ask"])
    assert (lab.content("Artifact:Ask.Answer"), paid(service)) == ({"of": 2}, 2)
    change(lab, flow(service, wait={"every": "30ms"}))  # does not count here either: it is still comparable
    compared = compare_workflow(lab.opened(), CompareOptions(), RunOptions(), Heard())
    assert [(one.artifact, one.status) for one in compared.artifacts] == [("Artifact:Ask.Answer", "DIFFERENT")]
    assert paid(service) == 3


def test_another_token_asks_for_the_same_order(
    project: Make, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_token(**changes: Any) -> str:
        headers = {"Authorization": "Bearer ${{ secrets.WHYRUN_TEST_TOKEN }}"}
        return flow(service, {"secrets": ["WHYRUN_TEST_TOKEN"]}, headers=headers, **changes)

    monkeypatch.setenv("WHYRUN_TEST_TOKEN", "tok-1234567")
    lab = project(with_token(result="/reslt"))
    lab.run()
    monkeypatch.setenv("WHYRUN_TEST_TOKEN", "tok-7654321")
    change(lab, with_token()).succeed()
    assert (lab.content("Artifact:Ask.Answer"), paid(service)) == ({"of": 1}, 1)


def test_the_key_of_a_request_whose_answer_was_lost_is_used_again(project: Make, service: Service) -> None:
    keys: list[str] = []

    def order(asked: Asked) -> Reply:
        keys.append(asked.headers["idempotency-key"])
        return Reply(202, {"order": {"id": 1}}, cut=3) if len(keys) < 3 else Reply(202, {"order": {"id": 1}})

    service.answer("POST /orders", order)
    service.answer("GET /orders/1", Reply(200, {"state": "done", "result": 1}))
    lab = project(flow(service, idempotency_key=True, result="/reslt"))
    assert failure(lab.run())[0] == "AnswerLost"
    change(lab, flow(service, idempotency_key=True)).succeed()
    assert (len(keys), len(set(keys))) == (3, 1)


# --- answers that come at once -----------------------------------------------------------------------------------


def at_once(service: Service, **with_: Any) -> str:
    with_ = {"url": f"{service.url}/chat", **with_}
    ask = {"uses": "http/json", "with": with_, "outputs": {"Answer": {"type": "json"}}}
    return json.dumps({"workflow": "w", "jobs": {"Ask": ask}})


def test_a_corrected_result_is_looked_for_in_the_answer_that_came(project: Make, service: Service) -> None:
    service.answer("POST /chat", lambda _: Reply(200, {"choices": [{"text": f"hello {paid(service)}"}]}))
    lab = project(at_once(service, json={"q": 1}, result="/choice/0/text"))
    assert failure(lab.run()) == (
        "NotInAnswer",
        f"{service.url}/chat answered 200: "
        '\'{"choices": [{"text": "hello 1"}]}\': there is nothing at `result: /choice/0/text`; the answer is '
        "remembered: correct `result` or `download`, and the next run uses it",
    )
    for _ in range(2):  # still wrong: it costs nothing to find out
        kind, _ = failure(change(lab, at_once(service, json={"q": 1}, result="/choices/0/txt")).run())
        assert (kind, paid(service)) == ("NotInAnswer", 1)
    ran = change(lab, at_once(service, json={"q": 1}, result="/choices/0/text")).succeed()
    assert (lab.content("Artifact:Ask.Answer"), paid(service)) == ("hello 1", 1)
    assert tasks(ran) == ["uses the answer that an attempt with other parameters received"]
    # success ends it
    change(lab, at_once(service, json={"q": 1}, result="/choices")).succeed()
    assert (lab.content("Artifact:Ask.Answer"), paid(service)) == ([{"text": "hello 2"}], 2)


def test_the_same_question_another_one_and_a_get_are_asked_anew(project: Make, service: Service) -> None:
    service.answer("POST /chat", Reply(200, {}), Reply(200, {"text": "second"}))
    service.answer("GET /chat", Reply(200, {}), Reply(200, {"words": "free"}))
    lab = project(at_once(service, json={"q": 1}, result="/text"))
    assert failure(lab.run())[0] == "NotInAnswer"
    lab.succeed()
    assert (lab.content("Artifact:Ask.Answer"), paid(service)) == ("second", 2)
    assert failure(change(lab, at_once(service, result="/text")).run())[0] == "NotInAnswer"
    change(lab, at_once(service, result="/words")).succeed()
    assert service.heard("GET") == ["GET /chat"] * 2


# --- an id that cannot be found ----------------------------------------------------------------------------------


@pytest.mark.parametrize("right", ["/order/id", "X-Request-Id"])
def test_a_wrong_place_of_the_id_is_paid_for_once_and_its_correction_finds_the_id(
    project: Make, service: Service, right: str
) -> None:
    lab = project(flow(service, poll={"id": "/id"}))
    for _ in range(2):
        kind, message = failure(lab.run())
        assert kind == "MalformedAnswer"
        assert message == (
            f"{service.url}/orders answered 202: "
            '\'{"order": {"id": 1}, "account": {"id": "me"}}\': there is nothing at `poll.id: /id`, so the request '
            "cannot be polled; it was submitted, and this answer is remembered: correct `poll.id`, and the next "
            "run takes the id from it; `--force` submits it again"
        )
    change(lab, flow(service, poll={"id": right})).succeed()
    assert (lab.content("Artifact:Ask.Answer"), paid(service)) == ({"of": 1}, 1)


def test_an_answer_that_is_no_json_is_remembered_too(project: Make, service: Service) -> None:
    service.answer("POST /orders", Reply(202, b"accepted", {"Operation-Location": "/orders/7"}))
    service.answer("GET /orders/7", Reply(200, {"state": "done", "result": 7}))
    lab = project(flow(service))
    assert failure(lab.run())[0] == "MalformedAnswer"
    change(lab, flow(service, poll={"id": "operation-location", "url": "{id}"})).succeed()
    assert (lab.content("Artifact:Ask.Answer"), paid(service)) == (7, 1)


def test_a_secret_in_an_answer_is_masked_where_it_is_remembered(
    project: Make, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHYRUN_TEST_TOKEN", "s3cr3t-token-99")
    service.answer("POST /orders", lambda asked: Reply(202, {"order": {"id": 1}, "for": asked.headers["x-token"]}))
    service.answer("GET /orders/1", Reply(200, {"state": "done", "result": 1}))
    headers = {"X-Token": "${{ secrets.WHYRUN_TEST_TOKEN }}"}
    job = {"secrets": ["WHYRUN_TEST_TOKEN"]}
    lab = project(flow(service, job, headers=headers, poll={"id": "/id"}))
    lab.run()
    change(lab, flow(service, job, headers=headers)).succeed()
    assert paid(service) == 1
    files = [path for path in lab.root.rglob("*") if path.is_file()]
    assert [path for path in files if b"s3cr3t-token-99" in path.read_bytes()] == []


# --- before anything is sent -------------------------------------------------------------------------------------


def test_what_would_fail_only_after_paying_is_refused_before(
    project: Make, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a header is a secret, so that the block as a whole is not known."""
    monkeypatch.setenv("WHYRUN_TEST_TOKEN", "tok-1234567")
    headers = {"Authorization": "Bearer ${{ secrets.WHYRUN_TEST_TOKEN }}"}
    job = {"secrets": ["WHYRUN_TEST_TOKEN"]}
    lab = project(
        flow(
            service,
            {**job, "outputs": {"Answer": {"type": "file"}, "Body": {"type": "directory"}}},
            url="ftp://h/x",
            headers=headers,
            poll={"id": "id"},
            wait={"timeout": 0},
            timeout="0s",
        )
    )
    with pytest.raises(InvalidError) as refused:
        lab.plan()
    found = sorted(d.message for d in refused.value.diagnostics)
    wanted = [
        "`Answer` cannot be of type `file`",
        "`Body` cannot be of type `directory`",
        "`poll",
        "`timeout` is ",
        "`url` is ",
        "`wait",
    ]
    assert [one for one, start in zip(found, wanted, strict=True) if not one.startswith(start)] == [], found
    assert any("`Location`, or one with a `-` in it: write `/id`" in one for one in found)
    assert service.asked == []


# --- what is told ------------------------------------------------------------------------------------------------


def test_a_request_that_is_taken_up_and_long_retries_are_told_at_the_usual_level(
    project: Make, service: Service
) -> None:
    lab = project(flow(service, result="/reslt"))
    lab.run()
    change(lab, flow(service))
    command = [sys.executable, "-c", "from whyrun.cli.main import main; main()", "run", str(lab.file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=lab.root)
    lines = [line for line in done.stderr.splitlines() if " [http/json] " in line]
    assert [line.split("] ", 1)[1].split(" in ")[0] for line in lines] == [
        "EXECUTES polls request 1, which an earlier attempt submitted → Job:Ask",
        "EXECUTES Job:Ask",
    ]
    dead = f"http://127.0.0.1:{free_port()}/orders"
    ran = change(lab, flow(service, url=dead, retries={"max": 1, "backoff": "1s"})).run()
    assert tasks(ran) == [f"POST {dead}: Connection refused; again in 1s (try 2 of 2)"]
    assert [event.details for event in ran.of(ev.Task)] == [{"level": "summary"}]


def test_an_interrupted_step_has_no_traceback(project: Make, service: Service) -> None:
    lab = project(flow(service, poll={"until": {"/state": "sent"}}))
    run = Process(lab)
    service.wait_for("GET /orders/1")
    run.signal(signal.SIGINT)
    assert run.end()[0] == 130
    wait_until(lambda: (lab.run_folder("r0001") / "status.json").exists())
    (failed,) = [event for event in lab.events("r0001") if isinstance(event, ev.StepFailed)]
    assert (failed.status, failed.error, failed.traceback) == ("INTERRUPTED", "interrupted", "")


def test_a_status_that_expect_does_not_have_is_no_reason_to_pay_again(service: Service, project: Make) -> None:
    lab = project(flow(service, expect=200))
    kind, message = failure(lab.run())
    assert kind == "UnexpectedStatus"
    assert "answered 202" in message
    assert message.endswith("it was accepted, and the answer is remembered: correct `expect`, and the next run uses it")
    again = failure(lab.run())  # nothing was corrected: told again, and not paid again
    assert again[0] == "UnexpectedStatus"
    assert again[1].endswith("an earlier attempt submitted it: correct `expect`, or submit it again with `--force`")
    assert paid(service) == 1
    change(lab, flow(service, expect=202)).succeed()
    assert paid(service) == 1


def test_without_poll_a_status_that_expect_does_not_have_is_no_reason_either(service: Service, project: Make) -> None:
    def plain(**changes: Any) -> str:
        with_ = {"url": f"{service.url}/orders", "json": {"prompt": "a cat"}, **changes}
        ask = {"uses": "http/json", "with": with_, "outputs": {"Answer": {"type": "json"}}}
        return json.dumps({"workflow": "w", "jobs": {"Ask": ask}})

    lab = project(plain(expect=[200, 201]))
    assert failure(lab.run())[0] == "UnexpectedStatus"
    assert paid(service) == 1
    change(lab, plain(expect=202)).succeed()
    assert paid(service) == 1
