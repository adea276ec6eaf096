"""The causes of a job, the run that made a changed source, and the source of its last success."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from project_lab import Heard, Lab
from whyrun.execution.adopt.adopt import adopt_file
from whyrun.planning.answers.why import PlanView, direct_readers, last_success, why_job
from whyrun.planning.plan import PlanOptions, compute_execution_plan

Make = Callable[..., Lab]
CODE = {
    "acts.py": """
        def size(**given):
            if given.get("word") == "bad":
                raise ValueError("bad")
            return {"N": len(given.get("word", "")) + given.get("x", 0)}
    """
}


def job(**given: Any) -> dict[str, Any]:
    return {"uses": "python", "with": {"call": "acts:size", **given}, "outputs": {"N": {"type": "integer"}}}


def n(name: str, selector: str = "") -> str:
    return f"${{{{ jobs.{name}.outputs.N{selector} }}}}"


def flow(**jobs: Any) -> str:
    inputs = {
        "Word": {"type": "string", "default": "a"},
        "Other": {"type": "string", "default": "a"},
        "Many": {"type": "integer[]", "default": list(range(10))},
    }
    return json.dumps({"workflow": "w", "inputs": inputs, "loops": {"i": {"each": "inputs.Many"}}, "jobs": jobs})


SAY = flow(Say=job(word="${{ inputs.Word }}"), Hear=job(x=n("Say")))


def state_of(lab: Lab, sets: tuple[str, ...] = (), **options: Any) -> PlanView:
    snapshot = lab.snapshot(sets)
    return PlanView(snapshot, compute_execution_plan(snapshot, PlanOptions(**options)))


def why(state: PlanView, id_: str) -> list[dict[str, Any]]:
    return list(why_job(state, state.graph.node_of[id_]).to_json()["jobs"])


def test_failed_causes_come_before_dirty_ones(project: Make) -> None:
    lab = project(flow(A=job(word="a"), B=job(word="${{ inputs.Word }}"), Top=job(x=n("A"), y=n("B"))), CODE)
    assert lab.run(sets=["Word=bad"]).exit_code == 1
    top, *causes = why(state_of(lab, ("Word=bad",), force=("Job:A",)), "Job:Top")
    assert [reason["code"] for reason in top["reasons"]] == [
        "MISSING_OUTPUT", "UPSTREAM_FAILED", "UPSTREAM_DIRTY", "UPSTREAM_DIRTY",
    ]  # fmt: skip
    assert (top["causes"], [cause["id"] for cause in causes]) == (["Job:B", "Job:A"], ["Job:B", "Job:A"])


def test_a_source_that_will_be_taken_from_an_earlier_run_is_followed(project: Make) -> None:
    lab = project(SAY, CODE)
    lab.succeed()
    lab.succeed(sets=["Word=bb"])
    hear, say = why(state_of(lab), "Job:Hear")
    assert (hear["state"], hear["reuse"], hear["causes"]) == ("reused", "r0001", ["Job:Say"])
    assert [(reason["code"], reason["source"]) for reason in hear["reasons"]] == [("INPUT_CHANGED", "Artifact:Say.N")]
    assert "made" not in hear, "it is not there yet"
    assert (say["id"], say["state"], say["reuse"], say["causes"]) == ("Job:Say", "reused", "r0001", [])


def test_a_deferred_job_stays_deferred_even_if_it_could_be_reused(project: Make) -> None:
    lab = project(SAY, CODE)
    lab.succeed()
    lab.succeed(sets=["Word=bb"])
    state = state_of(lab, up=1)
    assert [(job["id"], job["state"], job["reuse"]) for job in why(state, "Job:Hear")] == [
        ("Job:Hear", "deferred", "r0001"), ("Job:Say", "reused", "r0001"),
    ]  # fmt: skip
    assert state.plan.totals == {"jobs": 2, "planned": 0, "reused": 1, "clean": 0, "deferred": 1, "inactive": 0}


def test_a_changed_clean_source_names_the_run_that_made_it(project: Make) -> None:
    hear = job(word="${{ inputs.Other }}", call="acts:size", x=n("Say"))
    lab = project(flow(Say=job(word="${{ inputs.Word }}"), Hear=hear), CODE)
    lab.succeed()
    lab.succeed(sets=["Word=bb"], targets=["Job:Say"])
    (answer,) = why(state_of(lab, ("Word=bb", "Other=c")), "Job:Hear")
    assert [(reason["binding"], reason["source"]) for reason in answer["reasons"]] == [
        ("word", "Input:Other"), ("x", "Artifact:Say.N"),
    ]  # fmt: skip
    assert answer["made"] == {"Artifact:Say.N": {"run": "r0002", "attempt": 1, "how": "executed"}}
    assert answer["causes"] == []
    lab.succeed(sets=["Word=bb"])
    lab.succeed(targets=["Job:Say"])
    (again,) = why(state_of(lab), "Job:Hear")
    assert again["made"] == {"Artifact:Say.N": {"run": "r0004", "attempt": 0, "how": "reused"}}


def test_an_absence_that_has_no_source_leads_nowhere(project: Make) -> None:
    last = job(x="${{ first(jobs.Each.outputs.N[i+1], jobs.Each.outputs.N[i+2]) + 1 }}")
    off = {**job(), "if": "${{ inputs.Word == 'b' }}"}
    either = job(x="${{ first(jobs.Off.outputs.N, jobs.Off.outputs.N) + 1 }}")
    jobs = {"Each": {"for": ["i"], **job()}, "Last": {"for": ["i"], **last}, "Off": off, "Either": either}
    state = state_of(project(flow(**jobs), CODE))
    (alone,) = why(state, "Job:Last[9]")
    assert (alone["because"], alone["causes"]) == ({"source": "first()"}, [])
    told = [(job["id"], job["because"], job["causes"]) for job in why(state, "Job:Either")]
    assert told == [
        ("Job:Either", {"source": "Artifact:Off.N"}, ["Job:Off"]),
        ("Job:Off", {"condition": "inputs.Word == 'b'", "inputs": {"Input:Word": "a"}}, []),
    ]


UNCOUNTED = """\
from typing import ClassVar
from whyrun import Action, Parameters

