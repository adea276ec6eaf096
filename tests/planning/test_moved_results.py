"""Results follow their content: what was paid for is not bought again because it has another index now."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from project_lab import Heard, Lab, Ran
from whyrun.errors import InvalidError
from whyrun.execution.adopt.adopt import adopt_file
from whyrun.planning.plan import PlanOptions, compute_execution_plan
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
