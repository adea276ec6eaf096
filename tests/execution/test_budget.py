"""Budgets: a plan above it is refused, and steps that would exceed it are held back, whatever others cost meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest
from click.testing import CliRunner

from project_lab import Lab, Ran, codes
from whyrun.cli.main import cli
from whyrun.errors import InvalidError, WhyrunError
from whyrun.execution.run.budget import Budget, Reservations
from whyrun.log import events as ev
from whyrun.money import Totals
from whyrun.planning.answers.prices import Prices
from whyrun.snapshot.snapshot import Price

Make = Callable[..., Lab]

FLOW = """
    workflow: w
    loops: {k: {values: [1, 2, 3, 4, 5, 6]}}
    jobs:
      Buy:
        for: [k]
        uses: python
        retries: {max: 1, backoff: 10ms}
        with: {call: "shop:buy", k: "${{ k }}"}
        outputs: {Got: {type: string}}
      Free:
        uses: shell
        with: {run: 'echo free > "$out_Text"'}
        outputs: {Text: {type: text}}
      Sum:
        uses: shell
        with: {all: "${{ jobs.Buy.outputs.Got[:] }}", run: 'echo "$all" > "$out_Text"'}
        outputs: {Text: {type: text}}
"""
BUY = """
    from pathlib import Path

    HERE = Path(__file__).parent

    def buy(k, context):
        context.cost("0.04", item="picture")
        if (HERE / f"fail-{k}").exists():
            (HERE / f"fail-{k}").unlink()
            raise RuntimeError("no")
        return {"Got": "it"}
"""
PRICES = "jobs: {Buy: 0.04}\nactions: {shell: 0}\n"
ALL = [f"Job:Buy[{k}]" for k in range(1, 7)]


@pytest.fixture
def lab(project: Make) -> Lab:
    return project(FLOW, {"shop.py": BUY, "prices.yaml": PRICES})


def bought(ran: Ran) -> list[str]:
    return [step for step in ran.executed if step.startswith("Job:Buy")]


def spent(ran: Ran) -> Decimal:
    return sum((Decimal(e.amount or 0) for e in ran.of(ev.CostRecorded)), Decimal(0))


@pytest.mark.parametrize(("budget", "told"), [("0.23", "$0.23"), ("0", "$0.00")])
def test_a_plan_above_the_budget_is_refused_with_the_figures(lab: Lab, budget: str, told: str) -> None:
    with pytest.raises(WhyrunError) as refused:
        lab.run(budget=budget)
    (problem,) = refused.value.diagnostics
    assert (problem.code, int(refused.value.exit)) == ("BUDGET_EXCEEDED", 2)
    assert problem.message == f"the plan would cost about $0.24, and the budget is {told}"
    assert lab.runs() == []


def test_a_plan_within_the_budget_runs(lab: Lab) -> None:
    ran = lab.succeed(budget="0.24")
    assert (bought(ran), ran.held, spent(ran)) == (ALL, [], Decimal("0.24"))


# One after the other, so that what is spent does not depend on time. Each costs more than its price.
CHAIN = """
    workflow: w
    jobs:
      B1: {uses: python, with: {call: "shop:buy"}, outputs: {Got: {type: string}}}
      B2: {uses: python, needs: [B1], with: {call: "shop:buy"}, outputs: {Got: {type: string}}}
      B3: {uses: python, needs: [B2], with: {call: "shop:buy"}, outputs: {Got: {type: string}}}
      B4: {uses: python, needs: [B3], with: {call: "shop:buy"}, outputs: {Got: {type: string}}}
      Cheap: {uses: python, needs: [B2], with: {call: "shop:buy"}, outputs: {Got: {type: string}}}
      Free: {uses: shell, needs: [B2], with: {run: 'echo free > "$out_Text"'}, outputs: {Text: {type: text}}}
"""
CHAIN_PRICES = "jobs: {B1: 0.04, B2: 0.04, B3: 0.04, B4: 0.04, Cheap: 0.01}\nactions: {shell: 0}\n"
CHAIN_CODE = """
    def buy(context):
        context.cost("0.09", item="picture")
        return {"Got": "it"}
