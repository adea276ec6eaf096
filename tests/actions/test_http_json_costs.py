"""What `http/json` spends is what the service bills, to the cent: a service that keeps its own ledger."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from http_lab import Asked, Reply, Service

from project_lab import Lab, Process
from whyrun.actions.http.params import Params
from whyrun.evidence.queries.costs import cost_rows
from whyrun.log import events as ev
from whyrun.money import Totals
from whyrun.planning.answers.prices import expected_prices
from whyrun.planning.plan import PlanOptions, compute_execution_plan

Make = Callable[..., Lab]
PRICE = Decimal("0.07")


class Ledger:
    """Bills each accepted order once, by its idempotency key where it has one, and keeps the receipts."""

    def __init__(self, service: Service) -> None:
        self.service, self.receipts = service, list[Decimal]()
        self._orders: dict[str, str] = {}
        self._lock = threading.Lock()
        self.at: Callable[[str], None] = lambda moment: None  # called at `accepted`, `polled`, `downloading`
        self.downloads: list[Reply] = [Reply(200, b"\x89PNG")]
        self.tells = "end"  # in which answer the cost is: `accepted`, `end`
        service.answer("POST /orders", self._accept)
        service.answer("GET /file", self._download)

    @property
    def total(self) -> Decimal:
        return sum(self.receipts, Decimal(0))

    def _accept(self, asked: Asked) -> Reply:
        with self._lock:
            key = asked.headers.get("idempotency-key", str(len(self.receipts)))
            if key not in self._orders:
                self.receipts.append(PRICE)
                self._orders[key] = str(len(self.receipts))
                self.service.answer(f"GET /orders/{self._orders[key]}", self._poll)
        self.at("accepted")
        usage = {"usage": {"cost_usd": float(PRICE)}} if self.tells == "accepted" else {}
        return Reply(202, {"id": self._orders[key], **usage})

    def _poll(self, asked: Asked) -> Reply:
        del asked
        self.at("polled")
        done = {"state": "done", "file": "/file"}
        return Reply(200, {**done, "usage": {"cost_usd": float(PRICE)}} if self.tells == "end" else done)

    def _download(self, asked: Asked) -> Reply:
        del asked
        self.at("downloading")
        return self.downloads.pop(0) if len(self.downloads) > 1 else self.downloads[0]


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with Service() as service:
        yield Ledger(service)


def flow(ledger: Ledger, loop: int = 0, attempts: int = 1, **more: Any) -> str:
    url = ledger.service.url
    with_ = {
        "url": f"{url}/orders",
        "json": {"prompt": "a cat ${{ k }}" if loop else "a cat"},
        "retries": {"max": 0},
        "idempotency_key": True,
        "poll": {"id": "/id", "url": f"{url}/orders/{{id}}", "until": {"/state": "done"}, "fail": {"/state": "failed"}},
        "wait": {"every": "10ms"},
        "cost": "/usage/cost_usd",
        "download": "/file",
        **more,
    }
    outputs = {"Body": {"type": "file"}} if with_["download"] else {"Answer": {"type": "json"}}
    job = {"uses": "http/json", "with": {k: v for k, v in with_.items() if v is not None}, "outputs": outputs}
    job["retries"] = {"max": attempts - 1, "backoff": "10ms"}
    loops = {"loops": {"k": {"values": list(range(loop))}}} if loop else {}
    return json.dumps({"workflow": "w", **loops, "jobs": {"Draw": {**({"for": ["k"]} if loop else {}), **job}}})


def recorded(lab: Lab) -> Totals:
    totals = Totals()
    for row in cost_rows(lab.opened().state.runs(), "job"):
        totals.add_all(row.spent.to_record())
    return totals


def check(lab: Lab, ledger: Ledger, orders: int) -> None:
    """The ledger has so many orders, and the log has their sum."""
    assert len(ledger.receipts) == orders
    spent = recorded(lab)
    assert (spent.sums, spent.unknown) == ({"USD": ledger.total}, 0)


def test_the_cost_at_a_pointer_is_an_event_before_the_step_ends(project: Make, ledger: Ledger) -> None:
    lab = project(flow(ledger))
    ran = lab.succeed()
    (cost,) = ran.of(ev.CostRecorded)
    assert (cost.step_id, cost.amount, cost.currency, cost.item) == ("Job:Draw", "0.07", "USD", "request")
    assert ran.events.index(cost) < [type(e) for e in ran.events].index(ev.StepComplete)
    assert ran.result.to_json()["spent"] == {"USD": "0.07"}
    check(lab, ledger, 1)
    assert lab.run().result.run is None  # nothing to do, nothing bought


@pytest.mark.parametrize(
    ("moment", "tells"), [("accepted", "accepted"), ("polled", "accepted"), ("polled", "end"), ("downloading", "end")]
)
def test_after_kill_9_the_next_run_makes_ledger_and_costs_equal(
    project: Make, ledger: Ledger, moment: str, tells: str
) -> None:
    ledger.tells = tells
    lab = project(flow(ledger))
    started = threading.Event()
    runs: list[Process] = []

    def kill(now: str) -> None:
        if now == moment:
            started.wait()
            runs[0].signal(signal.SIGKILL)
            runs[0].process.wait()

    ledger.at = kill
    runs.append(Process(lab))
    started.set()
    runs[0].end()
    ledger.at = lambda now: None
    lab.succeed()
    check(lab, ledger, 1)


def test_an_attempt_that_resumes_a_request_does_not_count_it_again(project: Make, ledger: Ledger) -> None:
    ledger.downloads = [Reply(500, {}), Reply(500, {}), Reply(200, b"\x89PNG")]
    lab = project(flow(ledger, attempts=2))
    ran = lab.run()
    assert list(ran.failed) == ["Job:Draw"]
    assert [start for _, start in ran.starts] == [1, 2]
    check(lab, ledger, 1)
    lab.succeed()
    check(lab, ledger, 1)


def test_a_failed_request_has_its_cost_and_the_next_one_its_own(project: Make, ledger: Ledger) -> None:
    lab = project(flow(ledger))
    failed = Reply(200, {"state": "failed", "usage": {"cost_usd": 0.07}})
    ledger.at = lambda moment: ledger.service.answer("GET /orders/1", failed) and None  # type: ignore[func-returns-value]
    assert list(lab.run().failed) == ["Job:Draw"]
    check(lab, ledger, 1)
    ledger.at = lambda moment: None
    lab.succeed()
    check(lab, ledger, 2)


def test_several_workers_and_a_forced_run(project: Make, ledger: Ledger) -> None:
    lab = project(flow(ledger, loop=5))
    lab.succeed(jobs=3)
    check(lab, ledger, 5)
    lab.succeed(force=["Job:Draw[2]"])
    check(lab, ledger, 6)
    rows = cost_rows(lab.opened().state.runs(), "run")
    assert [(row.name, row.spent.to_json(), row.costs) for row in rows] == [
        ("r0001", {"USD": "0.35"}, 5),
        ("r0002", {"USD": "0.07"}, 1),
    ]


def test_a_ctrl_c_while_polling_loses_no_cost(project: Make, ledger: Ledger) -> None:
    lab = project(flow(ledger))
    runs: list[Process] = []
    started = threading.Event()

    def stop(moment: str) -> None:
        if moment == "polled":
            started.wait()
            runs[0].signal(signal.SIGINT)

    ledger.at = stop
    ledger.service.answer("GET /orders/1", lambda _: (stop("polled"), Reply(200, {"state": "running"}))[1])
    runs.append(Process(lab))
    started.set()
    assert runs[0].end()[0] == 130
    ledger.at = lambda moment: None
    lab.succeed()
    check(lab, ledger, 1)


# --- without polling -------------------------------------------------------------------------------------------------


def plain(ledger: Ledger, **more: Any) -> str:
    given = {"poll": None, "wait": None, "download": None, "idempotency_key": None, **more}
    return flow(ledger, **given)


def costs(lab: Lab) -> list[tuple[str | None, str, str, str | None]]:
    events = [e for run in lab.runs() for e in lab.events(run) if isinstance(e, ev.CostRecorded)]
    return [(e.amount, e.currency, e.item, e.quantity) for e in events]


def test_unit_prices_are_multiplied_as_decimals(project: Make, ledger: Ledger) -> None:
    answer = b'{"usage": {"input_tokens": 3, "output_tokens": 812}}'
    ledger.service.answer("POST /orders", Reply(200, answer, {"Content-Type": "application/json"}))
    prices = {"/usage/input_tokens": 0.000001, "/usage/output_tokens": "0.00001"}
    lab = project(plain(ledger, cost=prices, currency="EUR"))
    lab.succeed()
    assert costs(lab) == [("0.000003", "EUR", "input_tokens", "3"), ("0.00812", "EUR", "output_tokens", "812")]
    assert recorded(lab).text() == "€0.008123"


def test_an_amount_is_taken_as_it_is_written(project: Make, ledger: Ledger) -> None:
    answer = b'{"usage": {"cost_usd": 0.1000000000000000055}}'
    ledger.service.answer("POST /orders", Reply(200, answer, {"Content-Type": "application/json"}))
    lab = project(plain(ledger, cost="/usage/cost_usd"))
    assert list(lab.run().failed) == []
    assert costs(lab) == [(None, "USD", "request", None)]  # more digits than a log takes: unknown, not rounded


def test_a_cost_that_the_answer_does_not_tell_is_unknown_and_not_0(project: Make, ledger: Ledger) -> None:
    ledger.service.answer("POST /orders", Reply(200, {"ok": True}))
    lab = project(plain(ledger))
    ran = lab.succeed()
    assert costs(lab) == [(None, "USD", "request", None)]
    assert {k: v for k, v in ran.result.to_json().items() if k.startswith("spent")} == {"spent": {}, "spent_unknown": 1}
    assert recorded(lab).text() == "1 of unknown amount"


def test_a_refusal_that_tells_a_cost_has_cost_that(project: Make, ledger: Ledger) -> None:
    ledger.service.answer(
        "POST /orders", Reply(500, {"usage": {"cost_usd": 0.02}}), Reply(200, {"x": 1}, {"X-Cost": "1"})
    )
    lab = project(plain(ledger, retries={"max": 1, "backoff": "1ms"}))
    lab.succeed()
    assert costs(lab) == [("0.02", "USD", "request", None), (None, "USD", "request", None)]


def test_a_header_may_tell_the_cost(project: Make, ledger: Ledger) -> None:
    ledger.service.answer("POST /orders", Reply(200, {}, {"X-Cost": "1.50"}))
    lab = project(plain(ledger, cost="x-cost"))
    lab.succeed()
    assert costs(lab) == [("1.5", "USD", "request", None)]


def test_a_flat_price_is_what_an_accepted_request_costs(project: Make, ledger: Ledger) -> None:
    ledger.service.answer("POST /orders", Reply(500, {}), Reply(200, {}))
    lab = project(plain(ledger, cost=None, price=0.04, retries={"max": 1, "backoff": "1ms"}))
    lab.succeed()
    assert costs(lab) == [("0.04", "USD", "request", None)]


def test_a_request_whose_answer_is_lost_has_cost_nobody_knows_what(project: Make, ledger: Ledger) -> None:
    ledger.service.answer("POST /orders", Reply(200, {"usage": 1}, cut=3), Reply(200, {"usage": {"cost_usd": 0.07}}))
    lab = project(plain(ledger))
    assert lab.run().failed == {"Job:Draw": ("FAILED", "AnswerLost")}
    lab.succeed()
    assert costs(lab) == [(None, "USD", "request without an answer", None), ("0.07", "USD", "request", None)]


def test_how_a_cost_is_known_is_no_part_of_the_fingerprint(project: Make, ledger: Ledger) -> None:
    lab = project(flow(ledger))
    lab.succeed()
    lab.write({"workflow.yaml": flow(ledger, cost="/other", price="0.5", currency="EUR")})
    assert not lab.plan().planned


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"price": -1}, "`price` is -1: it must be finite and at least 0"),
        ({"price": "free"}, "`price` must be a number, not 'free'"),
        ({"currency": "usd"}, "a currency is a code such as `USD` or `EUR`, not 'usd'"),
        ({"cost": "usage"}, "`cost` must be a JSON pointer, or the name of a header with a `-` in it: write `/usage`"),
        ({"cost": {"/usage": -2}}, "`cost./usage` is -2: it must be finite and at least 0"),
    ],
)
def test_a_wrong_price_is_refused_before_anything_is_sent(
    project: Make, ledger: Ledger, given: dict[str, Any], message: str
) -> None:
    from whyrun.errors import InvalidError

    with pytest.raises(InvalidError) as refused:
        project(plain(ledger, **given)).run()
    assert [d.code for d in refused.value.diagnostics] == ["INVALID_PARAMETER"]
    assert message in refused.value.diagnostics[0].message
    assert ledger.service.asked == []


def test_for_flat_prices_the_estimate_equals_the_ledger(project: Make, ledger: Ledger) -> None:
    lab = project(flow(ledger, loop=3, cost=None, price="0.07"))
    snapshot = lab.snapshot()
    before = expected_prices(compute_execution_plan(snapshot, PlanOptions()), snapshot)
    assert before is not None
    lab.succeed(budget="0.21")
    check(lab, ledger, 3)
    assert (before.total.sums, before.unknown) == ({"USD": ledger.total}, 0)


def test_retry_after_is_told_recorded_and_slows_the_resource_down(project: Make, ledger: Ledger) -> None:
    service = ledger.service
    service.answer("GET /x", Reply(429, {}, {"Retry-After": "1"}), Reply(200, {"a": 1}))
    flow = {
        "workflow": "w",
        "loops": {"k": {"values": [1, 2]}},
        "jobs": {
            "Ask": {
                "for": ["k"],
                "uses": "http/json",
                "resources": {"api": 1},
                "with": {"url": f"{service.url}/x", "query": {"k": "${{ k }}"}, "retries": {"backoff": "1ms"}},
                "outputs": {"Answer": {"type": "json"}},
            }
        },
    }
    lab = project(json.dumps(flow), {"whyrun.toml": '[rates]\napi = "100/s"\n'})
    ran = lab.succeed(jobs=1)
    assert sorted(service.heard()) == ["GET /x?k=1", "GET /x?k=1", "GET /x?k=2"]
    assert ran.folder is not None
    told = "`api`: the service asks to wait 1 s (`Retry-After`); no job that uses it starts before"
    assert [note for note in ran.heard.notes if "api" in note] == [told]
    metrics = [json.loads(line) for line in (ran.folder / "metrics.jsonl").read_text().splitlines()]
    asked = [(m["step_id"], m["value"], m["unit"]) for m in metrics if m["metric"] == "retry_after_seconds"]
    assert asked == [("Job:Ask[1]", 1.0, "s")]


@pytest.mark.parametrize(
    "how",
    [
        {"idempotency_key": None},
        {"idempotency_key": "X-Request"},
        {"redirects": 2},
        {"timeout": "7s", "retries": {"max": 3}, "wait": {"every": "20ms"}},
    ],
)
def test_how_a_request_is_sent_is_no_change(project: Make, ledger: Ledger, how: dict[str, Any]) -> None:
    lab = project(flow(ledger))
    lab.succeed()
    lab.write({"workflow.yaml": flow(ledger, **how)})
    assert not lab.plan().planned


def test_results_of_before_it_did_not_count_are_not_bought_again(
    project: Make, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        counted = tuple(name for name in Params.uncounted if name != "idempotency_key")
        before.setattr(Params, "uncounted", counted)
        lab = project(flow(ledger))
        lab.succeed()
    assert not lab.plan().planned
    check(lab, ledger, 1)
