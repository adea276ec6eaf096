"""`whyrun costs`, and what other commands tell of money."""

from __future__ import annotations

from collections.abc import Callable

from cli_lab import dedent, whyrun

from project_lab import Lab

Make = Callable[..., Lab]

FLOW = """
    workflow: w
    jobs:
      Draw:
        uses: python
        with: {call: "shop:draw"}
        outputs: {Got: {type: string}}
      Note:
        uses: shell
        with: {got: "${{ jobs.Draw.outputs.Got }}", run: 'echo "$got" > "$out_Text"'}
        outputs: {Text: {type: text, path: note.txt}}
"""
SHOP = """
    def draw(context):
        context.cost("0.04", item="picture", quantity=1)
        context.cost(None, item="storage")
        return {"Got": "it"}
"""


def test_what_was_spent_and_what_is_saved(project: Make) -> None:
    lab = project(FLOW, {"shop.py": SHOP})
    assert whyrun(lab.root, "costs").out == "no run of w has recorded a cost\n"
    told = whyrun(lab.root, "run")
    assert "\n  spent $0.04 and 1 of unknown amount\n" in told.err
    assert whyrun(lab.root, "costs").out == dedent("""
        job    spent                           costs
        Draw   $0.04 and 1 of unknown amount  2
        total  $0.04 and 1 of unknown amount  2
        kept: results worth $0.04 and 1 of unknown amount; the next run does not buy them again
    """).replace("spent                           costs", "spent                          costs")
    assert whyrun(lab.root, "costs", "--by", "item").out == dedent("""
        item     spent                          costs  quantity
        picture  $0.04                          1      1
        storage  1 of unknown amount            1
        total    $0.04 and 1 of unknown amount  2
        kept: results worth $0.04 and 1 of unknown amount; the next run does not buy them again
    """)
    assert whyrun(lab.root, "costs", "--by", "run", "--json").json == {
        "workflow": "w",
        "by": "run",
        "spent": {"USD": "0.04"},
        "spent_unknown": 1,
        "saved": {"USD": "0.04"},
        "pruned_runs": 0,
        "costs": [{"run": "r0001", "spent": {"USD": "0.04"}, "spent_unknown": 1, "costs": 2}],
    }
    shown = whyrun(lab.root, "show", "r0001", "--json").json
    assert (shown["spent"], shown["spent_unknown"]) == ({"USD": "0.04"}, 1)
    assert whyrun(lab.root, "show", "Job:Draw", "--json").json["latest_attempt"]["spent"] == {"USD": "0.04"}
    assert "  spent          $0.04\n" in whyrun(lab.root, "show", "r0001").out
    lab.edit("workflow.yaml", "echo", "echo more")
    again = whyrun(lab.root, "run", "--json")
    assert "\n  saved $0.04 and 1 of unknown amount by not buying it again\n" in again.err
    assert again.json["saved"] == {"USD": "0.04"}
    assert "spent" not in again.json


def test_a_workflow_that_spends_nothing_says_nothing_of_money(project: Make) -> None:
    lab = project(FLOW, {"shop.py": "def draw():\n    return {'Got': 'it'}\n"})
    told = whyrun(lab.root, "run", "--json")
    assert "spent" not in told.err + told.out
    assert "saved" not in {name for name in told.json if name != "saved_seconds"}


PRICED = """
    workflow: w
    inputs: {Prompt: {type: string, default: a cat}}
    jobs:
      Ask:
        uses: http/json
        with: {url: "http://127.0.0.1:9/", json: {q: "${{ inputs.Prompt }}"}, price: 0.1}
        outputs: {Answer: {type: json}}
      Tell:
        uses: shell
        with: {answer: "${{ jobs.Ask.outputs.Answer }}", run: 'echo "$answer" > "$out_Text"'}
        outputs: {Text: {type: text}}
"""


def test_what_a_run_would_cost_is_told_before_it(project: Make) -> None:
    lab = project(PRICED)
    told = whyrun(lab.root, "run", "--dry-run").out
    assert told.splitlines()[0].endswith("2 of 2 jobs to run  (~$0.10; 1 job of unknown price)")
    assert "price ~$0.10; 1 job of unknown price" in told
    assert whyrun(lab.root, "run", "--dry-run", "--json").json["prices"] == {
        "total": {"USD": "0.1"},
        "unknown_jobs": 1,
    }
    lab.write({"prices.yaml": "actions: {shell: 0}\n"})
    why = whyrun(lab.root, "why", "Input:Prompt", "--json").json
    assert (why["price"], why["prices"]) == ("~$0.10", {"total": {"USD": "0.1"}, "unknown_jobs": 0})
    assert "(~$0.10)" in whyrun(lab.root, "plan", "--assume", "Input:Prompt=changed").out


def test_what_the_budget_held_back_is_told_with_how_to_go_on(project: Make) -> None:
    flow = """
        workflow: w
        loops: {k: {values: [1, 2, 3]}}
        jobs:
          Buy: {for: [k], uses: python, with: {call: "shop:buy", k: "${{ k }}"}, outputs: {Got: {type: string}}}
    """
    code = """
        def buy(k, context):
            context.cost("1")
            return {"Got": "it"}
    """
    lab = project(flow, {"shop.py": code, "prices.yaml": "jobs: {Buye: 0.01}\n"})
    ran = whyrun(lab.root, "run", "--jobs", "1", "--budget", "0.50", "--target", "Job:Buy[*]")
    assert ran.code == 1
    assert (
        "note: `prices.yaml` has a price for `Buye`, which is no job of this workflow: did you mean `Buy`?" in ran.err
    )
    assert "\n  spent $1.00 of a budget of $0.50\n" in ran.err
    assert (
        "\n  held back by the budget of $0.50; to go on: whyrun run --target 'Job:Buy[*]' --jobs 1 --budget …\n"
        in ran.err
    )
    shown = whyrun(lab.root, "show", "r0001").out
    assert "  skipped      0\n" in shown
    assert "  held         2 by the budget\n" in shown
    listed = whyrun(lab.root, "runs").out.splitlines()
    assert (listed[0].split()[-2:], listed[1].split()[-7]) == (["spent", "steps"], "$1.00")
    assert listed[1].endswith(", 1 completed, 2 held")
    assert whyrun(lab.root, "runs", "--json").json["runs"][0]["spent"] == {"USD": "1"}
    refused = whyrun(lab.root, "plan", "--budget", "1")
    assert (refused.code, "write `whyrun run --dry-run --budget AMOUNT`" in refused.err) == (2, True)


def test_forced_steps_that_the_budget_held_back_are_forced_again(project: Make) -> None:
    flow = """
        workflow: w
        budget: 5
        jobs:
          A: {uses: python, with: {call: "shop:buy"}, outputs: {Got: {type: string}}}
          B: {uses: python, needs: [A], with: {call: "shop:buy"}, outputs: {Got: {type: string}}}
    """
    code = """
        def buy(context):
            context.cost("1")
            return {"Got": "it"}
    """
    lab = project(flow, {"shop.py": code})
    lab.succeed()
    lab.write({"prices.yaml": "jobs: {A: 0.01, B: 0.01}\n"})
    told = whyrun(lab.root, "run", "--budget", "0.50", "--force", "all").err
    assert "; to go on: whyrun run --force Job:B --budget …\n" in told
    compared = whyrun(lab.root, "compare", "Job:A")
    assert "\n  spent $1.00\n" in compared.err
