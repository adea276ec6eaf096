"""`context.cost`: what a step spends is in the log before the call returns, and is counted as it is written."""

from __future__ import annotations

import signal
from collections.abc import Callable
from decimal import Decimal

import pytest

from project_lab import Lab, Process
from whyrun.evidence.queries.costs import cost_rows
from whyrun.log import events as ev
from whyrun.money import Cost, Totals, decimal, shown, written
from whyrun.planning.answers.prices import logged_costs

Make = Callable[..., Lab]

FLOW = """
    workflow: w
    loops: {k: {values: [1, 2]}}
    jobs:
      Buy:
        for: [k]
        uses: python
        retries: {max: 1, backoff: 10ms}
        with: {call: "shop:buy", k: "${{ k }}"}
        outputs: {Got: {type: string}}
"""
BUY = """
    from decimal import Decimal
    from pathlib import Path

    HERE = Path(__file__).parent

    def buy(k, context):
        context.cost(0.1, item="picture", quantity=1)
        context.cost(Decimal("0.2"), "EUR", item="tokens", quantity=812)
        if (HERE / f"fail-{k}").exists():
            (HERE / f"fail-{k}").unlink()
            raise RuntimeError("no")
        return {"Got": "it"}
"""


def spent(lab: Lab) -> Totals:
    totals = Totals()
    for row in cost_rows(lab.opened().state.runs(), "item"):
        totals.add_all(row.spent.to_record())
    return totals


def test_costs_are_events_also_of_attempts_that_fail(project: Make) -> None:
    lab = project(FLOW, {"shop.py": BUY, "fail-2": ""})
    ran = lab.succeed(jobs=1)
    assert ran.starts == [("Job:Buy[1]", 1), ("Job:Buy[2]", 1), ("Job:Buy[2]", 2)]
    assert [(e.step_id, e.amount, e.currency, e.item, e.quantity, e.request) for e in ran.of(ev.CostRecorded)] == [
        (step, *cost, None)
        for step in ("Job:Buy[1]", "Job:Buy[2]", "Job:Buy[2]")
        for cost in (("0.1", "USD", "picture", "1"), ("0.2", "EUR", "tokens", "812"))
    ]
    assert ran.result.usage.spent.text() == "€0.60 + $0.30"
    rows = {row.name: row.to_json("item") for row in cost_rows(lab.opened().state.runs(), "item")}
    assert rows == {
        "picture": {"item": "picture", "spent": {"USD": "0.3"}, "costs": 3, "quantity": "3"},
        "tokens": {"item": "tokens", "spent": {"EUR": "0.6"}, "costs": 3, "quantity": "2436"},
    }
    assert [row.to_json("action") for row in cost_rows(lab.opened().state.runs(), "action")] == [
        {"action": "python", "spent": {"EUR": "0.6", "USD": "0.3"}, "costs": 6}
    ]


def test_a_purchase_of_one_request_is_one_cost_also_over_runs(project: Make) -> None:
    """The step has not remembered the request: that it names it is enough."""
    buy = """
        def buy(k, context):
            context.cost("0.10", item="x", request=f"req-{k}")
            raise RuntimeError("no")
    """
    lab = project(FLOW, {"shop.py": buy})
    for _ in range(2):
        assert lab.run().exit_code == 1
    assert spent(lab).text() == "$0.20"


def test_the_records_have_what_the_present_result_cost(project: Make) -> None:
    lab = project(FLOW, {"shop.py": BUY, "fail-2": ""})
    lab.succeed()
    steps = lab.snapshot().records.steps
    of_one = {"EUR": "0.2", "USD": "0.1"}
    assert {step: logged_costs(record) for step, record in steps.items()} == {
        "Job:Buy[1]": of_one,
        "Job:Buy[2]": of_one,  # of the attempt that succeeded
    }


def test_after_kill_9_the_log_has_every_cost_that_was_acknowledged(project: Make) -> None:
    code = """
        import time
        from pathlib import Path

        HERE = Path(__file__).parent

        def buy(k, context):
            context.cost("0.07", item="picture")
            (HERE / f"paid-{k}").touch()
            while not (HERE / "go-on").exists():
                time.sleep(0.01)
            return {"Got": "it"}
    """
    lab = project(FLOW, {"shop.py": code})
    run = Process(lab)
    for k in (1, 2):
        run.wait_for_file(f"paid-{k}")
    run.signal(signal.SIGKILL)
    run.end()
    assert spent(lab).sums == {"USD": Decimal("0.14")}
    lab.write({"go-on": ""}).succeed()
    assert spent(lab).sums == {"USD": Decimal("0.28")}


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("context.cost(-1)", "the amount of a cost is -1: it must be finite and at least 0"),
        ("context.cost(float('nan'))", "the amount of a cost is nan: it must be finite and at least 0"),
        ("context.cost(True)", "the amount of a cost must be a number, not True"),
        ("context.cost(1, 'dollar')", "a currency is a code such as `USD` or `EUR`, not 'dollar'"),
        ("context.cost(1, quantity='many')", "the quantity of a cost must be a number, not 'many'"),
        ("context.remember('$cost 1', 1)", "keys that begin with `$cost ` are Whyrun's own"),
    ],
)
def test_what_is_no_amount_fails_the_step_and_says_so(project: Make, call: str, error: str) -> None:
    flow = FLOW.replace("for: [k]", "").replace(', k: "${{ k }}"', "").replace("retries: {max: 1, backoff: 10ms}", "")
    flow = flow.replace("loops: {k: {values: [1, 2]}}", "")
    lab = project(flow, {"shop.py": f"def buy(context):\n    {call}\n"})
    (failed,) = lab.run().of(ev.StepFailed)
    assert (failed.error_type, failed.error) == ("ValueError", error)


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.1, "0.1"), ("1e-7", "0.0000001"), (Decimal("2.50"), "2.5"), (1200, "1200"), (0, "0"), ("0.00", "0")],
)
def test_decimals_are_as_they_are_written(number: object, text: str) -> None:
    assert written(decimal("it", number)) == text


@pytest.mark.parametrize("number", ["1e30", "0.0000000000000000001", "inf", None, [], "1_0x"])
def test_what_is_no_decimal_is_refused(number: object) -> None:
    with pytest.raises(ValueError, match="it "):
        decimal("it", number)


def test_amounts_are_shown_without_rounding() -> None:
    assert [shown(Decimal(a), c) for a, c in [("0.4", "USD"), ("0.00031", "EUR"), ("12.5", "CHF")]] == [
        "$0.40", "€0.00031", "12.50 CHF",
    ]  # fmt: skip
    totals = Totals()
    for _ in range(10_000):
        totals.add("0.1")
    totals.add(None)
    assert totals.text() == "$1000.00 and 1 of unknown amount"
    assert totals.to_record() == {"USD": "1000", "": "1"}
    assert Cost("0.040", "EUR").to_json() == {"amount": "0.04", "currency": "EUR"}
