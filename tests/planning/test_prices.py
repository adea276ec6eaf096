"""What a plan would cost, with the source of each price; unknown is never 0, and plans themselves know no prices."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from project_lab import Lab
from whyrun.errors import InvalidError
from whyrun.facts.plans import Planned, assumed_plan
from whyrun.planning.answers.explain import explain_json, render_explain, render_plan
from whyrun.planning.answers.prices import Prices
from whyrun.planning.plan import PlanOptions, compute_execution_plan

Make = Callable[..., Lab]

FLOW = """
    workflow: w
    inputs: {Size: {type: integer, default: 2}}
    loops: {k: {values: [1, 2, 3]}}
    jobs:
      Draw:
        for: [k]
        uses: shop/draw
        with: {k: "${{ k }}", size: "${{ inputs.Size }}"}
        outputs: {Got: {type: string}}
      Tell:
        uses: shell
        with: {all: "${{ jobs.Draw.outputs.Got[:] }}", run: 'echo "$all" > "$out_Text"'}
        outputs: {Text: {type: text}}
      Ask:
        uses: http/json
        with: {url: "http://127.0.0.1:9/", json: {q: 1}, price: 0.1, currency: EUR}
        outputs: {Answer: {type: json}}
"""
SHOP = """
    from decimal import Decimal
    from whyrun import Action, Cost

    class Draw(Action):
        name, version, outputs = "shop/draw", "1", {"Got": "string"}

        def estimate_cost(self, inputs):
            return None if inputs["k"] == 3 else Cost(Decimal("0.01") * inputs["size"])

        def run(self, inputs, mode="dry-run", context=None, logger=None):
            context.cost(Decimal("0.01") * inputs["size"], item="picture")
            return {"Got": "it"}
