"""A job that waits for several sources waits for all of them, and sees states that change during a run."""

from __future__ import annotations

from collections.abc import Callable

from project_lab import Lab, reasons
from whyrun.planning.artifact_states import ArtifactState, Available, Pending
from whyrun.planning.consume import Consumer

Make = Callable[..., Lab]

FLOW = """
    workflow: w
    inputs: {Many: {type: "integer[]", default: [1, 2]}}
    loops: {i: {each: "inputs.Many"}}
    jobs:
      A: {uses: python, with: {call: "acts:one"}, outputs: {N: {type: integer}}}
      B: {uses: python, with: {call: "acts:one"}, outputs: {N: {type: integer}}}
      AB:
        uses: python
        with: {call: "acts:one", x: "${{ jobs.A.outputs.N + jobs.B.outputs.N }}"}
        outputs: {N: {type: integer}}
      Each: {for: [i], uses: python, with: {call: "acts:one", i: "${{ i }}"}, outputs: {N: {type: integer}}}
      All: {uses: python, with: {call: "acts:one", x: "${{ jobs.Each.outputs.N[:] }}"}, outputs: {N: {type: integer}}}
"""
CODE = {"acts.py": "def one(**given):\n    return {'N': 1}\n"}


def test_a_computed_parameter_waits_for_each_of_its_sources(project: Make) -> None:
    lab = project(FLOW, CODE)
    lab.succeed()
    for name in "AB":
        assert reasons(lab.plan(force=[f"Job:{name}"])) == {
            f"Job:{name}": [{"code": "FORCED", "by": f"Job:{name}"}],
            "Job:AB": [{"code": "UPSTREAM_DIRTY", "job": f"Job:{name}"}],
        }


def test_a_fan_in_is_looked_at_again_while_a_member_of_it_may_change(project: Make) -> None:
    graph = project(FLOW, CODE).opened().graph
    first, second = graph.artifact_of["Artifact:Each.N[0]"], graph.artifact_of["Artifact:Each.N[1]"]
    now: dict[object, ArtifactState] = {first: Pending(False), second: Pending(False)}
    consumer = Consumer(graph, lambda at: now[at], is_final=lambda at: at == first)
    table, position = graph.table_at(graph.node_of["Job:All"])
    assert list(consumer.consume(table, position).pending) == [first, second]
    now[second] = Available("ab", 1)
    assert list(consumer.consume(table, position).pending) == [first]
    now[first] = Available("cd", 2)
    assert list(consumer.consume(table, position).pending) == [first], "what was final is not looked at again"
