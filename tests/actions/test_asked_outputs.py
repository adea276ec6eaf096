"""What a class says of its outputs: added paths, the key of its section, whether its part is there."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from project_lab import Lab, codes, reasons
from whyrun.errors import InvalidError
from whyrun.facts.plans import plan_of_run
from whyrun.planning.answers.explain import expected_durations
from whyrun.planning.plan import compute_execution_plan
from whyrun.snapshot.history.replay import replay_snapshot, snapshot_blob

Make = Callable[..., Lab]

ACTIONS = """
    import json
    from pathlib import Path
    from whyrun import Action, File, Parameters

    class Learn(Action):
        name = "learn"
        outputs = {"graph": "file", "notes": "text", "metadata": "json"}
        class Params(Parameters):
            network: str
            data: File
            folder: str = "out"
        def run(self, inputs, context):
            context.output("graph").write_text("<graph/>" + inputs["data"].read_text())
            return {"metadata": {"network": inputs["network"]}}
        def get_output_files(self, inputs):
            return [f"{inputs['folder']}/{inputs['network']}-{Path(inputs['data']).stem}.xml"]
        def get_output_contribution_key(self, inputs):
            return "net " + inputs["network"] if inputs["network"] != "cancer" else None
        def has_existing_contribution(self, file_path, inputs):
            assert Path(file_path).name == "all.json", "it is asked about the shared file alone"
            return "forget me" not in Path(inputs["data"]).read_text()
"""

WORKFLOW = """
    workflow: w
    inputs: {Data: {type: file, default: data.csv}, Folder: {type: string, default: out}}
    loops: {network: {values: [asia, cancer]}}
    jobs:
      learn:
        for: [network]
        uses: learn
        with: {network: "${{ network }}", data: "${{ inputs.Data }}", folder: "${{ inputs.Folder }}"}
        outputs:
          graph: {type: file}
          metadata: {type: json, path: all.json, append: true}