"""


def test_the_first_step_that_does_not_fit_stops_all_that_have_a_price(project: Make) -> None:
    lab = project(CHAIN, {"shop.py": CHAIN_CODE, "prices.yaml": CHAIN_PRICES})
    ran = lab.run(budget="0.20", jobs=3)
    # 0.18 is spent: B3 (0.04) does not fit; Cheap (0.01) would, but all that has a price has stopped by then
    assert ran.executed == ["Job:B1", "Job:B2", "Job:Free"]
    assert (ran.held, ran.blocked) == (["Job:B3", "Job:Cheap"], {"Job:B4": ["Job:B3"]})
    assert (ran.exit_code, spent(ran)) == (1, Decimal("0.18"))
    assert [step for step, _ in ran.starts if step in ran.held] == []
    assert {(e.why, e.fingerprint) for e in ran.of(ev.StepSkipped)} == {("budget", None)}
    assert ran.result.to_json()["counts"]["held"] == 2
    assert [line for line in ran.heard.lines if "held back by the budget" in line[1]] != []
    # in the order of events: nothing starts that does not fit, and what is held back did not fit
    total = Decimal(0)
    for event in ran.events:
        if isinstance(event, ev.StepStart) and event.step_id != "Job:Free":
            assert total + Decimal("0.04") <= Decimal("0.20")
        if isinstance(event, ev.CostRecorded):
            total += Decimal(event.amount or 0)
        if isinstance(event, ev.StepSkipped):
            assert total + Decimal("0.04") > Decimal("0.20")
    # the next run goes on from there
    assert sorted(codes(lab.plan())) == ["Job:B3", "Job:B4", "Job:Cheap"]
    again = lab.succeed(budget="1")
    assert again.executed == ["Job:B3", "Job:B4", "Job:Cheap"]


def test_what_running_steps_may_still_spend_is_reserved() -> None:
    prices = Prices(
        {f"Job:{name}": Price({"USD": "0.04"}, "prices") for name in "ABCDE"} | {"Job:F": Price({}, "action")}
    )
    spent = Totals()
    reserved = Reservations(Budget.parse("0.12"), prices, spent)
    assert [reserved.reserve(f"Job:{name}") for name in "AB"] == [True, True]
    spent.add("0.03")
    reserved.paid("Job:A", "0.03", "USD")  # 0.03 spent, 0.01 + 0.04 reserved
    assert reserved.reserve("Job:C")  # 0.12: it just fits
    spent.add("0.02", "EUR")
    reserved.paid("Job:B", "0.02", "EUR")  # another currency
    reserved.release("Job:A")
    assert reserved.reserve("Job:A") is False  # a retry: 0.03 + 0.04 + 0.04 + 0.04
    reserved.release("Job:B")
    assert reserved.reserve("Job:E") is False  # it would fit, but what has a price has stopped
    assert reserved.reserve("Job:F")


def test_a_retry_that_does_not_fit_is_not_made(lab: Lab) -> None:
    lab.write({"fail-6": ""})
    ran = lab.run(budget="0.24", jobs=1)
    assert ran.held == []
    assert ran.failed == {"Job:Buy[6]": ("FAILED", "RuntimeError")}
    assert spent(ran) == Decimal("0.24")
    assert ran.blocked == {"Job:Sum": ["Job:Buy[6]"]}


def test_what_the_budget_does_not_count_is_told(lab: Lab) -> None:
    lab.write({"prices.yaml": "currency: EUR\njobs: {Buy: 0.04}\n"})
    ran = lab.succeed(budget="1")
    assert [note for note in ran.heard.notes if "budget" in note] == [
        "2 jobs of unknown price: what they will cost is not counted in the budget; once $1.00 is spent, they are held"
        " back",
        "the budget is in USD: prices in EUR do not count",
    ]


def test_the_settings_may_have_a_budget(lab: Lab) -> None:
    lab.write({"whyrun.toml": 'budget = "0.10"\n'})
    with pytest.raises(WhyrunError) as refused:
        lab.run()
    assert [d.code for d in refused.value.diagnostics] == ["BUDGET_EXCEEDED"]
    lab.edit("workflow.yaml", "workflow: w", "workflow: w\nbudget: 0.05")
    with pytest.raises(WhyrunError) as refused:
        lab.run()
    assert refused.value.diagnostics[0].message.endswith("the budget is $0.05")  # the workflow comes before
    assert lab.run(budget="1").exit_code == 0  # the command line comes first


EITHER = "write `budget: 5`, or `budget: 5 EUR`"


@pytest.mark.parametrize(
    ("budget", "hint"),
    [
        ("much", EITHER), ("5 euros", "write `budget: 5 EUR`"), ("-1", EITHER), ("[5]", EITHER), ("true", EITHER),
        ("''", EITHER), ("1e3", "write `budget: 1000`"), ("$5", "write `budget: 5`"),
        ("0.50€", "write `budget: 0.5 EUR`"), ("5 dollars", "write `budget: 5`"), ("5 chf", "write `budget: 5 CHF`"),
    ],
)  # fmt: skip
def test_a_wrong_budget_of_a_workflow_is_refused_with_its_line(lab: Lab, budget: str, hint: str) -> None:
    lab.edit("workflow.yaml", "workflow: w", f"workflow: w\nbudget: {budget}")
    with pytest.raises(InvalidError) as refused:
        lab.plan()
    (problem,) = refused.value.diagnostics
    assert (problem.code, problem.line, problem.hint) == ("WRONG_TYPE", 3, hint)
    assert problem.message.startswith("a budget is an amount, such as `5` or `5 EUR`, not ")


ONE_EACH = """
    def buy(k, context):
        context.cost("1", item="picture")
        return {"Got": "it"}
