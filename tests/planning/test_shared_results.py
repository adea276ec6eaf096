"""Which results planning asks the shared store for: only useful ones, layer by layer, each once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from project_lab import Lab
from whyrun.artifacts.hashing import value_sha256
from whyrun.artifacts.shared.result import SharedOutput, SharedResult
from whyrun.planning.judge import is_shareable, with_shared_results
from whyrun.planning.plan import compute_execution_plan

Make = Callable[..., Lab]
CODE = {
    "acts.py": """
        from pathlib import Path

        def one(**given):
            return {"N": 1}
        def text(**given):
            if (Path(__file__).parent / "broken").exists():
                raise ValueError("broken")
            return {"T": "a"}
    """
}


def job(*, sure: bool = True, loop: bool = False, condition: str | None = None, **given: Any) -> dict[str, Any]:
    """`sure`: it is deterministic, so that results of others may be taken."""
    made: dict[str, Any] = {
        "uses": "python",
        "with": {"call": "acts:one", **given},
        "outputs": {"N": {"type": "integer"}},
    }
    if sure:
        made["deterministic"] = True
    if condition is not None:
        made["if"] = f"${{{{ {condition} }}}}"
    return {"for": ["i"], **made} if loop else made


def n(name: str, selector: str = "") -> str:
    return f"${{{{ jobs.{name}.outputs.N{selector} }}}}"


def flow(**jobs: Any) -> str:
    inputs = {
        "Word": {"type": "string", "default": "a"},
        "Go": {"type": "boolean", "default": False},
        "Many": {"type": "integer[]", "default": list(range(10))},
    }
    return json.dumps({"workflow": "w", "inputs": inputs, "loops": {"i": {"each": "inputs.Many"}}, "jobs": jobs})


def result(fingerprint: str) -> SharedResult:
    return SharedResult(1, fingerprint, "python", "", (SharedOutput("N", value_sha256(5), 1, "integer", value=5),))


def ask_for(
    lab: Lab, there: Callable[[str], bool] = lambda step: True, sets: tuple[str, ...] = ()
) -> tuple[list[list[str]], dict[str, str | None]]:
    """The steps that are asked for, layer by layer, where others have results of these; and what is planned then."""
    asked: list[list[str]] = []

    def ask(wanted: Mapping[str, str]) -> Mapping[str, SharedResult]:
        asked.append(list(wanted.values()))
        return {fingerprint: result(fingerprint) for fingerprint, step in wanted.items() if there(step)}

    plan = compute_execution_plan(with_shared_results(lab.snapshot(sets), ask))
    return asked, {job.id: job.reuse.run if job.reuse is not None else None for job in plan.planned}


CHAIN = flow(
    Make=job(word="${{ inputs.Word }}"),
    Next=job(x=n("Make")),
    Last=job(x=n("Next"), last=True),
    Alone=job(x=3),
)


def test_a_result_makes_more_fingerprints_known_and_these_are_asked_for_next(project: Make) -> None:
    store = "shared store"
    assert ask_for(project(CHAIN, CODE)) == (
        [["Job:Alone", "Job:Make"], ["Job:Next"], ["Job:Last"]],
        {"Job:Alone": store, "Job:Make": store, "Job:Next": store, "Job:Last": store},
    )
    assert ask_for(project(CHAIN, CODE), lambda step: step != "Job:Next") == (
        [["Job:Alone", "Job:Make"], ["Job:Next"]],
        {"Job:Alone": store, "Job:Make": store, "Job:Next": None, "Job:Last": None},
    )


def test_clean_and_locally_reusable_jobs_are_not_asked_for(project: Make) -> None:
    lab = project(CHAIN, CODE)
    lab.succeed()
    assert ask_for(lab) == ([], {})
    assert ask_for(lab, sets=("Word=b",)) == (
        [["Job:Make"], ["Job:Next"], ["Job:Last"]],
        dict.fromkeys(["Job:Make", "Job:Next", "Job:Last"], "shared store"),
    )
    lab.succeed(sets=["Word=b"])
    assert ask_for(lab) == ([], {"Job:Make": "r0001"})


def test_every_instance_downstream_is_asked_for_and_no_other(project: Make) -> None:
    lab = project(
        flow(
            Each=job(loop=True, member="${{ inputs.Many[i] }}"),
            Next=job(loop=True, x=n("Each", "[i]"), i="${{ i }}"),
        ),
        CODE,
    )  # fmt: skip
    lab.succeed()
    changed = json.dumps([0, 1, 2, 33, 4, 5, 66, 7, 8, 9])
    assert ask_for(lab, sets=(f"Many={changed}",))[0] == [
        ["Job:Each[3]", "Job:Each[6]"],
        ["Job:Next[3]", "Job:Next[6]"],
    ]


def test_nothing_is_asked_for_before_all_that_it_consumes_was(project: Make) -> None:
    lab = project(
        flow(
            Each=job(loop=True, member="${{ inputs.Many[i] }}"),
            Last=job(loop=True, x=n("Each", "[i]"), y=n("Mid", "[i]"), i="${{ i }}"),
            Mid=job(loop=True, x=n("Each", "[i]"), i="${{ i }}"),
        ),
        CODE,
    )
    lab.succeed()
    changed = json.dumps([0, 1, 2, 33, 4, 5, 6, 7, 8, 9])
    assert ask_for(lab, sets=(f"Many={changed}",))[0] == [["Job:Each[3]"], ["Job:Mid[3]"], ["Job:Last[3]"]]


def test_one_fingerprint_is_asked_for_once_and_for_the_first_that_has_it(project: Make) -> None:
    lab = project(flow(Each=job(loop=True, member="${{ inputs.Many[i] }}")), CODE)
    lab.succeed()
    changed = json.dumps([0, 11, 2, 3, 4, 5, 6, 7, 11, 9])
    assert ask_for(lab, sets=(f"Many={changed}",)) == (
        [["Job:Each[1]"]],
        {"Job:Each[1]": "shared store", "Job:Each[8]": "shared store"},
    )
    again = project(flow(Base=job(y=1), Make=job(x=5), Later=job(x=n("Base")), Plain=job(sure=False)), CODE)
    assert ask_for(again, lambda step: step == "Job:Base")[0] == [["Job:Base", "Job:Make"]], "`Later` is given 5, too"
    taken = ["Job:Base", "Job:Make", "Job:Later"]
    assert ask_for(again) == ([taken[:2]], {**dict.fromkeys(taken, "shared store"), "Job:Plain": None})


def test_uncertain_and_unknown_jobs_are_not_asked_for(project: Make) -> None:
    lab = project(
        flow(
            Plain=job(sure=False),
            Off=job(condition="inputs.Go"),
            Perhaps=job(condition="jobs.Plain.outputs.N > 0"),
            Reads=job(x=n("Plain")),
            Make=job(x=7),
        ),
        CODE,
    )
    assert ask_for(lab) == (
        [["Job:Make"]],
        {"Job:Make": "shared store", "Job:Plain": None, "Job:Perhaps": None, "Job:Reads": None},
    )


def test_the_store_is_not_asked_if_no_job_is_shareable(project: Make) -> None:
    assert ask_for(project(flow(Plain=job(sure=False)), CODE)) == ([], {"Job:Plain": None})


TEXT = flow(
    Make={
        "uses": "python", "deterministic": True, "with": {"call": "acts:text", "word": "${{ inputs.Word }}"},
        "outputs": {"T": {"type": "text"}},
    },
)  # fmt: skip


def test_a_lost_local_result_is_asked_for(project: Make) -> None:
    lab = project(TEXT, CODE)
    lab.succeed()
    lab.blob(lab.snapshot().available_artifacts["Artifact:Make.T"].sha256).unlink()
    assert ask_for(lab)[0] == [["Job:Make"]]


def test_a_local_failure_is_not_asked_for(project: Make) -> None:
    lab = project(TEXT, {**CODE, "broken": ""})
    assert lab.run().exit_code == 1
    assert ask_for(lab) == ([], {"Job:Make": None})
    assert ask_for(lab, sets=("Word=b",))[0] == [["Job:Make"]], "that did not fail"


@pytest.mark.parametrize(
    ("change", "shareable"),
    [
        ({}, True),
        ({"deterministic": False}, False),
        ({"secrets": ["KEY"]}, False),
        ({"with": {"call": "acts:one", "connection": "@mysql"}}, False),
        ({"secrets": ["KEY"], "with": {"call": "acts:one", "connection": "@mysql"}}, False),
    ],
    ids=["plain", "not deterministic", "secret", "connection", "both"],
)  # fmt: skip
def test_only_jobs_with_a_complete_fingerprint_are_shareable(
    project: Make, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], shareable: bool
) -> None:
    monkeypatch.setenv("KEY", "a-secret-value")
    connections = {"connections.yaml": "connections: {mysql: {primary: {default: true, host: here}}}\n"}
    snapshot = project(flow(Job={**job(), **change}), {**CODE, **connections}).snapshot()
    (table,) = snapshot.dependency_graph.tables
    assert is_shareable(snapshot, table) is shareable


def test_jobs_with_effects_outside_the_project_are_not_shared(project: Make) -> None:
    connection = {"host": "127.0.0.1", "port": 1, "user": "u", "database": "d"}
    load = {
        "uses": "postgres/load", "deterministic": True,
        "with": {"data": "${{ inputs.Data }}", "table": "t", "mode": "create", "connection": connection},
        "outputs": {"report": {"type": "json"}},
    }  # fmt: skip
    inputs = {"Data": {"type": "file", "default": "a.csv"}}
    lab = project(json.dumps({"workflow": "w", "inputs": inputs, "jobs": {"Load": load}}), {"a.csv": "n\n1\n"})
    snapshot = lab.snapshot()
    (table,) = snapshot.dependency_graph.tables
    assert snapshot.dependency_graph.connected == {}
    assert is_shareable(snapshot, table) is False
