"""What a class says of its part in a shared file, as an action that keeps a `metadata.json` says it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from project_lab import Lab, reasons
from whyrun.errors import InvalidError

Make = Callable[..., Lab]

# `get_output_files` names all files that the action writes; only one of them is shared.
ACTION = """
    import json
    from pathlib import Path
    from whyrun import Action, Parameters

    class Learn(Action):
        name = "causal-discovery"
        outputs = {"graph": "file", "metadata": "json"}
        class Params(Parameters):
            network: str
            files: list[str] = []
        def run(self, inputs, context):
            context.output("graph").write_text("<graph/>")
            return {"metadata": {"network": inputs["network"]}}
        def get_output_files(self, inputs):
            return [f"results/{inputs['network']}/graph.xml", "results/metadata.json"]
        def get_output_contribution_key(self, inputs):
            return "learn " + inputs["network"]
        def has_existing_contribution(self, file_path, inputs):
            return "learn " + inputs["network"] in json.loads(Path(file_path).read_text())
"""
WORKFLOW = """
    workflow: w
    loops: {network: {values: [asia, cancer]}}
    jobs:
      learn:
        for: [network]
        uses: causal-discovery
        with: {network: "${{ network }}"}
        outputs:
          graph: {type: file}
          metadata: {type: json, append: true}
"""
OWN_PATH = "metadata: {type: json, append: true, path: results/metadata.json}"


@pytest.fixture
def lab(project: Make) -> Lab:
    return project(WORKFLOW, {"actions/learn.py": ACTION})


def test_get_output_files_names_a_shared_file(lab: Lab) -> None:
    """Issue 17, number 11. `append: true` without a `path:` was refused."""
    lab.succeed()
    assert lab.read("results/asia/graph.xml") == "<graph/>"
    assert json.loads(lab.read("results/metadata.json")) == {
        "learn asia": {"network": "asia"},
        "learn cancer": {"network": "cancer"},
    }
    assert lab.plan().headlines() == {}
    lab.write({"results/metadata.json": '{"learn asia": {"network": "asia"}, "mine": 1}'})
    assert reasons(lab.plan()) == {
        "Job:learn[cancer]": [
            {
                "code": "MISSING_OUTPUT",
                "artifact": "Artifact:learn.metadata[cancer]",
                "path": "results/metadata.json § learn cancer",
                "change": "deleted",
            }
        ]
    }
    assert list(lab.succeed().reused) == ["Job:learn[cancer]"]
    assert set(json.loads(lab.read("results/metadata.json"))) == {"learn asia", "learn cancer", "mine"}


@pytest.mark.parametrize(
    ("old", "new", "keys"),
    [
        ("metadata: {type: json, append: true}", OWN_PATH, ["learn asia", "learn cancer"]),
        ("append: true}", 'append: true, key: "own ${{ network }}"}', ["own asia", "own cancer"]),
        ("append: true}", "append: true}", ["learn asia", "learn cancer"]),
    ],
)
def test_its_list_of_all_files_fits_whatever_the_job_says_itself(lab: Lab, old: str, new: str, keys: list[str]) -> None:
    """A list with the job's own `path:` in it was `2 paths for 1 outputs without a path`."""
    lab.edit("workflow.yaml", old, new)
    lab.succeed()
    assert sorted(json.loads(lab.read("results/metadata.json"))) == keys
    assert lab.read("results/cancer/graph.xml") == "<graph/>"
    assert lab.plan().headlines() == {}


def test_a_class_is_asked_only_about_shared_files_with_a_key_of_its_own(lab: Lab) -> None:
    """Issue 17, number 11. Asked about its graph it said no, and its jobs were never up to date."""
    lab.edit("actions/learn.py", "json.loads(Path(file_path).read_text())", "json.loads(Path(file_path).read_bytes())")
    lab.succeed()
    assert lab.plan().headlines() == {}, "the graph is no JSON: whoever were asked about it would raise or say no"
    lab.edit("actions/learn.py", 'return "learn " + inputs["network"]\n    def has', "return None\n    def has")
    lab.edit("actions/learn.py", "read_bytes()", "read_text()")
    lab.succeed()
    assert lab.plan().headlines() == {}, "without a key it is not asked"
    assert "learn[asia]" in json.loads(lab.read("results/metadata.json")), "the default key is the job"


def test_a_class_without_the_method_for_keys_is_not_asked(project: Make) -> None:
    """Issue 17, number 11."""
    action = ACTION.replace("get_output_contribution_key", "something_else").replace(
        '"learn " + inputs', '"no" + inputs'
    )
    lab = project(WORKFLOW, {"actions/learn.py": action})
    lab.succeed()
    assert lab.plan().headlines() == {}


def test_a_part_that_the_class_does_not_find_makes_its_job_run_or_be_reused(lab: Lab) -> None:
    lab.edit("actions/learn.py", "read_text())", "read_text()) and not Path('/nowhere').exists() and False")
    lab.succeed()
    assert {job: each[0]["change"] for job, each in reasons(lab.plan()).items()} == {
        "Job:learn[asia]": "disowned",
        "Job:learn[cancer]": "disowned",
    }


@pytest.mark.parametrize("has_hook", [True, False])
def test_a_section_of_no_file_is_refused(lab: Lab, has_hook: bool) -> None:
    if has_hook:  # it names no file for the section
        lab.edit("actions/learn.py", ', "results/metadata.json"]', "]")
    else:
        lab.edit("actions/learn.py", "get_output_files", "other")
    with pytest.raises(InvalidError) as refused:
        lab.plan()
    (problem,) = refused.value.diagnostics
    assert (problem.code, problem.message) == ("MISSING_KEY", "output `metadata` has `append`, but no `path`")
    assert refused.value.diagnostics == lab.opened().problems
    lab.edit("workflow.yaml", "metadata: {type: json, append: true}", OWN_PATH)
    assert len(lab.plan().planned) == 2, "what the hint says helps"


def test_two_jobs_whose_actions_name_one_section_are_refused(lab: Lab) -> None:
    lab.edit("actions/learn.py", 'return "learn " + inputs["network"]\n    def has', 'return "same"\n    def has')
    with pytest.raises(InvalidError) as refused:
        lab.plan()
    assert [problem.code for problem in refused.value.diagnostics] == ["DUPLICATE_OUTPUT_PATH"]
