"""Limits of the listing: when the summary starts, first and last pages, choices that match nothing."""

from __future__ import annotations

from typing import Any

from whyrun.planning.answers.explain import render_explain
from whyrun.planning.answers.listing import SUMMARISED, Listing, listed, plan_blocks, status_of
from whyrun.planning.plan import Plan, PlannedJob, PlanOptions
from whyrun.planning.reasons import Forced
from whyrun.planning.reuse import Reuse

TOTALS = {"jobs": 9, "planned": 9, "reused": 0, "clean": 0, "deferred": 0, "inactive": 0}


def job(node: int, state: Any = "planned", layer: int = 0, **fields: Any) -> PlannedJob:
    return PlannedJob(f"Job:A[{node}]", "shell", layer, state, (Forced("x"),), node=node, **fields)


def plan(*jobs: PlannedJob) -> Plan:
    return Plan("w", None, PlanOptions(), TOTALS, {}, jobs)


def test_exactly_a_thousand_are_listed_and_one_more_is_counted() -> None:
    jobs = [job(i) for i in range(SUMMARISED + 1)]
    assert [listed(plan(*jobs[:-1]), Listing()).summary, listed(plan(*jobs), Listing()).summary] == [False, True]
    assert listed(plan(*jobs), Listing(show_all=True)).summary is False
    assert listed(plan(*jobs), Listing(offset=1)).summary is False
    assert listed(plan(*jobs), Listing(limit=1)).summary is False
    (block,) = listed(plan(*jobs[:-1]), Listing()).blocks
    assert (len(block.jobs), block.total) == (200, 1000)
    (block,) = listed(plan(*jobs[:-1]), Listing(nodes=frozenset(range(300)))).blocks
    assert (len(block.jobs), block.total) == (300, 300), "what was asked for is shown whole"
    (block,) = listed(plan(*(job(i, "deferred") for i in range(11))), Listing()).blocks
    assert (len(block.jobs), block.total) == (10, 11)


def test_which_options_page_and_which_choose() -> None:
    asked = [Listing(), Listing(offset=1), Listing(limit=0), Listing(reasons=("x",)), Listing(statuses=("x",)),
             Listing(nodes=frozenset())]  # fmt: skip
    assert [listing.pages for listing in asked] == [False, True, True, False, False, False]
    assert [listing.chooses for listing in asked] == [False, False, False, True, True, True]


def test_blocks_come_by_layer_whatever_the_order_of_jobs() -> None:
    jobs = [job(0, layer=10), job(1, "inactive"), job(2, layer=9), job(3, "deferred"), job(4, layer=10)]
    assert [(title, [j.node for j in members]) for title, members in plan_blocks(jobs)] == [
        ("layer 9", [2]), ("layer 10", [0, 4]), ("deferred", [3]), ("inactive", [1]),
    ]  # fmt: skip


def test_only_planned_jobs_are_reused() -> None:
    reuse = Reuse("r0001", "Job:A[0]", {})
    assert [status_of(job(0, reuse=reuse)), status_of(job(0, "deferred", reuse=reuse)), status_of(job(0))] == [
        "reused", "deferred", "planned",
    ]  # fmt: skip


def test_nothing_to_show_is_shown_as_nothing() -> None:
    assert render_explain(plan()).splitlines()[1:] == []
    assert render_explain(plan(), listing=Listing(summary=True)).splitlines()[1:] == [
        "a summary of 0 jobs; `--limit N --offset M` lists a page of them, `--all` every one, `--job ID`, "
        "`--reason CODE` and `--status S` some"
    ]
    assert render_explain(plan(job(0)), listing=Listing(statuses=("reused",))).splitlines()[1:] == [
        "none of the 1 jobs in the plan is chosen by these options"
    ]