class Say(Action):
    name, outputs = "say", {"text": "text"}

    class Params(Parameters):
        uncounted: ClassVar[tuple[str, ...]] = ("limit",)
        word: str
        limit: int = 1

    def run(self, inputs, mode="dry-run", context=None, logger=None):
        return {"text": self.params.word}
"""


def test_uncounted_parameters_are_not_compared_and_the_next_ones_are(project: Make) -> None:
    def said(**with_: Any) -> str:
        say = {"uses": "say", "with": with_, "env": {"B": "1"}, "outputs": {"text": {"type": "text"}}}
        return json.dumps({"workflow": "w", "jobs": {"Say": say}})

    lab = project(said(limit=1, word="a"), {"actions/say.py": UNCOUNTED})
    lab.succeed()
    (clean,) = why(state_of(lab), "Job:Say")
    assert [entry["name"] for entry in clean["compared"]] == ["action", "env.B", "word"]
    (changed,) = why(state_of(lab.write({"workflow.yaml": said(limit=2, word="b")})), "Job:Say")
    assert [reason["binding"] for reason in changed["reasons"]] == ["word"]


def test_a_value_that_is_not_small_is_compared_by_its_hash(project: Make) -> None:
    small, long = "b" * 40, "a" * 300
    lab = project(flow(Say=job(long=long, small=small, word="${{ inputs.Word }}")), CODE)
    lab.succeed()
    (answer,) = why(state_of(lab), "Job:Say")
    assert [(entry["name"], entry.get("value")) for entry in answer["compared"]] == [
        ("action", "python"), ("call", "acts:size"), ("long", None), ("small", small), ("word", "a"),
    ]  # fmt: skip


ADOPTED = """
    workflow: w
    jobs:
      Say:
        uses: python
        with: {call: "acts:say"}
        outputs: {A: {type: text}, B: {type: text}, S: {type: json, leaves: {On: boolean}}}
"""


def test_the_last_success_lists_outputs_adopted_since(project: Make) -> None:
    say = "def say():\n    return {'A': 'a', 'B': 'b', 'S': {'On': True}}\n"
    lab = project(ADOPTED, {"acts.py": say, "mine.txt": "mine", "mine.json": '{"On": false}'})
    lab.succeed()

    def last_success_facts() -> tuple[dict[str, Any], list[str]]:
        found = last_success(lab.snapshot().records.steps["Job:Say"].latest)
        return found.to_json(), list(found.adopted)

    executed = {"run": "r0001", "how": "executed"}
    assert last_success_facts() == ({**executed, "attempt": 1}, [])
    adopt_file(lab.opened(), "Artifact:Say.S", lab.root / "mine.json", Heard())
    assert last_success_facts() == ({**executed, "adopted": {"Artifact:Say.S": "r0002"}}, ["Artifact:Say.S"])
    adopt_file(lab.opened(), "Artifact:Say.A", lab.root / "mine.txt", Heard())
    adopted = {"Artifact:Say.A": "r0003", "Artifact:Say.S": "r0002"}
    assert last_success_facts() == ({**executed, "adopted": adopted}, ["Artifact:Say.A", "Artifact:Say.S"])
    adopt_file(lab.opened(), "Artifact:Say.B", lab.root / "mine.txt", Heard())
    assert last_success_facts() == ({"run": "r0004", "attempt": 0, "how": "adopted"}, [])


def test_the_last_success_names_the_run_that_was_reused(project: Make) -> None:
    lab = project(SAY, CODE)
    for word in ("a", "bb", "a"):
        lab.succeed(sets=[f"Word={word}"])
    (answer,) = why(state_of(lab), "Job:Say")
    assert answer["last_success"] == {"run": "r0003", "attempt": 0, "how": "reused"}, "nothing was attempted"


def test_a_job_without_outputs_was_executed(project: Make) -> None:
    lab = project(json.dumps({"workflow": "w", "jobs": {"Do": {"uses": "shell", "with": {"run": "true"}}}}))
    lab.succeed()
    (answer,) = why(state_of(lab), "Job:Do")
    assert list(answer) == ["id", "depth", "state", "last_success", "compared", "causes"]
    assert answer["last_success"] == {"run": "r0001", "attempt": 1, "how": "executed"}


def test_readers_come_in_the_order_of_the_graph(project: Make) -> None:
    reads = {"for": ["i"], **job(x="${{ first(jobs.Each.outputs.N[i-7], jobs.Each.outputs.N[i]) }}")}
    each = {"for": ["i"], **job(), "if": "${{ inputs.Many[i] > 0 }}"}
    graph = project(flow(Each=each, Reads=reads), CODE).opened().graph
    assert direct_readers(graph, graph.artifact_of["Artifact:Each.N[1]"]) == ["Job:Reads[1]", "Job:Reads[8]"]
