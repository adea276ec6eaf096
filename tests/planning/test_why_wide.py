"""Long answers to `why`: which jobs are listed, which are counted, and what `whole` adds."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from project_lab import Lab
from whyrun.planning.answers.why import PlanView, Why, why_job
from whyrun.planning.plan import PlanOptions, compute_execution_plan
from whyrun.planning.reasons import reason_json

Make = Callable[..., Lab]
CODE = {"acts.py": "def one(**given):\n    return {'N': 1}\n"}


def job(**given: Any) -> dict[str, Any]:
    return {"uses": "python", "with": {"call": "acts:one", **given}, "outputs": {"N": {"type": "integer"}}}


def n(name: str, selector: str = "") -> str:
    return f"${{{{ jobs.{name}.outputs.N{selector} }}}}"


def flow(many: list[int], **jobs: Any) -> str:
    inputs = {"Many": {"type": "integer[]", "default": many}}
    return json.dumps({"workflow": "w", "inputs": inputs, "loops": {"i": {"each": "inputs.Many"}}, "jobs": jobs})


def state_of(lab: Lab, force: tuple[str, ...] = (), sets: tuple[str, ...] = ()) -> PlanView:
    snapshot = lab.snapshot(sets)
    return PlanView(snapshot, compute_execution_plan(snapshot, PlanOptions(force=force)))


def ask(state: PlanView, id_: str, *, whole: bool = False) -> Why:
    return why_job(state, state.graph.node_of[id_], whole=whole)


def jobs_and_causes(answer: Why) -> list[tuple[str, int, tuple[str, ...]]]:
    return [(job.id, job.depth, job.causes) for job in answer.jobs]


def ids(jobs: tuple[Any, ...]) -> list[str]:
    return [job.id for job in jobs]


def test_each_job_is_listed_once_at_its_first_occurrence(project: Make) -> None:
    jobs = {"Base": job(), "A": job(x=n("Base")), "Z": job(), "Top": job(a=n("A"), b=n("Base"), c=n("Z"))}
    state = state_of(project(flow([], **jobs), CODE))
    answer = ask(state, "Job:Top")
    assert jobs_and_causes(answer) == [
        ("Job:Top", 0, ("Job:A", "Job:Base", "Job:Z")),
        ("Job:A", 1, ("Job:Base",)),
        ("Job:Base", 2, ()),
        ("Job:Z", 1, ()),
    ]
    assert (ids(answer.roots), answer.more, answer.is_chain) == (["Job:Base", "Job:Z"], 0, False)


def test_two_causes_are_no_chain(project: Make) -> None:
    jobs = {"A": job(), "B": job(x=1), "Top": job(a=n("A"), b=n("B")), "Next": job(x=n("A"))}
    state = state_of(project(flow([], **jobs), CODE))
    assert (ask(state, "Job:Top").is_chain, ask(state, "Job:Next").is_chain) == (False, True)


def test_forty_jobs_of_a_long_chain_are_listed_and_its_root_is_found(project: Make) -> None:
    chain = {f"J{at:02}": job(**({"x": n(f"J{at - 1:02}")} if at else {})) for at in range(45)}
    state = state_of(project(flow([], **chain), CODE))
    answer = ask(state, "Job:J44")
    assert ids(answer.jobs) == [f"Job:J{at:02}" for at in range(44, 4, -1)]
    assert (answer.more, ids(answer.roots), ids(answer.hidden), answer.is_chain) == (5, ["Job:J00"], ["Job:J00"], False)
    whole = ask(state, "Job:J44", whole=True)
    assert ids(whole.jobs) == [f"Job:J{at:02}" for at in range(44, -1, -1)]
    assert (whole.more, ids(whole.roots), whole.hidden, whole.is_chain) == (0, ["Job:J00"], (), True)
    assert whole.to_json() == {
        "jobs": [job.to_json() for job in whole.jobs], "roots": ["Job:J00"], "more": 0,
    }  # fmt: skip


EACH = {"for": ["i"], **job(i="${{ i }}")}
MISSING = {"code": "MISSING_OUTPUT", "artifact": "Artifact:All.N"}


def wide(project: Make, members: int, force: tuple[str, ...] = ()) -> PlanView:
    """`All` reads so many instances of `Each`, and nothing was run yet."""
    jobs = {"Each": EACH, "All": job(x=n("Each", "[:]")), "Top": job(x=n("All"))}
    return state_of(project(flow(list(range(members)), **jobs), CODE), force)


def test_three_jobs_of_a_wide_fan_in_are_listed_and_forty_roots_are_named(project: Make) -> None:
    answer = ask(wide(project, 45), "Job:All")
    each = [f"Job:Each[{i}]" for i in range(45)]
    assert jobs_and_causes(answer) == [("Job:All", 0, tuple(each)), *((id_, 1, ()) for id_ in each[:3])]
    assert [job.alike for job in answer.jobs] == [0, 0, 0, 42]
    assert (ids(answer.roots), answer.more, answer.hidden) == (each[:40], 0, ())


@pytest.mark.parametrize(("members", "alike"), [(2, [0, 0]), (3, [0, 0, 0]), (4, [0, 0, 1])])
def test_three_of_a_kind_are_listed_and_a_fourth_is_counted(project: Make, members: int, alike: list[int]) -> None:
    answer = ask(wide(project, members), "Job:All")
    assert [job.alike for job in answer.jobs] == [0, *alike]


def test_the_whole_answer_has_every_job_and_every_reason_of_the_one_asked_about(project: Make) -> None:
    state = wide(project, 25, ("Job:All",))
    each = [f"Job:Each[{i}]" for i in range(25)]
    dirty = [{"code": "UPSTREAM_DIRTY", "job": id_} for id_ in each]
    forced = {"code": "FORCED", "by": "Job:All"}
    answer = ask(state, "Job:All", whole=True)
    assert jobs_and_causes(answer) == [("Job:All", 0, tuple(each)), *((id_, 1, ()) for id_ in each)]
    assert [job.alike for job in answer.jobs] == [0] * 26
    assert ids(answer.roots) == each
    assert [reason_json(reason) for reason in answer.jobs[0].reasons] == [MISSING, *dirty, forced]
    plain = ask(state, "Job:All").jobs[0]
    counted = [MISSING, *dirty[:20], {"code": "UPSTREAM_DIRTY", "more": 5}, forced]
    assert [reason_json(reason) for reason in plain.reasons] == counted
    above = ask(state, "Job:Top", whole=True).jobs[:2]
    assert [(job.id, [reason_json(reason) for reason in job.reasons[1:]]) for job in above] == [
        ("Job:Top", [{"code": "UPSTREAM_DIRTY", "job": "Job:All"}]), ("Job:All", counted[1:]),
    ]  # fmt: skip


def test_counted_reasons_lead_to_all_pending_jobs_upstream(project: Make) -> None:
    """Not to what is clean, inactive, or taken from an earlier run."""
    each = {**EACH, "with": {**EACH["with"], "member": "${{ inputs.Many[i] }}"}, "if": "${{ inputs.Many[i] >= 0 }}"}
    lab = project(flow([-1, *range(1, 26)], Each=each, All=job(x=n("Each", "[:]"))), CODE)
    lab.succeed(targets=["Job:Each[1]", "Job:Each[2]"])
    lab.succeed(targets=["Job:Each[1]"], sets=[f"Many={json.dumps([-1, 100, *range(2, 26)])}"])
    state = state_of(lab)
    assert {job.id: (job.state, bool(job.reuse)) for job in state.plan.jobs[:3]} == {
        "Job:Each[0]": ("inactive", False), "Job:Each[1]": ("planned", True), "Job:Each[3]": ("planned", False),
    }  # fmt: skip
    answer = ask(state, "Job:All")
    assert [reason_json(reason) for reason in answer.jobs[0].reasons] == [
        MISSING,
        *({"code": "UPSTREAM_DIRTY", "job": f"Job:Each[{i}]"} for i in range(3, 23)),
        {"code": "UPSTREAM_DIRTY", "more": 3},
    ]
    assert answer.jobs[0].causes == tuple(f"Job:Each[{i}]" for i in range(3, 26))


def test_of_a_clean_job_sixty_four_things_are_compared_and_all_of_the_whole(project: Make) -> None:
    lab = project(flow(list(range(70)), All=job(x="${{ inputs.Many[:] }}")), CODE)
    lab.succeed()
    state = state_of(lab)
    every = ["Input:All.action", "Input:All.with.call", *(f"Input:Many[{i}]" for i in range(70))]
    (plain,) = ask(state, "Job:All").to_json()["jobs"]
    assert ([entry["id"] for entry in plain["compared"]], plain["compared_more"]) == (every[:64], 8)
    (whole,) = ask(state, "Job:All", whole=True).to_json()["jobs"]
    assert [entry["id"] for entry in whole["compared"]] == every
    assert "compared_more" not in whole