"""


@pytest.fixture
def lab(project: Make) -> Lab:
    return project(FLOW, {"actions/shop.py": SHOP})


def planned(lab: Lab, **options: object) -> Planned:
    snapshot = lab.snapshot()
    return Planned(compute_execution_plan(snapshot, PlanOptions(**options)), snapshot)  # type: ignore[arg-type]


def prices(found: Planned) -> Prices:
    known = found.prices()
    assert known is not None
    return known


def shown(known: Prices) -> dict[str, str | None]:
    return {job: known.of_job(job) for job in known.by_job}


def test_each_price_has_its_source_and_what_is_not_known_is_told(lab: Lab) -> None:
    known = prices(planned(lab))
    assert shown(known) == {
        "Job:Draw[1]": "~$0.02 (by its action)",
        "Job:Draw[2]": "~$0.02 (by its action)",
        "Job:Draw[3]": "unknown price",
        "Job:Ask": "~€0.10 (by its action)",
        "Job:Tell": "unknown price",
    }
    assert known.text() == "~€0.10 + $0.04; 2 jobs of unknown price"
    assert known.to_json() == {"total": {"EUR": "0.1", "USD": "0.04"}, "unknown_jobs": 2}


def test_plan_explain_and_json_tell_it(lab: Lab) -> None:
    found = planned(lab)
    known, plan = prices(found), found.plan
    assert "5 of 5 jobs to run  (~3 s, ~€0.10 + $0.04; 2 jobs of unknown price)" in render_plan(
        plan, estimate=3, prices=known
    )
    assert "Job:Ask       MISSING_OUTPUT (~€0.10)" in render_plan(plan, prices=known)
    lines = [line.split() for line in render_explain(plan, prices=known).splitlines()]
    assert lines.count(["price", "~$0.02", "(by", "its", "action)"]) == 2
    body = explain_json(plan, prices=known)
    assert body["prices"] == {"total": {"EUR": "0.1", "USD": "0.04"}, "unknown_jobs": 2}
    jobs = {job["id"]: job["price"] for layer in body["layers"] for job in layer["jobs"]}
    assert jobs["Job:Draw[1]"] == {"costs": {"USD": "0.02"}, "source": "action"}
    assert jobs["Job:Tell"] == {"costs": None, "source": "unknown"}


def test_the_plan_itself_knows_no_prices(lab: Lab) -> None:
    before = planned(lab).plan
    lab.write({"prices.yaml": "jobs: {Tell: 1}\n"})
    assert planned(lab).plan.to_bytes() == before.to_bytes()
    assert b"price" not in before.to_bytes()


def test_the_price_list_and_then_the_history(lab: Lab) -> None:
    lab.run(targets=["Job:Draw[*]"])
    lab.write({"prices.yaml": "jobs: {Tell: 0.005}\nactions: {http/json: 3, shell: 7}\n"})
    known = prices(planned(lab, force=("Job:Draw[3]", "Job:Tell")))
    assert shown(known) == {
        "Job:Draw[3]": "~$0.02 (by earlier runs)",
        "Job:Ask": "~€0.10 (by its action)",
        "Job:Tell": "~$0.005 (by prices.yaml)",
    }


def test_an_instance_that_never_ran_costs_what_the_others_did(project: Make) -> None:
    code = SHOP.replace("estimate_cost", "estimate_nothing")
    lab = project(FLOW, {"actions/shop.py": code})
    lab.run(targets=["Job:Draw[1]", "Job:Draw[2]"])
    known = prices(planned(lab, targets=("Job:Draw[*]",)))
    assert shown(known)["Job:Draw[3]"] == "~$0.02 (by earlier runs)"


def test_an_assumed_input_has_the_price_of_that_plan(lab: Lab) -> None:
    lab.run(targets=["Job:Draw[*]"])
    then = assumed_plan(lab.opened(), PlanOptions(targets=("Job:Draw[*]",)), ["Input:Size=5"])
    known = prices(then)
    assert shown(known) == {
        "Job:Draw[1]": "~$0.05 (by its action)",
        "Job:Draw[2]": "~$0.05 (by its action)",
        "Job:Draw[3]": "~$0.02 (by earlier runs)",
    }


def test_a_workflow_without_prices_has_none(project: Make) -> None:
    flow = "workflow: w\njobs: {A: {uses: shell, with: {run: 'echo a > \"$out_T\"'}, outputs: {T: {type: text}}}}\n"
    lab = project(flow)
    assert planned(lab).prices() is None
    lab.succeed()
    assert planned(lab, force=("Job:A",)).prices() is None
    lab.write({"prices.yaml": "jobs: {A: 0}\n"})
    assert prices(planned(lab, force=("Job:A",))).text() == "~$0.00"


@pytest.mark.parametrize("text", ["", "# nothing yet\n"])
def test_a_price_list_may_be_empty(lab: Lab, text: str) -> None:
    without = shown(prices(planned(lab)))
    lab.write({"prices.yaml": text})
    assert shown(prices(planned(lab))) == without


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("job: {A: 1}", "UNKNOWN_KEY", "there is no key `job` in a price list"),
        ("jobs: [1]", "WRONG_TYPE", "`jobs` is a list, not a map"),
        ("jobs: {A: free}", "WRONG_TYPE", "a price must be a number, not 'free'"),
        ("currency: dollar", "WRONG_TYPE", "a currency is a code such as `USD` or `EUR`, not 'dollar'"),
        ("[1]", "WRONG_TYPE", "a price list is a map, not a list"),
    ],
)
def test_a_price_list_with_a_mistake_is_refused(lab: Lab, text: str, code: str, message: str) -> None:
    lab.write({"prices.yaml": text})
    with pytest.raises(InvalidError) as refused:
        planned(lab).prices()
    (problem,) = refused.value.diagnostics
    assert (problem.code, problem.message, problem.file, problem.line) == (code, message, "prices.yaml", 1)


@pytest.mark.parametrize(
    ("price", "hint"),
    [
        ('"0.1 EUR"', "write `currency: EUR` once for the whole list, and here `0.1`"),
        ("-1", "a price is at least 0"),
        ("0.1 euros", "omit what you do not know: it is unknown, not 0"),
        ("[1]", "omit what you do not know: it is unknown, not 0"),
    ],
)
def test_a_wrong_price_is_told_what_to_write(lab: Lab, price: str, hint: str) -> None:
    lab.write({"prices.yaml": f"jobs: {{Tell: {price}}}\n"})
    with pytest.raises(InvalidError) as refused:
        planned(lab).prices()
    assert [(problem.code, problem.hint) for problem in refused.value.diagnostics] == [("WRONG_TYPE", hint)]


def test_an_item_of_the_price_list_prices_what_a_step_cannot(project: Make) -> None:
    flow = "workflow: w\njobs: {A: {uses: python, with: {call: 'shop:a'}, outputs: {T: {type: string}}}}\n"
    code = "def a(context):\n    context.cost(None, item='tokens', quantity=812)\n    context.cost(None, item='x')\n"
    lab = project(flow, {"shop.py": f"{code}    return {{'T': ''}}\n", "prices.yaml": "items: {tokens: 0.00001}\n"})
    ran = lab.succeed()
    assert ran.result.usage.spent.text() == "$0.00812 and 1 of unknown amount"


def test_a_price_for_a_misspelled_job_is_noted(lab: Lab) -> None:
    # `Other` may be a job of another workflow of the project
    lab.write({"prices.yaml": "jobs: {Tel: 0.01, Other: 1}\n"})
    assert planned(lab).price_notes() == [
        "`prices.yaml` has a price for `Tel`, which is no job of this workflow: did you mean `Tell`?"
    ]
    lab.write({"prices.yaml": "jobs: {Tel: 0.01, Tell: 1}\n"})
    assert planned(lab).price_notes() == []


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("-1", "ValueError: the amount is -1: it must be finite and at least 0"),
        ("'much'", "ValueError: the amount must be a number, not 'much'"),
        ("Cost(1, 'euros')", "ValueError: a currency is a code such as `USD` or `EUR`, not 'euros'"),
        ("inputs['oops']", "KeyError: 'oops'"),
    ],
)
def test_an_estimate_that_is_no_price_is_told(lab: Lab, answer: str, problem: str) -> None:
    lab.edit("actions/shop.py", 'None if inputs["k"] == 3 else Cost(Decimal("0.01") * inputs["size"])', answer)
    found = planned(lab)
    told = f"`estimate_cost` of `shop/draw` gives no price, so it is unknown: {problem}"
    assert found.price_notes() == [told]
    assert prices(found).unknown == 4


def test_an_estimate_that_waits_for_a_result_is_no_mistake(lab: Lab) -> None:
    lab.edit("workflow.yaml", 'size: "${{ inputs.Size }}"}', 'size: "${{ jobs.Big.outputs.N }}"}')
    big = "{uses: python, with: {call: 'big:big'}, outputs: {N: {type: integer}}}"
    lab.edit("workflow.yaml", "  Tell:\n", f"  Big: {big}\n  Tell:\n")
    lab.write({"big.py": "def big():\n    return {'N': 3}\n"})
    found = planned(lab)
    assert (found.price_notes(), prices(found).by_job["Job:Draw[1]"].costs) == ([], None)
