"""The plan names the right one of several absent sources, and treats a source that may be absent as uncertain."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from project_lab import Lab

Make = Callable[..., Lab]
CODE = {"acts.py": "def number(**given):\n    return {'N': 1}\n"}


def n(job: str) -> str:
    return f"jobs.{job}.outputs.N"


def job(condition: str | None = None, **given: str) -> dict[str, Any]:
    """A job with an output `N` that is given these expressions."""
    with_ = {"call": "acts:number", **{name: f"${{{{ {text} }}}}" for name, text in given.items()}}
    made = {"uses": "python", "with": with_, "outputs": {"N": {"type": "integer"}}}
    return made if condition is None else {"if": f"${{{{ {condition} }}}}", **made}


def flow(**jobs: dict[str, Any]) -> str:
    return json.dumps({"workflow": "w", "inputs": {"On": {"type": "boolean", "default": False}}, "jobs": jobs})


def test_the_first_absent_source_is_named_and_the_last_candidate(project: Make) -> None:
    lab = project(
        flow(
            A=job("inputs.On"),
            B=job("inputs.On"),
            C=job("inputs.On"),
            Two=job(x=n("A"), y=n("B")),
            Pick=job(x=f"first({n('A')}, {n('B')}, {n('C')})"),
            Both=job(x=n("A"), y=f"first({n('B')}, {n('C')})"),
            Asks=job(f"{n('B')} == {n('C')}"),
            Sum=job(x=f"{n('C')} + {n('B')}"),
        ),
        CODE,
    )
    assert {job.id: job.because["source"] for job in lab.plan().jobs if "source" in job.because} == {
        "Job:Two": "Artifact:A.N",
        "Job:Pick": "Artifact:C.N",
        "Job:Both": "Artifact:A.N",
        "Job:Asks": "Artifact:B.N",
        "Job:Sum": "Artifact:C.N",
    }


def test_a_job_that_reads_an_uncertain_source_is_uncertain(project: Make) -> None:
    lab = project(
        flow(
            Sure=job(),
            Maybe=job(f"{n('Sure')} > 3"),
            Other=job(f"{n('Sure')} > 4"),
            After=job(x=n("Maybe")),
            Either=job(x=f"first({n('Maybe')}, {n('Other')})"),
            PickAfter=job(x=f"first({n('After')}, {n('Sure')})"),
            PickEither=job(x=f"first({n('Either')}, {n('Sure')})"),
        ),
        CODE,
    )
    plan = lab.plan()
    assert {job.id: job.bindings for job in plan.planned} == {
        "Job:Sure": {},
        "Job:Maybe": {},
        "Job:Other": {},
        "Job:After": {"x": "Artifact:Maybe.N"},
        "Job:Either": {"x": {"first": ["Artifact:Maybe.N", "Artifact:Other.N"]}},
        "Job:PickAfter": {"x": {"first": ["Artifact:After.N", "Artifact:Sure.N"]}},
        "Job:PickEither": {"x": {"first": ["Artifact:Either.N", "Artifact:Sure.N"]}},
    }
    assert [job.id for job in plan.planned if job.conditional] == ["Job:Maybe", "Job:Other"]


def test_a_condition_that_all_instances_share_is_decided_for_each(project: Make) -> None:
    made = json.loads(flow(Each={"for": ["i"], **job("inputs.On")}, Other={"for": ["i"], **job("not inputs.On")}))
    lab = project(json.dumps({**made, "loops": {"i": {"count": 3}}}), CODE)
    plan = lab.plan()
    assert {job.id: (job.state, dict(job.because)) for job in plan.jobs} == {
        **{f"Job:Each[{i}]": ("inactive", {"condition": "inputs.On", "inputs": {"Input:On": False}}) for i in range(3)},
        **{f"Job:Other[{i}]": ("planned", {}) for i in range(3)},
    }
    assert [job.conditional for job in plan.planned] == [False] * 3
