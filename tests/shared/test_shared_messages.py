"""What a run and later commands print about the shared store."""

from __future__ import annotations

import json

from shared_lab import WORKFLOW, Team, plan_told

from command_lab import Answer, Command
from project_lab import Lab
from whyrun.execution.sharing.sharing import SharingCounts


def whyrun(lab: Lab, *words: str, **environment: str) -> Answer:
    answer = Command(lab.root, words, environment).ended()
    assert answer.code == 0, answer.err
    return answer


def shared_store_lines(answer: Answer) -> list[str]:
    return [line for line in answer.err.splitlines() if line.startswith("  shared store")]


def say_of_origins(team: Team, **said: object) -> None:
    for key, result in team.kept.results().items():
        team.kept.write(key, json.dumps({**result, "origin": {**result["origin"], **said}}).encode())


def test_a_run_says_what_it_gave_and_took_and_what_that_saved(folder_team: Team) -> None:
    gave = whyrun(folder_team.clone(), "run")
    assert shared_store_lines(gave) == ["  shared store: uploaded 2 results, downloaded 0"]
    say_of_origins(folder_team, duration=60.0, by="ci@\x1b[31mfarm")
    second = folder_team.clone()
    took = whyrun(second, "run", "--json")
    assert shared_store_lines(took) == ["  shared store: uploaded 0 results, downloaded 2"]
    assert "2 reused; saved ~2 min by not running the rest again\n" in took.err
    assert (took.json["shared_store"], took.json["saved_seconds"]) == ({"gave": 0, "took": 2, "not_given": 0}, 120.0)
    (made_by,) = [line for line in whyrun(second, "history", "Job:Use").out.splitlines() if "made by" in line]
    assert made_by.endswith("from shared store, made by ci@\N{REPLACEMENT CHARACTER}[31mfarm")


def test_a_result_that_the_store_has_already_is_not_counted_as_given(folder_team: Team) -> None:
    assert folder_team.clone().succeed().result.shared == SharingCounts(gave=2)
    assert folder_team.clone().succeed(force=["Job:Make"]).result.shared == SharingCounts(took=1)
    assert folder_team.clone().succeed(sets=["Topic=theatre"]).result.shared == SharingCounts(gave=2)


def test_a_workflow_without_a_job_that_may_be_shared_says_so(folder_team: Team) -> None:
    lab = folder_team.clone(WORKFLOW.replace("    deterministic: true\n", ""))
    assert plan_told(lab)[1] == []
    assert shared_store_lines(whyrun(lab, "run")) == [
        "  shared store: not used, because no job of this workflow may be shared"
    ]


ASK = """
    Ask:
      uses: shell
      deterministic: true
      secrets: [API_KEY]
      with: {run: 'echo 1 > "$out_T"'}
      outputs: {T: {type: text}}
"""


def test_jobs_that_are_given_secrets_are_named(folder_team: Team) -> None:
    free = ASK.replace("Ask:", "Sum:").replace("      secrets: [API_KEY]\n", "")
    both = folder_team.clone(f"workflow: demo\njobs:{ASK}{free.lstrip(chr(10))}")
    given = "(given a secret or a connection: Ask)"
    answer = whyrun(both, "run", API_KEY="sesame-open")
    assert shared_store_lines(answer) == [f"  shared store: uploaded 1 result, downloaded 0; never shared {given}"]
    alone = folder_team.clone(f"workflow: alone\njobs:{ASK}")
    answer = whyrun(alone, "run", API_KEY="sesame-open")
    assert shared_store_lines(answer) == [
        f"  shared store: not used, because no job of this workflow may be shared {given}"
    ]


def test_a_project_without_a_shared_store_prints_nothing_about_it(folder_team: Team) -> None:
    answer = whyrun(folder_team.project(WORKFLOW), "run", "--json")
    assert (shared_store_lines(answer), "shared_store" in answer.json) == ([], False)


def test_an_unreadable_record_is_reported_with_its_job_also_during_the_run(folder_team: Team) -> None:
    """The fingerprint of `Learn` is known once `Fetch`, which is not deterministic, has been executed."""
    flow = """
    workflow: demo
    jobs:
      Fetch: {uses: shell, with: {run: 'echo rows > "$out_Rows"'}, outputs: {Rows: {type: text}}}
      Learn:
        uses: shell
        deterministic: true
        with: {rows: "${{ jobs.Fetch.outputs.Rows }}", run: 'cat "$rows" > "$out_Model"'}
        outputs: {Model: {type: file}}
    """
    folder_team.clone(flow).succeed()
    key, _ = folder_team.kept.result_of("Job:Learn")
    folder_team.kept.write(key, folder_team.kept.read(key)[:-5])
    ran = folder_team.clone(flow).succeed()
    (note,) = ran.heard.notes
    assert note.startswith("the shared store has the result of Job:Learn, but it is refused: it cannot be read: ")
    assert ran.result.shared == SharingCounts(gave=1)


UNDECLARED = """
    workflow: demo
    jobs:
      Pure: {uses: python, deterministic: true, with: {call: "acts:pure"}, outputs: {N: {type: integer}}}
      Reader: {uses: python, deterministic: true, with: {call: "acts:reader"}, outputs: {N: {type: integer}}}
"""
ACTS = """
from pathlib import Path

def pure():
    return {"N": 1}

def reader():
    return {"N": len(Path(__file__).with_name("words.txt").read_text())}
"""


def test_the_result_of_a_step_that_read_something_undeclared_is_not_given(folder_team: Team) -> None:
    first, second = folder_team.clone(UNDECLARED), folder_team.clone(UNDECLARED)
    first.write({"acts.py": ACTS, "words.txt": "one"})
    second.write({"acts.py": ACTS, "words.txt": "three"})
    assert first.succeed().result.shared == SharingCounts(gave=1)
    ran = second.succeed()
    assert (ran.result.shared, ran.executed) == (SharingCounts(took=1), ["Job:Reader"])
    assert (first.content("Artifact:Reader.N"), second.content("Artifact:Reader.N")) == (3, 5)
