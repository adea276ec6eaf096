"""The page shows the jobs that a run planned once their loops were known."""

from __future__ import annotations

from collections.abc import Callable

from viewer_lab import open_state, view

from project_lab import NOT_TRACED, Lab

TEXT = """
    workflow: w
    inputs: {N: {type: integer, default: 1}}
    loops: {segment: {count: jobs.Script.outputs.Count}}
    jobs:
      Script:
        uses: python
        with: {call: "s:script", n: "${{ inputs.N }}"}
        outputs: {Count: {type: integer}}
      Clip:
        for: [segment]
        uses: python
        with: {call: "s:clip", i: "${{ segment }}"}
        outputs: {Frame: {type: json}}
"""
CODE = """
    def script(n): return {"Count": n}
    def clip(i): return {"Frame": i}
"""


def test_the_plan_of_a_run_has_its_stages(project: Callable[..., Lab]) -> None:
    lab = project(TEXT, {"s.py": CODE, **NOT_TRACED})
    lab.succeed()
    lab.succeed(sets=["N=2"])
    state = open_state(lab)
    plan = view(state, "plan", run="r0002")
    assert (plan["checked"], plan["problem"]) == (True, None)
    assert [(job["id"], job["state"]) for job in plan["jobs"]] == [
        ("Job:Script", "planned"), ("Job:Clip[?]", "open"), ("Job:Clip[1]", "planned"),
    ]  # fmt: skip
    assert view(state, "run", id="r0002")["progress"]["planned"] == 2
    assert view(state, "plan", run="r0001")["more"] == 0
