"""The jobs that read an input, by comparing two graphs or by names in the workflow, and those that read an output."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from project_lab import Lab
from whyrun.planning.answers.whatif import named_readers, readers
from whyrun.planning.answers.why import direct_readers

Make = Callable[..., Lab]


def job(condition: str | None = None, loop: str | None = None, **given: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "uses": "python",
        "with": {"call": "acts:one", **given},
        "outputs": {"N": {"type": "integer"}, "M": {"type": "integer"}},
    }
    if condition is not None:
        made["if"] = f"${{{{ {condition} }}}}"
    return made if loop is None else {"for": [loop], **made}


FLOW = json.dumps({
    "workflow": "w",
    "inputs": {"Word": {"type": "string", "default": "a"}, "Go": {"type": "boolean", "default": False},
               "Five": {"type": "integer", "default": 5}, "Many": {"type": "integer[]", "default": [10, 11, 12]}},
    "loops": {"i": {"each": "inputs.Many"}, "k": {"count": 2}},
    "jobs": {
        "All": job(x="${{ inputs.Many[:] }}"),
        "Again": job(x="${{ inputs.Many[:] }}"),
        "Both": job("inputs.Go", go="${{ inputs.Go }}"),
        "Counts": job(x="${{ inputs.Five + 1 }}"),
        "Each": job(loop="i", member="${{ inputs.Many[i] }}"),
        "Either": job(x="${{ first(jobs.Off.outputs.N, inputs.Five) }}"),
        "Fixed": job(loop="k", k="${{ k }}"),
        "Mixed": job(x="${{ inputs.Word }} of ${{ jobs.Say.outputs.N }}"),
        "Off": job("inputs.Go"),
        "Say": job(word="${{ inputs.Word }}"),
        "Sum": job(x="${{ jobs.Each.outputs.N[:] }}"),
    },
})  # fmt: skip


@pytest.fixture
def lab(project: Make) -> Lab:
    return project(FLOW, {"acts.py": "def one(**given):\n    return {'N': 1, 'M': 2}\n"})


@pytest.mark.parametrize(
    ("other", "found"),
    [
        ("Word=a", {}),
        ("Word=b", {"Mixed": False, "Say": False}),
        ("Go=true", {"Both": False, "Off": True}),
        ("Five=6", {"Counts": False, "Either": False}),
        ("Many=[10, 21, 12]", {"Again": False, "All": False, "Each[1]": False}),
        ("Many=[10, 11]", {"Again": False, "All": False, "Each[2]": False, "Sum": False}),
        ("Many=[10, 11, 12, 13]", {"Again": False, "All": False, "Each[3]": False, "Sum": False}),
    ],
)
def test_those_that_would_read_something_other(lab: Lab, other: str, found: dict[str, bool]) -> None:
    read = readers(lab.opened().graph, lab.opened([other]).graph)
    assert sorted(read) == [(f"Job:{name}", condition_only) for name, condition_only in found.items()]


@pytest.mark.parametrize(
    ("input_", "found"),
    [
        ("Word", {"Mixed": False, "Say": False}),
        ("Go", {"Both": False, "Off": True}),
        ("Five", {"Counts": False, "Either": False}),
        ("Many", {"Again": False, "All": False, "Each[0]": False, "Each[1]": False, "Each[2]": False}),
    ],
)
def test_those_that_name_it(lab: Lab, input_: str, found: dict[str, bool]) -> None:
    read = named_readers(lab.opened().graph, f"Input:{input_}")
    assert sorted(read) == [(f"Job:{name}", condition_only) for name, condition_only in found.items()]


def test_those_that_read_another_output_of_the_same_job_do_not_read_this_one(project: Make) -> None:
    jobs = {"Say": job(), "ReadsM": job(x="${{ jobs.Say.outputs.M }}"), "ReadsN": job(x="${{ jobs.Say.outputs.N }}")}
    graph = project(json.dumps({"workflow": "w", "jobs": jobs}), {"acts.py": "def one(**given): ..."}).opened().graph
    assert direct_readers(graph, graph.artifact_of["Artifact:Say.N"]) == ["Job:ReadsN"]
    assert direct_readers(graph, graph.artifact_of["Artifact:Say.M"]) == ["Job:ReadsM"]
