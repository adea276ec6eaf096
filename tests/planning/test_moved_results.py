"""Results follow their content: what was paid for is not bought again because it has another index now."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from project_lab import NOT_TRACED, Heard, Lab, Ran
from whyrun.errors import InvalidError
from whyrun.execution.adopt.adopt import adopt_file
from whyrun.execution.backends.registry import RunOptions
from whyrun.execution.dispatch.reusable_results import ReusableResults
from whyrun.execution.run.session import run_workflow
from whyrun.planning.plan import Plan, PlanOptions, compute_execution_plan
from whyrun.snapshot.history.replay import replay_snapshot, snapshot_blob

Make = Callable[..., Lab]

FLOW = """
    workflow: w
    inputs: {Prompts: {type: "string[]", default: [a, b]}}
    loops: {k: {each: inputs.Prompts}}
    jobs:
      Draw:
        for: [k]
        uses: python
        with: {call: "shop:draw", prompt: "${{ inputs.Prompts[k] }}"}
        outputs: {Picture: {type: text, path: "out/${{ k }}.txt"}}
"""
# Each order is another picture, also of the same prompt.
SHOP = """
    from pathlib import Path

    ORDERS = Path(__file__).parent / "orders"

    def draw(prompt):
        with ORDERS.open("a") as file:
            file.write(prompt + chr(10))
        return {"Picture": f"{prompt}{ORDERS.read_text().splitlines().count(prompt)}"}
"""


class Gallery:
    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    def draw(self, *prompts: str) -> Ran:
        return self.lab.succeed(jobs=1, sets=[f"Prompts={json.dumps(prompts)}"])

    @property
    def orders(self) -> str:
        return self.lab.read("orders").replace("\n", " ").strip()

    def pictures(self, number: int) -> list[str]:
        return [self.lab.read(f"out/{k}.txt") for k in range(number)]


@pytest.fixture
def gallery(project: Make) -> Gallery:
    return Gallery(project(FLOW, {"shop.py": SHOP}))


def test_an_insertion_and_a_removal_buy_what_is_new_only(gallery: Gallery) -> None:
    gallery.draw("a", "b")
    ran = gallery.draw("n", "a", "b")
    assert (ran.executed, ran.reused) == (["Job:Draw[0]"], {"Job:Draw[1]": "r0001", "Job:Draw[2]": "r0001"})
    assert (gallery.orders, gallery.pictures(3)) == ("a b n", ["n1", "a1", "b1"])
    told = {job["id"]: job.get("reuse") for job in ran.plan.to_json()["jobs"]}
    assert told == {
        "Job:Draw[0]": None,
        "Job:Draw[1]": "r0001 (Job:Draw[0])",
        "Job:Draw[2]": "r0001 (Job:Draw[1])",
    }
    assert not gallery.lab.plan(sets=['Prompts=["n", "a", "b"]']).planned
    gallery.draw("x", "n", "a", "b")  # they move once more
    gallery.draw("a", "b")
    gallery.draw("b", "a")
    assert (gallery.orders, gallery.pictures(2)) == ("a b n x", ["b1", "a1"])
    gallery.draw("b", "n", "x", "a")  # also those of instances that there were not meanwhile
    assert (gallery.orders, gallery.pictures(4)) == ("a b n x", ["b1", "n1", "x1", "a1"])


def test_two_instances_with_one_prompt_have_two_pictures_always(gallery: Gallery) -> None:
    gallery.draw("a")
    gallery.draw("n", "a")  # `a1` moved to the second one
    gallery.draw("a", "a")  # the first one made it, but has it no more
    assert gallery.pictures(2) == ["a2", "a1"]
    gallery.draw("n", "a", "a")
    assert (gallery.orders, sorted(gallery.pictures(3))) == ("a n a", ["a1", "a2", "n1"])
    gallery.draw("a", "a", "a")
    assert sorted(gallery.pictures(3)) == ["a1", "a2", "a3"]
    gallery.draw("a")
    gallery.draw("a", "a", "a")
    assert (sorted(gallery.pictures(3)), gallery.orders) == (["a1", "a2", "a3"], "a n a a")


@pytest.mark.parametrize(
    "loop",
    ["{values: [a, b]}", "{count: 2}", "{range: 0-1}"],
)
def test_another_kind_of_loop_buys_nothing(gallery: Gallery, loop: str) -> None:
    gallery.draw("a", "b")
    lab = gallery.lab
    lab.edit("workflow.yaml", "{each: inputs.Prompts}", loop)
    if "values" in loop:
        lab.edit("workflow.yaml", "${{ inputs.Prompts[k] }}", "${{ k }}")
    ran = lab.succeed()
    assert (ran.executed, len(lab.plan().planned), gallery.orders) == ([], 0, "a b")


def test_a_job_that_takes_its_own_results_only(gallery: Gallery) -> None:
    gallery.lab.edit("workflow.yaml", "for: [k]", "for: [k]\n    reuse: instance")
    gallery.draw("a", "b")
    gallery.draw("n", "a")
    assert gallery.orders == "a b n a"


def test_an_adopted_result_moves_and_stays_adopted(gallery: Gallery) -> None:
    gallery.draw("a", "b")
    mine = gallery.lab.root / "mine.txt"
    mine.write_text("mine")
    adopt_file(gallery.lab.opened(), "Artifact:Draw.Picture[0]", mine, Heard())
    gallery.draw("n", "a", "b")
    assert (gallery.orders, gallery.pictures(3)) == ("a b n", ["n1", "mine", "b1"])
    record = gallery.lab.snapshot(['Prompts=["n", "a", "b"]']).records.steps["Job:Draw[1]"]
    assert record.latest.adopted == {"Artifact:Draw.Picture[1]": 2}
    gallery.draw("x", "n", "a")
    assert (gallery.orders, gallery.pictures(3)) == ("a b n x", ["x1", "n1", "mine"])


def test_a_failed_attempt_is_tried_again_and_not_hidden(gallery: Gallery) -> None:
    gallery.draw("a", "b")
    gallery.lab.write({"shop.py": "def draw(prompt):\n    raise ValueError('no')\n"})
    gallery.lab.run(sets=['Prompts=["b", "a"]'])
    plan = gallery.lab.plan(sets=['Prompts=["b", "a"]'])
    assert [job.reuse for job in plan.planned] == [None, None]
    gallery.lab.write({"shop.py": SHOP})
    gallery.draw("b", "a")
    assert gallery.orders == "a b"


def test_lost_bytes_do_not_move(gallery: Gallery) -> None:
    gallery.draw("a", "b")
    snapshot = gallery.lab.snapshot()
    sha = snapshot.available_artifacts["Artifact:Draw.Picture[0]"].sha256
    blob = gallery.lab.blob(sha)
    blob.chmod(0o644)
    blob.unlink()
    (gallery.lab.root / "out/0.txt").unlink()
    ran = gallery.draw("n", "a", "b")
    assert (ran.executed, gallery.orders) == (["Job:Draw[0]", "Job:Draw[1]"], "a b n a")


def test_what_another_instance_may_turn_out_to_need_is_not_taken(project: Make) -> None:
    word = """
      Word:
        for: [k]
        uses: python
        with: {call: "shop:word", prompt: "${{ inputs.Prompts[k] }}"}
        outputs: {W: {type: string}}