"""


def of_steps(ran: Ran) -> list[tuple[str, str]]:
    """What happened to the steps, in the order of the log."""
    kinds = ev.StepStart | ev.CostRecorded | ev.StepComplete | ev.StepSkipped
    return [(type(event).__name__, event.step_id) for event in ran.events if isinstance(event, kinds)]


@pytest.mark.parametrize(
    ("prices", "told"),
    [
        ("jobs: {Buy: 0.01, Sum: 0}\nactions: {shell: 0}\n", []),
        (
            "actions: {shell: 0}\n",
            [
                "6 jobs of unknown price: what they will cost is not counted in the budget; once $0.50 is spent, "
                "they are held back"
            ],
        ),
        (
            None,
            [
                "8 jobs of unknown price: what they will cost is not counted in the budget; once $0.50 is spent, "
                "they are held back"
            ],
        ),
    ],
    ids=["too low", "unknown", "no price list"],
)
def test_a_step_that_costs_too_much_holds_back_those_that_are_queued(
    lab: Lab, prices: str | None, told: list[str]
) -> None:
    lab.write({"shop.py": ONE_EACH, "prices.yaml": prices})
    ran = lab.run(budget="0.50", jobs=1, targets=["Job:Sum", "Job:Free"])
    assert [note for note in ran.heard.notes if "budget" in note] == told
    # The second one was queued before the first one cost more than it should: it has made no attempt.
    happened = [(kind, step) for kind, step in of_steps(ran) if step in ALL]
    assert happened[:2] == [("StepStart", ALL[0]), ("CostRecorded", ALL[0])]
    assert sorted(happened[2:]) == [("StepComplete", ALL[0]), *(("StepSkipped", step) for step in ALL[1:])]
    assert (ran.exit_code, spent(ran)) == (1, Decimal(1))
    again = lab.succeed(budget="9", jobs=1)
    assert sorted(step for step in again.starts if step[0] in ALL) == [(step, 1) for step in ALL[1:]]


def test_a_short_step_that_a_worker_already_has_is_held_back(project: Make) -> None:
    """Steps of a few milliseconds are sent ahead: the worker has the next ones while one runs."""
    flow = """
        workflow: w
        loops: {k: {range: 1-60}}
        jobs:
          Buy:
            for: [k]
            uses: python
            with: {call: "shop:buy", k: "${{ k }}"}
            outputs: {Got: {type: string}}
    """
    code = """
        def buy(k, context):
            context.cost("1" if k == 40 else "0.001")
            return {"Got": "it"}
    """
    lab = project(flow, {"shop.py": code, "prices.yaml": "jobs: {Buy: 0.001}\n"})
    ran = lab.run(budget="0.50", jobs=1)
    starts = [step for step, _ in ran.starts]
    assert (starts[-1], len(starts), len(ran.held)) == ("Job:Buy[40]", 40, 20)
    assert (ran.exit_code, spent(ran)) == (1, Decimal("1.039"))


def test_a_wrong_budget_is_refused_with_nothing_to_do(lab: Lab) -> None:
    lab.succeed()
    for budget, settings in (("abc", ""), (None, 'budget = "5 euros"\n')):
        lab.write({"whyrun.toml": settings})
        with pytest.raises(WhyrunError) as refused:
            lab.run(budget=budget)
        told = refused.value.diagnostics[0].message
        assert told == (
            "a budget is an amount, such as `5 EUR`, not `abc`"
            if budget
            else "`budget` is an amount, with a currency unless it is in US dollars, not '5 euros'"
        )


@pytest.mark.parametrize("text", ["much", "-1", "5 euros", "5 EUR USD", ""])
def test_what_is_no_budget_is_refused(text: str) -> None:
    with pytest.raises(WhyrunError) as refused:
        Budget.parse(text)
    assert [d.code for d in refused.value.diagnostics] == ["USAGE"]


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["5", "EUR"], "`--budget 5 EUR` is two arguments", "write `--budget '5 EUR'`"),
        (["5", "eur"], "`--budget 5 eur` is two arguments", "write `--budget '5 EUR'`"),
        (["$5"], "a budget is an amount, such as `5 EUR`, not `$5`", "write `--budget 5`"),
        (["€5"], "a budget is an amount, such as `5 EUR`, not `€5`", "write `--budget '5 EUR'`"),
    ],
)
def test_a_budget_as_people_write_it_on_a_command_line(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str, hint: str
) -> None:
    monkeypatch.chdir(lab.root)
    answer = CliRunner().invoke(cli, ["run", "--dry-run", "--budget", *arguments], standalone_mode=False)
    assert isinstance(answer.exception, WhyrunError)
    assert [(d.code, d.message, d.hint) for d in answer.exception.diagnostics] == [("USAGE", message, hint)]


def test_a_budget_has_an_amount_and_a_currency() -> None:
    assert [str(Budget.parse(text)) for text in ("5", "0.5 EUR", " 12 CHF ")] == ["$5.00", "€0.50", "12.00 CHF"]
