"""`http/json` submit-and-poll: what was submitted is asked for again, whatever happened between; never paid twice."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from http_lab import Asked, Reply, Service

from project_lab import Lab, Process, Ran, codes, wait_until
from whyrun.log import events as ev

Make = Callable[..., Lab]


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as service:
        yield service


class Orders:
    """A paid service: every POST is an order of its own, and each is done when the test says so."""

    def __init__(self, service: Service) -> None:
        self.service, self.count, self.states = service, 0, {}  # type: ignore[var-annotated]
        service.answer("POST /orders", self.order)

    def order(self, asked: Asked) -> Reply:
        self.count += 1
        number = f"order/{self.count}"
        self.service.answer(f"GET /orders/order%2F{self.count}", lambda _: self.state(number))
        return Reply(202, {"order": {"id": number}})

    def state(self, number: str) -> Reply:
        state = self.states.get(number, self.states.get("all", "running"))
        return state if isinstance(state, Reply) else Reply(200, {"state": state, "result": {"of": number}})

    def polls(self, number: int = 1) -> int:
        return len(self.service.heard(f"GET /orders/order%2F{number}"))


@pytest.fixture
def orders(service: Service) -> Orders:
    return Orders(service)


def flow(
    service: Service,
    *,
    poll: dict[str, Any] | None = None,
    wait: dict[str, Any] | None = None,
    job: dict[str, Any] | None = None,
    beside: dict[str, Any] | None = None,
    **more: Any,
) -> str:
    polling = {
        "id": "/order/id",
        "url": f"{service.url}/orders/{{id}}",
        "until": {"/state": ["done", "finished"]},
        "fail": {"/state": "failed"},
        **(poll or {}),
    }
    with_ = {
        "url": f"{service.url}/orders",
        "json": {"prompt": "a cat"},
        "result": "/result",
        "retries": {"max": 2, "backoff": "10ms"},
        "poll": polling,
        "wait": {"every": "20ms", **(wait or {})},
        **more,
    }
    ask = {"uses": "http/json", "with": with_, "outputs": {"Answer": {"type": "json"}}, **(job or {})}
    return json.dumps({"workflow": "w", "jobs": {"Ask": ask, **(beside or {})}})


def remembered(lab: Lab, run: str) -> list[tuple[str, Any]]:
    """What was remembered, without the identity of the request in the key; of an answer, the id in it."""
    return [
        (e.key.rpartition(" ")[0], e.value["id"] if isinstance(e.value, dict) else e.value)
        for e in lab.events(run)
        if isinstance(e, ev.RequestRecorded)
    ]


KEPT = (
    "; it was submitted, and this answer is remembered: correct `poll.id`, and the next run takes the id from it; "
    "`--force` submits it again"
)


def failure(ran: Ran) -> tuple[str, str]:
    (failed,) = ran.of(ev.StepFailed)
    return failed.error_type, failed.error


# --- the usual way -----------------------------------------------------------------------------------------------


def test_a_request_is_submitted_once_and_asked_for_until_it_is_done(project: Make, service: Service) -> None:
    orders = Orders(service)
    lab = project(flow(service, wait={"progress": {"done": "/percent"}}))
    states = iter(["queued", "running", "running", "done"])
    orders.state = lambda number: Reply(  # type: ignore[method-assign]
        200, {"state": next(states), "percent": 10 * orders.polls(), "result": {"of": number}}
    )
    ran = lab.succeed()
    assert lab.content("Artifact:Ask.Answer") == {"of": "order/1"}
    assert service.heard() == ["POST /orders", *["GET /orders/order%2F1"] * 4]
    assert [one.headers.get("content-type") for one in service.asked] == ["application/json", *[None] * 4]
    assert remembered(lab, "r0001") == [("request", "order/1")]
    order = [type(e).__name__ for e in ran.events if isinstance(e, ev.RequestRecorded | ev.Task | ev.StepComplete)]
    assert order == ["RequestRecorded", "Task", "StepComplete"]
    assert [(e.status, e.message) for e in ran.of(ev.Task)] == [("EXECUTES", "submitted request order/1")]
    assert ran.folder is not None
    assert (ran.folder / "steps/Ask/stderr.log").read_text().splitlines() == [
        'request order/1: /state is "queued"',
        'request order/1: /state is "running"',
    ]
    assert lab.plan().headlines() == {}


def test_the_place_to_ask_may_come_in_a_header_and_ids_may_be_numbers(project: Make, service: Service) -> None:
    service.answer("POST /orders", Reply(202, {}, {"Location": "/operations/9?api=2"}))
    service.answer("GET /operations/9", Reply(200, {"done": False}), Reply(200, {}), Reply(200, {"done": True, "x": 1}))
    lab = project(flow(service, poll={"id": "Location", "url": "{id}", "until": {"/done": True}}, result=""))
    lab.succeed()
    assert lab.content("Artifact:Ask.Answer") == {"done": True, "x": 1}
    assert service.heard("GET") == ["GET /operations/9?api=2"] * 3
    service.answer("POST /orders", Reply(200, {"n": 12})).answer("GET /n/12", Reply(200, {"s": 1, "t": None}))
    poll = {"id": "/n", "url": f"{service.url}/n/{{id}}", "until": {"/s": [0, 1], "/t": None}}
    lab = project(flow(service, poll=poll, result="/s"))
    lab.succeed()
    assert lab.content("Artifact:Ask.Answer") == 1
    assert remembered(lab, "r0001") == [("request", 12)]


def test_an_id_of_more_bits_than_a_value_may_have_is_remembered_as_a_text(project: Make, service: Service) -> None:
    """What was paid for is not lost because its number is large."""
    service.answer("POST /orders", Reply(200, {"n": 2**64 - 1}))
    service.answer(f"GET /n/{2**64 - 1}", Reply(200, {"s": 1}))
    poll = {"id": "/n", "url": f"{service.url}/n/{{id}}", "until": {"/s": 1}}
    lab = project(flow(service, poll=poll, result="/s"))
    lab.succeed()
    assert lab.content("Artifact:Ask.Answer") == 1
    assert remembered(lab, "r0001") == [("request", "18446744073709551615")]


def test_a_server_that_says_when_to_ask_again_is_heeded(project: Make, service: Service) -> None:
    service.answer("POST /orders", Reply(202, {"order": {"id": "a"}}))
    service.answer("GET /orders/a", Reply(200, {}, {"Retry-After": "1"}), Reply(200, {"state": "done", "result": 1}))
    began = time.monotonic()
    project(flow(service)).succeed()
    assert time.monotonic() - began > 1
    assert len(service.heard("GET")) == 2


# --- never twice -------------------------------------------------------------------------------------------------


def test_lesson_31_after_kill_9_between_submit_and_answer_the_next_run_asks_for_the_same_request(
    project: Make, service: Service, orders: Orders
) -> None:
    """Paid requests lost on a crash, because their ids were logged only at the end."""
    lab = project(flow(service))
    for _ in range(2):  # it may die more than once
        run = Process(lab)
        before = orders.polls()
        service.wait_for("GET /orders/order%2F1", before + 2)
        run.signal(signal.SIGKILL)
        run.end()
    assert remembered(lab, "r0001") == [("request", "order/1")]
    orders.states["all"] = "done"
    ran = lab.succeed()
    assert orders.count == 1, "paid once"
    assert lab.content("Artifact:Ask.Answer") == {"of": "order/1"}
    assert ran.plan.headlines() == {"Job:Ask": "RETRY_PREVIOUS_FAILURE"}
    assert [e.message for e in ran.of(ev.Task)] == ["polls request order/1, which an earlier attempt submitted"]
    # success clears it: whoever asks again, asks anew
    lab.succeed(force=["Job:Ask"])
    assert orders.count == 2
    assert lab.content("Artifact:Ask.Answer") == {"of": "order/2"}


def test_a_forced_step_submits_anew_and_its_retries_ask_for_that(
    project: Make, service: Service, orders: Orders
) -> None:
    lab = project(flow(service, job={"retries": {"max": 1, "backoff": "10ms"}}))
    orders.states["order/1"] = Reply(500)
    ran = lab.run()
    assert (ran.starts, orders.count) == ([("Job:Ask", 1), ("Job:Ask", 2)], 1), "the retry asked for the same"
    orders.states["order/2"] = Reply(500)
    ran = lab.run(force=["Job:Ask"])
    assert ran.starts == [("Job:Ask", 1), ("Job:Ask", 2)]
    assert orders.count == 2, "the first attempt of a forced step submits, its retry does not"
    orders.states["order/2"] = "finished"
    lab.succeed()
    assert orders.count == 2
    assert lab.content("Artifact:Ask.Answer") == {"of": "order/2"}


def test_another_request_is_another_request(project: Make, service: Service, orders: Orders) -> None:
    orders.states["order/1"] = Reply(500)
    lab = project(flow(service))
    lab.run()
    orders.states["order/2"] = "done"
    lab.edit("workflow.yaml", "a cat", "a dog").succeed()
    assert lab.content("Artifact:Ask.Answer") == {"of": "order/2"}
    orders.states["order/1"] = "done"
    lab.edit("workflow.yaml", "a dog", "a cat").succeed()
    assert lab.content("Artifact:Ask.Answer") == {"of": "order/1"}, "what was ordered before is still asked for"
    assert orders.count == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_while_polling_ends_at_once_and_loses_nothing(
    project: Make, service: Service, orders: Orders, number: signal.Signals
) -> None:
    lab = project(flow(service, wait={"every": "1h"}))
    run = Process(lab)
    service.wait_for("GET /orders/")
    time.sleep(0.1)
    run.signal(number)
    assert run.end()[0] == 130
    orders.states["all"] = "done"
    lab.succeed()
    assert orders.count == 1


def test_an_interruption_while_a_poll_is_not_answered_hangs_up(project: Make, service: Service, orders: Orders) -> None:
    orders.states["all"] = Reply(200, {}, delay=600)
    lab = project(flow(service))
    run = Process(lab)
    service.wait_for("GET /orders/")
    run.signal(signal.SIGINT)
    assert run.end()[0] == 130
    assert codes(lab.plan()) == {"Job:Ask": ["RETRY_PREVIOUS_FAILURE", "MISSING_OUTPUT"]}


# A step that tells when it is told to end: after those whose names come before its own.
WITNESS = {"uses": "python", "with": {"call": "witness:wait"}}
WITNESS_CODE = """
    import time
    from pathlib import Path

    HERE = Path(__file__).parent

    def wait(context):
        (HERE / "waits").touch()
        while not context.cancelled and not (HERE / "told").exists():
            time.sleep(0.01)
        (HERE / "told").touch()