"""
    flow = FLOW.replace("${{ inputs.Prompts[k] }}", "${{ jobs.Word.outputs.W[k] }}").rstrip() + word
    gallery = Gallery(project(flow, {"shop.py": SHOP + "\n    def word(prompt):\n        return {'W': prompt}\n"}))
    gallery.draw("a", "b")
    ran = gallery.draw("b", "c")  # what the second one will be given is not known before the run: it may be `b` again
    assert {job.id: job.reuse is not None for job in ran.plan.planned}["Job:Draw[0]"] is False
    assert gallery.pictures(2) == ["b2", "c1"]


def test_plans_of_runs_before_this_rule_are_replayed_by_theirs(gallery: Gallery) -> None:
    gallery.draw("a", "b")
    sets = ['Prompts=["n", "a", "b"]']
    project = gallery.lab.opened(sets)
    snapshot = project.snapshot()
    blob = snapshot_blob(snapshot)
    plan = compute_execution_plan(snapshot, PlanOptions())
    assert plan.totals["reused"] == 2
    assert compute_execution_plan(replay_snapshot(blob, project.history()), PlanOptions()).digest == plan.digest
    old = json.loads(blob)
    del old["moving"]
    before = compute_execution_plan(replay_snapshot(json.dumps(old).encode(), project.history()), PlanOptions())
    assert before.totals["reused"] == 0


def test_a_word_that_is_no_scope_is_refused(gallery: Gallery) -> None:
    gallery.lab.edit("workflow.yaml", "for: [k]", "for: [k]\n    reuse: jobs")
    with pytest.raises(InvalidError) as refused:
        gallery.lab.plan()
    (problem,) = refused.value.diagnostics
    assert (problem.code, problem.hint) == ("WRONG_TYPE", "did you mean `job`?")


def test_results_move_in_the_stage_that_plans_their_whole_loop(project: Make) -> None:
    flow = """
        workflow: w
        inputs: {Prompts: {type: "string[]", default: [a, b]}}
        loops: {k: {each: jobs.Write.outputs.Words}}
        jobs:
          Write:
            uses: python
            with: {call: "shop:write", prompts: "${{ inputs.Prompts }}"}
            outputs: {Words: {type: "string[]"}}
          Draw:
            for: [k]
            uses: python
            with: {call: "shop:draw", prompt: "${{ jobs.Write.outputs.Words[k] }}"}
            outputs: {Picture: {type: text, path: "out/${{ k }}.txt"}}
    """
    write = "\n    def write(prompts):\n        return {'Words': list(prompts)}\n"
    gallery = Gallery(project(flow, {"shop.py": SHOP + write}))
    gallery.draw("a", "b")
    ran = gallery.draw("n", "a", "b")
    assert (ran.executed, gallery.orders) == (["Job:Draw[0]", "Job:Write"], "a b n")
    assert gallery.pictures(3) == ["n1", "a1", "b1"]


# The pictures depend on a file that the drawing reads undeclared, and that another step of the run writes.
STYLED = """
    from pathlib import Path

    STYLE = Path(__file__).parent / "style.dat"

    def draw(prompt):
        return {"Picture": prompt + STYLE.read_text()}

    def style(text):
        STYLE.write_text(text)
        return {"Text": text}
