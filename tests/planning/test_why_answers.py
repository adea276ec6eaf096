"""`PlanView`, and the answers to `why`: reasons followed to the root causes, similar jobs counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from project_lab import Lab
from whyrun.planning.answers.whatif import named_readers
from whyrun.planning.answers.why import PlanView, direct_readers, why_job
from whyrun.planning.artifact_states import Available, Pending
from whyrun.planning.plan import PlanOptions, compute_execution_plan

Make = Callable[..., Lab]
CODE = {
    "acts.py": """
        def story(**given):
            return {"S": {"On": True, "Deep": {"a": 1}}, "N": 7}
        def one(**given):
            return {"N": 1}
    """
}


def job(condition: str | None = None, loop: str | None = None, **given: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "uses": "python",
        "with": {"call": "acts:one", **given},
        "outputs": {"N": {"type": "integer"}},
    }
    if condition is not None:
        made["if"] = f"${{{{ {condition} }}}}"
    return made if loop is None else {"for": [loop], **made}


def n(name: str) -> str:
    return f"${{{{ jobs.{name}.outputs.N }}}}"


FLOW = json.dumps({
    "workflow": "w",
    "inputs": {"Go": {"type": "boolean", "default": False}, "Word": {"type": "string", "default": "a"},
               "Many": {"type": "integer[]", "default": list(range(6))}},
    "loops": {"i": {"each": "inputs.Many"}},
    "jobs": {
        "Story": {"uses": "python", "with": {"call": "acts:story"},
                  "outputs": {"S": {"type": "json", "leaves": {"On": "boolean", "Deep": "json"}},
                              "N": {"type": "integer"}}},
        "Reads": job(deep="${{ len(jobs.Story.outputs.S.Deep) }}", number="${{ jobs.Story.outputs.N + 1 }}",
                     whole="${{ jobs.Story.outputs.S }}"),
        "Off": job("inputs.Go"),
        "NeedsOff": job(x=n("Off")),
        "Say": job(word="${{ inputs.Word }}"),
        "Hear": job(x=n("Say")),
        "Each": job(loop="i", i="${{ i }}"),
        "All": job(x="${{ jobs.Each.outputs.N[:] }}", say=n("Say")),
        "Asked": job("jobs.Say.outputs.N > 0"),
    },
})  # fmt: skip


def known(lab: Lab, **options: Any) -> PlanView:
    snapshot = lab.snapshot(options.pop("sets", ()))
    return PlanView(snapshot, compute_execution_plan(snapshot, PlanOptions(**options)))


def why(state: PlanView, id_: str) -> dict[str, Any]:
    return why_job(state, state.graph.node_of[id_]).to_json()


def test_the_state_of_available_absent_and_pending_outputs(project: Make) -> None:
    lab = project(FLOW, CODE)
    lab.succeed()
    state = known(lab, force=("Job:Say", "Job:Each[2]"))
    look = {id_: state.artifact_state(at) for id_, at in state.graph.artifact_of.items()}
    output = {
        o.id: o for step in ("Job:Story", "Job:Each[1]") for o in state.snapshot.records.steps[step].latest.outputs
    }
    assert look["Artifact:Story.S.Deep"] == Available(output["Artifact:Story.S.Deep"].sha256, {"a": 1})
    assert look["Artifact:Story.N"] == Available(output["Artifact:Story.N"].sha256, 7)
    assert look["Artifact:Story.S"] == Available(output["Artifact:Story.S"].sha256), "bytes, and no value"
    assert look["Artifact:Off.N"] is None
    assert look["Artifact:Say.N"] == Pending(False)
    assert look["Artifact:Asked.N"] == Pending(True)
    node = state.graph.node_of["Job:Reads"]
    found = state.consumption(node)
    assert (found.entries["deep"].value, found.entries["number"].value) == (1, 8)
    assert state.fingerprint(node, found) == state.snapshot.records.steps["Job:Reads"].latest.fingerprint


def test_a_reused_output_has_its_earlier_content(project: Make) -> None:
    lab = project(FLOW, CODE)
    lab.succeed()
    lab.succeed(sets=["Word=b"])
    state = known(lab)
    (say,) = state.plan.planned
    assert (say.id, say.reuse and say.reuse.run) == ("Job:Say", "r0001")
    at = state.graph.artifact_of["Artifact:Say.N"]
    assert state.artifact_state(at) == Available(say.reuse.outputs["N"].sha256, 1)
    answer = why(state, "Job:Say")
    assert [(j["id"], j["state"], j["reuse"], j["causes"]) for j in answer["jobs"]] == [
        ("Job:Say", "reused", "r0001", [])
    ]


def test_reasons_are_followed_to_their_roots(project: Make) -> None:
    lab = project(FLOW, CODE)
    lab.succeed()
    state = known(lab, force=("Job:Say",))
    told = {"code": "UPSTREAM_DIRTY", "job": "Job:Say", "text": "Job:Say"}
    forced = {"code": "FORCED", "by": "Job:Say", "text": "--force Job:Say"}
    say = {"id": "Job:Say", "depth": 1, "state": "planned", "layer": 0, "reasons": [forced], "causes": []}
    assert why(state, "Job:Hear") == {
        "jobs": [
            {"id": "Job:Hear", "depth": 0, "state": "planned", "layer": 1, "reasons": [told], "causes": ["Job:Say"]},
            say,
        ],
        "roots": ["Job:Say"],
        "more": 0,
    }  # fmt: skip
    assert why(state, "Job:Asked") == {
        "jobs": [
            {
                "id": "Job:Asked", "depth": 0, "state": "planned", "layer": 1, "conditional": True, "reasons": [told],
                "causes": ["Job:Say"],
            },
            say,
        ],
        "roots": ["Job:Say"],
        "more": 0,
    }  # fmt: skip
    assert why_job(state, state.graph.node_of["Job:Hear"]).is_chain


def test_an_inactive_job_leads_to_the_absent_source(project: Make) -> None:
    state = known(project(FLOW, CODE))
    assert why(state, "Job:NeedsOff") == {
        "jobs": [
            {
                "id": "Job:NeedsOff", "depth": 0, "state": "inactive", "layer": 1,
                "because": {"source": "Artifact:Off.N"}, "causes": ["Job:Off"],
            },
            {
                "id": "Job:Off", "depth": 1, "state": "inactive", "layer": 0,
                "because": {"condition": "inputs.Go", "inputs": {"Input:Go": False}}, "causes": [],
            },
        ],
        "roots": ["Job:Off"],
        "more": 0,
    }  # fmt: skip


def test_three_of_a_kind_are_listed_and_the_rest_is_counted(project: Make) -> None:
    lab = project(FLOW, CODE)
    lab.succeed()
    state = known(lab, force=("Job:Each[*]", "Job:Say"))
    found = why_job(state, state.graph.node_of["Job:All"])
    assert [(j.id, j.depth, j.alike) for j in found.jobs] == [
        ("Job:All", 0, 0), ("Job:Each[0]", 1, 0), ("Job:Each[1]", 1, 0), ("Job:Each[2]", 1, 3), ("Job:Say", 1, 0),
    ]  # fmt: skip
    assert [root.id for root in found.roots] == [*(f"Job:Each[{i}]" for i in range(6)), "Job:Say"]
    assert (found.more, found.hidden, found.is_chain) == (0, (), False)
    assert [j.get("alike") for j in found.to_json()["jobs"]] == [None, None, None, 3, None]


def test_a_clean_job_lists_its_compared_inputs(project: Make) -> None:
    lab = project(FLOW, CODE)
    lab.succeed()
    (answer,) = why(known(lab), "Job:Reads")["jobs"]
    assert [(c["name"], c["id"], c.get("value")) for c in answer["compared"]] == [
        ("action", "Input:Reads.action", "python"),
        ("call", "Input:Reads.with.call", "acts:one"),
        ("deep", "Input:Reads.with.deep", 1),
        ("number", "Input:Reads.with.number", 8),
        ("whole", "Artifact:Story.S", None),
    ]
    assert {name: answer[name] for name in ("state", "depth", "causes", "last_success")} == {
        "state": "clean", "depth": 0, "causes": [], "last_success": {"run": "r0001", "attempt": 1, "how": "executed"},
    }  # fmt: skip
    (wide,) = why(known(lab), "Job:All")["jobs"]
    assert [c["id"] for c in wide["compared"] if c["name"] == "x"] == [f"Artifact:Each.N[{i}]" for i in range(6)]
    assert "compared_more" not in wide


def test_a_clean_job_is_compared_with_what_its_last_success_consumed(project: Make) -> None:
    lab = project(FLOW, CODE)
    lab.succeed()
    state = known(lab)
    for id_, node in state.graph.node_of.items():
        if node not in state.jobs:
            consumed = lab.opened().history().last_consumed(state.snapshot.record(node))
            found = why_job(state, node, consumed=consumed).to_json()
            assert found == why(state, id_), "no difference, and no contradiction"


def test_a_wrong_skip_is_a_contradiction(project: Make) -> None:
    """As if `find_suspects` forgot a column."""
    lab = project(FLOW, CODE)
    lab.succeed()
    snapshot = replace(lab.snapshot(["Word=b"]), suspects=())
    state = PlanView(snapshot, compute_execution_plan(snapshot))
    node = state.graph.node_of["Job:Say"]
    consumed = lab.opened().history().last_consumed(snapshot.record(node))
    (answer,) = why_job(state, node, consumed=consumed).jobs
    assert [(one.name, one.differs) for one in answer.compared] == [("action", False), ("call", False), ("word", True)]
    assert [reason.text("Job:Say") for reason in answer.contradiction] == ['word ← Input:Word  "a" → "b"']
    body = answer.to_json()
    assert [one for one in body["compared"] if "differs" in one] == [
        {"name": "word", "id": "Input:Word", "sha256": answer.compared[2].sha256, "value": "b", "differs": True}
    ]
    assert [(reason["code"], reason["text"]) for reason in body["contradiction"]] == [
        ("INPUT_CHANGED", 'word ← Input:Word  "a" → "b"')
    ]
    lab.edit("acts.py", '"N": 1}', '"N": 2}')
    snapshot = replace(lab.snapshot(), suspects=())
    state = PlanView(snapshot, compute_execution_plan(snapshot))
    (answer,) = why_job(state, node, consumed=consumed).jobs
    assert [one.name for one in answer.compared if one.differs] == ["action"]


def test_a_missing_output_of_a_clean_job_is_named(project: Make) -> None:
    """As if `find_suspects` forgot to look for outputs."""
    lab = project(FLOW, CODE)
    lab.succeed()
    snapshot = lab.snapshot()
    at = snapshot.dependency_graph.artifact_of["Artifact:Each.N[2]"]
    shas = [[column.copy() for column in columns] for columns in snapshot.shas]
    shas[at.table][at.artifact][at.position] = None
    snapshot = replace(snapshot, shas=shas, suspects=[snapshot.dependency_graph.node_of["Job:All"]])
    message = r"Job:Each\[2\] is clean, but its Artifact:Each\.N\[2\] is not available"
    with pytest.raises(AssertionError, match=message):
        compute_execution_plan(snapshot)
    state = PlanView(snapshot, compute_execution_plan(replace(snapshot, suspects=())))
    with pytest.raises(AssertionError, match=message):
        state.artifact_state(at)


def test_readers_of_artifacts_and_inputs(project: Make) -> None:
    graph = project(FLOW, CODE).opened().graph
    at = graph.artifact_of
    assert direct_readers(graph, at["Artifact:Say.N"]) == ["Job:All", "Job:Asked", "Job:Hear"]
    assert direct_readers(graph, at["Artifact:Each.N[3]"]) == ["Job:All"]
    assert direct_readers(graph, at["Artifact:Story.S.Deep"]) == ["Job:Reads"]
    assert direct_readers(graph, at["Artifact:Hear.N"]) == []
    assert named_readers(graph, "Input:Word") == [("Job:Say", False)]
    assert named_readers(graph, "Input:Go") == [("Job:Off", True)]
    assert named_readers(graph, "Input:Many[1]") == [(f"Job:Each[{i}]", False) for i in range(6)]