"""


@pytest.fixture
def lab(project: Make) -> Lab:
    return project(WORKFLOW, {"actions/learn.py": ACTIONS, "data.csv": "1"})


def test_added_paths_are_published_and_named_sections_are_written(lab: Lab) -> None:
    lab.succeed()
    assert lab.read("out/asia-data.xml") == lab.read("out/cancer-data.xml") == "<graph/>1"
    assert json.loads(lab.read("all.json")) == {
        "net asia": {"network": "asia"},
        "learn[cancer]": {"network": "cancer"},
    }
    assert lab.plan().headlines() == {}


def test_what_lies_there_is_looked_at_like_any_published_file(lab: Lab) -> None:
    lab.succeed()
    lab.write({"out/asia-data.xml": None})
    (missing,) = reasons(lab.plan())["Job:learn[asia]"]
    assert missing == {
        "code": "MISSING_OUTPUT",
        "artifact": "Artifact:learn.graph[asia]",
        "path": "out/asia-data.xml",
        "change": "deleted",
    }
    ran = lab.succeed()
    assert (ran.executed, list(ran.reused)) == ([], ["Job:learn[asia]"])
    assert lab.read("out/asia-data.xml") == "<graph/>1"


def test_another_path_is_not_paid_for_again(lab: Lab) -> None:
    """A parameter is: so the path of this action comes from its code alone."""
    lab.succeed()
    lab.edit("actions/learn.py", ".xml", ".graphml")
    plan = lab.plan()
    assert codes(plan) == {
        "Job:learn[asia]": ["MISSING_OUTPUT", "INPUT_CHANGED"],
        "Job:learn[cancer]": ["MISSING_OUTPUT", "INPUT_CHANGED"],
    }


def test_it_can_say_that_its_part_is_not_there_and_never_that_it_is(lab: Lab) -> None:
    lab.write({"data.csv": "forget me"})
    lab.succeed()
    plan = lab.plan()
    assert reasons(plan)["Job:learn[asia]"] == [
        {
            "code": "MISSING_OUTPUT",
            "artifact": "Artifact:learn.metadata[asia]",
            "path": "all.json § net asia",
            "change": "disowned",
        }
    ]
    # The class names no key for cancer, so it is not asked about its section.
    assert [(job.id, job.reuse.run) for job in plan.planned if job.reuse is not None] == [("Job:learn[asia]", "r0001")]
    lab.write({"all.json": "{}", "data.csv": "1"})
    assert codes(lab.plan())["Job:learn[asia]"][0] == "MISSING_OUTPUT", "changed behind our back: it is not asked"


def test_the_answers_stand_in_the_snapshot_and_are_replayed_without_asking(lab: Lab) -> None:
    lab.write({"data.csv": "forget me"})
    lab.succeed()
    snapshot = lab.snapshot()
    blob = snapshot_blob(snapshot)
    lab.write({"actions": None})
    again = replay_snapshot(blob, lab.opened().history())
    assert again.files == snapshot.files == {"all.json § net asia": "disowned"}
    assert snapshot_blob(again) == blob


def test_the_plan_of_a_run_is_reproduced(lab: Lab) -> None:
    ran = lab.succeed()
    assert plan_of_run(lab.opened(), "r0001").plan.to_json() == ran.plan.to_json()


def test_an_answer_that_comes_from_a_file_follows_the_file_whatever_is_cached(lab: Lab) -> None:
    """What was kept of an earlier answer must not place the result of other content."""
    lab.edit("actions/learn.py", "Path(inputs['data']).stem", "Path(inputs['data']).read_text().strip()")
    lab.write({"data.csv": "one"}).succeed()
    lab.write({"data.csv": "two"})
    kept = lab.plan().to_json()
    lab.write({".whyrun/actions-cache": None})
    assert lab.plan().to_json() == kept
    lab.succeed()
    assert lab.read("out/asia-two.xml") == "<graph/>two"
    assert lab.plan().headlines() == {}


SECTION = "{type: json, path: all.json, append: true}"


@pytest.mark.parametrize("where", ["{type: json, path: j.json}", SECTION])
def test_a_document_whose_stored_bytes_are_lost_is_read_where_it_is_published(project: Make, where: str) -> None:
    lab = project(
        f"""
        workflow: w
        jobs:
          J:
            uses: python
            with: {{call: "steps:j"}}
            outputs: {{J: {where}}}
          E:
            uses: looks
            with: {{j: "${{{{ jobs.J.outputs.J }}}}"}}
            outputs: {{o: {{type: text, path: o.txt}}}}
        """,
        {
            "steps.py": "def j():\n    return {'J': {'a': 1}}\n",
            "actions/looks.py": """
            from whyrun import Action
            class Looks(Action):
                name, outputs = "looks", {"o": "text"}
                def run(self, inputs):
                    return {"o": str(inputs["j"]["a"])}
                def estimate_runtime(self, inputs):
                    return 7.0 if inputs.get("j") == {"a": 1} else 1.0
            """,
        },
    )
    lab.succeed(targets=["Job:J"])
    before = lab.plan().to_json()
    (sha256,) = [e.sha256 for e in lab.events("r0001") if getattr(e, "artifact", "") == "Artifact:J.J"]
    lab.blob(sha256).unlink()
    snapshot = lab.snapshot()
    after = compute_execution_plan(snapshot)
    assert expected_durations(after, snapshot) == {"Job:E": 7.0}, "it was asked, with the document"
    assert after.to_json() == before


def test_nobody_is_asked_where_a_binding_is_not_known(project: Make) -> None:
    workflow = """
        workflow: w
        jobs:
          Make: {uses: shell, with: {run: 'echo 1 > "$out_Data"'}, outputs: {Data: {type: file}}}
          learn:
            uses: learn
            with: {network: asia, data: "${{ jobs.Make.outputs.Data }}"}
            outputs: {graph: {type: file}}
    """
    lab = project(workflow, {"actions/learn.py": ACTIONS})
    lab.succeed()
    assert not (lab.root / "out").exists()
    lab.edit("workflow.yaml", "outputs: {Data: {type: file}}", "outputs: {Data: {type: file, path: made.csv}}")
    lab.succeed()
    assert lab.read("out/asia-made.xml") == "<graph/>1\n"
    assert lab.plan().headlines() == {}


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        (
            "return [f\"{inputs['folder']}/{inputs['network']}-{Path(inputs['data']).stem}.xml\"]",
            "return ['../x']",
            "INVALID_USES",
            "`get_output_files` of the action `learn` fails for `Job:learn[asia]`: "
            "`../x`: it leaves the project folder",
        ),
        (
            "return [f\"{inputs['folder']}/{inputs['network']}-{Path(inputs['data']).stem}.xml\"]",
            "return ['a', 'b']",
            "INVALID_USES",
            "`get_output_files` of the action `learn` fails for `Job:learn[asia]`: 2 paths for 1 outputs without a "
            "`path:`",
        ),
        (
            "return [f\"{inputs['folder']}/{inputs['network']}-{Path(inputs['data']).stem}.xml\"]",
            "return ['out/same.xml']",
            "DUPLICATE_OUTPUT_PATH",
            "`out/same.xml` would be written by both `Artifact:learn.graph[asia]` and `Artifact:learn.graph[cancer]`",
        ),
        (
            'return "net " + inputs["network"] if inputs["network"] != "cancer" else None',
            "return inputs['nothing']",
            "INVALID_USES",
            "`get_output_contribution_key` of the action `learn` fails for `Job:learn[asia]`: KeyError: 'nothing'",
        ),
    ],
)
def test_answers_that_make_no_sense_are_refused(lab: Lab, old: str, new: str, code: str, message: str) -> None:
    lab.edit("actions/learn.py", old, new)
    with pytest.raises(InvalidError) as refused:
        lab.plan()
    assert [(d.code, d.message) for d in refused.value.diagnostics] == [(code, message)]
    assert refused.value.diagnostics == lab.opened().problems