"""


def run_whatever_was_planned(lab: Lab, *sets: str) -> dict[str, str]:
    """Step → its status. Not through `Lab.run`, which holds a run to its plan: here the world changes meanwhile."""
    heard = Heard()
    assert run_workflow(lab.opened(sets), PlanOptions(), RunOptions(jobs=1), heard).exit_code == 0
    return {line.split("] ", 1)[1].split()[1]: status for status, line in heard.lines}


def test_what_its_step_read_may_change_during_the_run(project: Make) -> None:
    style = """
      Style:
        uses: python
        with: {call: "shop:style", text: "${{ inputs.S }}"}
        outputs: {Text: {type: text}}
"""
    flow = FLOW.replace("for: [k]", "for: [k]\n        needs: [Style]").rstrip() + style
    flow = flow.replace("inputs: {", 'inputs: {S: {type: string, default: "1"}, ')
    gallery = Gallery(project(flow, {"shop.py": STYLED, "style.dat": "1"}))
    gallery.draw("a", "b")
    ended = run_whatever_was_planned(gallery.lab, "S=2", 'Prompts=["n", "a", "b"]')
    assert set(ended.values()) == {"EXECUTES"}
    assert gallery.pictures(3) == ["n2", "a2", "b2"]


def test_what_it_is_given_may_change_during_the_run(project: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result of an earlier step is planned, but its bytes are gone then. Executed anew it is another one."""
    word = """
      Word:
        for: [k]
        uses: python
        with: {call: "shop:word", prompt: "${{ inputs.Prompts[k] }}"}
        outputs: {W: {type: text}}
"""
    shop = """
    from pathlib import Path

    SUFFIX = Path(__file__).parent / "suffix"

    def word(prompt):
        return {"W": prompt + (SUFFIX.read_text() if SUFFIX.exists() else "")}

    def draw(prompt):
        return {"Picture": f"({Path(prompt).read_text()})"}
"""
    flow = FLOW.replace("${{ inputs.Prompts[k] }}", "${{ jobs.Word.outputs.W[k] }}").rstrip() + word
    gallery = Gallery(project(flow, {"shop.py": shop, **NOT_TRACED}))
    gallery.draw("a", "b")
    blob = gallery.lab.blob(gallery.lab.snapshot().available_artifacts["Artifact:Word.W[0]"].sha256)
    restore = ReusableResults.restore_planned

    def lose(self: ReusableResults, plan: Plan) -> None:
        restore(self, plan)
        blob.chmod(0o644)
        blob.unlink()
        (gallery.lab.root / "suffix").write_text("+")

    monkeypatch.setattr(ReusableResults, "restore_planned", lose)
    ended = run_whatever_was_planned(gallery.lab, 'Prompts=["n", "a", "b"]')
    assert gallery.pictures(3) == ["(n+)", "(a+)", "(b)"]
    assert (ended["Job:Draw[1]"], ended["Job:Draw[2]"]) == ("EXECUTES", "SKIPS")
