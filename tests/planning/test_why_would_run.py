"""What a change of an input would execute: jobs that do not run now, and jobs that the change reaches."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest

from project_lab import Lab
from whyrun.graph.tables import Graph
from whyrun.planning.answers.whatif import WouldRun, would_run
from whyrun.planning.plan import Plan, PlannedJob, PlanOptions
from whyrun.planning.reasons import Forced
from whyrun.planning.reuse import Reuse

TOUCH = {"uses": "shell", "outputs": {"T": {"type": "text"}}}
CHAIN = json.dumps({
    "workflow": "chain",
    "jobs": {
        "A": {**TOUCH, "with": {"run": "touch $out_T"}},
        "B": {**TOUCH, "with": {"a": "${{ jobs.A.outputs.T }}", "run": "touch $out_T"}},
        "C": {**TOUCH, "with": {"b": "${{ jobs.B.outputs.T }}", "run": "touch $out_T"}},
        "D": {**TOUCH, "with": {"run": "touch $out_T"}},
    },
})  # fmt: skip


@pytest.fixture
def graph(project: Callable[..., Lab]) -> Graph:
    return project(CHAIN, {}).opened().graph


def plan(graph: Graph, jobs: str) -> Plan:
    """The planned jobs, upper case where they are executed and lower case where an earlier result is taken."""
    planned = [
        PlannedJob(
            f"Job:{name.upper()}", "shell", layer, "planned", (Forced("layer:0"),),
            reuse=None if name.isupper() else Reuse("r0001", f"Job:{name.upper()}", {}),
            node=graph.node_of[f"Job:{name.upper()}"],
        )
        for layer, name in enumerate(jobs)
    ]  # fmt: skip
    return Plan("chain", None, PlanOptions(), {}, {}, tuple(planned))


@pytest.mark.parametrize(
    ("now", "then", "read_by", "expected"),
    [
        ("", "ABC", "A", ["A", "B", "C"]),
        ("DBC", "DABC", "A", ["A", "B anyway", "C anyway"]),
        ("DA", "DAB", "A", ["A anyway", "B"]),
        ("b", "AB", "A", ["A", "B"]),  # what was only reused now
        ("aB", "aB", "A", ["B anyway"]),  # a result that is taken is reached, and not executed
        ("aB", "aB", "", []),
        ("ab", "abC", "A", ["C"]),
        ("ABC", "aBC", "", ["B anyway", "C anyway"]),  # what is taken only then makes a difference, too
        ("ABC", "ABC", "B", ["B anyway", "C anyway"]),
        ("AC", "AC", "A", ["A anyway"]),  # nothing goes on through what is not planned: B would be the way to C
        ("ABCD", "ABCD", "", []),
        ("A", "", "A", []),
    ],
)
def test_jobs_that_do_not_run_now_and_jobs_that_the_change_reaches(
    graph: Graph, now: str, then: str, read_by: str, expected: Sequence[str]
) -> None:
    found = would_run(plan(graph, now), plan(graph, then), graph, [f"Job:{name}" for name in read_by])
    assert found == [WouldRun(f"Job:{each[0]}", "FORCED", each.endswith(" anyway")) for each in expected]


def test_a_job_without_a_reason_has_none_to_tell(graph: Graph) -> None:
    bare = PlannedJob("Job:A", "shell", 0, "planned", node=graph.node_of["Job:A"])
    then = Plan("chain", None, PlanOptions(), {}, {}, (bare,))
    assert would_run(plan(graph, ""), then, graph, []) == [WouldRun("Job:A", "", False)]


def test_only_jobs_of_the_present_plan_are_marked_as_anyway() -> None:
    assert WouldRun("Job:A", "FORCED", True).to_json() == {"job": "Job:A", "reason": "FORCED", "anyway": True}
    assert WouldRun("Job:A", "FORCED", False).to_json() == {"job": "Job:A", "reason": "FORCED"}
