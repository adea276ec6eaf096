"""Long plans: the summary, one page, or the jobs that the options choose."""

from __future__ import annotations

from typing import Any

from whyrun.planning.answers.explain import explain_json, render_explain, render_plan
from whyrun.planning.answers.listing import Listing
from whyrun.planning.input_changes import InputChanged
from whyrun.planning.plan import Plan, PlannedJob, PlanOptions
from whyrun.planning.reasons import MissingOutput, More, UpstreamDirty
from whyrun.planning.reuse import Reuse

SUMMARY = (
    "a summary of {} jobs; `--limit N --offset M` lists a page of them, `--all` every one, "
    "`--job ID`, `--reason CODE` and `--status S` some"
)


def a_plan(rows: int) -> Plan:
    """A fit and a score for each row: even fits changed, one is reused; the last two are deferred and inactive."""
    jobs = []
    for i in range(rows):
        reasons: tuple[Any, ...] = (MissingOutput(f"Artifact:Fit.Model[a][{i}]"),)
        if i % 2 == 0:
            reasons += (InputChanged("data", f"Input:Data[{i}]", old="1" * 64, new="2" * 64),)
        reuse = Reuse("r0001", f"Job:Fit[a][{i}]", {}) if i == 1 else None
        jobs.append(PlannedJob(f"Job:Fit[a][{i}]", "python", 0, "planned", reasons, reuse=reuse, node=i))
    for i in range(rows):
        dirty = (UpstreamDirty(f"Job:Fit[a][{i}]"), More("UPSTREAM_DIRTY", 3))
        jobs.append(PlannedJob(f"Job:Score[{i}]", "python", 1, "planned", dirty, conditional=i == 0, node=rows + i))
    jobs.append(PlannedJob("Job:Report", "python", 2, "deferred", (UpstreamDirty("Job:Score[0]"),), node=2 * rows))
    because = {"condition": "inputs.Draw", "inputs": {}}
    jobs.append(PlannedJob("Job:Plot", "python", 2, "inactive", because=because, node=2 * rows + 1))
    totals = {"jobs": len(jobs), "planned": 2 * rows - 1, "reused": 1, "clean": 0, "deferred": 1, "inactive": 1}
    summary = {"available": 0, "failed": [], "inputs_changed": [], "jobs": {}}
    return Plan("study", None, PlanOptions(up=2), totals, summary, tuple(jobs))


HEAD = "study before its first run: {} of {} jobs to run, 1 reused from earlier runs, 1 deferred by --up 2, 1 inactive"


def test_more_than_a_thousand_jobs_are_counted_by_name_and_reasons() -> None:
    plan = a_plan(600)
    told = [
        HEAD.format(1199, 1202),
        "layer 0",
        "  Job:Fit[*][*]   300 jobs   MISSING_OUTPUT, INPUT_CHANGED",
        "  Job:Fit[*][*]      1 job   MISSING_OUTPUT, reuse",
        "  Job:Fit[*][*]   299 jobs   MISSING_OUTPUT",
        "layer 1",
        "  Job:Score[*]       1 job   UPSTREAM_DIRTY, conditional",
        "  Job:Score[*]    599 jobs   UPSTREAM_DIRTY",
        "deferred",
        "  Job:Report         1 job   UPSTREAM_DIRTY",
        "inactive",
        "  Job:Plot           1 job   condition_false",
        SUMMARY.format(1202),
    ]
    assert render_explain(plan).splitlines() == told
    assert render_plan(plan).splitlines() == told
    assert len(render_plan(plan, listing=Listing(show_all=True)).splitlines()) == 1 + 4 + 1202


def test_a_summary_of_a_few_jobs_is_to_be_had_too() -> None:
    assert render_plan(a_plan(2), listing=Listing(summary=True)).splitlines()[1:4] == [
        "layer 0",
        "  Job:Fit[*][*]   1 job   MISSING_OUTPUT, INPUT_CHANGED",
        "  Job:Fit[*][*]   1 job   MISSING_OUTPUT, reuse",
    ]