"""


def test_an_interruption_while_submitting_still_hears_the_answer_and_keeps_the_id(
    project: Make, service: Service, orders: Orders
) -> None:
    told = threading.Event()

    def slowly(asked: Asked) -> Reply:
        assert told.wait(300)
        return orders.order(asked)

    service.answer("POST /orders", slowly)
    lab = project(flow(service, beside={"Witness": WITNESS}), {"witness.py": WITNESS_CODE})
    run = Process(lab)
    service.wait_for("POST /orders")
    run.wait_for_file("waits")
    run.wait_for_start("Job:Ask")
    run.wait_for_start("Job:Witness")
    run.signal(signal.SIGINT)
    run.wait_for_file("told")  # and so `Ask` has been told before
    told.set()
    assert run.end()[0] == 130
    assert remembered(lab, "r0001") == [("request", "order/1")]
    assert orders.polls() == 0
    orders.states["all"] = "done"
    lab.succeed()
    assert orders.count == 1


def test_a_kill_while_submitting_repeats_the_request_under_the_same_key(project: Make, service: Service) -> None:
    """Nobody can know whether it was accepted; a server that knows keys tells them apart."""
    keys: list[str] = []

    def order(asked: Asked) -> Reply:
        if not keys:
            keys.append(asked.headers["idempotency-key"])
            time.sleep(600)
        keys.append(asked.headers["idempotency-key"])
        return Reply(200, {"order": {"id": sorted(set(keys)).index(keys[-1])}})

    service.answer("POST /orders", order).answer("GET /orders/0", Reply(200, {"state": "done", "result": "the one"}))
    lab = project(flow(service, idempotency_key=True))
    run = Process(lab)
    service.wait_for("POST /orders")
    run.signal(signal.SIGKILL)
    run.end()
    lab.succeed()
    assert len(keys) == 2
    assert len(set(keys)) == 1
    assert lab.content("Artifact:Ask.Answer") == "the one"
    assert remembered(lab, "r0001") == [("idempotency-key", keys[0])]


def test_kills_at_any_moment_place_one_order_where_the_service_knows_keys(project: Make, service: Service) -> None:
    placed: dict[str, str] = {}
    ready = []

    def order(asked: Asked) -> Reply:
        number = placed.setdefault(asked.headers["idempotency-key"], f"n{len(placed) + 1}")
        time.sleep(0.2)  # accepted, and the answer is still on its way
        return Reply(202, {"order": {"id": number}})

    service.answer("POST /orders", order)
    service.answer("GET /orders/n1", lambda _: Reply(200, {"state": "done" if ready else "running", "result": "n1"}))
    lab = project(flow(service, idempotency_key=True))
    for pause in (0.0, 0.05, 0.1, 0.15, 0.2, 0.3):
        run = Process(lab)
        before = len(service.asked)
        if pause:
            wait_until(lambda before=before: len(service.asked) > before)  # type: ignore[misc]
        time.sleep(pause)
        run.signal(signal.SIGKILL)
        run.end()
    ready.append(True)
    lab.succeed()
    assert list(placed.values()) == ["n1"]
    assert lab.content("Artifact:Ask.Answer") == "n1"


def test_the_timeout_of_the_job_ends_the_wait_and_a_later_run_goes_on_with_it(
    project: Make, service: Service, orders: Orders
) -> None:
    lab = project(flow(service, job={"timeout": "3s"}))
    ran = lab.run()
    assert ran.failed == {"Job:Ask": ("TIMED_OUT", "TimedOut")}
    orders.states["all"] = "done"
    lab.succeed()
    assert orders.count == 1


# --- when it does not end well -----------------------------------------------------------------------------------


def test_a_failed_request_is_over_and_the_next_attempt_submits_anew(
    project: Make, service: Service, orders: Orders
) -> None:
    orders.states["order/1"] = Reply(200, {"state": "failed", "why": "no such style"})
    lab = project(flow(service))
    ran = lab.run()
    assert failure(ran) == (
        "RequestFailed",
        'request order/1 failed: `/state` is "failed": '
        f'{service.url}/orders/order%2F1 answered 200: \'{{"state": "failed", "why": "no such style"}}\'',
    )
    assert remembered(lab, "r0001") == [("request", "order/1"), ("request", None)]
    orders.states["order/2"] = "done"
    lab.succeed()
    assert lab.content("Artifact:Ask.Answer") == {"of": "order/2"}


def test_a_request_that_the_service_forgot_is_submitted_anew_but_not_at_the_first_404(
    project: Make, service: Service, orders: Orders
) -> None:
    replies = iter([Reply(404), Reply(200, {"state": "running"}), Reply(404), Reply(404), Reply(410, b"expired")])
    orders.state = lambda number: next(replies)  # type: ignore[method-assign]
    lab = project(flow(service))
    ran = lab.run()
    assert failure(ran) == (
        "RequestGone",
        f"{service.url}/orders/order%2F1 answered 410: 'expired' (tried 3 times): request order/1 is no longer "
        "known; the next attempt submits it again",
    )
    service.answer("POST /orders", Reply(200, {"order": {"id": "x"}}))
    service.answer("GET /orders/x", Reply(200, {"state": "done", "result": "x"}))
    lab.succeed()
    assert len(service.heard("POST")) == 2


def test_a_wait_that_is_too_long_and_a_refused_poll_keep_the_request(
    project: Make, service: Service, orders: Orders
) -> None:
    lab = project(flow(service, wait={"timeout": "150ms"}))
    kind, message = failure(lab.run())
    assert (kind, message) == (
        "PollTimedOut",
        "request order/1 is not done after `wait.timeout` (0.15s); the next run polls it again, also with a longer "
        "timeout: "
        f"{service.url}/orders/order%2F1 answered 200: "
        '\'{"state": "running", "result": {"of": "order/1"}}\'',
    )
    orders.states["all"] = Reply(401, {"error": "token expired"})
    assert failure(lab.run()) == (
        "UnexpectedStatus",
        f'{service.url}/orders/order%2F1 answered 401: \'{{"error": "token expired"}}\'',
    )
    orders.states["all"] = "done"
    lab.succeed()
    assert orders.count == 1


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"order": {}}, "there is nothing at `poll.id: /order/id`"),
        ({"order": {"id": None}}, "there is no text or number at `poll.id: /order/id`"),
        ({"order": {"id": ""}}, "there is no text or number at `poll.id: /order/id`"),
        ({"order": {"id": True}}, "there is no text or number at `poll.id: /order/id`"),
    ],
)
def test_an_answer_without_an_id_is_a_clear_failure(project: Make, service: Service, answer: Any, why: str) -> None:
    service.answer("POST /orders", Reply(202, answer))
    lab = project(flow(service))
    assert failure(lab.run()) == (
        "MalformedAnswer",
        f"{service.url}/orders answered 202: {json.dumps(answer)!r}: {why}, so the request cannot be polled{KEPT}",
    )
    assert remembered(lab, "r0001") == [("request", None)], "that there is an order is known, if not which"


def test_an_id_that_should_be_a_url_and_is_none_is_a_clear_failure(project: Make, service: Service) -> None:
    service.answer("POST /orders", Reply(202, {}, {"Location": "ftp://elsewhere/1"}))
    lab = project(flow(service, poll={"id": "Location", "url": "{id}"}))
    assert failure(lab.run()) == (
        "MalformedAnswer",
        f"{service.url}/orders answered 202: '{{}}': the URL at `poll.id: Location` is refused: it does not start with "
        f"http:// or https:// and a host{KEPT}",
    )
    assert remembered(lab, "r0001") == [("request", None)]


def test_an_id_that_is_a_secret_is_not_written_down(
    project: Make, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHYRUN_TEST_TOKEN", "s3cr3t-token-99")
    service.answer("POST /orders", lambda asked: Reply(200, {"order": {"id": asked.headers["x-token"]}}))
    headers = {"X-Token": "${{ secrets.WHYRUN_TEST_TOKEN }}"}
    lab = project(flow(service, headers=headers, job={"secrets": ["WHYRUN_TEST_TOKEN"]}))
    for _ in range(2):
        assert failure(lab.run()) == (
            "MalformedAnswer",
            "the id at `poll.id: /order/id` contains a secret of the step; it was submitted, and only `--force` "
            "submits it again",
        )
    assert len(service.heard("POST")) == 1
    files = [path for path in lab.root.rglob("*") if path.is_file()]
    assert [path for path in files if b"s3cr3t-token-99" in path.read_bytes()] == []
