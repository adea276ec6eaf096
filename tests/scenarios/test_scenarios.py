"""Each scenario produces its stored plan and explanation, and a real run does exactly that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from project_lab import Lab, check_run_is_its_plan
from scenarios.harness import Scenario, names, plan_options
from scenarios.make import play
from scenarios.recipes import RECIPES
from whyrun.planning.answers.explain import estimate_seconds, expected_durations, explain_json, render_explain
from whyrun.planning.plan import Plan, compute_execution_plan
from whyrun.snapshot.snapshot import PlanningSnapshot


def written(plan: Plan, snapshot: PlanningSnapshot) -> dict[str, str]:
    """The expected files, made for reading: one key a line."""
    estimate = estimate_seconds(plan, expected_durations(plan, snapshot), 1)
    return {
        "plan.json": json.dumps(plan.to_json(), indent=1, ensure_ascii=False) + "\n",
        "explain.txt": render_explain(plan, estimate=estimate) + "\n",
        "explain.json": json.dumps(explain_json(plan), indent=1, ensure_ascii=False) + "\n",
    }


def test_every_recipe_has_its_folder_and_every_folder_its_recipe() -> None:
    assert names() == sorted(RECIPES)


@pytest.mark.parametrize("name", names())
def test_scenario(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    scenario = Scenario.load(name, tmp_path / name)
    if any((scenario.source / "runs").glob("r*")):  # git keeps no empty folder
        scenario.with_log()
    snapshot = scenario.snapshot()
    plan = compute_execution_plan(snapshot, plan_options(scenario.facts["options"]))
    found = written(plan, snapshot)
    if request.config.getoption("--update-scenarios"):
        for file, text in found.items():
            (scenario.source / file).write_text(text)
    expected = {file: (scenario.source / file).read_text() for file in found}
    assert found == expected


@pytest.mark.parametrize("name", names())
def test_explain_and_plan_list_the_same_jobs(name: str) -> None:
    """From the written files alone, so that nothing can be recomputed to fit."""
    folder = Scenario(name, Path()).source
    plan = json.loads((folder / "plan.json").read_bytes())
    told = json.loads((folder / "explain.json").read_bytes())
    text = (folder / "explain.txt").read_text()
    by_state: dict[str, list[str]] = {"planned": [], "deferred": [], "inactive": []}
    for job in plan["jobs"]:
        by_state[job["state"]].append(job["id"])
    totals = plan["totals"]
    assert sum(totals[k] for k in ("planned", "reused", "clean", "deferred", "inactive")) == totals["jobs"]
    assert totals["planned"] + totals["reused"] == len(by_state["planned"])
    assert (totals["deferred"], totals["inactive"]) == (len(by_state["deferred"]), len(by_state["inactive"]))
    assert [id_ for layer in plan["layers"] for id_ in layer] == by_state["planned"]
    layer_of = {job["id"]: job["layer"] for job in plan["jobs"]}
    assert all(len({layer_of[id_] for id_ in layer}) == 1 for layer in plan["layers"])
    # the JSON explanation holds the same jobs with the same reasons
    assert told["digest"] == plan["digest"]
    explained = {job["id"]: job for job in jobs_of(told)}
    assert sorted(explained) == sorted(job["id"] for job in plan["jobs"])
    for job in plan["jobs"]:
        reasons = [{k: v for k, v in r.items() if k != "text"} for r in explained[job["id"]].get("reasons", [])]
        assert reasons == job.get("reasons", [])
    # the text names each of them once, under its layer, with every reason code in order
    assert text_jobs(text) == {
        title: {job["id"]: [r["code"] for r in job.get("reasons", [])] for job in jobs}
        for title, jobs in blocks(plan).items()
    }


def blocks(plan: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for job in plan["jobs"]:
        title = f"layer {job['layer']}" if job["state"] == "planned" else job["state"]
        found.setdefault(title, []).append(job)
    return found


def jobs_of(told: Any) -> list[dict[str, Any]]:
    """Every job object in the explanation, wherever it stands."""
    if isinstance(told, dict):
        if str(told.get("id", "")).startswith("Job:"):
            return [told]
        return [job for value in told.values() for job in jobs_of(value)]
    if isinstance(told, list):
        return [job for value in told for job in jobs_of(value)]
    return []


def text_jobs(text: str) -> dict[str, dict[str, list[str]]]:
    """The text read back: block title → job → reason codes."""
    found: dict[str, dict[str, list[str]]] = {}
    job: list[str] = []
    for line in text.splitlines()[1:]:
        if not line.startswith(" "):
            block = found.setdefault(line, {})
            continue
        words = line.split()
        if words[0].startswith("Job:") and line.startswith("  Job:"):
            job = block.setdefault(words[0], [])
            words = words[1:]
        job.extend(w for w in words[:1] if (w.isupper() and "_" in w) or w == "FORCED")
    return found


@pytest.mark.parametrize("name", names())
def test_a_real_run_does_what_the_scenario_says(name: str, tmp_path: Path) -> None:
    """The recipe played for real gives the same plan as the kept log, and the run executes exactly that plan."""
    recipe = RECIPES[name]
    lab = play(recipe, tmp_path / "real")
    expected = json.loads((Scenario(name, Path()).source / "plan.json").read_bytes())
    plan = lab.plan(**recipe.options)
    assert without_position(plan.to_json()) == without_position(expected)
    ran = lab.run(jobs=2, **recipe.options)
    if not plan.planned:
        assert ran.result.run is None
        return
    assert ran.folder is not None
    check_run_is_its_plan(ran)
    assert without_position(json.loads((ran.folder / "plan.json").read_bytes())) == without_position(expected)
    assert_next_plan_follows(lab, ran.exit_code, recipe.options)


def assert_next_plan_follows(lab: Lab, exit_code: int, options: dict[str, Any]) -> None:
    """After a good run without limits nothing is left; after a failure its jobs are to be retried."""
    after = lab.plan()
    if exit_code == 0 and not options.get("up") and not options.get("targets"):
        assert after.headlines() == {}
    if exit_code == 1:
        assert "RETRY_PREVIOUS_FAILURE" in after.headlines().values()


def without_position(plan: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in plan.items() if key != "log_position"}