def test_a_page_is_a_part_of_the_list_in_its_order() -> None:
    plan = a_plan(600)
    assert render_plan(plan, listing=Listing(limit=3, offset=599)).splitlines()[1:] == [
        "layer 0",
        "  Job:Fit[a][599]   MISSING_OUTPUT",
        "layer 1",
        "  Job:Score[0]      UPSTREAM_DIRTY (+3, conditional)",
        "  Job:Score[1]      UPSTREAM_DIRTY (+3)",
        "jobs 600 to 602 of 1202 (`--offset 602` continues)",
    ]
    assert render_explain(plan, listing=Listing(limit=3, offset=1200)).splitlines()[1:] == [
        "deferred",
        "  Job:Report   UPSTREAM_DIRTY   Job:Score[0]",
        "inactive",
        "  Job:Plot     condition_false  inputs.Draw",
        "jobs 1201 to 1202 of 1202",
    ]
    assert render_explain(plan, listing=Listing(offset=1202)).splitlines()[1:] == [
        "no jobs from 1203 on: there are 1202"
    ]


def test_all_pages_together_are_the_whole_list() -> None:
    plan = a_plan(6)
    whole = [job.id for job in plan.jobs]
    pages = [explain_json(plan, Listing(limit=4, offset=offset)) for offset in range(0, 16, 4)]
    found = [job["id"] for page in pages for layer in page["layers"] for job in layer["jobs"]]
    found += [job["id"] for page in pages for block in ("deferred", "inactive") for job in page[block]]
    assert sorted(found) == sorted(whole)
    assert [(page["chosen"], page["offset"], page["limit"]) for page in pages] == [
        (14, 0, 4), (14, 4, 4), (14, 8, 4), (14, 12, 4),
    ]  # fmt: skip


def test_jobs_are_chosen_by_reason_status_and_name() -> None:
    plan = a_plan(4)
    assert render_explain(plan, listing=Listing(reasons=("INPUT_CHANGED",))).splitlines() == [
        HEAD.format(7, 10),
        "layer 0",
        "  Job:Fit[a][0]   MISSING_OUTPUT  Artifact:Fit.Model[a][0]",
        "                  INPUT_CHANGED   data ← Input:Data[0]  1111… → 2222…",
        "  Job:Fit[a][2]   MISSING_OUTPUT  Artifact:Fit.Model[a][2]",
        "                  INPUT_CHANGED   data ← Input:Data[2]  1111… → 2222…",
        "2 of the 10 jobs in the plan",
    ]
    assert render_plan(plan, listing=Listing(statuses=("reused", "inactive"))).splitlines()[1:] == [
        "layer 0",
        "  Job:Fit[a][1]   MISSING_OUTPUT (reuse r0001)",
        "inactive",
        "  Job:Plot        condition_false",
        "2 of the 10 jobs in the plan",
    ]
    of_both = Listing(reasons=("MISSING_OUTPUT",), nodes=frozenset({2, 3, 5}), limit=1)
    assert render_plan(plan, listing=of_both).splitlines()[1:] == [
        "layer 0",
        "  Job:Fit[a][2]   MISSING_OUTPUT (+1)",
        "jobs 1 to 1 of 2 (`--offset 1` continues)",
    ]
    assert render_plan(plan, listing=Listing(reasons=("FORCED",))).splitlines()[1:] == [
        "none of the 10 jobs in the plan is chosen by these options"
    ]


def test_the_json_has_every_job_unless_options_choose() -> None:
    plan = a_plan(600)
    whole = explain_json(plan)
    assert [len(layer["jobs"]) for layer in whole["layers"]] == [600, 600]
    assert "chosen" not in whole
    some = explain_json(plan, Listing(statuses=("reused",)))
    assert ([layer["jobs"][0]["id"] for layer in some["layers"]], some["chosen"]) == (["Job:Fit[a][1]"], 1)
