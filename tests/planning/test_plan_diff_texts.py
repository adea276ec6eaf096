"""Every kind of difference between two written plans, as text."""

from __future__ import annotations

from typing import Any

import pytest

from whyrun.planning.answers.plan_diff import plan_differences

FORCED = {"code": "FORCED", "by": "layer:0"}
DIRTY = {"code": "UPSTREAM_DIRTY", "job": "Job:Z"}


def job(id_: str = "Job:A", state: str = "planned", **fields: Any) -> dict[str, Any]:
    return {"id": id_, "state": state, "reasons": [FORCED], "bindings": {"x": "Input:X"}, **fields}


def plan(*jobs: dict[str, Any], changed: Any = (), size: int = 5, available: int = 3) -> dict[str, Any]:
    inputs = changed if isinstance(changed, dict) else list(changed)
    return {
        "jobs": list(jobs),
        "totals": {"jobs": size},
        "snapshot": {"inputs_changed": inputs, "available": available},
    }


def test_plans_that_are_the_same_have_no_difference() -> None:
    assert plan_differences(plan(job(), changed=["Input:X"]), plan(job(), changed=["Input:X"])) == []
    assert plan_differences({}, {}) == []


def test_inputs_come_first_each_in_order() -> None:
    before = [f"Input:{name}" for name in "DCBA"]
    after = [f"Input:{name}" for name in "HGFEA"]
    assert plan_differences(plan(changed=before), plan(changed=after)) == [
        *(f"Input:{name}: changed since the last run when the plan was saved, unchanged now" for name in "BCD"),
        *(f"Input:{name}: unchanged since the last run when the plan was saved, changed now" for name in "EFGH"),
    ]
    wide = {"count": 70, "digest": "ab", "blob": "ab"}
    assert plan_differences(plan(changed=wide), plan(changed=["Input:X"])) == [
        "Input:X: unchanged since the last run when the plan was saved, changed now"
    ]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (job(), None, "planned when it was saved, up to date now  (FORCED --force layer:0)"),
        (None, job(), "up to date when it was saved, planned now  (FORCED --force layer:0)"),
        (job(), job(state="deferred", reasons=[DIRTY]),
         "planned when it was saved, deferred now  (FORCED --force layer:0)"),
        (job(), job(reuse="r0001"), "planned when it was saved, reused now  (FORCED --force layer:0)"),
        (job(state="deferred", reuse="r0001"), job(),
         "deferred when it was saved, planned now  (FORCED --force layer:0)"),
        (job(state="inactive", reasons=[]), job(reasons=[]), "inactive when it was saved, planned now"),
        (job(reasons=[FORCED]), job(reasons=[DIRTY]), "was FORCED --force layer:0; is UPSTREAM_DIRTY Job:Z"),
        (job(reasons=[FORCED, DIRTY]), job(reasons=[DIRTY]), "no longer FORCED --force layer:0"),
        (job(reasons=[FORCED]), job(reasons=[FORCED, DIRTY]), "now also UPSTREAM_DIRTY Job:Z"),
        (job(), job(bindings={}), "its `bindings` changed"),
        (job(), job(conditional=True), "its `conditional` changed"),
        (job(reasons=[FORCED]), job(reasons=[{"code": "FORCED", "more": 2}]),
         "was FORCED --force layer:0; is FORCED … and 2 more"),
        (job(reasons=[{"code": "NEW_CODE", "x": 1}]), job(), "was NEW_CODE; is FORCED --force layer:0"),
        (job(reasons=[{"code": "FORCED", "by": 7}]), job(), "was FORCED; is FORCED --force layer:0"),
        (job(reasons=[{"code": "MISSING_OUTPUT"}]), job(reasons=[]),
         "no longer MISSING_OUTPUT it has not succeeded yet"),
        (job(reasons=[DIRTY, FORCED]), None,
         "planned when it was saved, up to date now  (UPSTREAM_DIRTY Job:Z)"),
    ],
)  # fmt: skip
def test_differences_of_a_job(before: dict[str, Any] | None, after: dict[str, Any] | None, said: str) -> None:
    saved, now = plan(*filter(None, [before])), plan(*filter(None, [after]))
    assert plan_differences(saved, now) == [f"Job:A: {said}"]


def test_several_parts_of_a_job_and_the_rest_have_one_order() -> None:
    saved = plan(job(), job("Job:B"), size=5, available=3)
    new = job(bindings={}, action="z", layer=2, reuse=None)
    now = plan(job("Job:C"), {**new, "state": "planned"}, size=6, available=4)
    del now["jobs"][1]["reuse"]
    assert plan_differences(saved, now) == [
        "Job:B: planned when it was saved, up to date now  (FORCED --force layer:0)",
        "Job:C: up to date when it was saved, planned now  (FORCED --force layer:0)",
        "Job:A: its `action` changed",
        "Job:A: its `bindings` changed",
        "Job:A: its `layer` changed",
        "the workflow had 5 job instances when it was saved, and has 6 now",
        "3 artifacts were available when it was saved, 4 are now",
    ]
